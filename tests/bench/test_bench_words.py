"""What a run says in words: units, digits, names; whatever the workload."""

from __future__ import annotations

import io
import re

from tests.bench.samples import SHAKY, failed, result, run
from tests.tables import each
from tfgpu_doctor.bench.results import Figure, Run
from tfgpu_doctor.render.console import console_for
from tfgpu_doctor.render.formats import renderer
from tfgpu_doctor.render.outlines import bench as words

render = renderer("text", "bench", {})


@each(
    ("figure", "said"),
    [
        (Figure(name="fit", value=812.5, unit="images/s", ci95=(800.0, 820.0)), "fit 810 (800 to 820) images/s"),
        (
            Figure(name="p99", value=0.0123, unit="s", ci95=(0.0121, 0.0131), note="of 400"),
            "p99 12.3 (12.1 to 13.1) ms",
        ),
        (Figure(name="batch", value=512.0, unit=""), "batch 512"),
        (Figure(name="peak", value=3.25 * 2**30, unit="B"), "peak 3.25 GiB"),
    ],
)
def test_figures(figure: Figure, said: str) -> None:
    assert words.figure(figure) == said + (f": {figure.note}" if figure.note else "")
    assert words.figure(figure, named=False) == said.partition(" ")[2]


def test_names_hold_what_differs_and_nothing_else() -> None:
    small, large = (run("CPU", parameters={"route": "copy", "bytes": size}) for size in (2**20, 2**28))
    assert words.namer([small, large])(small) == "CPU, bytes 1 MiB"
    assert words.namer([small])(small) == "CPU"
    other = run("CPU", dtype="tf32", parameters={"route": "copy", "bytes": 2**20})
    assert words.namer([small, other])(other) == "CPU, tf32"
    assert words.point(small) == "route copy, bytes 1 MiB"


def test_steps_of_many_kinds() -> None:
    blocks = run("1 GPU", 0.2, steps_of=20, step_name="copy")
    assert words.timing(blocks) == "10.00 ms per copy (95 %: 9.98 to 10.02 ms), 11 samples of 20 copies"


def test_one_sentence_says_what_came_out() -> None:
    assert words.verdict(result()) == "Nothing was measured."
    assert words.verdict(result(failed("CPU", "died"))) == "1 of 1 runs gave no verified result: no speed is reported."
    good = words.verdict(result(run(), run("1 GPU", 0.05, percent_of_peak=80.4, peak_is="peak")))
    assert good == "1 GPU: 49.48 TFLOP/s, 80 % of peak; 100.0 (99.6 to 100.4) times the CPU. Every result is verified."
    virtual = run("2 virtual CPUs", devices=("/CPU:0", "/CPU:1"), virtual=True)
    assert words.verdict(result(virtual)) == "Every result is correct; virtual devices have no speed."
    mixed = words.verdict(result(run(steps=SHAKY), failed("1 GPU", "died")))
    assert mixed == "CPU: 450 GFLOP/s. 1 of 2 runs gave no verified result. The speed is uncertain."


def test_virtual_devices_have_no_times_whatever_was_measured_beside() -> None:
    figures = (Figure(name="fit", value=8.0, unit="images/s"), Figure(name="peak", value=8.0, unit="B"))
    one = run("2 virtual CPUs", virtual=True, figures=(*figures, Figure(name="all-reduce", value=0.1, unit="s")))
    assert [figure.name for figure in words.figures(one)] == ["peak"]
    stream = io.StringIO()
    render(result(one), console_for(stream))
    assert not re.search(r"[0-9] (ms|s|images/s|GFLOP/s)\b", stream.getvalue())


@each(
    ("one", "mark"),
    [
        (run(), "ok"),
        (run(steps=SHAKY), "warning"),
        (run("2 virtual CPUs", virtual=True, steps=SHAKY), "ok"),
        (failed("CPU", "died"), "error"),
    ],
)
def test_only_a_run_whose_figure_is_certain_gets_a_check_mark(one: Run, mark: str) -> None:
    assert words.mark(one) == words.worst(result(one)) == mark


def test_advice_that_runs_share_is_shown_once() -> None:
    runs = [run(steps=(1.0, 1 + spread) * 6) for spread in (0.12, 0.18, 0.24)]
    ((found, text),) = words.shared_advice(result(*runs).runs)
    assert (len(found), text) == (3, "uncertain: 95 % interval ±11 %")
    stream = io.StringIO()
    render(result(*runs), console_for(stream))
    assert (
        stream.getvalue().count("uncertain: ") == 1 and "(and 2 others): uncertain: 95 % interval" in stream.getvalue()
    )


def test_an_unfinished_result_says_so() -> None:
    stream = io.StringIO()
    render(result(run(), unfinished=True), console_for(stream))
    assert "i Unfinished: the benchmark was interrupted, or was still running." in stream.getvalue()
    assert stream.getvalue().splitlines()[-1].startswith("! CPU: 494.8 GFLOP/s")


def test_runs_for_which_there_was_no_time_are_named() -> None:
    stream = io.StringIO()
    render(result(run(), not_run=("1 GPU float32",)), console_for(stream))
    shown = " ".join(stream.getvalue().split())
    assert "i Not run, for lack of time: 1 GPU float32. Allow more time: --deadline SECONDS." in shown
    assert shown.endswith("1 run was not run, for lack of time.") and "! CPU: 494.8" in shown
