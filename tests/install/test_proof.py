"""What the doctor's report on a new environment means: works, works as far as can be told here, or does not."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from tests.healthy import MATRIX, healthy, known, sonames
from tests.tables import each
from tfgpu_doctor.facts.facts import DamagedPackage, Facts, Known, Unknown
from tfgpu_doctor.install import proof
from tfgpu_doctor.install.proof import bare, judged, prove
from tfgpu_doctor.plan.diagnosis import make_report
from tfgpu_doctor.probes.examine import Examination

RELEASE = MATRIX.tensorflow("2.21.0", "linux_x86_64")


def changed(**tensorflow: object) -> Facts:
    facts = healthy()
    return msgspec.structs.replace(facts, tensorflow=msgspec.structs.replace(facts.tensorflow, **tensorflow))


def of_machine(**changes: object) -> Facts:
    return msgspec.structs.replace(healthy(), **changes)  # type: ignore[arg-type]


def without_gpu() -> Facts:
    facts = changed(devices=known(()), checks=known(()))
    host = msgspec.structs.replace(facts.host, pci_gpus=known((), "/sys/bus/pci/devices"))
    return msgspec.structs.replace(facts, host=host, gpus=known(()))


def with_lost_cudnn() -> Facts:
    lost = tuple(
        msgspec.structs.replace(one, winner=None, candidates=()) if one.component == "cudnn" else one
        for one in sonames()
    )
    facts = without_gpu()
    return msgspec.structs.replace(facts, loader=msgspec.structs.replace(facts.loader, sonames=known(lost)))


def with_damaged_keras() -> Facts:
    damaged = DamagedPackage(name="keras", version="3.10.0", record="RECORD", missing=("keras/__init__.py",), files=1)
    facts = without_gpu()
    return msgspec.structs.replace(facts, python=msgspec.structs.replace(facts.python, damaged=Known((damaged,), "")))


@each(
    ("facts", "state", "text"),
    [
        (healthy(), "ok", "verified on the GPU: "),
        (without_gpu(), "warning", "what needs a GPU was not verified"),  # an image is built
        (with_lost_cudnn(), "failed", "cudnn"),
        (with_damaged_keras(), "failed", "keras"),
        (of_machine(gpus=Unknown("NVML"), tensorflow=changed(checks=Unknown("none")).tensorflow), "warning", "unknown"),
    ],
)
def test_a_missing_gpu_is_a_warning_and_a_missing_library_a_failure(facts: Facts, state: str, text: str) -> None:
    report = make_report(facts, MATRIX, source="live", timings={}, for_any_machine=True)
    found, said = judged(report)
    assert found == state and (text in said or text == "unknown"), said


def test_another_release_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    assert RELEASE is not None
    monkeypatch.setattr(proof, "examine", lambda *_, **__: Examination(changed(version=known("2.20.0")), {}))
    step, _ = prove(Path("/x"), RELEASE, MATRIX, {})
    assert (step.state, step.text) == ("failed", "TensorFlow 2.20.0 was imported, not 2.21.0")


def test_an_interpreter_that_is_gone_is_a_failure(tmp_path: Path) -> None:
    assert RELEASE is not None
    assert prove(tmp_path, RELEASE, MATRIX, dict(os.environ))[0].state == "failed"


def test_the_variables_of_the_user_play_no_part() -> None:
    kept = {"HOME": "/home/x", "PATH": "/bin", "CUDA_VISIBLE_DEVICES": "1", "https_proxy": "http://p"}
    disturbing = dict.fromkeys(("PYTHONPATH", "LD_LIBRARY_PATH", "XLA_FLAGS", "TF_USE_LEGACY_KERAS", "CUDA_HOME"), "/x")
    assert bare({**kept, **disturbing, "PIP_TARGET": "/x"}) == kept
