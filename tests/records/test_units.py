"""Numbers with their units."""

from __future__ import annotations

import math

import pytest

from tfgpu_doctor.records.units import GIB, MIB, digits, memory_size, quantity


def test_digits_that_the_interval_supports(subtests: pytest.Subtests) -> None:
    for value, low, high, text in [
        (1234.5, 1230.0, 1239.0, "1234"),
        (470.3, 300.0, 640.0, "470"),
        (0.04512, 0.0450, 0.0453, "0.0451"),
        (99.96, 99.9, 100.1, "99.96"),
        (5.0, 5.0, 5.0, "5.000"),  # no more than four digits, however narrow
        (2.3, 1.0, 3.0, "2.3"),  # no fewer than two
        (12_345_678.0, 12_300_000.0, 12_400_000.0, "12350000"),
        (0.0, 0.0, 0.0, "0.0"),
        (math.inf, 1.0, math.inf, "inf"),
    ]:
        with subtests.test(value=value):
            assert digits(value, low, high) == text


def test_quantities(subtests: pytest.Subtests) -> None:
    for value, unit, interval, said in [
        (47.581e12, "FLOP/s", (47.5e12, 47.7e12), "47.6 TFLOP/s"),
        (1.2e15, "FLOP/s", None, "1.2 PFLOP/s"),
        (12.4e9, "B/s", (12.3e9, 12.6e9), "12.4 GB/s"),
        (999.0, "B/s", None, "999 B/s"),
        (2.5 * 2**30, "B", None, "2.5 GiB"),
        (1000.0, "B", None, "1000 B"),
        (3812.4, "images/s", (3700.0, 3900.0), "3800 images/s"),
        (0.0123, "s", None, "12.3 ms"),
        (0.00001234, "s", (0.0000122, 0.0000125), "12.3 µs"),
        (1.5, "s", None, "1.5 s"),
        (128.0, "", None, "128"),
        (0.0, "images/s", None, "0 images/s"),
    ]:
        with subtests.test(value=value):
            assert quantity(value, unit, interval) == said


def test_memory(subtests: pytest.Subtests) -> None:
    for size, said in [
        (GIB, "1 GiB"),
        (1000 * MIB, "1000 MiB"),
        (64 * MIB, "64 MiB"),
        (2048 * GIB, "2048 GiB"),
        (7.7891 * GIB, "7.79 GiB"),
    ]:
        with subtests.test(size=size):
            assert memory_size(size) == said
