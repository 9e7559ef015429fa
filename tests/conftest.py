"""Shared fixtures: an interpreter with the real TensorFlow, and a driver whose faults can be chosen."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.lab import driver_lab
from tfgpu_doctor.matrix.bundled import copy_of

if TYPE_CHECKING:
    from tests.bench.live import Shared
    from tests.corpus import Outcome
    from tfgpu_doctor.facts.report import Report

__all__ = ["driver_lab"]

SOURCE = Path(__file__).resolve().parent.parent / "compat_matrix.yaml"

# Where the environment forbids bytecode, every process that the tests start would compile the package again, and every
# worker rewrite the assertions of all files.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell starts what it puts into the background with Ctrl-C ignored, nohup with SIGHUP, and every child inherits that:
# tests that interrupt would wait for ever.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Write the copy of the matrix, once: hundreds of processes would read the YAML, which takes 70 ms longer."""
    if hasattr(session.config, "workerinput") or not SOURCE.is_file() or copy_of(SOURCE.read_bytes()).is_file():
        return
    from scripts.build_matrix import write_copy

    with contextlib.suppress(OSError):  # a source tree that cannot be written to
        write_copy()


def pytest_collection_finish() -> None:
    """Keep what is imported and collected, which lives to the end, out of every later garbage collection."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="session", autouse=True)
def temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A temporary folder for this process and all that it starts, so that what is left in it is known."""
    folder = tmp_path_factory.mktemp("temporary")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("TMPDIR", "TEMP", "TMP"):  # the last two on Windows
            patch.setenv(name, str(folder))
        patch.setattr(tempfile, "tempdir", str(folder))
        yield folder


@pytest.fixture(autouse=True)
def _nothing_left_behind(temporary_folder: Path) -> Iterator[None]:
    """Fail a test that leaves files in the temporary folder: the tool removes what it makes, however it ends."""
    before = set(os.listdir(temporary_folder))
    yield
    assert set(os.listdir(temporary_folder)) <= before


@pytest.fixture(scope="session")
def judged_texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Report]:
    """Return each text of the collected reports and of the rows of the signs, with what `tfgpu explain` finds in it."""
    from tests.corpus import daily, judge_together
    from tests.findings.row_texts import row_texts

    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "judged"
    folder.mkdir(exist_ok=True)
    return judge_together([*(case["text"] for case in daily()), *row_texts().values()], folder)


@pytest.fixture(scope="session")
def outcomes(judged_texts: dict[str, Report]) -> list[Outcome]:
    """Return the collected reports that are judged by day, each with what is found in it."""
    from tests.corpus import Outcome, daily

    return [Outcome(case, judged_texts[case["text"]]) for case in daily()]


@pytest.fixture(scope="session")
def tensorflow_python() -> str:
    """Path of an interpreter that has TensorFlow: this one, or the one that TFGPU_TEST_PYTHON names."""
    if named := os.environ.get("TFGPU_TEST_PYTHON"):
        return named
    if importlib.util.find_spec("tensorflow") is None:
        if sys.version_info >= (3, 14):
            pytest.skip("no final release of TensorFlow has a wheel for this Python (pyproject.toml)")
        pytest.fail("no TensorFlow here: python -m pip install -e '.[test]', or set TFGPU_TEST_PYTHON")
    return sys.executable


@pytest.fixture(scope="session")
def shared(tensorflow_python: str) -> Iterator[Shared]:
    """Starts workers with logical CPU devices, all in one process: importing takes longer than most that is asked."""
    from tests.bench.live import share

    with share(tensorflow_python) as shared:
        yield shared


@pytest.fixture
def one_process(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `tfgpu bench` and `tfgpu smoke` in this process measure every case in the shared one."""
    from tests.bench.live import WORKER_PROCESS

    monkeypatch.setattr(*WORKER_PROCESS, shared)
