"""`tfgpu bench matpow`, at one size and at several: cases, types, memory, what sweeps show and how it is printed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bench.fake_worker import BUS_ID, CREATED, QUICK, FakeWorker, Workers, measured
from tests.bench.samples import result, run
from tests.healthy import MATRIX, gpu, healthy, known, spoil
from tests.render.showing import printed
from tests.tables import each, read_rows
from tfgpu_doctor.bench.devices import Case, GpuFound, RequestError, Selection
from tfgpu_doctor.bench.plans.base import HOST, TooLargeError, demands, overtaking, saturation
from tfgpu_doctor.bench.plans.matpow import (
    MatPow,
    fit,
    lacking,
    sane_size,
)
from tfgpu_doctor.bench.requests import make_plan, read_request
from tfgpu_doctor.bench.results import BenchResult, Run
from tfgpu_doctor.bench.runner.runner import Session
from tfgpu_doctor.render.outlines.bench import verdict

ROWS = read_rows(Path(__file__).with_name("rows.yaml"))
GIB = 2**30
CPU = (Case("CPU", ("/CPU:0",), ()),)
TWO = Selection(gpus=2, explicit=True).cases([GpuFound("NVIDIA H200")] * 2)


# ------------------------------------------------------------------------------------------- one size


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


# ------------------------------------------------------------------------------------------- sizes and memory


def test_a_sample_takes_about_two_seconds() -> None:
    rows = [(470e9, 10, 3072), (50e9, 10, 1280), (10e12, 10, 8192), (470e9, 2, 6144), (1e6, 10, 256), (1e18, 10, 16384)]
    assert [sane_size(2 * flops, power) for flops, power, _ in rows] == [size for *_, size in rows]


def test_a_power_that_rounding_hides_is_refused() -> None:
    def request(power: int, *dtypes: str) -> MatPow:
        plan = make_plan(read_request("matpow", sys.executable, {"power": power, "dtype": dtypes}, {}))
        assert isinstance(plan, MatPow)
        return plan

    assert request(10, "float32", "tf32", "bfloat16", "float16", "float64").power == 10
    assert request(1000, "float32", "float64").power == 1000
    for power, dtype, most in ((200, "tf32", 134), (1000, "bfloat16", 26)):
        why = f"--power {power} cannot be verified in {dtype}, whose rounding errors add up; use at most {most}"
        with pytest.raises(RequestError, match=why):
            request(power, "float32", dtype)


def test_cases_that_stand_side_by_side_share_the_memory() -> None:
    needs: dict[str | int, int] = {}
    for memory, need in demands(TWO, lambda case: 100 * GIB // len(case.devices)):
        needs[memory] = needs.get(memory, 0) + need
    assert 200 * GIB < needs[0] < 203 * GIB, "alone, and twice half of it"
    assert 100 * GIB < needs[1] < 102 * GIB and needs[HOST] == 102 * GIB
    assert lacking(TWO, 16384, "float64", {}) is None, "memory that is not known is no reason to refuse"


def test_a_size_that_was_asked_for_and_does_not_fit_is_refused_with_one_that_does() -> None:
    free: dict[str | int, int] = {HOST: 200 * GIB, 0: 8 * GIB}
    with pytest.raises(TooLargeError, match=r"GPU 0, of which 8.0 GiB are free; --size (\d+) fits") as info:
        fit(TWO, ("float32",), 20000, 3072, free)
    fits = int(str(info.value).split("--size ")[1].split()[0])
    assert fit(TWO, ("float32",), fits, 3072, free) == fits
    with pytest.raises(TooLargeError, match=r"the host's memory, of which 0\.1 GiB are free; no size fits"):
        fit(CPU, ("float32",), None, 3072, {HOST: GIB // 10})
    size = fit(CPU, ("float32", "float64"), None, 16384, {HOST: 4 * GIB})
    assert 2048 <= size < 8192, "one that was not asked for shrinks"
    assert lacking(CPU, size, "float64", {HOST: 4 * GIB}) is None


def test_lists_of_sizes() -> None:
    rows = {"auto": (256, 512, 1024, 2048, 4096, 8192, 16384), "1024, 256,512,256": (256, 512, 1024), "1k": (1024,)}
    for text, sizes in rows.items():
        plan = make_plan(read_request("matpow", sys.executable, {"size": text}, {}))
        assert isinstance(plan, MatPow) and plan.sizes == sizes
        assert plan.named is (text != "auto"), "of sizes that were asked for, those that are not measured are told"
    for text in ("256,…,2048", "8,16", "16,200000", "²,512", "-1,2"):
        with pytest.raises(RequestError, match="--size"):
            read_request("matpow", sys.executable, {"size": text}, {})


# ------------------------------------------------------------------------------------------- what they show


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


def test_noise_tf32_and_virtual_devices() -> None:
    text = said({256: 4, 512: 1.05, 1024: 0.95, 2048: 0.25}, noise=0.1)
    assert "from N = 2048 on" in text, "at smaller sizes the noise is as wide"
    assert said({256: 4, 512: 0.5}, dtype="tf32").startswith("1 GPU, tf32: faster")
    assert list(overtaking([*curve("CPU", {256: 1.0}), *curve("1 GPU", {512: 0.1})], "size", "N")) == []
    runs = [*curve("CPU", {256: 1.0}), *curve("2 virtual CPUs, rows", {256: 0.1}, virtual=True)]
    assert list(overtaking(runs, "size", "N")) == []


@each(("times", "text"), ROWS["saturation"])
def test_saturation(times: dict[int, float], text: str) -> None:
    assert list(saturation(curve("CPU", times), "size", "N")) == [text]


def test_what_is_said_of_several_sizes_is_said_once_and_the_best_figure_stands_last() -> None:
    gpu = curve("1 GPU", {256: 0.4, 512: 0.02}, flop=1e12)
    runs = [*curve("CPU", {256: 0.5, 512: 0.4}, flop=1e12), *gpu]
    sentences = (*overtaking(runs, "size", "N"), *saturation(runs, "size", "N"))
    found = result(*runs, parameters={"sweep": "size"}, conclusions=sentences)
    lines = printed("bench", found, 400).splitlines()
    assert "1 GPU, size " in lines[-1] and "TFLOP/s" in lines[-1] and verdict(found) in lines[-1]
    assert all(sentence in "\n".join(lines) for sentence in found.conclusions)
    slow = result(*curve("CPU", {256: 4.0, 512: 2.0}, cpu_load=(1.0,) * 7), parameters={"sweep": "size"})
    (line,) = [line for line in printed("bench", slow, 400).splitlines() if line.startswith("!")]
    assert line.startswith("! CPU, size 512 (and 1 more): used 1.0 of 2 CPUs")
