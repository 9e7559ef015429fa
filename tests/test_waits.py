"""Every wait has an end: each command that starts processes × what a process can do to be waited for.

All programs that a command may start are one bad program, under every name. Time runs faster for the command, so that
deadlines of minutes and hours come soon; `descendants`, which kills, keeps the time of the clock.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from tests.guard import guarded
from tests.tiers import usual

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="descendants are followed on Linux only")

ROOT = Path(__file__).parents[1]
PATIENCE = 60.0  # seconds on the clock; a wait that is forgotten would take for ever
NAMES = (
    *("nvidia-smi", "dmesg", "ldconfig", "nvcc", "ptxas", "python", "python3", "python3.10", "python3.11"),
    *("python3.12", "python3.13", "uv", "pip", "conda", "mamba", "srun", "scancel", "scontrol"),
)
# What a program does; {mark} is on the command line of all that it starts.
# Options where a path, a name, a version or a number is expected of an interpreter, uv, conda, srun, or a node.
OPTIONS = r"""case "$*" in *_base_executable*)
    echo '{"path": "--zq7", "version": "3.10.9", "kind": "CPython", "bits": 64, "gil": true, "venv": true}'; exit 0 ;;
esac
cat <<'END'
--zq7
tfgpu-python --zq7
pip --zq7 from --zq7 (python --zq7)
Cuda compilation tools, release --zq7, V--zq7
srun: job --zq7 queued and waiting for resources
0: tfgpu-node --zq7 --zq7 --zq7 --zq7
1: tfgpu-node n1 4242zq7 --zq7 n[1-2],--zq7
END
"""
HABITS = {
    "speaks in options": OPTIONS.replace("{", "{{").replace("}", "}}") + "case $0 in *srun) sleep {mark};; esac",
    "sleeps": "exec sleep {mark}",
    "ignores signals": "trap '' HUP INT QUIT TERM USR1 PIPE; sleep {mark}; sleep {mark}; sleep {mark}",
    "floods": "yes {mark} >&2 & exec yes {mark}",
    "floods without line breaks": "yes {mark} | tr -d '\\n' & yes {mark} | tr -d '\\n' >&2",
    "leaves one with the pipe": "sleep {mark} & exit 0",
    "leaves one that has escaped": "setsid env -i sh -c 'yes {mark}' & exit 0",
    "dies": "kill -SEGV $$",
    "ends": "exit 0",
    "closes its output": "exec >&- 2>&-; sleep {mark}",
}
CODE = """
import queue, subprocess, sys, threading, time, types
real, factor = time.monotonic, float(sys.argv.pop(1))
zero = real()
time.monotonic = lambda: zero + (real() - zero) * factor
from tfgpu_doctor.probes import descendants, process
descendants.time = types.SimpleNamespace(monotonic=real, sleep=time.sleep)
process.END_GRACE *= factor
subprocess._time = time.monotonic
"""
MAIN = CODE + "from tfgpu_doctor.__main__ import main; main()"
MAGIC = CODE + (
    "from tfgpu_doctor.integrations.notebook.magics import Magic; Magic(None, {}, '')(' '.join(sys.argv[1:]))"
)
ANY = (0, 1, 2, 3)
MACHINE = ("--gpu", "RTX 4090", "--driver", "570")


class Command(NamedTuple):
    """A command line; PYTHON and HERE stand for the bad interpreter and a folder."""

    words: tuple[str, ...]
    factor: float  # by which time runs faster: its longest deadline takes some seconds
    code: str = MAIN
    codes: tuple[int, ...] = (1, 2, 3)


COMMANDS = {
    "doctor": Command(("doctor", "--python", "PYTHON"), 20),
    "doctor, no import": Command(("doctor", "--python", "PYTHON", "--no-import"), 20),
    "smoke": Command(("smoke", "--require-gpus", "0", "--python", "PYTHON"), 60),
    "bench": Command(("bench", "matpow", "--size", "64", "--python", "PYTHON"), 200),
    "bench, several": Command(("bench", "cnn", "--devices", "cpu", "--processes", "2", "--python", "PYTHON"), 200),
    "install": Command(("install", "HERE/new", "--yes", *MACHINE, "--python", "3.10", "--method", "uv"), 2000),
    "install, conda": Command(("install", "HERE/new", "--yes", *MACHINE, "--method", "conda"), 2000),
    "install, pip": Command(("install", "HERE/new", "--yes", *MACHINE, "--python", "3.10", "--method", "pip"), 2000),
    "check, resolve": Command(("check", "HERE/requirements.txt", "--resolve", *MACHINE), 500, codes=ANY),
    "collect, slurm": Command(("fleet", "collect", "--slurm", "--nodes", "2", "--timeout", "9"), 1000),
    "notebook": Command(("doctor", "--python", "PYTHON"), 20, MAGIC, (0,)),
}


class Stage:
    """A folder with the bad programs, and what runs of them."""

    def __init__(self, folder: Path) -> None:
        self.mark = f"86400.{time.monotonic_ns()}{os.getpid()}"
        self.folder = folder / f"stage-{self.mark}"  # so that it stands on the command line of a script, too
        (self.folder / "bin").mkdir(parents=True)
        (self.folder / "temporary").mkdir()
        (self.folder / "requirements.txt").write_text("tensorflow==2.15.1\n")

    def plant(self, habit: str) -> None:
        """Make every program do that, and write down with what it was started."""
        body = HABITS[habit].format(mark=self.mark)
        script = f'#!/bin/sh\necho "$0 $*" >> {self.folder}/started\n{body}\n'
        for name in NAMES:
            self._write(self.folder / "bin" / name, script)

    def _write(self, path: Path, script: str) -> None:
        path.write_text(script)
        path.chmod(0o755)

    def start(self, command: Command, factor: float | None = None) -> subprocess.Popen[str]:
        places = {
            "PYTHON": str(self.folder / "bin" / "python"),
            "HERE/new": str(self.folder / "new"),
            "HERE/requirements.txt": str(self.folder / "requirements.txt"),
        }
        environ = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SLURM_", "CONDA_", "PYENV_", "UV_"))
        }
        environ |= {
            "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin",
            "PYTHONPATH": str(ROOT),
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder / "temporary"),
        }
        words = [places.get(word, word) for word in command.words]
        return subprocess.Popen(
            [sys.executable, "-c", command.code, str(factor or command.factor), *words],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            cwd=self.folder,
        )

    def started(self) -> str:
        """The command lines of all that was started."""
        file = self.folder / "started"
        return file.read_text() if file.exists() else ""

    def alive(self) -> list[str]:
        """The command lines of what still runs."""
        lines = []
        for one in psutil.process_iter(["cmdline", "status"]):
            words = one.info["cmdline"] or []
            if one.info["status"] != psutil.STATUS_ZOMBIE and any(self.mark in word for word in words):
                lines.append(f"{one.pid} {' '.join(one.info['cmdline'])}"[:200])
        return lines


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    one = Stage(tmp_path)
    yield one
    for line in one.alive():  # a failed test must not leave anything either
        os.kill(int(line.split()[0]), signal.SIGKILL)


def ended(running: subprocess.Popen[str], stage: Stage) -> tuple[int, str]:
    """Its exit code and what it wrote, when nothing of it runs any more."""
    try:
        output, errors = running.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        running.kill()
        pytest.fail(f"it still runs; {stage.alive()}")
    assert "Traceback" not in errors and "internal error" not in errors, errors
    assert stage.alive() == []
    assert list((stage.folder / "temporary").iterdir()) == []
    return running.returncode, output + errors


def is_daily(row: tuple[str, str]) -> bool:
    return row in (
        ("doctor", "leaves one that has escaped"),
        ("bench", "leaves one with the pipe"),
        ("install", "ignores signals"),
        ("collect, slurm", "leaves one that has escaped"),
        ("check, resolve", "sleeps"),
        ("install", "speaks in options"),
        ("collect, slurm", "speaks in options"),
    )


@pytest.mark.parametrize(
    "row",
    usual([(name, habit) for name in COMMANDS for habit in HABITS], is_daily),
    ids=lambda row: f"{row[0]}: {row[1]}",
)
def test_every_wait_has_an_end(row: tuple[str, str], stage: Stage) -> None:
    name, habit = row
    if name == "notebook" and habit == "leaves one that has escaped":
        pytest.skip("a kernel goes on: what cannot be told from its own children is not killed")
    stage.plant(habit)
    quick = habit == "speaks in options" and name.startswith("install")  # what ends by itself is not to be cut short
    code, output = ended(stage.start(COMMANDS[name], 20 if quick else None), stage)
    assert code in COMMANDS[name].codes, output
    assert "zq7" not in stage.started()  # nothing that a child writes is an argument of another
    assert stage.started(), output  # else nothing was tried
    assert COMMANDS[name].code == MAGIC or output


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
@pytest.mark.parametrize(
    "name",
    usual([name for name in COMMANDS if name != "notebook"], lambda name: name in ("install", "collect, slurm")),
)
def test_nothing_runs_on_after_a_hang_up(name: str, number: signal.Signals, stage: Stage) -> None:
    stage.plant("ignores signals")
    running = stage.start(COMMANDS[name], factor=1)
    with guarded(PATIENCE, waiting=True):
        while not stage.started() and running.poll() is None:
            time.sleep(0.02)
    running.send_signal(number)
    code, output = ended(running, stage)
    assert code == 128 + number, output
