"""Verdicts over pairs of bench results, what forbids one, and what is only worth a note."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.bench.samples import failed, result, run, telemetry, verified
from tests.findings.rows_over_facts import packages
from tests.healthy import gpu, healthy, known, spoil
from tests.tables import each, read_rows
from tfgpu_doctor.bench.comparison import ACROSS, FailOnSpeed, RunChange, compare_benches, exit_code, verdict_of
from tfgpu_doctor.bench.results import BenchResult, Ratio, Run
from tfgpu_doctor.facts.facts import Unknown
from tfgpu_doctor.render.outlines.bench_comparison import checks

ROWS = read_rows(Path(__file__).with_name("rows.yaml"))
H200 = spoil(healthy(), {"host.cpus": known(2), "gpus": known((gpu(power_limit=700.0, sm_clock_max=1980),))})
SOFTWARE = {"tensorflow": "2.21.0", "numpy": "2.4.6", "python": "3.12.3"}
replace = msgspec.structs.replace


def only(base: Run | BenchResult, new: Run | BenchResult, **options: Any) -> RunChange:
    pair = [one if isinstance(one, BenchResult) else result(one) for one in (base, new)]
    (change,) = compare_benches(*pair, "now", **options).runs
    return change


def of_size(size: int, **more: Any) -> BenchResult:
    return result(run(), parameters={"size": size, "power": 10, **more})


@each(("ratio", "low", "high", "verdict"), ROWS["ratios"])
def test_larger_than_the_factor_and_clear(ratio: float, low: float, high: float, verdict: str) -> None:
    assert verdict_of(Ratio(value=ratio, low=low, high=high), 1.05) == verdict


def test_the_same_samples_are_the_same_and_times_are_of_a_step() -> None:
    for steps in ((1.0, 2.0, 5.0) * 4, (1.0,) * 3):
        found = only(run(steps=steps), run(steps=steps))
        assert (found.verdict, found.reasons) == ("same", ("both results have the same samples",))
        assert found.ratio and (found.ratio.low, found.ratio.value, found.ratio.high) == (1, 1, 1)
    found = only(run(flop=1e9), run(seconds=10.2, steps_of=2, flop=2e9))
    assert found.verdict == "same" and found.new and found.new.step_s == pytest.approx(5.1)
    assert found.ratio and found.ratio.value == pytest.approx(1.02)


def of_processes(*processes: tuple[float, ...], seconds: float = 1.0) -> Run:
    return run(seconds=seconds, steps=sum(processes, ()), processes=tuple(map(len, processes)))


APART = ((1.0,) * 5, (1.2,) * 5, (1.1,) * 5)
SOME = of_processes(*[(1.0, 1.01, 1.2, 1.2, 1.2) * 2] * 5)
NOISE = "the ratio is only known to ±16 %, from 3 and 3 processes: measure both on an idle machine with --processes 5"
MEDIANS = "the median of all samples changed by a factor of 1.19, the lower quartile did not: only some of the steps"
# BASE, NEW, the factor, the verdict, how its reason begins
VERDICTS: list[tuple[Run, Run, float, str, str]] = [
    (run(), run(seconds=5.5), 1.2, "same", ""),
    (run(), run(seconds=5.5), 1.01, "slower", ""),
    (run(), run(seconds=4.5), 1.05, "faster", ""),
    (run(), run(seconds=5.05), 1.01, "cannot tell", "the ratio is only known to ±3.5 %"),
    (of_processes(*APART), of_processes(*APART, seconds=1.08), 1.05, "cannot tell", NOISE),
    (of_processes(sum(APART, ())), run(seconds=1.18, steps=(1.1,) * 15), 1.05, "slower", ""),  # one process is sure
    (of_processes(*[(1.0, 1.01) * 6] * 5), SOME, 1.05, "cannot tell", MEDIANS),
    (run(steps=(1.0,) * 3), run(seconds=50.0), 1.05, "cannot tell", "BASE has only 3 samples; at least 5 are needed"),
]


@each(("base", "new", "factor", "verdict", "reason"), VERDICTS)
def test_verdicts(base: Run, new: Run, factor: float, verdict: str, reason: str) -> None:
    found = only(base, new, factor=factor)
    assert found.verdict == verdict
    assert len(found.reasons) == bool(reason) and all(text.startswith(reason) for text in found.reasons)


def disturbed(seconds: float, count: int, of: int = 20) -> Run:
    """A run in which another program took one of two CPUs during some samples."""
    steps = (2.0,) * count + (1.0,) * (of - count)
    loads = (1.0,) * count + (1.98,) * (of - count)
    waits = (1.0,) * count + (0.02,) * (of - count)
    return run(seconds=seconds, steps=steps, cpu_load=loads, cpu_wait=waits)


def test_samples_that_others_disturbed_are_left_out() -> None:
    found = only(disturbed(1.0, 0), disturbed(1.0, 12))
    assert found.verdict == "same"
    assert found.base and found.new and (found.base.left_out, found.new.left_out) == (0, 12)
    assert only(disturbed(1.0, 12), disturbed(1.1, 12)).verdict == "slower"
    for slower in (1.0, 3.0):
        found = only(disturbed(1.0, 0), disturbed(slower, 20))
        assert (found.verdict, found.ratio) == ("cannot tell", None)
        assert found.reasons == ("other programs used the CPUs during most samples of NEW: measure on an idle machine",)
        # figures are of all samples: with those that are left, the reader would see a change
        assert found.base and found.new and found.base.samples == found.new.samples == 20


def test_on_gpus_disturbed_samples_count_where_no_others_are_left() -> None:
    def on_gpu(count: int) -> Run:
        times = (1.0,) * 19 + (1.0 + count / 1e6,)
        return replace(disturbed(1.0, count), samples_s=times, label="1 GPU", devices=("/GPU:0",), placed_on=())

    found, some = only(on_gpu(0), on_gpu(18)), only(on_gpu(0), on_gpu(10))
    assert found.verdict == "same"
    assert found.notes == ("other programs used the CPUs during the runs, which may have delayed kernel launches",)
    assert found.new and (found.new.samples, found.new.left_out) == (20, 0)
    assert some.notes == () and some.new and some.new.left_out == 10


def recorded(kind: str) -> list[BenchResult]:
    """Real runs of matpow on 2 CPUs with a load average of 9 to 14 (benchmarks/compare_gate.py), 5 processes each."""
    data = json.loads((Path(__file__).parent / "busy_machine.json").read_text())
    found = [one for name, one in data.items() if name.partition(" ")[2] in kind.split()]
    fields = ("samples_s", "cpu_load", "cpu_wait", "processes")
    return [result(replace(run(), **{name: tuple(one[name]) for name in fields})) for one in found]


def test_recorded_runs_of_a_busy_machine() -> None:
    """No false alarm, and nothing with half as much work again is the same or faster."""
    same, more = recorded("A A2"), recorded("half")
    assert {only(*pair).verdict for pair in itertools.permutations(same, 2)} == {"cannot tell"}
    assert {only(base, new).verdict for base in same for new in more} <= {"cannot tell", "slower"}
    assert {only(one, one).verdict for one in same} == {"same"}


CPU, GPU = run(), run("1 GPU", 0.05)
SLOW, FEW, FEW_GPU = run(seconds=9.0), run(steps=(1.0,)), run("1 GPU", steps=(1.0,))
DIED, VIRTUAL = failed("1 GPU", "it died"), run("2 virtual CPUs", virtual=True)
# runs of BASE, runs of NEW → exit codes with --fail-on slower, faster, change, never
GATES: dict[str, tuple[tuple[Run, ...], tuple[Run, ...], tuple[int, ...]]] = {
    "slower": ((CPU,), (SLOW,), (1, 0, 1, 0)),
    "faster": ((CPU,), (run(seconds=3.0),), (0, 1, 1, 0)),
    "cannot tell": ((CPU,), (FEW,), (3, 3, 3, 0)),
    "slower beside what cannot be told": ((CPU, GPU), (SLOW, FEW_GPU), (1, 3, 1, 0)),
    "failed in NEW": ((CPU, GPU), (CPU, DIED), (1, 3, 1, 0)),
    "works since": ((CPU, DIED), (CPU, GPU), (3, 3, 3, 0)),
    "gone": ((CPU, GPU), (CPU,), (3, 3, 3, 0)),
    "more": ((CPU,), (CPU, GPU), (0, 0, 0, 0)),
    "nothing in both": ((CPU,), (GPU,), (3, 3, 3, 0)),
    "nothing at all": ((), (), (3, 3, 3, 0)),
    "virtual beside real": ((CPU, VIRTUAL), (CPU, VIRTUAL), (3, 3, 3, 0)),
}


@each("name", GATES)
def test_exit_codes(name: str) -> None:
    base, new, codes = GATES[name]
    found = compare_benches(result(*base), result(*new), "now")
    kinds: tuple[FailOnSpeed, ...] = ("slower", "faster", "change", "never")
    assert tuple(exit_code(found, kind) for kind in kinds) == codes
    for kind, code in zip(kinds, codes, strict=True):
        whole, *cases = checks(found, kind).suites[0].cases
        assert (whole.outcome == "passed") is (3 not in codes), "it says whether all were judged"
        assert {"error" in {one.outcome for one in (whole, *cases)}} == {code == 3}


def on_h200(seconds: float, changes: dict[str, Any]) -> BenchResult:
    """Return a training on a H200 of which these parts are changed."""
    return spoil(result(run("1 GPU", seconds), environment=H200, software=SOFTWARE, workload="cnn"), changes)


def software(**versions: str) -> dict[str, Any]:
    return {"software": {**SOFTWARE, **versions}}


def installed(**versions: str) -> dict[str, Any]:
    return {"environment.python.packages": packages(**versions)}


def cards(**changes: Any) -> dict[str, Any]:
    return {"environment.gpus": known((gpu(**{"power_limit": 700.0, "sm_clock_max": 1980, **changes}),))}


def cudnn(version: str) -> dict[str, Any]:
    return {**installed(), "environment.cudnn.runtime": known(version)}


def cpu(model: str, seconds: float) -> dict[str, Any]:
    return {"runs": (run(seconds=seconds),), "environment.host.cpu_model": known(model)}


A100 = cards(name="NVIDIA A100")
NEW_DRIVER = {"environment.driver.version": known("580.65.06")}
HOT = run("1 GPU", 9.0, throttled_samples=tuple(range(10)), gpu=(telemetry(throttled=("sw_thermal",)),))
SETTINGS = "GPU settings 700 W, 1980 MHz, MIG off → 500 W, 1980 MHz, MIG off"
# the name in --across that allows it → what differs in BASE and in NEW, and how that is told
CIRCUMSTANCES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "tensorflow": ({}, software(tensorflow="2.20.0"), "TensorFlow 2.21.0 → 2.20.0"),
    "numpy": ({}, software(numpy="1.26.4"), "NumPy 2.4.6 → 1.26.4"),
    "python": ({}, software(python="3.13.0"), "Python 3.12.3 → 3.13.0"),
    "keras": (installed(keras="3.14.0"), installed(keras="3.15.1"), "Keras 3.14.0 → 3.15.1"),
    "driver": ({}, NEW_DRIVER, "driver 570.86.15 → 580.65.06"),
    "cuda": (installed(nvidia_cublas_cu12="12.5.3"), installed(nvidia_cublas_cu12="12.9.1"), "CUDA 12.5.3 → 12.9.1"),
    "cudnn": (cudnn("9.3.0"), cudnn("9.10.2"), "cuDNN 9.3.0 → 9.10.2"),
    "gpu": ({}, A100, "GPU NVIDIA H200 → NVIDIA A100"),
    "power": ({}, cards(power_limit=500.0), SETTINGS),
    "clocks": ({}, {"runs": (HOT,)}, "GPU clocks not throttled → throttled in most samples"),
    "cpu": (cpu("AMD EPYC", 5.0), cpu("Xeon", 9.0), "CPU AMD EPYC (2 CPUs) → Xeon (2 CPUs)"),
}
DEVICES = run("GPUs", devices=("/GPU:0", "/GPU:1"))
TF32 = run("1 GPU", dtype="tf32", computed_in="tf32")
# what forbids a comparison in any case
OTHER_WORK: list[tuple[BenchResult | Run, BenchResult | Run, str]] = [
    (of_size(4096), of_size(3072), "size 4096 → 3072 (--size 4096 repeats BASE)"),
    (CPU, result(CPU, workload="cnn"), "workload matpow → cnn"),
    (VIRTUAL, VIRTUAL, "virtual devices have no meaningful speed"),
    (failed("1 GPU", "out of memory"), GPU, "the run failed in BASE: out of memory"),
    (CPU, run(verified=verified(ok=False)), "the run has no verified speed in NEW"),
    (run(verified=None), CPU, "the run has no verified speed in BASE"),
    (CPU, replace(CPU, samples_s=()), "the run has no verified speed in NEW"),
    (TF32, replace(TF32, computed_in="float32"), "computed in tf32 → float32"),
    (DEVICES, run("GPUs", devices=("/GPU:0",)), "computed on /GPU:0, /GPU:1 → /GPU:0"),
    (run(flop=1e9), run(flop=2.00049e9), "work per step 1 GFLOP → 2 GFLOP"),
    (of_size(4096), replace(of_size(3072), runs=(run(flop=1e9),)), "size 4096 → 3072 (--size 4096 repeats BASE)"),
]


@each("name", CIRCUMSTANCES)
def test_what_forbids_a_comparison_unless_it_is_what_the_comparison_is_about(name: str) -> None:
    before, after, reason = CIRCUMSTANCES[name]
    base, new = on_h200(5.0, before), on_h200(9.0, after)
    found, everything = only(base, new), only(base, new, across=ACROSS)
    assert (found.verdict, found.ratio) == ("not comparable", None)
    assert found.reasons == (f"{reason} (--across {name} allows it)",)
    assert (everything.verdict, everything.reasons) == ("slower", ())
    assert f"across {reason}" in everything.notes
    others = tuple(one for one in ACROSS if one != name)
    assert only(base, new, across=others).verdict == "not comparable"


@each(("base", "new", "reason"), OTHER_WORK)
def test_what_forbids_one_in_any_case(base: BenchResult | Run, new: BenchResult | Run, reason: str) -> None:
    for across in ((), ACROSS):
        found = only(base, new, across=across)
        assert (found.verdict, found.ratio, found.reasons) == ("not comparable", None, (reason,))


def test_each_circumstance_has_its_row_and_stands_on_the_page() -> None:
    assert set(ACROSS) == set(CIRCUMSTANCES)
    page = (Path(__file__).parents[2] / "docs" / "comparing.md").read_text(encoding="utf-8")
    assert [name for name in ACROSS if f"`{name}`" not in page] == []


def test_what_is_no_difference() -> None:
    base, new = on_h200(5.0, {}), on_h200(5.0, {**NEW_DRIVER, **A100})
    assert only(*(replace(one, runs=(CPU,)) for one in (base, new))).verdict == "same", "of GPUs, and CPUs computed"
    unknown = {f"environment.{fact}": Unknown("no NVML") for fact in ("gpus", "driver.version")}
    assert only(base, on_h200(9.0, unknown)).verdict == "slower"
    longer = of_size(1, min_samples=40, deadline_s=5.0, processes=5)
    assert only(of_size(1, min_samples=10, deadline_s=120.0), longer).verdict == "same", "how long was measured"


def test_one_size_is_compared_with_the_same_size_of_a_sweep() -> None:
    sweep = result(*(run(parameters={"size": size}) for size in (256, 512)), parameters={"sweep": "size", "power": 10})
    for base, new in ((of_size(512), sweep), (sweep, of_size(512))):
        found = compare_benches(base, new, "now")
        ((same,), (more,)) = found.runs, (*found.only_base, *found.only_new)
        assert (same.verdict, same.parameters, more.parameters) == ("same", {"size": 512}, {"size": 256})


def test_what_is_only_worth_a_note() -> None:
    before = spoil(H200, {"variables": known({"TF_XLA_FLAGS": "a", "HOME": "/x"})})
    after = spoil(H200, {"variables": known({"OMP_NUM_THREADS": "1", "HOME": "/y"})})
    found = compare_benches(*(result(run("1 GPU"), environment=one) for one in (before, after)), "now")
    assert found.notes == ("OMP_NUM_THREADS not set → 1", "TF_XLA_FLAGS a → not set")
    assert [one.verdict for one in found.runs] == ["same"]
