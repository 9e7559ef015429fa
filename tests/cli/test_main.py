"""The command line as a user meets it: help, typos, pipes, files, interrupts; never a traceback."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import click
import pytest

from tests.cli.runner import process, tfgpu
from tests.facts.test_report import report
from tests.findings.rows_over_facts import FIRES, NO_GPU_USED
from tfgpu_doctor.cli import COMMANDS, cli
from tfgpu_doctor.render.console import console_for


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "report.json"
    path.write_bytes(report({**NO_GPU_USED, **FIRES["cuda.missing"][0][1]}).to_json())
    return path


def test_the_help_page_lists_every_command() -> None:
    page = " ".join(tfgpu("-h").stdout.split())
    assert all(f" {name} {summary}" in page for name, (_, summary) in COMMANDS.items())


def test_every_command_has_help_with_an_example() -> None:
    for name in sorted(COMMANDS):
        assert cli.get_command(click.Context(cli), name) is not None
        done = tfgpu(name, "--help")
        assert (done.returncode, f"tfgpu {name}" in done.stdout, "xample" in done.stdout) == (0, True, True), name


@pytest.mark.skipif(os.name != "posix", reason="/usr/bin/env")
def test_the_folder_of_an_environment_stands_for_its_interpreter(tmp_path: Path) -> None:
    """A program on PATH comes first, so that nothing starts out of the current folder unless its path is given."""
    for name in ("tf-env", "env"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin" / "python").symlink_to(sys.executable)
    done = tfgpu("doctor", "--no-import", "--format", "json", "--python", "tf-env", cwd=tmp_path)
    assert Path("tf-env/bin/python").as_posix() in done.stdout, done.stderr
    for command in (["doctor"], ["bench", "matpow"], ["smoke"]):
        done = tfgpu(*command, "--python", "env", cwd=tmp_path)
        assert done.returncode == 2 and done.stdout == ""
        said = "Error: --python: env is no Python interpreter\n"
        assert done.stderr.endswith(said)


def test_fail_on(saved: Path, tmp_path: Path) -> None:
    assert tfgpu("doctor", "--from", str(saved), "--fail-on", "never").returncode == 0
    warm = tmp_path / "warm.json"
    warm.write_bytes(report(FIRES["gpu.throttled"][0][1]).to_json())
    assert tfgpu("doctor", "--from", str(warm)).returncode == 0
    assert tfgpu("doctor", "--from", str(warm), "--fail-on", "warning").returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_streams_that_are_closed_or_full(saved: Path) -> None:
    """The exit code tells of the result, or that it could not be written; no message changes it."""
    for arguments, code, message in (
        ("doctor --from {saved} >&-", 1, ""),
        ("doctor --from {saved} 2>&-", 1, ""),
        ("doctor --from {saved} >/dev/full", 3, "No space left on device"),
        ("doctor --from {saved} --output /dev/full", 3, "No space left on device"),
        ("doctor --from {saved} --format json > /dev/full", 3, "No space left on device"),
        ("explain --help > /dev/full", 3, "No space left on device"),
        ("docter 2>/dev/full", 2, ""),
        ("--help >/dev/full 2>/dev/full", 3, ""),
        ("explain cuda.missing >/dev/full 2>&-", 3, ""),
    ):
        command = f"{sys.executable} -m tfgpu_doctor {arguments.format(saved=saved)}"
        done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == code, (arguments, done.stderr)
        assert message in done.stderr and (message or not done.stderr), (arguments, done.stderr)
        assert "Traceback" not in done.stderr and "internal error" not in done.stderr


def test_closed_pipe(saved: Path) -> None:
    command = f"({sys.executable} -m tfgpu_doctor doctor --from {saved}; echo $? >&2) | true"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.strip() in ("0", "141")  # 0 where it was faster than the pipe's end; never "a problem was found"


def test_what_the_system_refuses_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    again = BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
    for error, message in (
        (MemoryError(), "tfgpu: the system refused memory: "),
        (RuntimeError("can't start new thread"), "tfgpu: the system refused a new thread: "),
        (again, "tfgpu: the system refused a new process: "),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "tfgpu: the system refused a new process: "),
        (ImportError("x.so: failed to map segment from shared object"), "tfgpu: the system refused memory: "),
        (ImportError("no module"), "tfgpu: internal error: ImportError: no module\n"),
    ):
        monkeypatch.setattr("click.Group.main", Mock(side_effect=error))
        done = tfgpu("plan")
        assert (done.returncode, done.stdout, done.stderr[: len(message)]) == (3, "", message)
        assert capsys.readouterr() == ("", "")


def test_sizes_that_make_no_sense() -> None:
    usual, page = tfgpu("explain", "cuda.missing", environ={"COLUMNS": ""}).stdout, tfgpu("--help").stdout
    for name, value in [(name, value) for name in ("COLUMNS", "LINES") for value in ("0", "²", "1", "9" * 5000, "-5")]:
        environ = {"COLUMNS": "", name: value}
        assert tfgpu("explain", "cuda.missing", environ=environ).stdout == usual
        done = tfgpu("--help", environ=environ)
        assert (done.returncode, done.stderr, done.stdout.split()) == (0, "", page.split()), (name, value)


def test_width_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "")
    for found, used in ((0, 80), (1, 80), (60, 60), (5000, 80)):
        monkeypatch.setattr(os, "get_terminal_size", lambda *_, found=found: os.terminal_size((found, 1)))
        assert console_for(sys.stdout).width == used


def test_internal_errors_are_one_sentence(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "from tfgpu_doctor.plan import diagnosis as d\n"
        "def broken(*a, **k): raise RuntimeError('a defect')\n"
        "d.make_report = broken\n"
    )
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])
    done = process("doctor", "--from", str(saved), environ={"PYTHONPATH": path})
    assert done.returncode == 3
    assert "internal error: RuntimeError: a defect" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_interpreter_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "python").symlink_to(tmp_path / "removed" / "python3")
    done = tfgpu("doctor", "--python", str(tmp_path / "python"))
    assert done.returncode == 2
    assert "which does not exist; create the environment again" in done.stderr
