"""Shared fixtures: an interpreter with the real TensorFlow, and a driver whose faults can be chosen."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys

import pytest

from tests.lab import driver_lab

__all__ = ["driver_lab"]

# A shell starts what it puts into the background with Ctrl-C ignored, and every child inherits that: tests that
# interrupt would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def tensorflow_python() -> str:
    """Path of an interpreter that has TensorFlow: this one, or the one that TFGPU_TEST_PYTHON names."""
    if named := os.environ.get("TFGPU_TEST_PYTHON"):
        return named
    if importlib.util.find_spec("tensorflow") is None:
        pytest.fail("no TensorFlow here: python -m pip install -e '.[test]', or set TFGPU_TEST_PYTHON")
    return sys.executable
