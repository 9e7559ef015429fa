"""Numbers with their units, and versions as numbers."""

from __future__ import annotations

import math

import pytest

from tfgpu_doctor.facts import versions
from tfgpu_doctor.facts.units import GIB, MIB, digits, memory_size, quantity

DIGITS = {  # value and interval → the digits that it supports
    (1234.5, 1230.0, 1239.0): "1234",
    (470.3, 300.0, 640.0): "470",
    (0.04512, 0.0450, 0.0453): "0.0451",
    (99.96, 99.9, 100.1): "99.96",
    (5.0, 5.0, 5.0): "5.000",  # no more than four digits, however narrow
    (2.3, 1.0, 3.0): "2.3",  # no fewer than two
    (12_345_678.0, 12_300_000.0, 12_400_000.0): "12350000",
    (0.0, 0.0, 0.0): "0.0",
    (math.inf, 1.0, math.inf): "inf",
}
QUANTITIES = {
    (47.581e12, "FLOP/s", (47.5e12, 47.7e12)): "47.6 TFLOP/s",
    (1.2e15, "FLOP/s", None): "1.2 PFLOP/s",
    (12.4e9, "B/s", (12.3e9, 12.6e9)): "12.4 GB/s",
    (999.0, "B/s", None): "999 B/s",
    (2.5 * 2**30, "B", None): "2.5 GiB",
    (1000.0, "B", None): "1000 B",
    (3812.4, "images/s", (3700.0, 3900.0)): "3800 images/s",
    (0.0123, "s", None): "12.3 ms",
    (0.00001234, "s", (0.0000122, 0.0000125)): "12.3 µs",
    (1.5, "s", None): "1.5 s",
    (128.0, "", None): "128",
    (0.0, "images/s", None): "0 images/s",
}
MEMORY = {GIB: "1 GiB", 1000 * MIB: "1000 MiB", 64 * MIB: "64 MiB", 2048 * GIB: "2048 GiB", 7.7891 * GIB: "7.79 GiB"}


def test_numbers_with_their_units() -> None:
    assert {row: digits(*row) for row in DIGITS} == DIGITS
    assert {row: quantity(*row) for row in QUANTITIES} == QUANTITIES
    assert {size: memory_size(size) for size in MEMORY} == MEMORY


def test_versions_are_numbers_or_nothing() -> None:
    assert versions.numbers("12.5.1") == (12, 5, 1)
    for text in ("", "2.15.0rc1", "12.x", "."):
        with pytest.raises(ValueError, match="invalid literal"):
            versions.numbers(text)
    rows = {"2.15.0rc1": (2, 15, 0), "v12.5": (12, 5), "535.104.05": (535, 104, 5), "8": (8,), "": None, "cuda": None}
    assert {text: versions.parts(text) for text in (*rows, None)} == {**rows, None: None}
    assert (versions.major("11.8.0"), versions.minor("11.8.0"), versions.minor("11")) == ("11", "11.8", "11")
    assert (versions.major(None), versions.minor(None)) == ("", "")
    assert versions.same_minor("2.15.0", "2.15.1") and not versions.same_minor("2.1", "2.15")
    assert (versions.padded("12.5"), versions.capability("8.9"), versions.capability("10")) == (
        *((12, 5, 0), (8, 9), (10, 0)),
    )


def test_missing_parts_are_zeros_a_candidate_is_its_release_and_what_is_unreadable_is_never_a_yes() -> None:
    yes = [("8", "8.0"), ("2.16.0rc1", "2.16"), ("2.16.1", "2.16"), ("12.0", "12"), ("570.86.15", "570.86.15")]
    no = [("2.9", "2.16"), ("8", "8.1"), ("2.15.1", "2.16"), ("7.9", "8"), ("450.80.02", "450.80.03")]
    unreadable = [("", "2.16"), ("unknown", "2.16"), (None, "2.16"), ("2.16", "newest")]
    for rows, answer in ((yes, True), (no, False), (unreadable, None)):
        assert [row for row in rows if versions.at_least(*row) is not answer] == []
