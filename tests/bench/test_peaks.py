"""Per cent of peak: multiprocessors × clock × FLOP per cycle, or nothing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.bench.samples import run, telemetry
from tests.healthy import MATRIX, gpu, healthy, known, spoil
from tests.tables import each
from tfgpu_doctor.bench.speeds import (
    memory_bandwidth,
    peak_flops,
    percent_of,
    with_peak,
)
from tfgpu_doctor.records.facts import Gpu, Unknown

# NVIDIA H200 SXM: 132 multiprocessors at 1830 MHz boost give the data sheet's dense figures
H200 = gpu(multiprocessors=132, sm_clock_max=1830)


def float32(card: Gpu) -> float | None:
    return peak_flops(card, "float32", MATRIX)


@each(("dtype", "tflops"), [("float32", 62), ("tf32", 495), ("float16", 989), ("bfloat16", 989), ("float64", 62)])
def test_the_data_sheets_figures(dtype: str, tflops: float) -> None:
    peak = peak_flops(H200, dtype, MATRIX)
    assert peak is not None
    assert peak / 1e12 == pytest.approx(tflops, rel=0.1)  # data sheets round, and take another boost clock


def test_per_cent_of_several() -> None:
    peak = peak_flops(H200, "float32", MATRIX)
    assert peak is not None
    assert percent_of(peak, [H200, H200], float32) == pytest.approx(50)


@each("unknown", ["multiprocessors", "sm_clock_max", "compute_capability"])
def test_unknown_stays_unknown(unknown: str) -> None:
    changes: dict[str, Any] = {unknown: Unknown("not told")}
    partly = msgspec.structs.replace(H200, **changes)
    assert percent_of(1e12, [H200, partly], float32) is None
    assert percent_of(1e12, [], float32) is None


def test_geforce_cards_have_their_own_peak() -> None:
    """Their tensor cores accumulate in float32 at half the rate of the professional cards'."""
    clocked = {"compute_capability": "8.9", "multiprocessors": 128, "sm_clock_max": 2520}
    geforce, professional = (
        peak_flops(gpu(name=name, **clocked), "float16", MATRIX) for name in ("NVIDIA GeForce RTX 4090", "NVIDIA L40S")
    )
    # 165.2 TFLOP/s: GeForce RTX 4090 in the Ada whitepaper, FP16 tensor with FP32 accumulation
    assert geforce == pytest.approx(165.2e12, rel=0.01)
    assert professional == pytest.approx(2 * 165.2e12, rel=0.01)


def test_training_in_mixed_types_is_held_against_the_type_of_its_products() -> None:
    assert peak_flops(H200, "mixed_bfloat16", MATRIX) == peak_flops(H200, "bfloat16", MATRIX)
    assert peak_flops(H200, "int4", MATRIX) is None


@each(
    ("clock", "bits", "data_sheet"),
    [(2619, 5120, 3352e9), (5001, 256, 320e9), (10501, 384, 1008e9)],  # H100 SXM, T4, GeForce RTX 4090
)
def test_memory_bandwidth_is_the_data_sheets(clock: int, bits: int, data_sheet: float) -> None:
    one = gpu(memory_clock_max=clock, memory_bus_width=bits)
    assert memory_bandwidth(one) == pytest.approx(data_sheet, rel=0.01)
    assert percent_of(data_sheet, [one, one], memory_bandwidth) == pytest.approx(50, rel=0.01)


def test_unknown_bandwidth_stays_unknown() -> None:
    assert (
        percent_of(1e9, [gpu(memory_clock_max=2619), gpu(memory_clock_max=1, memory_bus_width=1)], memory_bandwidth)
        is None
    )
    assert percent_of(1e9, [], memory_bandwidth) is None


def test_a_run_is_held_against_the_memory_of_its_own_cards() -> None:
    facts = {"pci_bus_id": "0000:65:00.0", "memory_clock_max": 2619, "memory_bus_width": 5120}
    environment = spoil(healthy(), {"gpus": known((gpu(**facts),))})
    one = run("1 GPU", 0.1, flop=1e12, bytes_moved=167.6e9, gpu=(telemetry(),))
    found = with_peak(one, environment, MATRIX)
    assert found.percent_of_bandwidth == pytest.approx(50, rel=0.01)
    assert (found.percent_of_peak, found.peak_is) == (None, None)  # its clock is not known
    elsewhere = run("1 GPU", 0.1, bytes_moved=167.6e9, gpu=(telemetry(pci_bus_id="0000:99:00.0"),))
    assert with_peak(elsewhere, environment, MATRIX).percent_of_bandwidth is None
