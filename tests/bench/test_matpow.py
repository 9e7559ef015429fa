"""`tfgpu bench matpow`: sizes, types and memory, what sweeps show, and which results pass for right."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.bench.fake_worker import BUS_ID, CREATED, QUICK, FakeWorker, Workers, measured
from tests.bench.samples import result, run
from tests.healthy import MATRIX, gpu, healthy, known, spoil
from tests.render.showing import printed
from tests.tables import each, read_rows
from tfgpu_doctor.bench.devices import GpuFound, RequestError, Selection
from tfgpu_doctor.bench.plans.base import HOST, NoRoomError, demands, overtaking, saturation
from tfgpu_doctor.bench.plans.matpow import MatPow, fit, lacking, sane_size
from tfgpu_doctor.bench.requests import make_plan, read_request
from tfgpu_doctor.bench.results import BenchResult, Run
from tfgpu_doctor.bench.runner.runner import Session
from tfgpu_doctor.bench.workloads.matpow import is_right, make_matrix, power_times_vectors, residual, tolerance, vectors

ROWS = read_rows(Path(__file__).with_name("rows.yaml"))
GIB = 2**30
TWO = Selection(gpus=2, explicit=True).cases([GpuFound("NVIDIA H200")] * 2)


def test_per_cent_of_peak_is_that_of_the_card_that_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeWorker, "log", lambda _worker: CREATED)
    other = gpu(0, name="NVIDIA T4", pci_bus_id="0000:17:00.0", compute_capability="7.5", multiprocessors=40)
    ours = gpu(1, pci_bus_id=BUS_ID.upper(), multiprocessors=132, sm_clock_max=1980)
    environment = spoil(healthy(), {"gpus": known((other, ours), "NVML")})
    (run,) = measured(MatPow, Workers(1, seconds=0.001), environment, sizes=(512,), devices=("/GPU:0",)).runs
    assert run.throughput and run.percent_of_peak
    peak = 132 * 1980e6 * 256  # float32: 128 fused multiply-adds a cycle and multiprocessor
    assert run.percent_of_peak == pytest.approx(100 * run.throughput.value / peak)


def test_what_was_measured_is_saved_while_it_goes_on() -> None:
    saved: list[BenchResult] = []
    plan = MatPow(sizes=(512,), dtypes=("float32", "float64"))
    final = Session(plan, MATRIX, healthy(), Workers(), QUICK, save=saved.append).run()
    assert saved[0].runs[0].throughput is None  # warmed up only
    assert len(saved[-1].runs) == 2 and saved[-1] == final
    assert [one.unfinished for one in saved] == [True] * (len(saved) - 1) + [False]  # an interrupt leaves one of these
    sizes = [len(result.runs) for result in saved]
    assert sizes == sorted(sizes)


def test_a_sample_takes_about_two_seconds() -> None:
    rows = [(470e9, 10, 3072), (50e9, 10, 1280), (10e12, 10, 8192), (470e9, 2, 6144), (1e6, 10, 256), (1e18, 10, 16384)]
    assert [sane_size(2 * flops, power) for flops, power, _ in rows] == [size for *_, size in rows]


def test_cases_that_stand_side_by_side_share_the_memory() -> None:
    needs: dict[str | int, int] = {}
    for memory, need in demands(TWO, lambda case: 100 * GIB // len(case.devices)):
        needs[memory] = needs.get(memory, 0) + need
    assert 200 * GIB < needs[0] < 203 * GIB, "alone, and twice half of it"
    assert 100 * GIB < needs[1] < 102 * GIB and needs[HOST] == 102 * GIB
    assert lacking(TWO, 16384, "float64", {}) is None, "memory that is not known is no reason to refuse"


def test_a_size_that_was_asked_for_and_does_not_fit_is_refused_with_one_that_does() -> None:
    free: dict[str | int, int] = {HOST: 200 * GIB, 0: 8 * GIB}
    with pytest.raises(NoRoomError, match=r"GPU 0, of which 8.0 GiB are free; --size (\d+) fits") as info:
        fit(TWO, ("float32",), 20000, 3072, free)
    fits = int(str(info.value).split("--size ")[1].split()[0])
    assert fit(TWO, ("float32",), fits, 3072, {**free, 0: 15 * GIB // 2}) == fits, "a little later, too"
    with pytest.raises(NoRoomError, match="--size 1024 fits into memory and time"):
        fit(TWO, ("float32",), 20000, 3072, free, in_time=1100)
    with pytest.raises(NoRoomError, match=r"the host's memory, of which 0\.1 GiB are free; no size fits"):
        fit(TWO[:1], ("float32",), None, 3072, {HOST: GIB // 10})
    size = fit(TWO[:1], ("float32", "float64"), None, 16384, {HOST: 4 * GIB})
    assert 2048 <= size < 8192, "one that was not asked for shrinks"
    assert lacking(TWO[:1], size, "float64", {HOST: 4 * GIB}) is None


def test_sizes_and_powers_that_are_asked_for() -> None:
    rows = {"auto": (256, 512, 1024, 2048, 4096, 8192, 16384), "1024, 256,512,256": (256, 512, 1024), "1k": (1024,)}
    for text, sizes in rows.items():
        plan = make_plan(read_request("matpow", sys.executable, {"size": text}, {}))
        assert isinstance(plan, MatPow) and plan.sizes == sizes
        assert plan.named is (text != "auto"), "of sizes that were asked for, those that are not measured are told"
    for text in ("256,…,2048", "8,16", "16,200000", "²,512", "-1,2"):
        with pytest.raises(RequestError, match="--size"):
            read_request("matpow", sys.executable, {"size": text}, {})
    every = ("float32", "tf32", "bfloat16", "float16", "float64")
    for power, dtypes in ((10, every), (1000, ("float32", "float64"))):
        plan = make_plan(read_request("matpow", sys.executable, {"power": power, "dtype": dtypes}, {}))
        assert isinstance(plan, MatPow) and plan.power == power


def curve(label: str, times: dict[int, float], noise: float = 0.0, **changes: Any) -> list[Run]:
    """Runs at some sizes, with work that does not depend on them: seconds alone tell the speed."""
    steps = tuple(1 + noise * step for step in (-3, -2, -1, 0, 1, 2, 3))
    return [run(label, seconds, parameters={"size": size}, steps=steps, **changes) for size, seconds in times.items()]


def said(gpu: dict[int, float], noise: float = 0.0, **changes: Any) -> str:
    cpu = curve("CPU", dict.fromkeys((256, 512, 1024, 2048), 1.0))
    (text,) = overtaking([*cpu, *curve("1 GPU", gpu, noise, **changes)], "size", "N")
    return text


@each(("times", "text"), ROWS["overtaking"])
def test_where_the_gpu_overtakes(times: dict[int, float], text: str) -> None:
    assert text in said(times)


def test_noise_tf32_and_what_cannot_be_compared() -> None:
    text = said({256: 4, 512: 1.05, 1024: 0.95, 2048: 0.25}, noise=0.1)
    assert "from N = 2048 on" in text, "at smaller sizes the noise is as wide"
    assert said({256: 4, 512: 0.5}, dtype="tf32").startswith("1 GPU, tf32: faster")
    cpu = curve("CPU", {256: 1.0})
    for other in (curve("1 GPU", {512: 0.1}), curve("2 virtual CPUs, rows", {256: 0.1}, virtual=True)):
        assert list(overtaking([*cpu, *other], "size", "N")) == []


@each(("times", "noise", "text"), ROWS["saturation"])
def test_saturation(times: dict[int, float], noise: float, text: str) -> None:
    assert list(saturation(curve("CPU", times, noise), "size", "N")) == [text]


def test_what_is_said_of_several_sizes_is_said_once_and_the_best_figure_stands_last() -> None:
    gpu = curve("1 GPU", {256: 0.4, 512: 0.02}, flop=1e12)
    runs = [*curve("CPU", {256: 0.5, 512: 0.4}, flop=1e12), *gpu]
    sentences = (*overtaking(runs, "size", "N"), *saturation(runs, "size", "N"))
    lines = printed("bench", result(*runs, parameters={"sweep": "size"}, conclusions=sentences), 400).splitlines()
    assert "1 GPU, size 512: 50.00 TFLOP/s" in lines[-1]
    assert all(sentence in "\n".join(lines) for sentence in sentences)
    slow = result(*curve("CPU", {256: 4.0, 512: 2.0}, cpu_load=(1.0,) * 7), parameters={"sweep": "size"})
    (line,) = [line for line in printed("bench", slow, 400).splitlines() if line.startswith("!")]
    assert line.startswith("! CPU, size 256; CPU, size 512: used 1.0 of 2 CPUs")


# ------------------------------------------------------------------------------------------- what passes for right

SIZE, POWER = 256, 10
A, B = make_matrix(SIZE, 0), make_matrix(SIZE, 1)
EXPECTED = power_times_vectors(A, POWER)


def chain(matrix: Any, power: int = POWER, rounded: Callable[[Any], Any] = lambda array: array) -> Any:
    """A power as a device computes it: products summed in the matrix's type, operands rounded before each."""
    product, factor = rounded(matrix), rounded(matrix)
    for _ in range(power - 1):
        product = rounded(product) @ factor
    return product


def to_mantissa(bits: int, *, truncate: bool = False) -> Callable[[Any], Any]:
    """Keep `bits` bits of a float32's mantissa: 10 is TF32, 7 is bfloat16."""
    drop = 23 - bits

    def rounded(array: Any) -> Any:
        raw = array.astype(np.float32).view(np.uint32)
        raw = raw if truncate else raw + (1 << (drop - 1)) - 1 + ((raw >> drop) & 1)
        return (raw & np.uint32(0xFFFFFFFF << drop & 0xFFFFFFFF)).view(np.float32)

    return rounded


GOOD = chain(A)
TF32 = chain(A, rounded=to_mantissa(10))
TF32_TRUNCATED = chain(A, rounded=to_mantissa(10, truncate=True))
BFLOAT16 = to_mantissa(7)(chain(A, rounded=to_mantissa(7)))
BFLOAT16_TRUNCATED = to_mantissa(7, truncate=True)(chain(A, rounded=to_mantissa(7, truncate=True)))


def judged(computed: Any, dtype: str = "float32") -> bool:
    return is_right(*residual(computed, EXPECTED), dtype, POWER)


def planted(place: Any, value: Any) -> Any:
    computed = GOOD.copy()
    computed[place] = value
    return computed


# an element of the usual size
USUAL = np.unravel_index(np.argmin(np.abs(np.abs(GOOD) - np.sqrt(np.mean(GOOD**2)))), GOOD.shape)
FLIPPED = (GOOD[USUAL].view(np.uint32) ^ np.uint32(1 << 22)).view(np.float32)
SMALL = {
    "one per cent off": planted(USUAL, 1.01 * GOOD[USUAL]),
    "a bit": planted(USUAL, FLIPPED),
}  # short types hide it
GROSS = {
    "zeroed tile": planted(np.s_[64:80, 128:144], 0),
    "not a number": planted((3, 5), np.nan),
    "infinite": planted((3, 5), np.inf),
    "swapped rows": planted([10, 11], GOOD[[11, 10]]),
}
OTHERS = (chain(A, POWER - 1), chain(A, POWER + 1), chain(B), GOOD.T, np.zeros_like(GOOD), -GOOD)
RIGHT = (
    *((GOOD, "float32"), (chain(A.astype(np.float64)), "float64"), (TF32, "tf32"), (TF32_TRUNCATED, "tf32")),
    *((BFLOAT16, "bfloat16"), (BFLOAT16_TRUNCATED, "bfloat16")),
)
SHORTER = ((TF32, "float32"), (TF32_TRUNCATED, "float32"), (BFLOAT16, "float32"), (GOOD, "float64"))


def test_right_results_pass_and_errors_other_computations_and_shorter_types_are_caught() -> None:
    assert [number for number, one in enumerate(RIGHT) if not judged(*one)] == []
    assert [name for name, one in (SMALL | GROSS).items() if judged(one)] == []
    short = ("tf32", "bfloat16", "float16")
    assert [(name, dtype) for name, one in GROSS.items() for dtype in short if judged(one, dtype)] == []
    types = ("float32", *short)
    assert [(number, dtype) for number, one in enumerate(OTHERS) for dtype in types if judged(one, dtype)] == []
    assert [number for number, one in enumerate(SHORTER) if judged(*one)] == []


def test_limits() -> None:
    assert tolerance("float32", 10) == pytest.approx(1.7e-6 * 10**0.5)
    assert tolerance("tf32", 10) == pytest.approx(7.5e-4 * 9)
    assert tolerance("bfloat16", 4) == pytest.approx(0.012)
    assert tolerance("float16", 4) == pytest.approx(1.6e-3)


def test_reference_is_the_power_times_the_vectors() -> None:
    power = np.linalg.matrix_power(A.astype(np.float64), POWER)
    np.testing.assert_allclose(EXPECTED, power @ vectors(SIZE), rtol=1e-9, atol=1e-12)
    assert set(np.unique(vectors(SIZE))) == {-1.0, 1.0}


@each("size", [64, 1000])
def test_matrices_hold_what_every_type_can_represent(size: int) -> None:
    matrix, other = make_matrix(size, 0), make_matrix(size, 1)
    assert matrix.dtype == np.float32
    assert not np.any(matrix.view(np.uint32) & 0xFFFF)  # the mantissa of bfloat16
    assert np.std(matrix) == pytest.approx(size**-0.5, rel=0.1)
    assert not np.array_equal(matrix, other)
    np.testing.assert_array_equal(matrix, make_matrix(size, 0))
