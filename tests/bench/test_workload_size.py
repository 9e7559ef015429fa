"""The size: by speed, by memory, by what can be verified."""

from __future__ import annotations

import pytest

from tests.tables import each
from tfgpu_doctor.bench.devices import Case, GpuFound, Selection
from tfgpu_doctor.bench.plans.workload_size import (
    HOST,
    TooLargeError,
    demands,
    fit,
    sane_size,
    shortage,
    too_high_a_power,
)

GIB = 2**30
CPU = (Case("CPU", ("/CPU:0",), ()),)
TWO = Selection(gpus=2, explicit=True).cases([GpuFound("NVIDIA H200")] * 2)


@each(
    ("flops", "power", "size"),
    [(470e9, 10, 3072), (50e9, 10, 1280), (10e12, 10, 8192), (470e9, 2, 6144), (1e6, 10, 256), (1e18, 10, 16384)],
)
def test_a_sample_takes_about_two_seconds(flops: float, power: int, size: int) -> None:
    assert sane_size(2 * flops, power) == size


@each(
    ("power", "dtypes", "message"),
    [
        (10, ("float32", "tf32", "bfloat16", "float16", "float64"), None),
        (1000, ("float32", "float64"), None),
        (
            200,
            ("float32", "tf32"),
            "--power 200 cannot be verified in tf32, whose rounding errors add up; use at most 134",
        ),
        (
            1000,
            ("bfloat16",),
            "--power 1000 cannot be verified in bfloat16, whose rounding errors add up; use at most 26",
        ),
    ],
)
def test_a_power_that_rounding_hides_is_refused(power: int, dtypes: tuple[str, ...], message: str | None) -> None:
    assert too_high_a_power(power, dtypes) == message


def test_cases_that_stand_side_by_side_share_the_memory() -> None:
    needs: dict[str | int, int] = {}
    for memory, need in demands(TWO, 10000, "float32"):
        needs[memory] = needs.get(memory, 0) + need
    one = 4 * 10000**2
    assert needs[0] > (8 + 4 + 6) * one  # alone, one term, half of the rows
    assert (4 + 6) * one < needs[1] < needs[0]
    assert needs[HOST] > 8 * one


def test_memory_that_is_not_known_is_no_reason_to_refuse() -> None:
    assert shortage(TWO, 16384, "float64", {}) is None


def test_a_size_that_was_asked_for_and_does_not_fit_is_refused_with_one_that_does() -> None:
    free: dict[str | int, int] = {HOST: 200 * GIB, 0: 8 * GIB}
    with pytest.raises(
        TooLargeError, match=r"GPU 0 \(NVIDIA T4\), of which 8.0 GiB are free; --size (\d+) fits"
    ) as info:
        fit(TWO, ("float32",), 20000, 3072, free, {0: "NVIDIA T4"})
    fits = int(str(info.value).split("--size ")[1].split()[0])
    assert fit(TWO, ("float32",), fits, 3072, free, {}) == fits


def test_a_size_that_we_chose_shrinks_to_the_memory() -> None:
    size = fit(CPU, ("float32", "float64"), None, 16384, {HOST: 4 * GIB}, {})
    assert 2048 <= size < 8192
    assert shortage(CPU, size, "float64", {HOST: 4 * GIB}) is None


def test_no_size_fits() -> None:
    with pytest.raises(TooLargeError, match=r"the host's memory, of which 0\.1 GiB are free; no size fits"):
        fit(CPU, ("float32",), None, 3072, {HOST: GIB // 10}, {})
