"""Shared fixtures: an interpreter with the real TensorFlow, and a driver whose faults can be chosen."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.lab import driver_lab
from tfgpu_doctor.matrix.bundled import copy_of

__all__ = ["driver_lab"]

SOURCE = Path(__file__).resolve().parent.parent / "compat_matrix.yaml"

# A shell starts what it puts into the background with Ctrl-C ignored, and every child inherits that: tests that
# interrupt would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Write the copy of the matrix, once: hundreds of processes would read the YAML, which takes 70 ms longer."""
    if hasattr(session.config, "workerinput") or not SOURCE.is_file() or copy_of(SOURCE.read_bytes()).is_file():
        return
    from scripts.build_matrix import write_copy

    with contextlib.suppress(OSError):  # a source tree that cannot be written to
        write_copy()


@pytest.fixture(scope="session")
def tensorflow_python() -> str:
    """Path of an interpreter that has TensorFlow: this one, or the one that TFGPU_TEST_PYTHON names."""
    if named := os.environ.get("TFGPU_TEST_PYTHON"):
        return named
    if importlib.util.find_spec("tensorflow") is None:
        pytest.fail("no TensorFlow here: python -m pip install -e '.[test]', or set TFGPU_TEST_PYTHON")
    return sys.executable
