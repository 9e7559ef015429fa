"""Which batch is tried next: found within a few per cent, within the budget, in time."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tfgpu_doctor.bench.plans.batch_search import BUDGET, LIMIT, MEMORY, MOST, TIME, BatchSearch, Try, points

GIB = 2**30


def search(
    capacity: int,
    peak: Callable[[int], int | None] = lambda _batch: None,
    pace: float = 0.0,
    budget: int | None = None,
    seconds: float = 600.0,
) -> BatchSearch:
    """A whole search on a device that holds `capacity` images and needs `pace` seconds for one."""
    found = BatchSearch(budget, seconds)
    while (batch := found.next()) is not None:
        assert batch not in [one.batch for one in found.tries], "tried twice"
        fits = batch <= capacity
        found.tries.append(Try(batch, fits, peak(batch) if fits else None, pace * batch))
    return found


@pytest.mark.parametrize("capacity", [1, 2, 7, 8, 9, 100, 1000, 1472, 4096, 65535, 300_000])
def test_the_largest_batch_is_found_within_a_few_per_cent(capacity: int) -> None:
    found = search(capacity)
    assert found.bound == MEMORY
    assert found.largest and found.failed
    assert found.largest.batch <= capacity < found.failed.batch
    assert capacity - found.largest.batch <= max(1, capacity // 32)
    assert len(found.tries) <= 24


def test_nothing_fits() -> None:
    found = search(0)
    assert (found.largest, found.bound) == (None, MEMORY)
    assert [one.batch for one in found.tries] == [8, 4, 2, 1]


def test_there_is_an_end_where_memory_has_none() -> None:
    found = search(2**60)
    assert found.bound == LIMIT
    assert found.largest and found.largest.batch == MOST


@pytest.mark.parametrize("seed", range(20))
def test_the_budget_is_kept_and_used(seed: int) -> None:
    numbers = random.Random(seed)
    image, base = numbers.uniform(1e5, 3e7), numbers.uniform(3e8, 9e8)

    def peak(batch: int) -> int:
        return int(base + image * batch + numbers.uniform(0, 2e7))  # an allocator is not exact

    found = search(2**60, peak, budget=10 * GIB)
    assert found.bound == BUDGET
    peaks = found.peaks()
    assert max(peaks.values()) <= 10 * GIB
    assert max(peaks.values()) >= 7 * GIB


def test_growth_that_steepens_is_noticed() -> None:
    found = search(2**60, lambda batch: int(5e8 + 1e5 * batch + 40.0 * batch**2), budget=8 * GIB)
    assert max(found.peaks().values()) <= 8 * GIB


def test_a_peak_that_does_not_grow_is_no_division_by_zero() -> None:
    found = search(5000, lambda _batch: 500_000_000, budget=10 * GIB)
    assert found.bound == MEMORY
    assert found.growth() is None


def test_a_search_that_would_take_too_long_ends() -> None:
    found = search(2**60, pace=0.001, seconds=30.0)
    assert found.bound == TIME
    assert found.largest and found.largest.batch == 4096  # 8192 would make it 32.7 s in all
    assert found.spent <= 30.0


def test_growth_is_that_of_the_largest_batches() -> None:
    found = BatchSearch()
    found.tries += [Try(8, True, 100), Try(16, True, 200), Try(32, True, 1000), Try(64, False)]
    assert found.growth() == 50.0


@pytest.mark.parametrize(
    ("largest", "expected"),
    [
        (1, [1]),
        (2, [2, 1]),
        (8, [8, 4, 1]),
        (12288, [12288, 4096, 1024, 256, 64]),
        (16384, [16384, 4096, 1024, 256, 64]),
        (5000, [5000, 1024, 256, 64, 16]),
    ],
)
def test_batches_that_are_measured(largest: int, expected: list[int]) -> None:
    assert points(largest) == expected
