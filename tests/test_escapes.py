"""Nothing that a command started runs on after it: ways to escape × who starts them × how the command ends."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.guard import alive, eventually
from tests.tiers import usual

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="descendants are followed on Linux only")

ROOT = Path(__file__).parents[1]
PATIENCE = 60.0  # seconds

# Each runs in a child of its own, which then becomes `sleep`; `leave` ends the parent and goes on in a child.
WAYS = {
    "session": "os.setsid()",
    "double fork": "leave(); os.setsid(); leave()",
    "closes its streams": "leave(); os.setsid(); leave(); os.closerange(0, 99)",
    "ignores signals": "os.setsid(); signals = {*range(1, 32)} - {9, 19}; [signal.signal(one, 1) for one in signals]",
    "clears its environment": "leave(); os.setsid(); environ.clear(); leave()",
    "clears it below a parent": "os.setsid(); environ.clear(); os.fork()",
    "chain of forks": "for _ in range(100): leave(); os.setsid()",
}
ESCAPE = """
import os, signal, sys
environ = dict(os.environ)
def leave():
    if os.fork():
        os._exit(0)
for line, way in enumerate(sys.argv[2:]):
    if not os.fork():
        exec(way)
        os.execve("/bin/sleep", ["sleep", f"{sys.argv[1]}{line}"], environ)
"""
PYTHON = [sys.executable, "-I", "-S", "-c", ESCAPE]


class Sleepers:
    """The processes that escape, known by their command line: their environment may be cleared."""

    def __init__(self) -> None:
        self.mark = f"86400.{time.monotonic_ns()}{os.getpid()}"

    def command(self, starter: str) -> str:
        """A shell command after which all ways are tried; `starter` is one digit."""
        return shlex.join([*PYTHON, f"{self.mark}{starter}", *WAYS.values()])

    def alive(self) -> dict[int, str]:
        """Process → who started it, and how it escaped."""
        found = {}
        for pid, line in alive(f"sleep {self.mark}").items():
            starter, way = line.rpartition(self.mark)[2]
            found[pid] = f"{starter}: {list(WAYS)[int(way)]}"
        return found


@pytest.fixture
def sleepers() -> Iterator[Sleepers]:
    one = Sleepers()
    yield one
    for pid in one.alive():  # a failed test must not leave anything either
        os.kill(pid, signal.SIGKILL)


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def start(sleepers: Sleepers, folder: Path, *arguments: str, then: str) -> subprocess.Popen[bytes]:
    """A command whose interpreter (1), nvidia-smi (2) and tensorflow package (3) try every way to escape."""
    program(folder / "bin" / "nvidia-smi", sleepers.command("2"))
    package = folder / "site" / "tensorflow"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"import os, time\nos.system({sleepers.command('3')!r})\n{then}\n")
    python = program(folder / "python", f'{sleepers.command("1")}\nexec {shlex.quote(sys.executable)} "$@"')
    (folder / "temporary").mkdir()
    environ = {
        **os.environ,
        "TMPDIR": str(folder / "temporary"),
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{folder / 'site'}",
    }
    command = [sys.executable, "-m", "tfgpu_doctor", *arguments, "--python", str(python)]
    return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


COMMANDS = {
    "doctor": ["doctor"],
    "bench": ["bench", "matpow", "--size", "64"],
    "smoke": ["smoke", "--require-gpus", "0"],
}
SIGNALS = {signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGINT: 130}


@pytest.mark.parametrize("name", usual(COMMANDS, lambda name: name == "doctor"))
def test_nothing_is_left_at_an_orderly_end(name: str, sleepers: Sleepers, tmp_path: Path) -> None:
    running = start(sleepers, tmp_path, *COMMANDS[name], then="raise ImportError")
    _, errors = running.communicate(timeout=PATIENCE)
    assert running.returncode in (1, 3), errors
    assert not sleepers.alive()
    assert not list((tmp_path / "temporary").iterdir())


@pytest.mark.parametrize(
    "ending",
    usual(
        [(name, number) for name in COMMANDS for number in SIGNALS],
        lambda row: row in (("doctor", signal.SIGHUP), ("bench", signal.SIGTERM)),
    ),
    ids=lambda row: f"{row[0]} {row[1].name}",
)
def test_nothing_is_left_after_a_signal(ending: tuple[str, signal.Signals], sleepers: Sleepers, tmp_path: Path) -> None:
    name, number = ending
    running = start(sleepers, tmp_path, *COMMANDS[name], then="time.sleep(600)")
    left = lambda: {one for one in sleepers.alive().values() if one.startswith("3")}  # noqa: E731
    assert eventually(lambda: len(left()) == len(WAYS), PATIENCE)
    running.send_signal(number)
    _, errors = running.communicate(timeout=PATIENCE)
    assert (running.returncode, b"Traceback" in errors) == (SIGNALS[number], False)
    assert not sleepers.alive()
    assert not list((tmp_path / "temporary").iterdir())


LOST = """
import os, signal, sys, time
from tfgpu_doctor import __main__ as entry

class Loses:
    def __del__(self):
        os.kill(os.getpid(), signal.{name})
        time.sleep(0.01)

def command(*_, **__):
    loses = Loses()
    del loses
    try:
        time.sleep(60)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)  # and what comes meanwhile does not cut this short
        time.sleep(3 * entry.AGAIN)
        print("cleaned up", flush=True)

import click
click.Group.main = command
entry.main()
"""


@pytest.mark.parametrize("number", usual(SIGNALS, lambda number: number == signal.SIGTERM))
def test_a_signal_that_python_loses_is_raised_again(number: signal.Signals) -> None:
    argv = [sys.executable, "-c", LOST.format(name=number.name)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (SIGNALS[number], "cleaned up\n")
    assert done.stderr == ("tfgpu: interrupted\n" if number == signal.SIGINT else "")
