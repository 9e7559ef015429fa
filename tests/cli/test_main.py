"""The command line as a user meets it: help, environments, pipes and disks that are full; never a traceback."""

from __future__ import annotations

import errno
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import click
import pytest

from tests.bench.samples import result, run
from tests.cli.runner import catches, process, tfgpu
from tests.facts.test_report import report
from tests.fault_bench import PATIENTS, left_behind
from tests.findings.rows_over_facts import FIRES, NO_GPU_USED
from tests.guard import guarded
from tests.tiers import usual
from tfgpu_doctor import commands
from tfgpu_doctor.__main__ import _wrapped
from tfgpu_doctor.bench.results import BenchResult
from tfgpu_doctor.cli import PURPOSES, cli
from tfgpu_doctor.cli.bench import _measured
from tfgpu_doctor.cli.output import NotWrittenError, Output
from tfgpu_doctor.render.console import console_for

FULL = Path("/dev/full")
WHY = "cannot write /dev/full: No space left on device"
needs_full = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")


@pytest.fixture
def saved(tmp_path: Path) -> str:
    path = tmp_path / "report.json"
    path.write_bytes(report({**NO_GPU_USED, **FIRES["cuda.missing"][0][1]}).to_json())
    return str(path)


def test_help() -> None:
    page, whole = tfgpu("-h").stdout, tfgpu("-h", "-v").stdout
    order = [page.index(one) for one in ("Diagnose:", "  bench ", "More: install", "Options:", "Exit codes:")]
    assert order == sorted(order)
    for name, summary in [row for summaries in PURPOSES.values() for row in summaries.items()]:
        assert f" {name} {summary}" in " ".join(whole.split())
        assert cli.get_command(click.Context(cli), name) is not None
        done = tfgpu(name, "--help")
        assert (done.returncode, f"tfgpu {name}" in done.stdout, "xample" in done.stdout) == (0, True, True), name


@pytest.mark.skipif(os.name != "posix", reason="/usr/bin/env")
def test_the_folder_of_an_environment_stands_for_its_interpreter(tmp_path: Path) -> None:
    """Also where a program of that name is on PATH, but for a Python: no folder that lies there is meant by that."""
    for name in ("tf-env", "env", "python3"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin" / "python").symlink_to(sys.executable)
        done = tfgpu("doctor", "--no-import", "--format", "json", "--python", name, cwd=tmp_path)
        assert (f"{name}/bin/python" in done.stdout) is (name != "python3"), done.stderr
    for command in (["doctor"], ["bench", "matpow"], ["smoke"]):
        done = tfgpu(*command, "--python", "true", cwd=tmp_path)
        assert done.returncode == 2 and done.stdout == ""
        assert done.stderr.endswith("Error: --python: true is no Python interpreter\n")
    gone = tmp_path / "gone" / "bin" / "python"
    gone.parent.mkdir(parents=True)
    gone.symlink_to(tmp_path / "removed" / "python3")
    for name in ("gone", "gone/bin/python"):
        done = tfgpu("doctor", "--python", name, cwd=tmp_path)
        assert done.returncode == 2 and "which does not exist; create the environment again" in done.stderr


@pytest.mark.parametrize("name", ["COLUMNS", "LINES"])
def test_sizes_that_make_no_sense(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    usual, page = tfgpu("explain", "cuda.missing", environ={"COLUMNS": ""}).stdout, tfgpu("--help").stdout
    for value in ("0", "²", "9" * 5000, "-5"):
        environ = {"COLUMNS": "", name: value}
        assert tfgpu("explain", "cuda.missing", environ=environ).stdout == usual
        done = tfgpu("--help", environ=environ)
        assert (done.returncode, done.stderr, done.stdout.split()) == (0, "", page.split()), (name, value)
    monkeypatch.setenv("COLUMNS", "")
    for found, used in ((0, 80), (1, 80), (60, 60), (5000, 80)):
        monkeypatch.setattr(os, "get_terminal_size", lambda *_, found=found: os.terminal_size((found, 1)))
        assert console_for(sys.stdout).width == used


def test_a_terminal_gets_errors_that_end_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Mock(isatty=lambda: True))
    monkeypatch.setenv("COLUMNS", "60")
    message = "give each an --output, as in " + "--compute-capability --output-of-some-length " * 4
    assert max(len(line) for line in f"Error: {_wrapped(message)}".splitlines()) <= 60
    assert _wrapped(message).split() == message.split() and "\n" not in _wrapped(f"    {message}")


def test_what_the_system_refuses_and_defects_are_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/own/lib")
    again = BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
    for error, message in (
        (MemoryError(), "tfgpu: the system refused memory: "),
        (RuntimeError("can't start new thread"), "tfgpu: the system refused a new thread: "),
        (again, "tfgpu: the system refused a new process: "),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "tfgpu: the system refused a new process: "),
        (ImportError("x.so: failed to map segment from shared object"), "tfgpu: the system refused memory: "),
        (ImportError("no module"), "tfgpu: internal error: ImportError: no module\n"),
        (ImportError("/own/lib/libz.so.1: file too short"), "tfgpu: the Python that tfgpu runs with cannot load"),
        (RuntimeError("a defect"), "tfgpu: internal error: RuntimeError: a defect\n"),
    ):
        monkeypatch.setattr("click.Group.main", Mock(side_effect=error))
        done = tfgpu("plan")
        assert (done.returncode, done.stdout, done.stderr[: len(message)]) == (3, "", message)
        assert capsys.readouterr() == ("", "")


# ------------------------------------------------------------------------------------------------------ standard input

EXPLAIN = [sys.executable, "-m", "tfgpu_doctor", "explain"]


def test_typed_at_a_terminal() -> None:
    master, slave = pty.openpty()
    child = subprocess.Popen(EXPLAIN, stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stderr is not None
    with guarded(60, "the prompt", waiting=True):
        assert b"then press Ctrl-D" in child.stderr.readline()
    os.write(master, b"Failed to initialize NVML: Driver/library version mismatch\n\x04")
    out, err = child.communicate(timeout=60)
    os.close(master)
    os.close(slave)
    assert (child.returncode, err) == (1, b"")
    assert b"driver.version-mismatch" in out and b"press" not in out


def test_ctrl_c_ends_a_stream_without_end() -> None:
    stream = subprocess.Popen(["yes", "train step 12 loss 0.5"], stdout=subprocess.PIPE)
    child = subprocess.Popen([*EXPLAIN, "-"], stdin=stream.stdout, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not catches(child.pid, signal.SIGTERM):  # our own code runs: it catches that first of all
        time.sleep(0.05)
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=30)
    stream.kill()
    stream.communicate()
    assert (child.returncode, out, err.strip()) == (130, b"", b"tfgpu: interrupted")


# ---------------------------------------------------------------------------------- streams and files that take nothing


@needs_full
def test_streams_that_are_closed_or_full(saved: str) -> None:
    """The exit code tells of the result, or that it could not be written; no message changes it."""
    for arguments, codes, message in (
        (f"doctor --from {saved} >&-", (1,), ""),
        (f"doctor --from {saved} >/dev/full", (3,), "No space left on device"),
        ("docter 2>/dev/full", (2,), ""),
        ("--help >/dev/full 2>/dev/full", (3,), ""),
        ("explain cuda.missing --format json >/dev/full 2>&-", (3,), ""),
        # 0 where it was faster than the pipe's end; never "a problem was found"
        ("explain cuda.missing | true", (0, 141), ""),
    ):
        command = f"set -o pipefail; {sys.executable} -m tfgpu_doctor {arguments}"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode in codes, (arguments, done.stderr)
        assert message in done.stderr and (message or not done.stderr), (arguments, done.stderr)
        assert "Traceback" not in done.stderr and "internal error" not in done.stderr


@needs_full
def test_a_result_that_cannot_be_written_is_printed_instead_and_other_targets_get_it(
    saved: str, tmp_path: Path
) -> None:
    times, command = re.compile(r"\d\d:\d\d:\d\d"), ("doctor", "--from", saved, "--format")
    printed = {form: tfgpu(*command, form).stdout for form in ("json", "text", "junit")}
    for form, text in printed.items():
        done = tfgpu(*command, form, "--output", "/dev/full")
        assert (done.returncode, times.sub("", done.stdout)) == (3, times.sub("", text))
        assert done.stderr == f"Error: {WHY}; the result was printed instead\n"
    good = tmp_path / "good.json"
    done = tfgpu(*command, "html,text,json", "--output", "/dev/full", "--output", "-", "--output", str(good))
    assert (done.returncode, done.stdout) == (3, printed["text"])  # and not two results on one stream
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


def test_a_summary_of_a_job_that_is_full(saved: str, tmp_path: Path) -> None:
    full = tmp_path / "summary.md"
    full.write_bytes(b"x" * (1024 * 1024 - 100))
    done = tfgpu("doctor", "--from", saved, "--format", "github", environ={"GITHUB_STEP_SUMMARY": str(full)})
    assert (done.returncode, done.stdout[:8], "is full" in done.stderr) == (1, "::error ", True)
    assert full.stat().st_size == 1024 * 1024 - 100


# ----------------------------------------------------------------------------- tfgpu smoke, as a CI job starts it


def smoke(*arguments: str, code: int, budget: float = 60.0, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run it: with this exit code, and without leaving a process behind."""
    marker = f"tfgpu-smoke-{os.getpid()}-{time.monotonic_ns()}"
    done = process("smoke", "--budget", str(budget), *arguments, environ={**environ, "TFGPU_MARKER": marker})
    assert left_behind(marker) == []
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


PATIENTS_AND_WHY = {
    "import_error": "ImportError",
    "dies_of_a_signal": "killed by SIGSEGV",
    "exits": "ended",
    "sleeps": "importing TensorFlow takes more than ",
    "ignores_sigterm": "importing TensorFlow takes more than ",
}
SLOW = ("sleeps", "ignores_sigterm")  # in so small a budget, nobody can tell a hang from a slow disk


@pytest.mark.parametrize("patient", usual(PATIENTS_AND_WHY, lambda name: name in ("dies_of_a_signal", "sleeps")))
def test_a_tensorflow_that_cannot_be_imported(patient: str) -> None:
    path = os.pathsep.join([str(PATIENTS / patient), str(Path(__file__).parents[2])])
    more = {"PYTHONPATH": path, "PATIENT_SIGNAL": "SIGSEGV"}
    done = smoke("--format", "json", code=1, budget=6.0, **more)
    found = {one["name"]: one for one in json.loads(done.stdout)["checks"]}
    assert found["doctor"]["status"] == "failed"  # the package of the patient shadows the installed one
    assert found["import"]["status"] == ("not run" if patient in SLOW else "failed")
    assert PATIENTS_AND_WHY[patient] in found["import"]["why"]
    assert found["matpow"]["status"] == "not run"


@pytest.mark.full  # without a real TensorFlow: tests/smoke, tests/systems/test_commands.py
@pytest.mark.tensorflow
def test_a_machine_without_a_gpu_fails_when_one_is_required(tensorflow_python: str, tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    arguments = ("--python", tensorflow_python, "--format", "github")
    done = smoke(*arguments, code=1, CUDA_VISIBLE_DEVICES="-1", GITHUB_STEP_SUMMARY=str(summary))
    assert "::error title=tfgpu smoke%3A GPUs%3A failed::" in done.stdout
    assert summary.read_text(encoding="utf-8").startswith("**✗ tfgpu smoke failed")
