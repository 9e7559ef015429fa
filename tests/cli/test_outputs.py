"""Where results go: formats, files, redaction, the summary of a CI job, and files that cannot be written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.bench.samples import result, run
from tests.cli.runner import tfgpu
from tests.facts.test_report import report
from tests.findings.rows_over_facts import FIRES, NO_GPU_USED
from tests.healthy import known
from tfgpu_doctor import commands
from tfgpu_doctor.bench.results import BenchResult
from tfgpu_doctor.cli.bench import _measured
from tfgpu_doctor.cli.output import NotWrittenError, Output

needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
FULL = Path("/dev/full")
WHY = "cannot write /dev/full: No space left on device"


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "report.json"
    executable = {"python.executable": known("/home/lovelace/engine/env/bin/python")}
    path.write_bytes(report({**NO_GPU_USED, **FIRES["cuda.missing"][0][1], **executable}).to_json())
    return path


def test_who_is_named_where(saved: Path) -> None:
    named = {"": True, "--format json": True, "--redact": False, "--format json --redact": False}
    named |= {"--format markdown": False, "--format markdown --no-redact": True, "--format junit": False}
    for words, is_named in (named | {"--format github": False, "--format github --no-redact": True}).items():
        done = tfgpu("doctor", "--from", str(saved), *words.split())
        assert (done.returncode, done.stderr, "lovelace" in done.stdout) == (1, "", is_named), words


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


def test_junit_follows_the_ending_and_the_threshold(saved: Path, tmp_path: Path) -> None:
    file = tmp_path / "tfgpu.xml"
    done = tfgpu("doctor", "--from", str(saved), "--output", str(file), "--fail-on", "never")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"tfgpu: wrote {file}\n")
    assert ElementTree.parse(file).getroot().attrib["failures"] == "0"
    only = tfgpu("doctor", "--from", str(saved), "--only", "cuda.*", "--format", "junit")
    assert {case.get("classname") for case in ElementTree.fromstring(only.stdout).iter("testcase")} == {
        *("tfgpu.doctor", "tfgpu.doctor.cuda")
    }


def test_github_annotates_and_appends_to_the_summary_of_the_job(saved: Path, tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("# What was there before\n", encoding="utf-8")
    environ = {"GITHUB_STEP_SUMMARY": str(summary), "PYTHONIOENCODING": "ascii"}
    done = tfgpu("doctor", "--from", str(saved), "--format", "github", environ=environ)
    assert (done.returncode, done.stderr) == (1, "")
    first, *_, last = done.stdout.splitlines()
    assert first.startswith("::error title=") and "(cuda.missing)::" in first
    assert last == "tfgpu doctor: broken: TensorFlow cannot use the GPU (1 problem)"
    page = summary.read_text(encoding="utf-8")
    assert page.startswith("# What was there before\n**✗ broken**")
    assert "lovelace" not in page


def test_a_summary_that_cannot_be_written(saved: Path, tmp_path: Path) -> None:
    full, command = tmp_path / "summary.md", ("doctor", "--from", str(saved), "--format", "github")
    full.write_bytes(b"x" * (1024 * 1024 - 100))
    for path, says in (("", ""), (tmp_path / "missing" / "summary.md", "cannot write the summary"), (full, "is full")):
        done = tfgpu(*command, environ={"GITHUB_STEP_SUMMARY": str(path)})
        assert (done.returncode, done.stdout[:8], says in done.stderr, bool(done.stderr)) == (
            *(1, "::error ", True, bool(says)),
        )
    assert full.stat().st_size == 1024 * 1024 - 100


@needs_full
def test_it_is_printed_instead(saved: Path) -> None:
    times = re.compile(r"\d\d:\d\d:\d\d")
    for form in ("json", "text", "junit"):
        printed = tfgpu("doctor", "--from", str(saved), "--format", form)
        done = tfgpu("doctor", "--from", str(saved), "--format", form, "--output", str(FULL))
        assert (done.returncode, times.sub("", done.stdout)) == (3, times.sub("", printed.stdout))
        assert done.stderr == f"Error: {WHY}; the result was printed instead\n"


@needs_full
def test_other_targets_get_it(saved: Path, tmp_path: Path) -> None:
    good = tmp_path / "good.json"
    done = tfgpu(
        *("doctor", "--from", str(saved), "--format", "html,text,json"),
        *("--output", str(FULL), "--output", "-", "--output", str(good)),
    )
    assert done.returncode == 3
    assert done.stdout == tfgpu("doctor", "--from", str(saved)).stdout  # and not two results on one stream
    assert json.loads(good.read_text())["schema"] == "tfgpu.report/1"
    assert done.stderr.endswith(f"Error: {WHY}\n")


@needs_full
def test_a_measurement_goes_on(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_workload: str, save: Callable[[BenchResult], None], **_more: Any) -> None:
        for _ in range(3):
            save(result(run("CPU")))
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "bench", interrupted)
    with pytest.raises((KeyboardInterrupt, NotWrittenError)):
        _measured("matpow", {}, [Output("json", FULL), Output("text", None)], {"detail": "normal"})
    shown = capsys.readouterr()
    assert shown.err.count(f"tfgpu: {WHY}; the measurement goes on\n") == 1
    assert "matpow" in shown.out and "has what was measured so far" not in shown.err
