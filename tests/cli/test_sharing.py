"""Reports made for others: --redact and --format markdown from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.runner import tfgpu
from tests.findings.rows_over_facts import FIRES, NO_GPU_USED
from tests.healthy import known
from tests.records.test_report import report


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "report.json"
    executable = {"python.executable": known("/home/lovelace/engine/env/bin/python")}
    path.write_bytes(report({**NO_GPU_USED, **FIRES["cuda.missing"][0][1], **executable}).to_json())
    return path


def test_who_is_named_where(saved: Path, subtests: pytest.Subtests) -> None:
    for arguments, named in (
        ((), True),
        (("--format", "json"), True),
        (("--format", "markdown"), False),
        (("--redact",), False),
        (("--format", "json", "--redact"), False),
        (("--format", "markdown", "--no-redact"), True),
    ):
        with subtests.test(arguments=arguments, named=named):
            done = tfgpu("doctor", "--from", str(saved), *arguments)
            assert (done.returncode, done.stderr) == (1, "")
            assert ("lovelace" in done.stdout) is named
            assert ("user>" in done.stdout or "user&gt;" in done.stdout) is not named


def test_markdown_follows_the_ending_and_json_keeps_the_names(saved: Path, tmp_path: Path) -> None:
    page, again = tmp_path / "issue.md", tmp_path / "again.json"
    done = tfgpu("doctor", "--from", str(saved), "--output", str(page), "--output", str(again))
    assert (done.returncode, done.stdout) == (1, "")
    assert page.read_text(encoding="utf-8").startswith("**✗ broken**")
    assert "lovelace" not in page.read_text(encoding="utf-8")
    assert json.loads(again.read_text())["facts"]["python"]["executable"]["value"].startswith("/home/lovelace/")


def test_a_redacted_report_is_diagnosed_alike(saved: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared.json"
    tfgpu("doctor", "--from", str(saved), "--redact", "--output", str(shared))
    done = tfgpu("doctor", "--from", str(shared), "--format", "json")
    ids = [[finding["id"] for finding in json.loads(text)["findings"]] for text in (done.stdout, saved.read_text())]
    assert ids[0] == ids[1]


def test_markdown_is_utf8_on_any_terminal(saved: Path) -> None:
    done = tfgpu("doctor", "--from", str(saved), "--format", "markdown", environ={"PYTHONIOENCODING": "ascii"})
    assert done.stdout.startswith("**✗ broken**")
