"""How a benchmark and a comparison are told: their exact text beside golden files, and what runs say in words.

TFGPU_UPDATE_GOLDEN=1 writes the files anew; read the difference before committing it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.bench.samples import LARGE, SHAKY, failed, on, result, run, telemetry
from tests.healthy import healthy, known, spoil
from tests.render.showing import as_format, check_goldens, printed
from tests.tables import each, read_rows
from tfgpu_doctor import __version__
from tfgpu_doctor.bench.comparison import BenchComparison, compare_benches
from tfgpu_doctor.bench.results import BenchResult, Figure, Ratio
from tfgpu_doctor.render.outlines import bench as words
from tfgpu_doctor.render.outlines.bench_comparison import change

ROWS = read_rows(Path(__file__).with_name("rows.yaml"))
GOLDEN = Path(__file__).parent / "golden"
EVIL = "[bold red]evil[/] \x1b[31m<script>@someone #1 `x`|\n\x07"
VIRTUAL = run("2 virtual CPUs, rows", devices=("/CPU:0", "/CPU:1"), spread="rows", virtual=True)

RESULTS: dict[str, BenchResult] = {
    **{name: make() for name, make in LARGE.items() if name != "long"},
    "virtual": result(run(), VIRTUAL, notes=("Virtual devices share one physical device.",), **on(0)),
    "hostile": result(
        run("1 GPU", 0.052, gpu=(telemetry(name=EVIL),), placed_on=(EVIL,), cold_start_s={EVIL: 1.0}),
        failed("[red]x[/]\x1b[31m", EVIL),
        notes=(EVIL,),
        software={"tensorflow": EVIL, "python": "3.12"},
        environment=spoil(healthy(), {"host.cpu_model": known(EVIL)}),
    ),
}

OTHER = {"tensorflow": "2.20.0", "numpy": "2.4.6", "python": "3.12.3"}
FIT = [Figure(name="fit", value=value, unit="images/s", ci95=(value * 0.99, value * 1.01)) for value in (812.0, 640.0)]
SIZES = [256 * 2**step for step in range(9)]
TOGETHER: dict[str, Any] = {"spread": "rows", "devices": ("/GPU:0", "/GPU:1")}
DISTURBED = run(
    *("CPU", 5.1), steps=(2.0,) * 4 + (1.0,) * 12, cpu_load=(1.0,) * 4 + (1.98,) * 12, cpu_wait=(1.0,) * 4 + (0.0,) * 12
)


def compared(base: BenchResult, new: BenchResult, **options: Any) -> BenchComparison:
    return compare_benches(base, new, "2026-11-21T12:00:00Z", **{"names": ("monday.json", "today.json"), **options})


COMPARISONS: dict[str, BenchComparison] = {
    "compare-all": compared(
        result(
            run(processes=(11,)),
            run("1 GPU", 0.052),
            run("1 GPU", 0.03, dtype="tf32"),
            run("2 GPUs, rows", 0.027, **TOGETHER),
            run("2 GPUs, terms", 0.027, **{**TOGETHER, "spread": "terms"}),
            run("4 GPUs, rows", 0.015, spread="rows"),
        ),
        result(
            DISTURBED,
            run("1 GPU", 0.061, figures=()),
            run("1 GPU", 0.02, dtype="tf32"),
            run("2 GPUs, rows", 0.027, steps=(1.0, 1.2, 0.9, 1.3, 1.1), **TOGETHER),
            failed("2 GPUs, terms", "the worker was killed by SIGSEGV", spread="terms"),
            run("8 GPUs, rows", 0.015, spread="rows"),
            environment=spoil(healthy(), {"host.cpus": known(2), "host.kernel": known("6.9.1")}),
        ),
    ),
    "compare-across": compared(
        result(run("1 GPU", 0.052, figures=(FIT[0],)), software=OTHER),
        result(run("1 GPU", 0.052, figures=(FIT[1],))),
        across=("tensorflow",),
    ),
    "compare-forbidden": compared(result(run(), software=OTHER), result(run(), parameters={"size": 3072})),
    "compare-sweep": compared(
        result(*(run(seconds=size / 1e4, parameters={"size": size}) for size in SIZES)),
        result(*(run(seconds=size / 1e4 * (1.2 if size == 512 else 1), parameters={"size": size}) for size in SIZES)),
    ),
    "compare-hostile": compared(
        result(run(EVIL), failed("[red]x[/]\x1b[31m", "it died"), run(parameters={EVIL: EVIL}), title=EVIL),
        result(run(EVIL), failed("[red]x[/]\x1b[31m", EVIL), software={EVIL: EVIL}, title=EVIL),
        names=(EVIL, "b.json"),
    ),
    "compare-nothing": compared(
        result(run(parameters={"workload": "cnn"}), workload="overview", parameters={"model": "cifar"}),
        result(run(), workload="cnn", parameters={"model": "mnist"}),
    ),
}
markdown = as_format("markdown", "bench comparison")


def test_golden() -> None:
    texts = {f"{name}.md": markdown(one) for name, one in COMPARISONS.items()}
    for columns, ending in ((80, ".txt"), (60, ".60.txt")):
        shown = {f"{name}{ending}": printed("bench", one, columns) for name, one in RESULTS.items()}
        compared = {f"{name}{ending}": printed("bench comparison", one, columns) for name, one in COMPARISONS.items()}
        for text in (*shown.values(), *compared.values()):
            assert max(map(len, text.splitlines())) <= columns
            assert all(char.isprintable() for char in text.replace("\n", ""))
            assert text == "\n".join(line.rstrip() for line in text.split("\n"))
        texts |= shown | (compared if columns == 80 else {})
    mine = f"tfgpu compare {__version__}"
    check_goldens({name: text.replace(mine, "tfgpu compare VERSION") for name, text in texts.items()}, GOLDEN)


def test_too_many_runs_for_a_page_are_counted() -> None:
    many = result(*(run(parameters={"size": size}) for size in range(400)))
    page = markdown(compared(many, many))
    assert len(page) < 65_536 and "more are too many for this page" in page


@each(("ratio", "text"), ROWS["changes"])
def test_a_change_in_words(ratio: tuple[float, float, float], text: str) -> None:
    assert change(Ratio(value=ratio[0], low=ratio[1], high=ratio[2])) == text


@each(("figure", "text"), ROWS["figures"])
def test_figures(figure: dict[str, Any], text: str) -> None:
    assert words.figure(Figure(**figure)) == text


def test_names_hold_what_differs_and_nothing_else() -> None:
    small, large = (run("CPU", parameters={"route": "copy", "bytes": size}) for size in (2**20, 2**28))
    assert words.namer([small, large])(small) == "CPU, bytes 1 MiB"
    assert words.namer([small])(small) == "CPU"
    other = run("CPU", dtype="tf32", parameters={"route": "copy", "bytes": 2**20})
    assert words.namer([small, other])(other) == "CPU, tf32"
    assert words.point(small) == "route copy, bytes 1 MiB"


def test_one_sentence_says_what_came_out() -> None:
    assert words.verdict(result(VIRTUAL)) == "Every result is correct; virtual devices have no speed."
    fast = result(run(), run("1 GPU", 0.05, percent_of_peak=80.4))
    figures = "1 GPU: 49.48 TFLOP/s, 80 % of peak; 100.0 (99.6 to 100.4) times the CPU"
    assert words.verdict(fast) == f"{figures}. Every result is verified."
    mixed = words.verdict(result(run(steps=SHAKY), failed("1 GPU", "died")))
    assert mixed == "CPU: 450 GFLOP/s. 1 of 2 runs gave no verified result. Uncertain: CPU (the times vary too much)."
    waits = run(steps=(1.0,) * 12, cpu_load=(1.0,) * 12, cpu_wait=(0.5,) * 12)
    slow = words.verdict(result(waits, run("1 GPU", 0.05)))
    assert slow.endswith("CPU (too low: other programs used the CPUs), and what is given as times the CPU is too high.")
    ended = words.verdict(result(run(steps=(1.0,) * 3), unfinished=True))
    assert "Uncertain: CPU (interrupted after too few measurements). Unfinished: later runs or samples are" in ended
    assert words.verdict(result(run(), unfinished=True, planned=3)).endswith("Unfinished: 2 of 3 runs not measured.")
    refused = result(refused="2 GPUs requested")
    assert (words.verdict(refused), words.worst(refused)) == ("Nothing was measured: 2 GPUs requested", "error")
    nothing = result()
    assert (words.verdict(nothing), words.worst(nothing)) == ("Nothing was measured.", "warning")


def test_virtual_devices_have_no_times_whatever_was_measured_beside() -> None:
    units = {"fit": "images/s", "peak": "B", "all-reduce": "s"}
    beside = tuple(Figure(name=name, value=8.0, unit=unit) for name, unit in units.items())
    one = run("2 virtual CPUs", virtual=True, figures=beside)
    assert [figure.name for figure in words.figures(one)] == ["peak"]
    assert not re.search(r"[0-9] (ms|s|images/s|GFLOP/s)\b", printed("bench", result(one)))


def test_advice_that_runs_share_is_shown_once_and_what_is_missing_is_told() -> None:
    shaky = result(*(run(steps=(1.0, 1 + spread) * 6) for spread in (0.12, 0.18, 0.24)))
    shown = printed("bench", shaky)
    assert shown.count("uncertain: ") == 1 and "! CPU (and 2 more, with other figures): uncertain: 95 %" in shown
    two = printed("bench", result(*(run(parameters={"size": n}, steps=(1.0, 1 + n / 9) * 6) for n in (1, 2))))
    assert "! CPU, size 1: uncertain: " in two and "! CPU, size 2: uncertain: " in two
    shown = " ".join(printed("bench", result(run(), not_run=("1 GPU float32",))).split())
    assert "i Not run, for lack of time: 1 GPU float32. Allow more time: --deadline SECONDS." in shown
    assert shown.endswith("Not run, for lack of time: 1.") and "! CPU: 494.8" in shown
