"""The lines that come from the process under test: whatever they say, they are events in order, or they are dropped."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any, get_args

import msgspec
import pytest

from tfgpu_doctor.probes import transcript as facts_of
from tfgpu_doctor.probes.tensorflow_probe import PHASES
from tfgpu_doctor.probes.transcript import ANSWERS, MOST_CHECKS, End, Ending, PhaseName, Start, Transcript, parse_event
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
    "platform": "linux",
    "machine": "x86_64",
    "sys_path": ["/home/ada", "/usr/lib/python3.11"],
}
PACKAGE = {"name": "tensorflow", "version": "2.15.1", "location": "/usr", "installer": "pip", "requires": ["numpy"]}
PACKAGES = {"packages": [PACKAGE], "pip": True, "tensorflow_paths": ["/usr/tensorflow"], "leftovers": []}
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
        found = parse_event(line)
        if found is not None:
            transcript.add(found)
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
    assert get_args(PhaseName) == PHASES == tuple(ANSWERS)


ODD: tuple[Any, ...] = (None, True, -1, 1e308, 2**70, "x", "\ud800", [], {}, [[]], {"x": [None]}, "import")


def variants(value: Any) -> Iterator[Any]:
    """The value with each leaf and each branch in turn left out, or exchanged for something odd."""
    yield from (copy.deepcopy(odd) for odd in ODD)
    if isinstance(value, dict):
        for key, inner in value.items():
            yield {name: one for name, one in value.items() if name != key}
            yield from ({**value, key: other} for other in variants(inner))
    elif isinstance(value, list):
        yield from ([*value[:at], other, *value[at + 1 :]] for at in range(len(value)) for other in variants(value[at]))


def test_a_malformed_event_never_raises(subtests: pytest.Subtests) -> None:
    for place in range(len(RUN)):
        with subtests.test(place=place):
            lines = [json.dumps(one) for one in RUN]
            outcomes = set()
            for variant in variants(RUN[place]):
                transcript = told([*lines[:place], json.dumps(variant), *lines[place + 1 :]])
                facts(transcript)
                outcomes.add(parse_event(json.dumps(variant)) is None)
            assert True in outcomes


def test_lines_that_are_no_events(subtests: pytest.Subtests) -> None:
    for line in [
        *("", "{", "[]", "nan", '{"event": "start"}', '{"tfgpu": "patient/2"}', "\ud800", "[" * 200_000),
        json.dumps(RUN[5])[:-2] + ', "x": ' + "[" * 200_000,
        *(json.dumps(one) for one in (event("loaded", "import", data={}), event("check", "compute", data={"x": 1}))),
    ]:
        with subtests.test(line=line):
            assert parse_event(line) is None


def test_a_phase_begins_once_and_in_order() -> None:
    transcript = told([json.dumps(one) for one in RUN[:6]])  # the import has ended
    for phase in PHASES:
        found = parse_event(json.dumps(event("start", phase)))
        assert isinstance(found, Start)
        assert transcript.add(found) == (phase == "keras"), phase
    assert transcript.running == "keras"
    late = parse_event(json.dumps(RUN[5]))
    assert isinstance(late, End) and not transcript.add(late)  # that one has ended
    assert transcript.ends["import"].data.version == "2.15.1"


def test_checks_are_bounded_and_belong_to_what_was_begun() -> None:
    transcript = told([json.dumps(one) for one in RUN[:16]])
    assert transcript.running == "compute"
    begin, end = RUN[16:18]
    other = {**end, "data": {**end["data"], "device": "/GPU:7"}}
    for one in [end, *[begin, other, end] * (MOST_CHECKS + 10)]:
        found = parse_event(json.dumps(one))
        assert found is not None
        transcript.add(found)
    assert len(transcript.checks) == MOST_CHECKS
    assert {check.device for check in transcript.checks} == {"/GPU:0"}


def test_wheel_platform(subtests: pytest.Subtests) -> None:
    for about, name in [
        ({"platform": "linux", "machine": "x86_64", "bits": 64}, "linux_x86_64"),
        ({"platform": "linux", "machine": "aarch64", "bits": 64}, "linux_aarch64"),
        ({"platform": "linux", "machine": "x86_64", "bits": 32}, "linux_i686"),
        ({"platform": "win32", "machine": "AMD64", "bits": 64}, "windows_amd64"),
        ({"platform": "darwin", "machine": "arm64", "bits": 64}, "macos_arm64"),
    ]:
        with subtests.test(about=about):
            transcript = told([json.dumps(one) for one in through("interpreter", {**INTERPRETER, **about})])
            assert known(facts_of.python(transcript, None, ()).wheel_platform) == name


def test_conda_name(subtests: pytest.Subtests) -> None:
    for prefix, name in [("/opt/conda/envs/tf", "tf"), ("/opt/conda", "base"), ("/home/me/miniconda3", "base")]:
        with subtests.test(prefix=prefix):
            data = {**INTERPRETER, "prefix": prefix, "environment": "conda"}
            transcript = told([json.dumps(one) for one in through("interpreter", data)])
            assert known(facts_of.python(transcript, None, ()).conda_name) == name


def known(fact: Known[str] | Unknown) -> str:
    assert isinstance(fact, Known), fact
    return fact.value
