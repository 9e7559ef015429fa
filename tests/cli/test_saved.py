"""Saved reports that cannot be read: each gets one sentence and exit code 2, whatever it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.runner import tfgpu
from tests.records.test_report import report
from tfgpu_doctor.records.report import SCHEMA

GOOD = report().to_json()
BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is not a saved report: it is empty"),
    "blank": (b" \n\t", "is not a saved report: it is empty"),
    "cut-off": (GOOD[: len(GOOD) // 2], "is not a saved report: it is cut off"),
    "one-byte-short": (GOOD.rstrip()[:-1], "is not a saved report: it is cut off"),
    "no-json": (b"Fri Nov 21 10:00:00 2026  +----+", "is not a saved report: JSON is malformed"),
    "not-utf8": (b'{"schema": "\xff\xfe caf\xe9"}', "is not a saved report: it is not UTF-8"),
    "utf16": (
        b"\xff\xfe" + GOOD.decode()[:200].encode("utf-16-le"),
        "it is UTF-16, as PowerShell's > writes it",
    ),
    "a-list": (b"[1, 2]", "it is JSON of something else"),
    "an-object": (b'{"facts": {}}', "it is JSON of something else"),
    "a-number-for-a-schema": (b'{"schema": 1}', "it is JSON of something else"),
    "newer": (b'{"schema": "tfgpu.report/2"}', "that is newer: update tfgpu"),
    "nonsense-version": (b'{"schema": "tfgpu.report/new"}', "has schema 'tfgpu.report/new'"),
    "bench": (b'{"schema": "tfgpu.bench/1"}', "is a bench result; tfgpu doctor --from reads a doctor report"),
    "plan": (b'{"schema": "tfgpu.plan/1"}', "is a plan"),
    "comparison": (b'{"schema": "tfgpu.compare/1"}', "is a comparison"),
    "foreign": (b'{"schema": "http://json-schema.org/x"}', "is JSON of schema 'http://json-schema.org/x'"),
    "nested-schema": (b'{"schema": ' + b"[" * 100_000, "is not a saved report"),
    "nested": (
        b'{"schema": "tfgpu.report/1", "x": ' + b"[" * 100_000,
        "is not a saved report: it is nested too deeply",
    ),
    "no-facts": (f'{{"schema": "{SCHEMA}"}}'.encode(), "is not a valid report"),
    "two-reports": (GOOD + GOOD, "is not a saved report"),
}


def test_one_sentence_for_each(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name in BAD:
        with subtests.test(name=name):
            data, message = BAD[name]
            (tmp_path / "r.json").write_bytes(data)
            done = tfgpu("doctor", "--from", "r.json", cwd=tmp_path)
            assert (done.returncode, done.stdout) == (2, "")
            assert message in " ".join(done.stderr.split())
            assert "Traceback" not in done.stderr and "defect" not in done.stderr
            assert len(done.stderr) < 600


def test_standard_input_with_and_without_a_byte_order_mark(subtests: pytest.Subtests) -> None:
    for before in (
        b"",
        b"\xef\xbb\xbf",
    ):
        with subtests.test(before=before):
            done = subprocess.run(
                [sys.executable, "-m", "tfgpu_doctor", "doctor", "--from", "-", "--format", "json"],
                input=before + GOOD,
                capture_output=True,
                timeout=60,
                check=False,
            )
            assert (done.returncode, done.stderr) == (0, b"")
