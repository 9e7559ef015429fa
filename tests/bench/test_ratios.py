"""Speed-up and efficiency."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bench.samples import FLOP, failed, run
from tfgpu_doctor.bench.results import Run
from tfgpu_doctor.bench.speeds import relate

TWO: dict[str, Any] = {"devices": ("/GPU:0", "/GPU:1")}


def related(*runs: Run) -> dict[str, Run]:
    return {f"{one.label} {one.dtype}": one for one in relate(runs)}


def test_cpu_one_gpu_two_gpus() -> None:
    found = related(run("CPU", 8.0), run("1 GPU", 0.1), run("2 GPUs, rows", 0.0625, spread="rows", **TWO))
    cpu, one, two = found.values()
    assert (cpu.speedup_vs_cpu, cpu.speedup_vs_1gpu, cpu.efficiency) == (None, None, None)
    assert one.speedup_vs_cpu and one.speedup_vs_cpu.value == pytest.approx(80)
    assert one.speedup_vs_1gpu is None and one.efficiency is None
    assert two.speedup_vs_1gpu and two.speedup_vs_1gpu.value == pytest.approx(1.6)
    assert two.efficiency and two.efficiency.value == pytest.approx(0.8)
    assert two.efficiency.low < 0.8 < two.efficiency.high


def test_more_work_for_more_gpus_is_compared_by_work_done() -> None:
    four = {"devices": tuple(f"/GPU:{index}" for index in range(4)), "spread": "terms", "flop": 2 * FLOP}
    found = related(run("1 GPU", 0.1), run("4 GPUs, terms", 0.05, **four))["4 GPUs, terms float32"]
    assert found.speedup_vs_1gpu and found.speedup_vs_1gpu.value == pytest.approx(4)
    assert found.efficiency and found.efficiency.value == pytest.approx(1)


def test_virtual_devices_get_no_ratio() -> None:
    found = related(run("CPU", 8.0), run("1 GPU", 0.1), run("2 virtual GPUs, rows", 0.1, virtual=True, **TWO))
    virtual = found["2 virtual GPUs, rows float32"]
    assert (virtual.speedup_vs_cpu, virtual.speedup_vs_1gpu, virtual.efficiency) == (None, None, None)
    assert virtual.advice == ()


def test_types_are_compared_with_themselves_and_tf32_with_the_cpus_float32() -> None:
    found = related(
        run("CPU", 8.0),
        run("CPU", 4.0, dtype="bfloat16"),
        run("1 GPU", 0.1, dtype="bfloat16"),
        run("1 GPU", 0.1, dtype="tf32"),
        run("1 GPU", 0.1, dtype="float16"),
    )
    speedups = {name: one.speedup_vs_cpu and round(one.speedup_vs_cpu.value) for name, one in found.items()}
    assert speedups["1 GPU bfloat16"] == 40
    assert speedups["1 GPU tf32"] == 80
    assert speedups["1 GPU float16"] is None


def test_a_failed_base_gives_no_ratio() -> None:
    found = related(failed("CPU", "it died", devices=("/CPU:0",)), run("1 GPU", 0.1))
    assert found["1 GPU float32"].speedup_vs_cpu is None
