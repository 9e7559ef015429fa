"""`tfgpu doctor` where what programs take for granted is missing: an answer or a sentence, never a traceback."""

from __future__ import annotations

import json
import os
import pty
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
from tests.tiers import every_other

ROOT = Path(__file__).parents[1]
DOCTOR = [sys.executable, "-m", "tfgpu_doctor", "doctor", "--python", sys.executable]
KEPT = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
ANSWERS = (0, 1, 3)  # nothing found, a problem found, could not determine


def run(
    *arguments: str, environ: Mapping[str, str] = KEPT, wrapper: Sequence[str] = (), **options: object
) -> subprocess.CompletedProcess[bytes]:
    """Run the doctor; neither a traceback nor the last line of defence, and nothing left running."""
    marker = f"tfgpu-hard-{os.getpid()}-{time.monotonic_ns()}"
    settings: dict[str, object] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": ROOT, **options}
    done: subprocess.CompletedProcess[bytes] = subprocess.run(  # type: ignore[call-overload]
        [*wrapper, *DOCTOR, *arguments], timeout=120, check=False, env={**environ, "TFGPU_MARKER": marker}, **settings
    )
    for text in (done.stdout or b"", done.stderr or b""):
        assert b"Traceback" not in text, text.decode()
        assert b"internal error" not in text, text.decode()
        assert b"Exception ignored" not in text, text.decode()
    assert left_behind(marker) == []
    return done


ENVIRONMENTS: dict[str, dict[str, str]] = {
    "no HOME": KEPT,
    "HOME is nowhere": {**KEPT, "HOME": "/nowhere/at/all"},
    "HOME is empty": {**KEPT, "HOME": ""},
    "no PATH": {"PYTHONPATH": str(ROOT)},
    "ASCII only": {**KEPT, "LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"},
    "a locale that is not installed": {**KEPT, "LANG": "xx_XX.UTF-8", "LC_ALL": "xx_XX.UTF-8"},
    "no terminal type": {**KEPT, "TERM": "dumb", "COLUMNS": "1"},
    "odd numbers": {**KEPT, "COLUMNS": "many", "LINES": "-3", "SLURM_GPUS": "", "CUDA_VISIBLE_DEVICES": "0,,x"},
}


@pytest.mark.parametrize("name", every_other(ENVIRONMENTS))
def test_environments(name: str) -> None:
    done = run("--no-import", environ=ENVIRONMENTS[name])
    assert done.returncode in ANSWERS, done.stderr
    assert done.stderr == b""
    done.stdout.decode("ascii" if name == "ASCII only" else "utf-8")


def test_a_name_that_is_no_utf8() -> None:
    environ = {**{key.encode(): value.encode() for key, value in KEPT.items()}, b"XLA_FLAGS": b"--xla\xff\xfe=\x80"}
    for form in ("text", "json"):
        done = run("--no-import", "--format", form, environ=environ)  # type: ignore[arg-type]
        assert done.returncode in ANSWERS
        done.stdout.decode("utf-8")


MOUNTS = {
    "no /proc": "mount -t tmpfs tmpfs /proc",
    "no /sys": "mount -t tmpfs tmpfs /sys",
    "neither": "mount -t tmpfs tmpfs /proc && mount -t tmpfs tmpfs /sys",
    "no /dev/shm": "mount -t tmpfs -o size=4k tmpfs /dev/shm",
    "nothing can be written to /tmp": "mount -t tmpfs -o ro tmpfs /var/tmp && mount --bind /var/tmp /dev/shm",
}


@pytest.mark.parametrize("name", every_other(MOUNTS))
def test_missing_file_systems(name: str) -> None:
    done = run("--no-import", "--format", "json", wrapper=namespace(MOUNTS[name]))
    assert done.returncode in ANSWERS, done.stderr
    assert json.loads(done.stdout)["facts"]["python"]["version"]["is"] == "known"


# the current folder is gone; few file descriptors; closed streams
SHELLS = ("mkdir gone && cd gone && rmdir ../gone", "ulimit -n 24", "exec <&- >&- 2>&-")


@pytest.mark.parametrize("shell", SHELLS)
def test_what_a_shell_takes_away(shell: str, tmp_path: Path) -> None:
    done = run("--no-import", wrapper=["sh", "-c", f'cd {tmp_path} && {shell} && "$@"', "sh"])
    assert done.returncode in ANSWERS, done.stderr


# -------------------------------------------------------------------------------------------- where the result goes


def test_a_read_only_disk(tmp_path: Path) -> None:
    wrapper = namespace(f"mount -t tmpfs -o ro tmpfs {tmp_path}")
    done = run("--no-import", "--format", "json", "--output", str(tmp_path / "report.json"), wrapper=wrapper)
    assert done.returncode in (2, 3)
    assert b"Read-only file system" in done.stderr or b"no permission to write there" in done.stderr


# ------------------------------------------------------------------------------------------------------ interrupts


MOMENTS = ((signal.SIGINT, 0.0), (signal.SIGTERM, 0.1), (signal.SIGINT, 0.3), (signal.SIGTERM, 1.0))


@pytest.mark.parametrize(("number", "after"), MOMENTS)
def test_interrupted_at_any_moment(number: signal.Signals, after: float) -> None:
    """An import that never ends, and a signal in the middle; before our code runs, the signal is Python's."""
    marker = f"tfgpu-hard-{os.getpid()}-{time.monotonic_ns()}"
    environ = {**KEPT, "PYTHONPATH": f"{ROOT}:{PATIENTS / 'sleeps'}", "TFGPU_MARKER": marker}
    child = subprocess.Popen(DOCTOR, env=environ, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not catches(child.pid, signal.SIGTERM):
        time.sleep(0.01)
    time.sleep(after)
    child.send_signal(number)
    out, err = child.communicate(timeout=60)
    said = b"tfgpu: interrupted" if number == signal.SIGINT else b""
    assert (child.returncode, out, err.strip()) == (128 + number, b"", said)
    deadline = time.monotonic() + 5
    while left_behind(marker) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left_behind(marker) == []


def test_an_interrupt_leaves_the_terminal_as_it_was() -> None:
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    environ = {**KEPT, "PYTHONPATH": f"{ROOT}:{PATIENTS / 'sleeps'}", "TERM": "xterm-256color"}
    child = subprocess.Popen(DOCTOR, env=environ, cwd=ROOT, stdin=slave, stdout=slave, stderr=slave)
    time.sleep(1.2)
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
