"""What the README promises holds: its commands are the ones that CI runs, its tables name what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tfgpu_doctor.cli import COMMANDS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8") if (ROOT / "README.md").is_file() else ""


def commands() -> list[str]:
    """The two set-up commands, one line each."""
    return [line.strip() for line in README.splitlines() if line.startswith("    (python3 -m venv")]


def test_two_set_up_commands() -> None:
    assert len(commands()) == 2
    assert commands()[0].endswith(".venv/bin/tfgpu doctor")
    assert commands()[1].endswith(".venv/bin/pytest")


def test_ci_runs_exactly_the_test_command() -> None:
    script = ROOT / ".ci" / "run"
    if not script.is_file():
        pytest.skip("no .ci in this copy of the sources")
    assert commands()[1] in script.read_text(encoding="utf-8").splitlines()


def test_every_command_stands_in_the_table() -> None:
    for name in COMMANDS:
        assert re.search(rf"^\| `tfgpu {name}", README, re.MULTILINE), name


def test_every_exit_code_stands_in_the_table() -> None:
    for code in ("0", "1", "2", "3", "130"):
        assert re.search(rf"^\| {code} \|", README, re.MULTILINE), code
