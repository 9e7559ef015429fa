"""Versions, distributions and variables: one home each."""

from __future__ import annotations

import pytest

from tfgpu_doctor.probes.tensorflow_probe import TENSORFLOWS
from tfgpu_doctor.records import distributions, versions


def test_numbers_refuse_what_is_no_number() -> None:
    assert versions.numbers("12.5.1") == (12, 5, 1)
    for text in ("", "2.15.0rc1", "12.x", "."):
        with pytest.raises(ValueError, match="invalid literal"):
            versions.numbers(text)


def test_parts_are_the_numbers_in_front() -> None:
    rows = {"2.15.0rc1": (2, 15, 0), "v12.5": (12, 5), "535.104.05": (535, 104, 5), "8": (8,), "": None, "cuda": None}
    assert {text: versions.parts(text) for text in rows} == rows
    assert versions.parts(None) is None


def test_an_unreadable_version_is_never_a_yes() -> None:
    assert [versions.at_least(text, "2.16") for text in ("", "unknown", None)] == [None, None, None]
    assert versions.at_least("2.16", "newest") is None


def test_missing_parts_are_zeros_and_a_candidate_is_its_release() -> None:
    yes = [("8", "8.0"), ("2.16.0rc1", "2.16"), ("2.16.1", "2.16"), ("12.0", "12"), ("570.86.15", "570.86.15")]
    no = [("2.9", "2.16"), ("8", "8.1"), ("2.15.1", "2.16"), ("7.9", "8"), ("450.80.02", "450.80.03")]
    assert [row for row in yes if versions.at_least(*row) is not True] == []
    assert [row for row in no if versions.at_least(*row) is not False] == []


def test_major_and_minor_cut() -> None:
    assert (versions.major("11.8.0"), versions.minor("11.8.0"), versions.minor("11")) == ("11", "11.8", "11")
    assert (versions.major(None), versions.minor(None)) == ("", "")
    assert versions.same_minor("2.15.0", "2.15.1")
    assert not versions.same_minor("2.1", "2.15")


def test_padded_and_capability() -> None:
    assert versions.padded("12.5") == (12, 5, 0)
    assert versions.capability("8.9") == (8, 9)
    assert versions.capability("10") == (10, 0)


def test_the_probe_knows_the_same_distributions() -> None:
    """It runs in Pythons without this package, so it has its own list."""
    assert TENSORFLOWS == distributions.TENSORFLOW
