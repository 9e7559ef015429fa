"""Versions of conda and Poetry in PEP 440."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tables import each, read_rows
from tfgpu_doctor.manifests import Place
from tfgpu_doctor.manifests.requirement import conda_requirement, poetry_specifier
from tfgpu_doctor.manifests.variables import fill, substitute

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))


@each(("spec", "name", "specifier", "build"), ROWS["test_match_specs"])
def test_match_specs(spec: str, name: str, specifier: str, build: str | None) -> None:
    one = conda_requirement(spec, Place("environment.yml", 1))
    assert (one.name, one.specifier, one.build) == (name, specifier, build)


@each("spec", ["", "=2.4", "tensorflow>=2.4|<2", "tensorflow >>2"])
def test_what_is_no_match_spec(spec: str) -> None:
    with pytest.raises(ValueError):
        conda_requirement(spec, Place("environment.yml", 1))


@each(("version", "expected"), ROWS["test_poetry"])
def test_poetry(version: str, expected: str) -> None:
    assert poetry_specifier(version) == expected


@each(("text", "expected"), ROWS["test_variables"])
def test_variables(text: str, expected: str | None) -> None:
    assert substitute(text, {"V": "1", "E": ""}) == expected


def test_variables_that_grow_without_end() -> None:
    values = {"A0": "x" * 100}
    for number in range(1, 30):
        values[f"A{number}"] = fill(f"$A{number - 1}" * 10, values)
    assert max(map(len, values.values())) <= 2_000
