"""Shell code is split as a shell splits it, and each word knows its line."""

from __future__ import annotations

from pathlib import Path

from tests.tables import each, read_rows
from tfgpu_doctor.manifests.shell import Installed, commands, read_commands

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))


@each(("code", "expected"), ROWS["test_commands"])
def test_commands(code: str, expected: list[list[str]]) -> None:
    found = commands(list(enumerate(code.split("\n"), 1)))
    assert [[f"{word.line}{word.text}" for word in words] for words in found if words] == expected


@each(("command", "expected"), ROWS["test_what_is_installed"])
def test_what_is_installed(command: str, expected: list[str]) -> None:
    found = Installed()
    read_commands([(1, command)], "Dockerfile", found)
    assert [f"{one.name}{one.specifier}" for one in found.requirements] == expected
    assert found.not_understood == []


def test_a_variable_without_a_value_is_said() -> None:
    found = Installed()
    read_commands([(4, "pip install tensorflow==$TF $MORE")], "Dockerfile", found)
    assert found.requirements == []
    assert [line.split(" ")[:2] for line in found.not_understood] == [
        ["Dockerfile:4:", "tensorflow==$TF:"],
        ["Dockerfile:4:", "$MORE"],
    ]


@each("command", ["uv python install 3.12", "uv venv --python 3.12", "uv venv -p python3.12.4 /x"])
def test_python_of_uv(command: str) -> None:
    found = Installed()
    read_commands([(1, command)], "Dockerfile", found)
    assert [one.specifier for one in found.pythons] == ["==3.12.*"]
