"""XLA's files: a version that cannot be read is no reason to warn, and the advice is for the release at hand."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.healthy import MATRIX, healthy, known, spoil
from tests.tables import each
from tfgpu_doctor.findings import xla
from tfgpu_doctor.plan.diagnosis import diagnose
from tfgpu_doctor.records.facts import ComputeCheck
from tfgpu_doctor.records.report import Severity


@each(("version", "severity"), [("2.10.1", None), ("2.11.0", Severity.WARNING), ("a fork's own", None), ("", None)])
def test_only_a_release_that_is_known_to_need_it_is_warned_about(version: str, severity: Severity | None) -> None:
    release = msgspec.structs.replace(
        MATRIX.releases(platform="linux_x86_64", package="tensorflow")[0], version=version
    )
    assert xla._severity(release, 1, (), "ptxas") is severity


@each(
    ("changes", "command"),
    [
        ({}, "/env/bin/python -m pip install 'nvidia-cuda-nvcc-cu12>=12.5.82"),
        ({"tensorflow.version": known("2.14.1")}, "/env/bin/python -m pip install nvidia-cuda-nvcc-cu11"),
        ({"tensorflow.version": known("2.12.1")}, "/env/bin/python -m pip install nvidia-cuda-nvcc-cu11"),
    ],
)
def test_the_compiler_of_this_release_is_advised(changes: dict[str, Any], command: str) -> None:
    failed = ComputeCheck(device="/GPU:0", kind="xla", ok=False, error="INTERNAL: libdevice not found")
    facts = spoil(healthy(), {"tensorflow.checks": known((failed,)), "cuda.libdevice": known(()), **changes})
    found = {one.id: one for one in diagnose(facts, MATRIX).findings}["xla.libdevice-missing"]
    assert found.severity is Severity.ERROR
    assert found.fixes[0].commands[0].startswith(command)
