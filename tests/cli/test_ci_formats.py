"""--format junit and github from the command line: files, streams, the summary of the job, exit codes."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

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


def test_junit_on_standard_output(saved: Path, subtests: pytest.Subtests) -> None:
    for command in (
        ("doctor", "--from"),
        ("explain",),
    ):
        with subtests.test(command=command):
            done = tfgpu(*command, str(saved), "--format", "junit")
            assert (done.returncode, done.stderr) == (1, "")
            assert ElementTree.fromstring(done.stdout).attrib["failures"] == "1"


def test_junit_follows_the_ending_and_the_threshold(saved: Path, tmp_path: Path) -> None:
    file = tmp_path / "tfgpu.xml"
    done = tfgpu("doctor", "--from", str(saved), "--output", str(file), "--fail-on", "never")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"tfgpu: wrote {file}\n")
    assert ElementTree.parse(file).getroot().attrib["failures"] == "0"
    only = tfgpu("doctor", "--from", str(saved), "--only", "cuda.*", "--format", "junit")
    assert {case.get("classname") for case in ElementTree.fromstring(only.stdout).iter("testcase")} == {
        *("tfgpu.doctor", "tfgpu.doctor.cuda")
    }


def test_who_is_named_where(saved: Path, subtests: pytest.Subtests) -> None:
    for more, named in (
        ((), False),
        (("--no-redact",), True),
    ):
        for form in (
            "junit",
            "github",
        ):
            with subtests.test(more=more):
                done = tfgpu("doctor", "--from", str(saved), "--format", form, *more)
                assert ("lovelace" in done.stdout) is named


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


def test_without_a_job_there_is_no_summary(saved: Path, tmp_path: Path) -> None:
    for text in ("", str(tmp_path / "missing" / "summary.md")):
        done = tfgpu("doctor", "--from", str(saved), "--format", "github", environ={"GITHUB_STEP_SUMMARY": text})
        assert done.returncode == 1
        assert done.stdout.startswith("::error ")
        assert ("cannot write the summary of the job" in done.stderr) is bool(text)


def test_a_full_summary_is_left_alone(saved: Path, tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    summary.write_bytes(b"x" * (1024 * 1024 - 100))
    done = tfgpu("doctor", "--from", str(saved), "--format", "github", environ={"GITHUB_STEP_SUMMARY": str(summary)})
    assert "is full" in done.stderr
    assert summary.stat().st_size == 1024 * 1024 - 100


def test_other_formats_leave_the_summary_alone(saved: Path, tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    tfgpu("doctor", "--from", str(saved), "--format", "markdown", environ={"GITHUB_STEP_SUMMARY": str(summary)})
    assert not summary.exists()
