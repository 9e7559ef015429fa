"""The whole way of a pasted text, with everything that must hold on it whatever the text is."""

from __future__ import annotations

import io
import json
import re
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

import tfgpu_doctor
from tests.guard import guarded
from tfgpu_doctor.diagnosis.engine import diagnose
from tfgpu_doctor.diagnosis.reports import make_report
from tfgpu_doctor.inference import text_to_facts
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.parsers.text import lines
from tfgpu_doctor.records.report import Report, exit_code, load_report
from tfgpu_doctor.redact.redaction import redact
from tfgpu_doctor.render.console import console_for
from tfgpu_doctor.render.formats import renderer
from tfgpu_doctor.render.markdown.parts import LONGEST

SCHEMA = Path(tfgpu_doctor.__file__).parent / "records" / "schemas" / "report-1.json"
SECONDS = 20.0  # of processor time for 30 kB at most; usual is a tenth of one
_FENCE = re.compile(r"^(`{3,})[a-z]*\n.*?^\1$", re.MULTILINE | re.DOTALL)
_OUR_TAGS = re.compile(r"</?(?:details|summary|sub)>|<!-- -->|<https://[^<>\s]+>")


@cache
def matrix() -> Matrix:
    """The bundled one, read once."""
    return Matrix.load()


@cache
def validator() -> Any:
    """Of the schema that is shipped."""
    return jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))


def walk(data: bytes, *, chunk: int = 1 << 20, validate: bool = True) -> Report:
    """Explain a text and hold what comes out against every promise; AssertionError says which is broken."""
    with guarded(SECONDS, repr(data[:80])), warnings.catch_warnings():
        warnings.simplefilter("error")
        excerpt = lines.read(data[start : start + chunk] for start in range(0, len(data), chunk))
        assert all(len(line.text) <= lines.LONGEST for line in excerpt.lines)
        assert not any(set(line.text) & {"\n", "\r", "\x1b", "\0"} for line in excerpt.lines)
        report = make_report(text_to_facts.read(excerpt), matrix(), source="text", timings={})
        assert exit_code(report, "error") in (0, 1, 3)
        holds(report, validate=validate)
    return report


def holds(report: Report, *, validate: bool = True) -> None:
    """What must hold for any report, whoever wrote it."""
    encoded = report.to_json()
    again = load_report(encoded, "the report")
    assert again == report, "JSON and back is the identity"
    found = diagnose(again.facts, matrix())
    assert (found.findings, found.undetermined) == (report.findings, report.undetermined), "the same findings again"
    if validate:
        error = next(iter(validator().iter_errors(json.loads(encoded))), None)
        assert error is None, error.message[:500] if error else ""
    once = redact(report)
    assert redact(once) == once, "redacting twice changes nothing"
    for one in (report, once):
        _plain_text(one)
        _plain_markdown(one)


def _plain_text(report: Report) -> None:
    out = io.StringIO()
    renderer("text", "report", {"detail": "full"})(report, console_for(out))
    shown = out.getvalue()
    assert shown.replace("\n", "").isprintable(), "no control character, no escape sequence"
    shown.encode("utf-8")


def _plain_markdown(report: Report) -> None:
    page = renderer("markdown", "report", {})(report)
    assert len(page) <= LONGEST
    assert page.replace("\n", "").isprintable(), "no control character"
    outside = _FENCE.sub("", page)
    left = re.search(r"(?<!\\)<.{0,40}", _OUR_TAGS.sub("", outside))
    assert left is None, f"no tag from outside: {left[0] if left else ''}"
