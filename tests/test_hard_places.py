"""`tfgpu doctor` where what programs take for granted is missing: an answer or a sentence, never a traceback."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.cli.runner import catches
from tests.fault_bench import PATIENTS, left_behind, namespace
from tests.tiers import usual

ROOT = Path(__file__).parents[1]
DOCTOR = [sys.executable, "-m", "tfgpu_doctor", "doctor", "--python", sys.executable]
KEPT = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
ANSWERS = (0, 1, 3)  # nothing found, a problem found, could not determine


def run(
    *arguments: str, environ: Mapping[str, str] = KEPT, wrapper: Sequence[str] = ()
) -> subprocess.CompletedProcess[bytes]:
    """Run the doctor; neither a traceback nor the last line of defence, and nothing left running."""
    marker = f"tfgpu-hard-{os.getpid()}-{time.monotonic_ns()}"
    command, variables = [*wrapper, *DOCTOR, *arguments], {**environ, "TFGPU_MARKER": marker}
    done = subprocess.run(command, capture_output=True, timeout=120, check=False, env=variables, cwd=ROOT)
    for text in (done.stdout, done.stderr):
        assert not re.search(rb"Traceback|internal error|Exception ignored", text), text.decode()
    assert left_behind(marker) == []
    return done


# what an environment lacks, and what stands there that nobody expects; several of each in one
ENVIRONMENTS: dict[str, dict[str, str]] = {
    "nothing but where our code is": {"PYTHONPATH": str(ROOT)},
    "HOME is nowhere, no terminal type, ASCII only": KEPT
    | {"HOME": "/nowhere/at/all", "TERM": "dumb", "COLUMNS": "1"}
    | {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"},
    "HOME is empty, a locale that is not installed, odd numbers, no UTF-8": KEPT
    | {"HOME": "", "LANG": "xx_XX.UTF-8", "LC_ALL": "xx_XX.UTF-8", "COLUMNS": "many", "LINES": "-3"}
    | {"SLURM_GPUS": "", "CUDA_VISIBLE_DEVICES": "0,,x", "XLA_FLAGS": os.fsdecode(b"--xla\xff\xfe=\x80")},
}


@pytest.mark.parametrize("name", ENVIRONMENTS)
@pytest.mark.parametrize("form", usual(["text", "json"], lambda form: form == "text"))
def test_environments(name: str, form: str) -> None:
    done = run("--no-import", "--format", form, environ=ENVIRONMENTS[name])
    assert done.returncode in ANSWERS, done.stderr
    assert done.stderr == b""
    done.stdout.decode("ascii" if "ASCII" in name else "utf-8")


NO_PROC, NO_SYS = "mount -t tmpfs tmpfs /proc", "mount -t tmpfs tmpfs /sys"
MOUNTS = {
    "no /proc": NO_PROC,
    "no /sys": NO_SYS,
    "neither": f"{NO_PROC} && {NO_SYS}",
    "neither, and a small /dev/shm": f"{NO_PROC} && {NO_SYS} && mount -t tmpfs -o size=4k tmpfs /dev/shm",
    "nothing can be written to /var/tmp": "mount -t tmpfs -o ro tmpfs /var/tmp && mount --bind /var/tmp /dev/shm",
}


@pytest.mark.parametrize("name", usual(MOUNTS, lambda name: name in ("no /proc", "neither, and a small /dev/shm")))
def test_missing_file_systems(name: str) -> None:
    done = run("--no-import", "--format", "json", wrapper=namespace(MOUNTS[name]))
    assert done.returncode in ANSWERS, done.stderr
    assert json.loads(done.stdout)["facts"]["python"]["version"]["is"] == "known"


# the current folder is gone, and few file descriptors; closed streams
@pytest.mark.parametrize("shell", ["mkdir gone && cd gone && rmdir ../gone && ulimit -n 24", "exec <&- >&- 2>&-"])
def test_what_a_shell_takes_away(shell: str, tmp_path: Path) -> None:
    done = run("--no-import", wrapper=["sh", "-c", f'cd {tmp_path} && {shell} && "$@"', "sh"])
    assert done.returncode in ANSWERS, done.stderr


def test_a_read_only_disk(tmp_path: Path) -> None:
    wrapper = namespace(f"mount -t tmpfs -o ro tmpfs {tmp_path}")
    done = run("--no-import", "--format", "json", "--output", str(tmp_path / "report.json"), wrapper=wrapper)
    assert done.returncode in (2, 3)
    assert b"Read-only file system" in done.stderr or b"no permission to write there" in done.stderr


@pytest.mark.parametrize("after", [0.0, 0.6])
def test_an_interrupt_leaves_the_terminal_as_it_was(after: float) -> None:
    """In the middle of an import that never ends, or as soon as our code runs; before, the signal is Python's."""
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    environ = {**KEPT, "PYTHONPATH": f"{ROOT}:{PATIENTS / 'sleeps'}", "TERM": "xterm-256color"}
    child = subprocess.Popen(DOCTOR, env=environ, cwd=ROOT, stdin=slave, stdout=slave, stderr=slave)
    while not catches(child.pid, signal.SIGTERM):
        time.sleep(0.01)
    time.sleep(after)
    child.send_signal(signal.SIGINT)
    assert child.wait(60) == 130
    assert termios.tcgetattr(slave) == before
    os.set_blocking(master, False)
    shown = os.read(master, 1_000_000)
    os.close(slave)
    os.close(master)
    assert b"Traceback" not in shown
    assert shown.rstrip().endswith(b"tfgpu: interrupted")
    assert shown.rfind(b"\x1b[?25l") <= shown.rfind(b"\x1b[?25h")  # the cursor is shown again, if it was hidden
