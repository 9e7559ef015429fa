"""Requirements in each syntax in which one can stand: how a line is edited, and versions of conda and Poetry."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tables import each, read_rows
from tfgpu_doctor.facts.report import Edit
from tfgpu_doctor.manifests import Place
from tfgpu_doctor.manifests.editing import apply
from tfgpu_doctor.manifests.requirement import conda_requirement, poetry_specifier
from tfgpu_doctor.manifests.variables import fill, substitute

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))


@each(("path", "text", "line", "old", "new", "beside", "expected"), ROWS["MADE"])
def test_an_edit_keeps_the_syntax_around_it(
    path: str, text: str, line: int, old: str, new: str, beside: bool, expected: str
) -> None:
    made = apply(path, text, [Edit(path, line, old, new, beside)], in_shell=path == "Dockerfile")
    assert made == (expected, [])


@each(("path", "text", "line", "old", "new", "reason"), ROWS["REFUSED"])
def test_what_is_not_sure_is_refused_and_the_text_stays(
    path: str, text: str, line: int, old: str, new: str, reason: str
) -> None:
    made, refused = apply(path, text, [Edit(path, line, old, new)], in_shell=path == "Dockerfile")
    assert made == text
    assert reason in refused[0].reason


def test_several_edits_of_a_file_do_not_move_each_other() -> None:
    edits = [
        Edit("r.txt", 1, "tf==1", "tf==2"),
        Edit("r.txt", 1, "tf==1", "tf==3"),  # the second for the same text
        Edit("r.txt", 1, "tf==1", "np<2", beside=True),
        Edit("r.txt", 2, "old"),
        Edit("r.txt", 3, "k==1", "k==2"),
    ]
    assert apply("r.txt", "tf==1\nold\nk==1\n", edits, in_shell=False) == ("tf==2\nnp<2\nk==2\n", [])


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
