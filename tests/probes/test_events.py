"""The lines that come from the process under test, and the facts that they become."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tfgpu_doctor.probes import transcript as facts_of
from tfgpu_doctor.probes.tensorflow_probe import PHASES
from tfgpu_doctor.probes.transcript import Ending, Transcript
from tfgpu_doctor.records.facts import Known, Unknown

INTERPRETER = {
    "executable": "/usr/bin/python3",
    "version": "3.11.7",
    "implementation": "cpython",
    "bits": 64,
    "prefix": "/usr",
    "environment": "system",
    "externally_managed": False,
    "user_site": None,
    "wheel_platform": "linux_x86_64",
    "address_space": [-1, -1],
    "sys_path": ["/home/ada", "/usr/lib/python3.11"],
}
PACKAGE = {"name": "tensorflow", "version": "2.15.1", "location": "/usr", "installer": "pip", "requires": ["numpy"]}
PACKAGES = {"packages": [PACKAGE], "pip": True, "tensorflow_paths": ["/usr/tensorflow"]}
BUILD = {"is_cuda_build": True, "is_rocm_build": False, "cuda_version": "12.2", "compute_capabilities": ["sm_80"]}
GPU = {"name": "/GPU:0", "kind": "GPU", "device_name": "H100", "compute_capability": "9.0"}
CHECK = {"device": "/GPU:0", "kind": "matmul"}


def event(kind: str, phase: str, **fields: Any) -> dict[str, Any]:
    return {"tfgpu": "patient/1", "event": kind, "phase": phase, **fields}


def through(phase: str, data: dict[str, Any]) -> list[dict[str, Any]]:
    return [event("start", phase), event("end", phase, outcome="ok", seconds=0.5, data=data)]


RUN = [
    *through("interpreter", INTERPRETER),
    *through("packages", PACKAGES),
    *through("import", {"version": "2.15.1", "file": "/usr/tensorflow/__init__.py", "problem": None}),
    event("loaded", "import", data={"libraries": ["/usr/lib/libcuda.so.1"]}),
    *through("keras", {}),
    *through("build", {"build": BUILD, "source": "tf.sysconfig.get_build_info()"}),
    *through("devices", {"devices": [GPU]}),
    *through("details", {"devices": [GPU]}),
    event("start", "compute"),
    event("checking", "compute", data=CHECK),
    event("check", "compute", data={**CHECK, "ok": True, "residual": 1e-7, "seconds": 0.1}),
    event("end", "compute", outcome="ok", seconds=0.5, data={}),
    event("start", "xla"),
    event("end", "xla", outcome="raised", exception="RuntimeError: no", traceback=["line 1"]),
    event("cudnn", "xla", data={"version": 8907, "library": "/usr/lib/libcudnn.so.8"}),
]


def told(lines: list[str]) -> Transcript:
    transcript = Transcript("python")
    for line in lines:
        transcript.add(line)
    return transcript


def facts(transcript: Transcript) -> tuple[Any, ...]:
    """All that is made of a transcript."""
    ending = Ending("ended", 0)
    python = facts_of.python(transcript, ending, ())
    tensorflow = facts_of.tensorflow(transcript, ending, python)
    loaded, cudnn = facts_of.loaded(transcript, ending), facts_of.cudnn_runtime(transcript, ending)
    return python, tensorflow, loaded, cudnn


def test_a_whole_run() -> None:
    transcript = told([json.dumps(one) for one in RUN])
    assert list(transcript.ends) == list(PHASES)
    python, tensorflow, loaded, cudnn = facts(transcript)
    assert not any(isinstance(one, Unknown) for one in (*msgspec.structs.astuple(tensorflow), loaded, cudnn))
    assert isinstance(python.packages, Known) and len(tensorflow.checks.value) == 1


def test_lines_of_others_are_no_events(subtests: pytest.Subtests) -> None:
    for line in ("", "{", "[]", "nan", '{"event": "start"}', '{"tfgpu": "patient/2"}', "[" * 200_000, "{" * 200_000):
        with subtests.test(line=line[:30]):
            assert Transcript("python").add(line) is None
