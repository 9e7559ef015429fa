"""Wrong usage of every command: exit code 2, one sentence that says what is wrong, nothing on standard output."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.bench.samples import result, run
from tests.cli.runner import tfgpu
from tests.facts.test_report import report
from tfgpu_doctor.cli.options import SUCCESSORS

BENCH = result(run()).to_json()
GOOD = report().to_json()
FILES: dict[str, bytes] = {
    "report.json": GOOD,
    "base.json": BENCH,
    "newer.json": BENCH.replace(b"tfgpu.bench/1", b"tfgpu.bench/2"),
    "unknown.json": json.dumps(json.loads(BENCH) | {"runs": 1}).encode(),
    "null.json": BENCH.replace(b'"median_s": 5.0', b'"samples_s": [null]'),
    "plan.json": b'{"schema": "tfgpu.plan/1"}',
    "empty": b"",
    "blank": b" \n\n\t\n",
    "bytes.txt": b"caf\xe9",
    "notes.md": b"hello",
    "pyproject.toml": b"[project",
    "compose.yaml": b"services: [",
    "requirements.txt": b"a\n" * 3_000_000,
    "cut-off": GOOD[: len(GOOD) // 2],
    "no-json": b"Fri Nov 21 10:00:00 2026  +----+",
    "not-utf8": b'{"schema": "\xff\xfe caf\xe9"}',
    "utf16": b"\xff\xfe" + GOOD.decode()[:200].encode("utf-16-le"),
    "a-list": b"[1, 2]",
    "a-number-for-a-schema": b'{"schema": 1}',
    "newer": b'{"schema": "tfgpu.report/2"}',
    "nonsense-version": b'{"schema": "tfgpu.report/new"}',
    "foreign": b'{"schema": "http://json-schema.org/x"}',
    "nested": b'{"schema": "tfgpu.report/1", "x": ' + b"[" * 100_000,
    "no-facts": b'{"schema": "tfgpu.report/1"}',
    "two-reports": GOOD + GOOD,
}
# command line, a part of the message
ROWS = [json.loads(row) for row in Path(__file__).with_name("wrong_usage.jsonl").read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wrong")
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    return folder


def test_wrong_usage_is_a_sentence(folder: Path, subtests: pytest.Subtests) -> None:
    for words, message in ROWS:
        with subtests.test(words=words):
            done = tfgpu(*shlex.split(words), cwd=folder)
            assert (done.returncode, done.stdout) == (2, "")
            assert message in " ".join(done.stderr.split())
            assert "Traceback" not in done.stderr and "\x1b" not in done.stderr and len(done.stderr) < 1500


def test_what_is_gone_names_its_successor() -> None:
    told = {message for _, message in ROWS if " was removed: " in message}
    assert told == {f"{name} was removed: {instead}." for name, instead in SUCCESSORS.items()}
