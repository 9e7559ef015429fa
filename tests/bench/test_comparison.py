"""Verdicts over pairs of bench results, what forbids one, and what is only worth a note."""

from __future__ import annotations

import itertools
import json
import math
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.bench.samples import failed, result, run, telemetry, verified
from tests.healthy import gpu, healthy, known, spoil
from tests.tables import each, read_rows
from tfgpu_doctor.bench import samples
from tfgpu_doctor.bench.comparison import (
    ACROSS,
    BenchComparison,
    FailOnSpeed,
    RunChange,
    compare_benches,
    exit_code,
    verdict_of,
)
from tfgpu_doctor.bench.results import BenchResult, Figure, Ratio, Run
from tfgpu_doctor.facts.facts import Package, Unknown

ROWS = read_rows(Path(__file__).with_name("rows.yaml"))
CARD = gpu(power_limit=700.0, sm_clock_max=1980)
H200 = spoil(healthy(), {"gpus": known((CARD,))})
TWO_CPUS = spoil(healthy(), {"host.cpus": known(2)})
SOFTWARE = {"tensorflow": "2.21.0", "numpy": "2.4.6", "python": "3.12.3"}
replace = msgspec.structs.replace


def compared(base: BenchResult, new: BenchResult, **options: Any) -> BenchComparison:
    return compare_benches(base, new, "2026-11-21T12:00:00Z", **options)


def only(base: Run | BenchResult, new: Run | BenchResult, **options: Any) -> RunChange:
    pair = [one if isinstance(one, BenchResult) else result(one) for one in (base, new)]
    (change,) = compared(*pair, **options).runs
    return change


def other_software(**changes: str) -> BenchResult:
    return result(run(seconds=9.0), software={**SOFTWARE, **changes})


# ------------------------------------------------------------------------------------------------ verdicts


@each(("ratio", "low", "high", "verdict"), ROWS["ratios"])
def test_larger_than_the_factor_and_clear(ratio: float, low: float, high: float, verdict: str) -> None:
    assert verdict_of(Ratio(value=ratio, low=low, high=high), 1.05) == verdict


def test_itself_the_factor_and_steps() -> None:
    for steps in ((1.0, 2.0, 5.0) * 4, (1.0,) * 3):
        found = only(run(steps=steps), run(steps=steps))
        assert (found.verdict, found.reasons) == ("same", ("both results have the same samples",))
        assert found.ratio and (found.ratio.low, found.ratio.value, found.ratio.high) == (1, 1, 1)
    for seconds, factor, verdict in (
        (5.5, 1.2, "same"),
        (5.5, 1.01, "slower"),
        (4.5, 1.05, "faster"),
        (5.1, 1.05, "same"),
    ):
        found = only(run(), run(seconds=seconds), factor=factor)
        assert found.verdict == verdict and found.ratio and found.ratio.value == pytest.approx(seconds / 5)
    assert only(run(), run(seconds=5.05), factor=1.01).verdict == "cannot tell"
    found = only(run(steps_of=1, flop=1e9), run(seconds=10.0, steps_of=2, flop=2e9))
    assert found.verdict == "same" and found.new and found.new.step_s == pytest.approx(5.0)


def test_processes_that_differ_cannot_be_told_apart() -> None:
    apart = run(seconds=1.0, steps=(1.0,) * 5 + (1.2,) * 5 + (1.1,) * 5, processes=(5, 5, 5))
    found = only(apart, run(seconds=1.08, steps=(1.0,) * 5 + (1.2,) * 5 + (1.1,) * 5, processes=(5, 5, 5)))
    assert found.verdict == "cannot tell"
    assert "from 3 and 3 processes: measure both on an idle machine with --processes 5" in found.reasons[0]
    # samples taken for independent would have been sure
    assert only(replace(apart, processes=()), run(seconds=1.18, steps=(1.1,) * 15)).verdict != "same"


def test_a_change_of_only_some_steps_is_not_the_same_and_few_samples_say_nothing() -> None:
    some = run(steps=(1.0, 1.01, 1.2, 1.2, 1.2) * 12, processes=(12,) * 5)
    found = only(run(steps=(1.0, 1.01) * 30, processes=(12,) * 5), some)
    assert found.verdict == "cannot tell"
    assert "the median of all samples changed by a factor of 1.19, the lower quartile did not" in found.reasons[0]
    found = only(run(steps=(1.0, 1.0, 1.0)), run(seconds=50.0))
    assert (found.verdict, found.reasons) == ("cannot tell", ("BASE has only 3 samples; at least 5 are needed",))


def disturbed(seconds: float, count: int, of: int = 20) -> Run:
    """A run in which another program took one of two CPUs during some samples."""
    steps = (2.0,) * count + (1.0,) * (of - count)
    loads = (1.0,) * count + (1.98,) * (of - count)
    waits = (1.0,) * count + (0.02,) * (of - count)
    return run(seconds=seconds, steps=steps, cpu_load=loads, cpu_wait=waits)


def on_two(*runs: Run) -> RunChange:
    return only(*(result(one, environment=TWO_CPUS) for one in runs))


def test_samples_that_others_disturbed_are_left_out() -> None:
    found = on_two(disturbed(1.0, 0), disturbed(1.0, 12))
    assert found.verdict == "same"
    assert found.base and found.new and (found.base.left_out, found.new.left_out) == (0, 12)
    assert on_two(disturbed(1.0, 12), disturbed(1.1, 12)).verdict == "slower"
    for slower in (1.0, 3.0):
        found = on_two(disturbed(1.0, 0), disturbed(slower, 20))
        assert (found.verdict, found.ratio) == ("cannot tell", None)
        why = "other programs used the CPUs during most samples of NEW: measure on an idle machine"
        assert found.reasons == (why,)
        # figures are of all samples: with those that are left, the reader would see a change
        assert found.base and found.new and found.base.samples == found.new.samples == 20


def test_on_gpus_disturbed_samples_count_where_no_others_are_left() -> None:
    def on_gpu(count: int) -> Run:
        times = (1.0,) * 19 + (1.0 + count / 1e6,)
        return replace(disturbed(1.0, count), samples_s=times, label="1 GPU", devices=("/GPU:0",), placed_on=())

    found, some = on_two(on_gpu(0), on_gpu(18)), on_two(on_gpu(0), on_gpu(10))
    assert found.verdict == "same"
    assert found.notes == ("other programs used the CPUs during the runs, which may have delayed kernel launches",)
    assert found.new and (found.new.samples, found.new.left_out) == (20, 0)
    assert some.notes == () and some.new and some.new.left_out == 10


def recorded(kind: str) -> list[BenchResult]:
    """Real runs of matpow on 2 CPUs with a load average of 9 to 14 (benchmarks/compare_gate.py), 5 processes each."""
    data = json.loads((Path(__file__).parent / "busy_machine.json").read_text())
    found = [one for name, one in data.items() if name.partition(" ")[2] in kind.split()]
    fields = ("samples_s", "cpu_load", "cpu_wait", "processes")
    return [
        result(replace(run(), **{name: tuple(one[name]) for name in fields}), environment=TWO_CPUS) for one in found
    ]


def test_recorded_runs_of_a_busy_machine() -> None:
    """No false alarm, and nothing with half as much work again is the same or faster."""
    same, more = recorded("A A2"), recorded("half")
    assert {only(*pair).verdict for pair in itertools.permutations(same, 2)} == {"cannot tell"}
    assert {only(base, new).verdict for base in same for new in more} <= {"cannot tell", "slower"}
    assert {only(one, one).verdict for one in same} == {"same"}


def test_false_alarms_and_detection_by_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five processes that scatter by 1 %, each with slow waves of 2 %; 60 pairs of each kind."""
    monkeypatch.setattr(samples, "DRAWS", 300)
    rng = random.Random(20261121)

    def measured(slower: float) -> BenchResult:
        steps: list[float] = []
        for _ in range(5):
            middle, wave = rng.gauss(0, 0.01), rng.gauss(0, 0.02)
            steps += [slower * math.exp(middle + wave * (place / 12 - 0.5) + rng.gauss(0, 0.02)) for place in range(12)]
        return result(run(seconds=1.0, steps=tuple(steps), processes=(12,) * 5))

    same = [only(measured(1.0), measured(1.0)).verdict for _ in range(60)]
    slower = [only(measured(1.0), measured(1.1)).verdict for _ in range(60)]
    assert same.count("slower") + same.count("faster") <= 0.05 * 60
    assert slower.count("slower") >= 0.95 * 60


# ------------------------------------------------------------------------------------------------ pairs, gates, figures


def test_runs_are_matched_by_what_they_are() -> None:
    base = result(run(parameters={"size": 1}), run(parameters={"size": 2}), run("1 GPU", 0.05))
    tf32 = run("1 GPU", 0.05, dtype="tf32")
    found = compared(base, result(run(seconds=9.0, parameters={"size": 2}), run(parameters={"size": 3}), tf32))
    assert [(one.parameters, one.verdict) for one in found.runs] == [({"size": 2}, "slower")]
    assert [(one.label, one.parameters) for one in found.only_base] == [("CPU", {"size": 1}), ("1 GPU", {})]
    assert [(one.label, one.dtype) for one in found.only_new] == [("CPU", "float32"), ("1 GPU", "tf32")]


CPU, GPU = run(), run("1 GPU", 0.05)
SLOW, FEW, FEW_GPU = run(seconds=9.0), run(steps=(1.0,)), run("1 GPU", steps=(1.0,))
DIED, VIRTUAL = failed("1 GPU", "it died"), run("2 virtual CPUs", virtual=True)
# runs of BASE, runs of NEW → exit codes with --fail-on slower, faster, change, never
GATES: dict[str, tuple[tuple[Run, ...], tuple[Run, ...], tuple[int, ...]]] = {
    "same": ((CPU,), (CPU,), (0, 0, 0, 0)),
    "slower": ((CPU,), (SLOW,), (1, 0, 1, 0)),
    "faster": ((CPU,), (run(seconds=3.0),), (0, 1, 1, 0)),
    "cannot tell": ((CPU,), (FEW,), (3, 3, 3, 0)),
    "one of two cannot be told": ((CPU, GPU), (CPU, FEW_GPU), (3, 3, 3, 0)),
    "slower beside what cannot be told": ((CPU, GPU), (SLOW, FEW_GPU), (1, 3, 1, 0)),
    "failed in NEW": ((CPU, GPU), (CPU, DIED), (1, 0, 1, 0)),
    "works since": ((CPU, DIED), (CPU, GPU), (0, 0, 0, 0)),
    "gone": ((CPU, GPU), (CPU,), (3, 3, 3, 0)),
    "more": ((CPU,), (CPU, GPU), (0, 0, 0, 0)),
    "nothing in both": ((CPU,), (GPU,), (3, 3, 3, 0)),
    "nothing at all": ((), (), (3, 3, 3, 0)),
    "virtual beside real": ((CPU, VIRTUAL), (CPU, VIRTUAL), (0, 0, 0, 0)),
}


@each("name", GATES)
def test_exit_codes(name: str) -> None:
    base, new, codes = GATES[name]
    found = compared(result(*base), result(*new))
    kinds: tuple[FailOnSpeed, ...] = ("slower", "faster", "change", "never")
    assert tuple(exit_code(found, kind) for kind in kinds) == codes


def test_figures_stand_beside_each_other_without_a_verdict() -> None:
    fit = [Figure(name="fit", value=value, unit="images/s", ci95=(value - 10, value + 10)) for value in (800.0, 400.0)]
    found = only(run(figures=(fit[0],)), run(figures=(fit[1],)))
    assert found.verdict == "same" and found.base and found.new
    assert (found.base.figures, found.new.figures) == ((fit[0],), (fit[1],))


# ------------------------------------------------------------------------------------------------ what forbids one


def on_h200(seconds: float = 9.0, **changes: Any) -> BenchResult:
    changed = {name.replace("__", "."): value for name, value in changes.items()}
    return result(run("1 GPU", seconds), environment=spoil(H200, changed))


def on_cpu(model: str, seconds: float = 5.0) -> BenchResult:
    host = {"host.cpu_model": known(model), "host.cpus": known(2)}
    return result(run(seconds=seconds), environment=spoil(healthy(), host))


def keras(version: str, seconds: float) -> BenchResult:
    packages = known((Package(name="keras", version=version),))
    return result(run(seconds=seconds), workload="cnn", environment=spoil(healthy(), {"python.packages": packages}))


def cublas(version: str, seconds: float) -> BenchResult:
    return on_h200(seconds, python__packages=known((Package(name="nvidia-cublas-cu12", version=version),)))


def cudnn(version: str, seconds: float) -> BenchResult:
    return on_h200(seconds, python__packages=known(()), cudnn__runtime=known(version))


def of_size(size: int, **more: Any) -> BenchResult:
    return result(run(), parameters={"size": size, "power": 10, **more})


HOT = telemetry(throttled=("sw_thermal",))
A100 = gpu(name="NVIDIA A100", power_limit=700.0, sm_clock_max=1980)
OLD, NEW_DRIVER = known("570.86.15"), known("580.65.06")
# what differs, and the name in --across that allows it
CIRCUMSTANCES: dict[str, tuple[BenchResult, BenchResult, str]] = {
    "tensorflow": (result(CPU), other_software(tensorflow="2.20.0"), "TensorFlow 2.21.0 → 2.20.0"),
    "numpy": (result(CPU), other_software(numpy="1.26.4"), "NumPy 2.4.6 → 1.26.4"),
    "python": (result(CPU), other_software(python="3.13.0"), "Python 3.12.3 → 3.13.0"),
    "keras": (keras("3.14.0", 5.0), keras("3.15.1", 9.0), "Keras 3.14.0 → 3.15.1"),
    "driver": (on_h200(5.0, driver__version=OLD), on_h200(driver__version=NEW_DRIVER), "driver 570.86.15 → 580.65.06"),
    "cuda": (cublas("12.5.3.2", 5.0), cublas("12.9.1.4", 9.0), "CUDA 12.5.3.2 → 12.9.1.4"),
    "cudnn": (cudnn("9.3.0", 5.0), cudnn("9.10.2", 9.0), "cuDNN 9.3.0 → 9.10.2"),
    "gpu": (on_h200(5.0), on_h200(gpus=known((A100,))), "GPU NVIDIA H200 → NVIDIA A100"),
    "power": (
        on_h200(5.0),
        on_h200(gpus=known((gpu(power_limit=500.0, sm_clock_max=1980),))),
        "GPU settings 700 W, 1980 MHz, MIG off → 500 W, 1980 MHz, MIG off",
    ),
    "clocks": (
        result(run("1 GPU")),
        result(run("1 GPU", 9.0, throttled_samples=tuple(range(10)), gpu=(HOT,))),
        "GPU clocks not throttled → throttled in most samples",
    ),
    "cpu": (on_cpu("AMD EPYC"), on_cpu("Xeon", 9.0), "CPU AMD EPYC (2 CPUs) → Xeon (2 CPUs)"),
}
OTHER_WORK: list[tuple[BenchResult, BenchResult, str]] = [
    (of_size(4096), of_size(3072), "size 4096 → 3072 (--size 4096 repeats BASE)"),
    (of_size(1, seed=7), of_size(1), "seed 7 → none"),
    (result(CPU), result(CPU, workload="cnn"), "workload matpow → cnn"),
    (result(VIRTUAL), result(VIRTUAL), "virtual devices have no meaningful speed"),
    (result(failed("1 GPU", "out of memory")), result(run("1 GPU")), "the run failed in BASE: out of memory"),
    (result(CPU), result(run(verified=verified(ok=False))), "the run has no verified speed in NEW"),
    (result(run(verified=None)), result(CPU), "the run has no verified speed in BASE"),
    (result(CPU), result(replace(run(), samples_s=())), "the run has no verified speed in NEW"),
    (
        result(run("1 GPU", dtype="tf32", computed_in="tf32")),
        result(run("1 GPU", dtype="tf32", computed_in="float32")),
        "computed in tf32 → float32",
    ),
    (
        result(run("GPUs", devices=("/GPU:0", "/GPU:1"))),
        result(run("GPUs", devices=("/GPU:0",))),
        "computed on /GPU:0, /GPU:1 → /GPU:0",
    ),
    (result(run(flop=1e9)), result(run(flop=2e9)), "FLOP per step 1e+09 → 2e+09"),
]


@each("name", CIRCUMSTANCES)
def test_what_forbids_a_comparison_unless_it_is_what_the_comparison_is_about(name: str) -> None:
    base, new, reason = CIRCUMSTANCES[name]
    found, everything = only(base, new), only(base, new, across=ACROSS)
    assert (found.verdict, found.ratio) == ("not comparable", None)
    assert found.reasons == (f"{reason} (--across {name} allows it)",)
    assert (everything.verdict, everything.reasons) == ("slower", ())
    assert f"across {reason}" in everything.notes
    others = tuple(one for one in ACROSS if one != name)
    assert only(base, new, across=others).verdict == "not comparable"


@each(("base", "new", "reason"), OTHER_WORK)
def test_what_forbids_one_in_any_case(base: BenchResult, new: BenchResult, reason: str) -> None:
    for across in ((), ACROSS):
        found = only(base, new, across=across)
        assert (found.verdict, found.ratio, found.reasons) == ("not comparable", None, (reason,))


def test_each_circumstance_has_its_row_and_stands_on_the_page() -> None:
    assert set(ACROSS) == set(CIRCUMSTANCES)
    page = (Path(__file__).parents[2] / "docs" / "comparing.md").read_text(encoding="utf-8")
    assert [name for name in ACROSS if f"`{name}`" not in page] == []


def test_what_is_no_difference() -> None:
    base, new = on_h200(5.0), on_h200(driver__version=NEW_DRIVER, gpus=known((gpu(name="NVIDIA A100"),)))
    assert only(*(replace(one, runs=(run(),)) for one in (base, new))).verdict == "same", "of GPUs, and CPUs computed"
    unknown = spoil(healthy(), {"gpus": Unknown("no NVML"), "driver.version": Unknown("no NVML")})
    assert only(on_h200(5.0), result(run("1 GPU", 9.0), environment=unknown)).verdict == "slower"
    longer = of_size(1, min_samples=40, deadline_s=5.0, processes=5)
    assert only(of_size(1, min_samples=10, deadline_s=120.0), longer).verdict == "same", "how long was measured"


def test_what_is_only_worth_a_note() -> None:
    before = spoil(H200, {"variables": known({"TF_XLA_FLAGS": "a", "HOME": "/x"})})
    after = spoil(H200, {"variables": known({"OMP_NUM_THREADS": "1", "HOME": "/y"})})
    found = compared(*(result(run("1 GPU"), environment=one) for one in (before, after)))
    assert found.notes == ("OMP_NUM_THREADS not set → 1", "TF_XLA_FLAGS a → not set")
    assert [one.verdict for one in found.runs] == ["same"]
