"""The repair that is printed, for texts of the same words with other facts: law 11."""

from __future__ import annotations

from typing import Any

import pytest

from tests.findings.rows_over_facts import packages, phases, release
from tests.findings.test_signs_over_messages import findings
from tests.healthy import MATRIX, gpu, healthy, known, spoil
from tfgpu_doctor.diagnosis.engine import diagnose
from tfgpu_doctor.plan.ranking import MachineState, make_plan
from tfgpu_doctor.plan.target import describe
from tfgpu_doctor.records.facts import Unknown
from tfgpu_doctor.records.report import Fix

NO_RUNTIME_VERSION = "ImportError: cannot import name 'runtime_version' from 'google.protobuf' (/e/google/__init__.py)"
DESCRIPTORS = "TypeError: Descriptors cannot be created directly."
PIP = "python3 -m pip install"

# text → the first command
FIRST = {
    # 2.20 and 2.21 alone import runtime_version; one version is within the bounds of both
    NO_RUNTIME_VERSION: f"{PIP} 'protobuf>=6.31.1,<8.0.0'",
    f"TensorFlow 2.20.0\n{NO_RUNTIME_VERSION}": f"{PIP} 'protobuf>=5.28.0'",
    "ImportError: cannot import name 'builder' from 'google.protobuf.internal'": f"{PIP} 'protobuf>=3.20.3,<3.21'",
    DESCRIPTORS: f"{PIP} 'protobuf<3.21'",
    f"TensorFlow 2.5.0\n{DESCRIPTORS}": f"{PIP} 'protobuf>=3.9.2,<3.21'",
}


def fixes(text: str) -> tuple[Fix, ...]:
    """Those of the first finding."""
    return findings(text)[0].fixes


@pytest.mark.parametrize("text", FIRST)
def test_the_first_command(text: str) -> None:
    assert fixes(text)[0].commands[0] == FIRST[text]


def test_a_release_for_the_installed_protobuf_is_one_that_takes_it() -> None:
    """2.20.0 does not: the fix for this TensorFlow is the only one."""
    assert not [fix for fix in fixes(NO_RUNTIME_VERSION) if "2.20.0" in fix.text]
    assert [fix.text for fix in fixes(DESCRIPTORS)][1].endswith("pip installs the protobuf that it needs with it")


RTX_5090 = {"gpus": known((gpu(name="NVIDIA GeForce RTX 5090", compute_capability="12.0"),))}
NO_TENSORFLOW = {
    "python.packages": packages(),
    "python.tensorflow_paths": known(()),
    "tensorflow.version": Unknown("not installed"),
}
NO_GPU = {"gpus": known(()), "host.pci_gpus": known(())}
# finding → a machine, and what its owner would paste
SAME: dict[str, tuple[dict[str, Any], str]] = {
    "tf.abi-protobuf": (
        {
            **release("2.21.0"),
            "python.packages": packages(tensorflow="2.21.0", protobuf="4.25.3"),
            "tensorflow.phases": phases("import", "raised", exception=NO_RUNTIME_VERSION),
        },
        f"TensorFlow 2.21.0, Python 3.12\n{NO_RUNTIME_VERSION}",
    ),
    "gpu.arch-too-new": (
        {**release("2.19.0"), **RTX_5090},
        "TensorFlow 2.19.0, Python 3.12, RTX 5090\nfailed with 'CUDA_ERROR_INVALID_HANDLE'",
    ),
}


@pytest.mark.parametrize("finding", SAME)
def test_doctor_and_explain_give_the_same_repair(finding: str) -> None:
    changes, text = SAME[finding]
    live = next(one for one in diagnose(spoil(healthy(), changes), MATRIX).findings if one.id == finding)
    pasted = next(one for one in findings(text) if one.id == finding)
    of_live = tuple(line.replace("/env/bin/python", "python3") for line in live.fixes[0].commands)
    assert of_live == pasted.fixes[0].commands


def test_without_a_gpu_the_doctor_advises_what_plan_does() -> None:
    found = diagnose(spoil(healthy(), {**NO_TENSORFLOW, **NO_GPU}), MATRIX).findings
    plan = make_plan(MATRIX, describe(MATRIX, python="3.12"), state=MachineState(no_gpu=True))
    (commands,) = (one.fixes[0].commands for one in found if one.id == "tf.not-installed")
    assert commands == (f"/env/bin/python -m pip install tensorflow=={plan.options[0].tensorflow}",)
