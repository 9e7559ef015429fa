"""Every command that the doctor advises first is executed as printed, and must repair the environment."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.lab import Lab
from tests.loop import faults
from tests.loop.environments import CannotBeMadeError, Fault, Machine, Row
from tests.loop.following import follow
from tests.loop.made_up import WORKS, make_index
from tests.probes.elf_lab import Forge
from tests.tables import read_rows
from tests.tiers import usual

TABLE = read_rows(Path(__file__).with_name("rows.yaml"))
ROOM = 12 * 2**30  # bytes: an environment with TensorFlow and CUDA, a second one, and what is downloaded


def fault_of(named: dict[str, Any]) -> Fault:
    """Return a fault by its name and arguments ({put_over: [numpy==2.0.2]}); without arguments, the function itself."""
    options = {
        name: tuple(value) if isinstance(value, list) else value for name, value in named.pop("with", {}).items()
    }
    ((name, arguments),) = named.items()
    fault: Any = getattr(faults, name)
    return fault(*arguments, **options) if arguments else fault  # type: ignore[no-any-return]


def row_of(row: dict[str, Any]) -> Row:
    return Row(**row | {"packages": tuple(row["packages"]), "broken": tuple(map(fault_of, row.get("broken", ())))})


ROWS = tuple(map(row_of, (*TABLE["REVIEWED"], *TABLE["NEW"])))
OF_MADE_UP = {"packages": ["tensorflow[and-cuda]==2.20.0"], "check": WORKS}
OF_MADE_UP["python"] = f"{sys.version_info[0]}.{sys.version_info[1]}"
MADE_UP = tuple(row_of({"fault": row["name"], **OF_MADE_UP, **row}) for row in TABLE["MADE_UP"])


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


DAILY = ("no CUDA", "cuDNN 8", "no keras and no wrapt", "tensorflow-cpu on top", "tensorflow.py here", "hidden GPU")


@pytest.mark.parametrize("row", usual(MADE_UP, lambda row: row.name in DAILY), ids=lambda row: row.name)
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
