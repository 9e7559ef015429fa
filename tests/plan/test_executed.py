"""The first recipe of `tfgpu plan`, executed as printed, makes an environment that works."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.lab import Lab
from tests.loop.machine import Machine, find_python, find_uv
from tests.plan.executed import ROWS, Row, execute, read

ROOM = 12 * 2**30  # bytes: an environment with CUDA, and what is downloaded
MOST_OF_THEM = 8


@pytest.mark.full
@pytest.mark.index
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_first_recipe(row: Row, driver_lab: Lab, tmp_path: Path) -> None:
    option = row.option()
    if not find_uv() or not find_python(str(option.python)) or shutil.disk_usage(tmp_path).free < ROOM:
        pytest.skip(f"needs uv, Python {option.python} and {ROOM >> 30} GiB")
    outcome = execute(row, Machine(tmp_path / "machine", driver_lab.libraries), tmp_path)
    assert outcome.ok, outcome


def test_the_results_that_are_kept_are_those_of_the_recipes_of_today() -> None:
    """A row whose recipe has changed is to be run anew: python -m tests.plan.executed NAME."""
    kept = read()
    assert len(kept) >= MOST_OF_THEM
    for row in ROWS:
        if found := kept.get(row.name):
            option = row.option()
            assert found.ok, row.name
            assert (found.option, found.commands) == (option.title, option.commands[row.manager]), row.name
