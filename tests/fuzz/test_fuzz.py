"""What takes for ever: nesting without end, and what the checks of way.py see. Every reader by itself is tried in
test_targets.py, every expression in test_linear.py."""

from __future__ import annotations

import json
import re
from functools import cache

import pytest

from tests.fuzz import samples, way
from tests.guard import StillBusyError, guarded
from tfgpu_doctor.records.report import ReportError, load_report
from tfgpu_doctor.redact.redaction import Redactor


@cache
def deep() -> dict[str, bytes]:
    return {
        "brackets": b'{"schema": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
        "objects": b'{"schema": "tfgpu.report/1", "facts": ' + b'{"a":' * 10_000 + b"1" + b"}" * 10_001,
        "a number": b'{"schema": "tfgpu.report/1", "created": ' + b"9" * 100_000 + b"}",
        "a name": b'{"schema": "' + b"x" * 1_000_000 + b'"}',
        "an unknown field": b'{"schema": "tfgpu.report/1", "' + b"y" * 1_000_000 + b'": 1}',
        "keys twice": samples.reports()[0].replace(b'"created"', b'"created": 1, "created"', 1),
        "NaN": samples.reports()[0].replace(b'"timings": {', b'"timings": {"all": NaN, ', 1),
    }


def test_reports_out_of_all_bounds() -> None:
    for name, data in deep().items():
        with pytest.raises(ReportError) as refused:
            load_report(data, name)
        message = str(refused.value)
        assert message.startswith(f"{name} ") and len(message) < 1000 and "\n" not in message


# -------------------------------------------------------------------------------------------- what takes for ever


@pytest.mark.parametrize("text", ["_" * 4000, "-" * 4000 + "!", "cuda." * 800, "a-" * 2000, "srun: a" + "1" * 3900])
def test_redaction_takes_no_time_to_speak_of(text: str) -> None:
    with guarded(5.0, text[:80]):
        for _ in range(5):
            Redactor((text,)).text(text)


def test_the_guard_stops_an_expression() -> None:
    with (
        pytest.raises(StillBusyError, match=r"still busy after .* an example"),
        guarded(0.1, "an example"),
    ):
        re.search(r"(a+)+$", "a" * 40 + "b")


def test_the_checks_themselves_see_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    """A renderer that lets escapes and tags through is found out."""
    from tfgpu_doctor.render import streams
    from tfgpu_doctor.render.markdown import parts

    told = b"CUDA 12.4\nTensorFlow version: 2.13.0\nGPU: GeForce <script> card\nCould not find cuda drivers"
    way.walk(told)
    with monkeypatch.context() as patched:
        patched.setattr(parts, "escape", lambda text, longest=0: text)
        with pytest.raises(AssertionError, match="no tag from outside"):
            way.walk(told)
    with monkeypatch.context() as patched:
        patched.setattr(streams, "clean_lines", lambda text: text + "\x1b")
        with pytest.raises(AssertionError, match="no control character"):
            way.walk(told)
    assert json.loads(way.walk(told).to_json())["facts"]["cuda"]["toolkits"]["value"][0]["version"] == "12.4"
