"""Several GPUs in one process, for real: TensorFlow over the fault lab's cards, which multiply matrices on the host.

The stand-in for cuDNN cannot convolve, so matrix powers are all that is computed, of a size that C loops manage.
"""

from __future__ import annotations

import time
from typing import Any

import psutil
import pytest

from tests.healthy import MATRIX
from tests.lab import Lab
from tests.smoke.smoking import CREATED, Machine
from tests.smoke.test_smoke_running import check
from tfgpu_doctor.bench.runner.process import WorkerProcess
from tfgpu_doctor.smoke import running
from tfgpu_doctor.smoke.records import Smoke
from tfgpu_doctor.smoke.running import SmokeOptions, Smoking

pytestmark = pytest.mark.tensorflow


def smoke(
    gpus: int,
    python: str,
    lab: Lab,
    monkeypatch: pytest.MonkeyPatch,
    *,
    size: int = 64,
    budget: float = 120.0,
    **answers: Any,
) -> Smoke:
    """On a machine with so many cards, of which the doctor has nothing but good to say."""
    monkeypatch.setattr(running, "GPU_SIZE", size)
    monkeypatch.setattr(running, "FIRST", {"matpow": 2.0})
    environ = lab.environ(cuda=True, cuinit=0, gpus=gpus, name="NVIDIA H200", cc="9.0", **answers)
    doctor = Machine(gpus).doctor
    return Smoking(
        SmokeOptions(budget=budget, require_gpus=gpus),
        lambda seconds: doctor(seconds),
        lambda: WorkerProcess(python, environ),
        MATRIX,
        clock=time.monotonic,
    ).run(CREATED)


@pytest.mark.full
def test_each_card_and_all_of_them_in_one_process(
    tensorflow_python: str, driver_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = smoke(3, tensorflow_python, driver_lab, monkeypatch)
    assert found.verdict == "ok", [(one.on, one.why) for one in found.checks]
    placed = {one.run.label: one.run.placed_on for one in found.runs}
    assert {label: sorted(set(where)) for label, where in placed.items()} == {
        "GPU 0": ["/GPU:0"],
        "GPU 1": ["/GPU:1"],
        "GPU 2": ["/GPU:2"],
        "3 GPUs": ["/GPU:0", "/GPU:1", "/GPU:2"],
    }
    assert len({one.run.cold_start_s["import"] for one in found.runs}) == 1  # imported once


@pytest.mark.full
def test_cards_that_compute_wrongly(tensorflow_python: str, driver_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    found = smoke(2, tensorflow_python, driver_lab, monkeypatch, wrong=1)
    assert found.verdict == "failed"
    bad = check(found, "matpow", "GPU 0")
    assert bad.why.startswith("the result is wrong") and bad.throughput is None


@pytest.mark.full
def test_a_card_that_does_not_answer_is_killed_within_the_budget(
    tensorflow_python: str, driver_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A product of this size takes the lab's card hours."""
    children = set(psutil.Process().children(recursive=True))
    found = smoke(1, tensorflow_python, driver_lab, monkeypatch, size=8192, budget=15.0)
    assert found.seconds <= found.budget_s
    assert (check(found, "matpow", "GPU 0").status, found.verdict) == ("unknown", "unknown")
    assert check(found, "matpow", "GPU 0").why.startswith("no answer within ")
    assert set(psutil.Process().children(recursive=True)) <= children
