"""Verdicts over pairs of bench results, and what forbids one."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.bench.samples import failed, result, run
from tests.healthy import gpu, healthy, known, spoil
from tests.tables import each
from tfgpu_doctor.bench.comparison import (
    BenchComparison,
    FailOnSpeed,
    RunChange,
    compare_benches,
    exit_code,
    verdict_of,
)
from tfgpu_doctor.bench.results import BenchResult, Figure, Ratio, Run

H200 = spoil(healthy(), {"gpus": known((gpu(power_limit=700.0, sm_clock_max=1980),))})


def compared(base: BenchResult, new: BenchResult, **options: Any) -> BenchComparison:
    return compare_benches(base, new, "2026-11-21T12:00:00Z", **options)


def only(base: Run | BenchResult, new: Run | BenchResult, **options: Any) -> RunChange:
    pair = [one if isinstance(one, BenchResult) else result(one) for one in (base, new)]
    (change,) = compared(*pair, **options).runs
    return change


def other_software(**changes: str) -> BenchResult:
    return result(run(seconds=9.0), software={"tensorflow": "2.21.0", "numpy": "2.4.6", "python": "3.12.3", **changes})


# ------------------------------------------------------------------------------------------------ verdicts


@each(
    ("ratio", "low", "high", "verdict"),
    [
        (1.10, 1.06, 1.14, "slower"),
        (0.90, 0.87, 0.93, "faster"),
        (1.04, 1.02, 1.06, "same"),  # clear, and smaller than the factor
        (1.00, 0.97, 1.03, "same"),
        (1.00, 0.90, 1.11, "cannot tell"),
        (1.08, 0.99, 1.18, "cannot tell"),  # larger, and not clear
        (1.30, 1.10, 1.54, "slower"),  # noisy, and clear all the same
        (1.049, 1.003, 1.097, "same"),
        (0.93, 0.85, 1.02, "cannot tell"),
    ],
)
def test_larger_than_the_factor_and_clear(ratio: float, low: float, high: float, verdict: str) -> None:
    assert verdict_of(Ratio(value=ratio, low=low, high=high), 1.05) == verdict


@each(("seconds", "verdict"), [(5.01, "same"), (5.1, "same"), (5.5, "slower"), (4.5, "faster"), (50.0, "slower")])
def test_time_of_a_step(seconds: float, verdict: str) -> None:
    found = only(run(), run(seconds=seconds))
    assert (found.verdict, found.reasons) == (verdict, ())
    assert found.ratio and found.ratio.value == pytest.approx(seconds / 5)
    assert found.ratio.low < found.ratio.value < found.ratio.high


@each("steps", [(1.0, 2.0, 5.0) * 4, (1.0,) * 3])
def test_a_result_is_the_same_as_itself(steps: tuple[float, ...]) -> None:
    found = only(run(steps=steps), run(steps=steps))
    assert (found.verdict, found.notes) == ("same", ("both results have the same samples",))
    assert found.ratio and (found.ratio.low, found.ratio.value, found.ratio.high) == (1, 1, 1)


def test_the_factor_is_what_the_user_says() -> None:
    assert only(run(), run(seconds=5.5), factor=1.2).verdict == "same"
    assert only(run(), run(seconds=5.5), factor=1.01).verdict == "slower"
    assert only(run(), run(seconds=5.05), factor=1.01).verdict == "cannot tell"


def test_steps_are_compared_and_not_samples() -> None:
    found = only(run(steps_of=1, flop=1e9), run(seconds=10.0, steps_of=2, flop=2e9))
    assert found.verdict == "same"
    assert found.new and found.new.step_s == pytest.approx(5.0)


def test_processes_that_differ_cannot_be_told_apart() -> None:
    apart = run(seconds=1.0, steps=(1.0,) * 5 + (1.2,) * 5 + (1.1,) * 5, processes=(5, 5, 5))
    found = only(apart, run(seconds=1.08, steps=(1.0,) * 5 + (1.2,) * 5 + (1.1,) * 5, processes=(5, 5, 5)))
    assert found.verdict == "cannot tell"
    assert "3 and 3 processes: measure both with --processes 5" in found.reasons[0]
    # samples taken for independent would have been sure
    assert only(msgspec.structs.replace(apart, processes=()), run(seconds=1.18, steps=(1.1,) * 15)).verdict != "same"


def test_a_change_of_only_some_steps_is_not_the_same() -> None:
    some = run(steps=(1.0, 1.01, 1.2, 1.2, 1.2) * 12, processes=(12,) * 5)
    found = only(run(steps=(1.0, 1.01) * 30, processes=(12,) * 5), some)
    assert found.verdict == "cannot tell"
    assert "the median of all samples changed by a factor of 1.19, the lower quartile did not" in found.reasons[0]


def test_few_samples_say_nothing() -> None:
    found = only(run(steps=(1.0, 1.0, 1.0)), run(seconds=50.0))
    assert (found.verdict, found.reasons) == ("cannot tell", ("BASE has only 3 samples; at least 5 are needed",))


def disturbed(seconds: float, count: int, of: int = 20) -> Run:
    """A run in which another program took one of two CPUs during some samples."""
    steps = (2.0,) * count + (1.0,) * (of - count)
    loads = (1.0,) * count + (1.98,) * (of - count)
    waits = (1.0,) * count + (0.02,) * (of - count)
    return run(seconds=seconds, steps=steps, cpu_load=loads, cpu_wait=waits)


TWO_CPUS = spoil(healthy(), {"host.cpus": known(2)})


def test_samples_that_others_disturbed_are_left_out() -> None:
    found = only(*(result(one, environment=TWO_CPUS) for one in (disturbed(1.0, 0), disturbed(1.0, 12))))
    assert found.verdict == "same"
    assert found.base and found.new and (found.base.left_out, found.new.left_out) == (0, 12)
    slower = only(*(result(one, environment=TWO_CPUS) for one in (disturbed(1.0, 12), disturbed(1.1, 12))))
    assert slower.verdict == "slower"


def test_a_run_that_was_disturbed_throughout_cannot_be_judged() -> None:
    for slower in (1.0, 3.0):
        found = only(*(result(one, environment=TWO_CPUS) for one in (disturbed(1.0, 0), disturbed(slower, 20))))
        assert (found.verdict, found.ratio) == ("cannot tell", None)
        assert found.reasons == (
            "other programs used the CPUs during all 20 samples of NEW: measure on an idle machine",
        )
        # figures are of all samples: with those that are left, the reader would see a change
        assert found.base and found.new and found.base.samples == found.new.samples == 20


def recorded(kind: str) -> list[BenchResult]:
    """Real runs of matpow on 2 CPUs with a load average of 9 to 14 (benchmarks/compare_gate.py), 5 processes each."""
    data = json.loads((Path(__file__).parent / "busy_machine.json").read_text())
    found = [one for name, one in data.items() if name.partition(" ")[2] in kind.split()]
    fields = ("samples_s", "cpu_load", "cpu_wait", "processes")
    runs = [msgspec.structs.replace(run(), **{name: tuple(one[name]) for name in fields}) for one in found]
    return [result(one, environment=TWO_CPUS) for one in runs]


def test_recorded_runs_of_a_busy_machine() -> None:
    """No false alarm, and nothing with half as much work again is the same or faster."""
    same, more = recorded("A A2"), recorded("half")
    assert {only(*pair).verdict for pair in itertools.permutations(same, 2)} == {"cannot tell"}
    assert {only(base, new).verdict for base in same for new in more} <= {"cannot tell", "slower"}
    assert {only(one, one).verdict for one in same} == {"same"}


def test_on_gpus_disturbed_samples_count_where_no_others_are_left() -> None:
    def on_gpu(count: int) -> BenchResult:
        one = disturbed(1.0, count)
        steady = msgspec.structs.replace(
            one, samples_s=(1.0,) * 19 + (1.0 + count / 1e6,), label="1 GPU", devices=("/GPU:0",), placed_on=()
        )
        return result(steady, environment=TWO_CPUS)

    found = only(on_gpu(0), on_gpu(18))
    assert found.verdict == "same"
    assert found.notes == ("other programs used the CPUs during the runs, which may have delayed kernel launches",)
    assert found.new and (found.new.samples, found.new.left_out) == (20, 0)
    some = only(on_gpu(0), on_gpu(10))
    assert some.notes == () and some.new and some.new.left_out == 10


def test_false_alarms_and_detection_by_simulation() -> None:
    """Five processes that scatter by 1 %, each with slow waves of 2 %; 100 pairs of each kind."""
    rng = random.Random(20261121)

    def measured(slower: float) -> BenchResult:
        steps: list[float] = []
        for _ in range(5):
            middle, wave = rng.gauss(0, 0.01), rng.gauss(0, 0.02)
            steps += [slower * math.exp(middle + wave * (place / 12 - 0.5) + rng.gauss(0, 0.02)) for place in range(12)]
        return result(run(seconds=1.0, steps=tuple(steps), processes=(12,) * 5))

    same = [only(measured(1.0), measured(1.0)).verdict for _ in range(100)]
    slower = [only(measured(1.0), measured(1.1)).verdict for _ in range(100)]
    assert same.count("slower") + same.count("faster") <= 0.05 * 100
    assert slower.count("slower") >= 0.95 * 100


# ------------------------------------------------------------------------------------------------ pairs, gates


def test_runs_are_matched_by_what_they_are() -> None:
    base = result(run(parameters={"size": 1}), run(parameters={"size": 2}), run("1 GPU", 0.05))
    new = result(
        run(seconds=9.0, parameters={"size": 2}), run(parameters={"size": 3}), run("1 GPU", 0.05, dtype="tf32")
    )
    found = compared(base, new)
    assert [(one.parameters, one.verdict) for one in found.runs] == [({"size": 2}, "slower")]
    assert [(one.label, one.parameters) for one in found.only_base] == [("CPU", {"size": 1}), ("1 GPU", {})]
    assert [(one.label, one.dtype) for one in found.only_new] == [("CPU", "float32"), ("1 GPU", "tf32")]


def gates(base: BenchResult, new: BenchResult, **options: Any) -> tuple[int, ...]:
    found = compared(base, new, **options)
    kinds: tuple[FailOnSpeed, ...] = ("slower", "faster", "change", "never")
    return tuple(exit_code(found, kind) for kind in kinds)


CPU, GPU = run(), run("1 GPU", 0.05)
CASES: dict[str, tuple[Callable[[], tuple[BenchResult, BenchResult]], tuple[int, ...]]] = {
    "same": (lambda: (result(CPU), result(CPU)), (0, 0, 0, 0)),
    "slower": (lambda: (result(CPU), result(run(seconds=9.0))), (1, 0, 1, 0)),
    "faster": (lambda: (result(CPU), result(run(seconds=3.0))), (0, 1, 1, 0)),
    "cannot tell": (lambda: (result(CPU), result(run(steps=(1.0,)))), (3, 3, 3, 0)),
    "one of two cannot be told": (lambda: (result(CPU, GPU), result(CPU, run("1 GPU", steps=(1.0,)))), (3, 3, 3, 0)),
    "slower beside what cannot be told": (
        lambda: (result(CPU, GPU), result(run(seconds=9.0), run("1 GPU", steps=(1.0,)))),
        (1, 3, 1, 0),
    ),
    "not comparable": (lambda: (result(CPU), other_software(tensorflow="2.20.0")), (3, 3, 3, 0)),
    "failed in NEW": (lambda: (result(CPU, GPU), result(CPU, failed("1 GPU", "it died"))), (1, 0, 1, 0)),
    "works since": (lambda: (result(CPU, failed("1 GPU", "it died")), result(CPU, GPU)), (0, 0, 0, 0)),
    "gone": (lambda: (result(CPU, GPU), result(CPU)), (3, 3, 3, 0)),
    "more": (lambda: (result(CPU), result(CPU, GPU)), (0, 0, 0, 0)),
    "nothing in both": (lambda: (result(CPU), result(GPU)), (3, 3, 3, 0)),
    "nothing at all": (lambda: (result(), result()), (3, 3, 3, 0)),
    "virtual beside real": (
        lambda: (result(CPU, run("2 virtual CPUs", virtual=True)), result(CPU, run("2 virtual CPUs", virtual=True))),
        (0, 0, 0, 0),
    ),
}


@each("name", CASES)
def test_exit_codes(name: str) -> None:
    make, codes = CASES[name]
    assert gates(*make()) == codes


# ------------------------------------------------------------------------------------------------ figures


def test_figures_stand_beside_each_other() -> None:
    base = run(figures=(Figure(name="fit", value=800.0, unit="images/s", ci95=(790.0, 810.0)),))
    new = run(
        figures=(
            Figure(name="fit", value=400.0, unit="images/s", ci95=(390.0, 410.0)),
            Figure(name="p99", value=0.1, unit="s"),
        )
    )
    found = only(base, new)
    assert found.verdict == "same"  # they have no verdict
    (figure,) = found.figures
    assert figure.ratio and figure.ratio.value == 0.5
    assert (figure.ratio.low, figure.ratio.high) == pytest.approx((390 / 810, 410 / 790))


@each("values", [(0.0, 1.0), (1.0, -1.0), (math.inf, 1.0)])
def test_figures_that_have_no_quotient(values: tuple[float, float]) -> None:
    pair = [run(figures=(Figure(name="x", value=value, unit=""),)) for value in values]
    found = only(*pair)
    assert found.figures == () or found.figures[0].ratio is None
    assert b"NaN" not in compared(result(pair[0]), result(pair[1])).to_json()


def test_json_has_no_numbers_that_json_lacks() -> None:
    wild = msgspec.structs.replace(run(), samples_s=(2e-12, 9e11) * 5, cpu_load=(), median_s=math.nan)
    text = compared(result(run()), result(wild)).to_json().decode()
    assert "NaN" not in text and "Infinity" not in text
    assert msgspec.json.decode(text, type=BenchComparison).runs
