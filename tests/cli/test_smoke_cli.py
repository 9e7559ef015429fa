"""`tfgpu smoke` as a CI job starts it: real processes, nothing left running, the exit codes agreed on."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.runner import process
from tests.fault_bench import left_behind
from tests.tiers import usual

ROOT = Path(__file__).parents[2]
PATIENTS = ROOT / "tests" / "patients"


def smoke(*arguments: str, code: int, budget: float = 60.0, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run it: with this exit code, and without leaving a process behind."""
    marker = f"tfgpu-smoke-{os.getpid()}-{time.monotonic_ns()}"
    done = process("smoke", "--budget", str(budget), *arguments, environ={**environ, "TFGPU_MARKER": marker})
    assert left_behind(marker) == []
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


PATIENTS_AND_WHY = {
    "import_error": "ImportError",
    "dies_of_a_signal": "killed by SIGSEGV",
    "exits": "ended",
    "sleeps": "importing TensorFlow takes more than ",
    "ignores_sigterm": "importing TensorFlow takes more than ",
}
SLOW = ("sleeps", "ignores_sigterm")  # in so small a budget, nobody can tell a hang from a slow disk


@pytest.mark.parametrize("patient", usual(PATIENTS_AND_WHY, lambda name: name in ("dies_of_a_signal", "sleeps")))
def test_a_tensorflow_that_cannot_be_imported(patient: str) -> None:
    path = os.pathsep.join([str(PATIENTS / patient), str(ROOT)])
    more = {"PYTHONPATH": path, "PATIENT_SIGNAL": "SIGSEGV"}
    done = smoke("--format", "json", code=1, budget=6.0, **more)
    found = {one["name"]: one for one in json.loads(done.stdout)["checks"]}
    assert found["doctor"]["status"] == "failed"  # the package of the patient shadows the installed one
    assert found["import"]["status"] == ("not run" if patient in SLOW else "failed")
    assert PATIENTS_AND_WHY[patient] in found["import"]["why"]
    assert found["matpow"]["status"] == "not run"


@pytest.mark.full  # without a real TensorFlow: tests/smoke, tests/systems/test_commands.py
@pytest.mark.tensorflow
def test_a_machine_without_a_gpu_fails_when_one_is_required(tensorflow_python: str, tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    arguments = ("--python", tensorflow_python, "--format", "github")
    done = smoke(*arguments, code=1, CUDA_VISIBLE_DEVICES="-1", GITHUB_STEP_SUMMARY=str(summary))
    assert "::error title=tfgpu smoke%3A GPUs%3A failed::" in done.stdout
    assert summary.read_text(encoding="utf-8").startswith("**✗ tfgpu smoke failed")
