"""Saved reports that cannot be read: each gets one sentence and exit code 2, whatever it is."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import click
import pytest

from tests.cli.runner import tfgpu
from tests.records.test_report import report
from tfgpu_doctor.cli import saved
from tfgpu_doctor.records.report import SCHEMA, load_report

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
    "nested": (b'{"schema": ' + b"[" * 100_000, "is not a saved report"),
    "no-facts": (f'{{"schema": "{SCHEMA}"}}'.encode(), "is not a valid report"),
    "two-reports": (GOOD + GOOD, "is not a saved report"),
}


@pytest.mark.parametrize("name", BAD)
def test_one_sentence_for_each(name: str, tmp_path: Path) -> None:
    data, message = BAD[name]
    (tmp_path / "r.json").write_bytes(data)
    done = tfgpu("doctor", "--from", "r.json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr and "defect" not in done.stderr
    assert len(done.stderr) < 600


def test_what_is_no_file() -> None:
    for path, message in ((".", "Is a directory"), ("no\0where", "null"), ("x" * 5000, "name too long")):
        with pytest.raises(click.UsageError, match=rf"(?i)cannot read .*{message}"):
            saved.load(path)


def test_larger_than_any_report(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    with path.open("wb") as stream:
        stream.truncate(100 * 2**20)
    done = tfgpu("doctor", "--from", str(path))
    assert done.returncode == 2
    assert "is larger than 64 MiB; it is not a tfgpu report" in " ".join(done.stderr.split())


def test_a_device_without_an_end() -> None:
    with pytest.raises(click.UsageError, match="larger than 64 MiB"):
        saved.load("/dev/zero")


def test_a_pipe_that_nobody_writes_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    monkeypatch.setattr(saved, "PIPE_TIMEOUT", 0.1)
    with pytest.raises(click.UsageError, match="no data on this pipe"):
        saved.load(str(path))


def test_a_pipe_that_is_closed_at_once(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.open("wb").close())
    writer.start()
    with pytest.raises(click.UsageError, match="it is empty"):
        saved.load(str(path))
    writer.join(timeout=10)


def test_a_pipe_with_a_report(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_bytes(GOOD))
    writer.start()
    assert saved.load(str(path)) == load_report(GOOD, "r")
    writer.join(timeout=10)


@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf"])
def test_standard_input_with_and_without_a_byte_order_mark(before: bytes) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tfgpu_doctor", "doctor", "--from", "-", "--format", "json"],
        input=before + GOOD,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_standard_input_that_is_closed() -> None:
    command = f"{sys.executable} -m tfgpu_doctor doctor --from - <&-"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr and "cannot read standard input" in done.stderr
