"""Real installations from the package index, verified; minutes and gigabytes each.

Opt-in: TFGPU_TEST_INDEX=1 pytest -n 0 -m full tests/install/test_real.py. TFGPU_TEST_METHODS=uv leaves pip out.
"""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from tests.tables import each
from tfgpu_doctor.facts.facts import value_or
from tfgpu_doctor.facts.report import load_report
from tfgpu_doctor.install.making import REPORT

pytestmark = [
    pytest.mark.full,
    pytest.mark.index,
    pytest.mark.skipif(not os.environ.get("TFGPU_TEST_INDEX"), reason="opt-in: TFGPU_TEST_INDEX=1"),
]
METHODS = os.environ.get("TFGPU_TEST_METHODS", "uv pip").split()

# GPU, driver, Python, TensorFlow that is asked for, and what is installed
SITUATIONS = [
    ("A100", "570", "3.9", "2.13", "2.13.1"),
    ("RTX 4090", "570", "3.12", "2.16", "2.16.2"),
    ("RTX 4090", "570", "3.11", "2.17.1", "2.17.1"),
    ("RTX 4090", "570", "3.11", "2.20.0", "2.20.0"),
    ("RTX 4090", "570", "3.13", "2.21.0", "2.21.0"),
]


@each(("method", "situation"), product(METHODS, SITUATIONS))
def test_it_is_made_and_verified(tmp_path: Path, method: str, situation: tuple[str, ...]) -> None:
    gpu, driver, python, asked, got = situation
    machine = ("--gpu", gpu, "--driver", driver, "--python", python, "--tensorflow", asked)
    argv = [sys.executable, "-m", "tfgpu_doctor", "install", str(tmp_path / "env"), "--yes", "--method", method]
    done = subprocess.run([*argv, *machine], capture_output=True, text=True, timeout=3600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    facts = load_report((tmp_path / "env" / REPORT).read_bytes(), "it").facts
    assert value_or(facts.tensorflow.version, "") == got and value_or(facts.python.version, "").startswith(python)
