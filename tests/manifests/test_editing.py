"""Edits of single lines, in each syntax in which a requirement can stand."""

from __future__ import annotations

from pathlib import Path

from tests.tables import each, read_rows
from tfgpu_doctor.facts.report import Edit
from tfgpu_doctor.manifests.editing import apply

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))
REQUIREMENTS, TOML, CONDA, DOCKER = "requirements.txt", "pyproject.toml", "environment.yml", "Dockerfile"

# file, text, line, old, new, beside -> text
MADE = ROWS["MADE"]

REFUSED = ROWS["REFUSED"]


@each(("path", "text", "line", "old", "new", "beside", "expected"), MADE)
def test_an_edit_keeps_the_syntax_around_it(
    path: str, text: str, line: int, old: str, new: str, beside: bool, expected: str
) -> None:
    made = apply(path, text, [Edit(path, line, old, new, beside)], in_shell=path == DOCKER)
    assert made == (expected, [])


@each(("path", "text", "line", "old", "new", "reason"), REFUSED)
def test_what_is_not_sure_is_refused_and_the_text_stays(
    path: str, text: str, line: int, old: str, new: str, reason: str
) -> None:
    made, refused = apply(path, text, [Edit(path, line, old, new)], in_shell=path == DOCKER)
    assert made == text
    assert reason in refused[0].reason


def test_several_edits_of_a_file_do_not_move_each_other() -> None:
    edits = [
        Edit(REQUIREMENTS, 1, "tf==1", "tf==2"),
        Edit(REQUIREMENTS, 1, "tf==1", "tf==3"),  # the second for the same text
        Edit(REQUIREMENTS, 1, "tf==1", "np<2", beside=True),
        Edit(REQUIREMENTS, 2, "old"),
        Edit(REQUIREMENTS, 3, "k==1", "k==2"),
    ]
    assert apply(REQUIREMENTS, "tf==1\nold\nk==1\n", edits, in_shell=False) == ("tf==2\nnp<2\nk==2\n", [])
