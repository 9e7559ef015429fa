"""Every command that the doctor advises first is executed as printed, and must repair the environment."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.lab import Lab
from tests.loop.environments import CannotBeMadeError, Row
from tests.loop.following import follow
from tests.loop.machine import Machine
from tests.loop.made_up import make_index
from tests.loop.rows import MADE_UP, ROWS
from tests.probes.elf_lab import Forge

ROOM = 12 * 2**30  # bytes: an environment with TensorFlow and CUDA, a second one, and what is downloaded


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory, driver_lab: Lab) -> Machine:
    driver_lab.cuda()
    return Machine(tmp_path_factory.mktemp("machine"), driver_lab.libraries)


@pytest.fixture(scope="session")
def made_up_index(tmp_path_factory: pytest.TempPathFactory, driver_lab: Lab) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("index")
    return make_index(folder, driver_lab, Forge(tmp_path_factory.mktemp("forge")))


def is_cured(row: Row, folder: Path, machine: Machine, index: dict[str, str]) -> None:
    try:
        outcome = follow(row, folder, machine, index)
    except CannotBeMadeError as error:
        pytest.skip(str(error))
    assert outcome.as_expected(row), outcome


@pytest.mark.parametrize("row", MADE_UP, ids=lambda row: row.name)
def test_made_up(row: Row, tmp_path: Path, machine: Machine, made_up_index: dict[str, str]) -> None:
    if machine.has_own_cudnn:
        pytest.skip("this machine has a cuDNN, and no unshare to hide it with")
    is_cured(row, tmp_path, machine, made_up_index)


@pytest.mark.full  # gigabytes from the package index; twenty minutes for all rows, -k real-a17 for one
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"real-{row.name}")
def test_real(row: Row, tmp_path: Path, machine: Machine) -> None:
    if shutil.disk_usage(tmp_path).free < ROOM:
        pytest.skip(f"needs {ROOM // 2**30} GiB of disk")
    try:
        is_cured(row, tmp_path, machine, {})
    finally:
        shutil.rmtree(tmp_path, ignore_errors=True)


def test_rows_have_names_of_their_own() -> None:
    for rows in (ROWS, MADE_UP):
        names = [row.name for row in rows]
        assert sorted(set(names)) == sorted(names)
    assert len(ROWS) >= 40
