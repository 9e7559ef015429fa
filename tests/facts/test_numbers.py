"""Numbers with their units, and versions as numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tables import read_rows
from tfgpu_doctor.facts import versions
from tfgpu_doctor.facts.units import GIB, MIB, digits, memory_size, quantity

ROWS = read_rows(Path(__file__).parent / "numbers.yaml")
MEMORY = {GIB: "1 GiB", 1000 * MIB: "1000 MiB", 64 * MIB: "64 MiB", 2048 * GIB: "2048 GiB", 7.7891 * GIB: "7.79 GiB"}


def test_numbers_with_their_units() -> None:
    assert [[*row, digits(*row)] for *row, _ in ROWS["digits"]] == ROWS["digits"]
    assert [[*row, quantity(*row)] for *row, _ in ROWS["quantities"]] == ROWS["quantities"]
    assert {size: memory_size(size) for size in MEMORY} == MEMORY


def test_versions_are_numbers_or_nothing() -> None:
    assert versions.numbers("12.5.1") == (12, 5, 1)
    for text in ("", "2.15.0rc1", "12.x", "."):
        with pytest.raises(ValueError, match="invalid literal"):
            versions.numbers(text)
    for text, parts in ROWS["parts"].items():
        assert versions.parts(text) == (parts and tuple(parts)), text
    assert [[*both, versions.at_least(*both)] for *both, _ in ROWS["at least"]] == ROWS["at least"]
    assert (versions.major("11.8.0"), versions.minor("11.8.0"), versions.minor("11")) == ("11", "11.8", "11")
    assert (versions.major(None), versions.minor(None)) == ("", "")
    assert versions.same_minor("2.15.0", "2.15.1") and not versions.same_minor("2.1", "2.15")
    assert (versions.padded("12.5"), versions.capability("8.9")) == ((12, 5, 0), (8, 9))
    assert versions.capability("10") == (10, 0)
