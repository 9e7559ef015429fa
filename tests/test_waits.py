"""Every wait has an end: each command that starts processes × what a process can do to be waited for.

All programs that a command may start are one bad program, under every name. Time runs faster for the command, so that
deadlines of minutes and hours come soon; what kills has as much more of it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.guard import alive, eventually, guarded
from tests.lab import Lab
from tests.tables import read_rows
from tests.tiers import usual

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="descendants are followed on Linux only")

ROOT = Path(__file__).parents[1]
PATIENCE = 60.0  # seconds on the clock; a wait that is forgotten would take for ever
NAMES = (
    *("nvidia-smi", "dmesg", "ldconfig", "nvcc", "ptxas", "python", "python3", "python3.10", "python3.11"),
    *("python3.12", "python3.13", "uv", "pip", "conda", "mamba", "scontrol", "tensorflow"),
)
# TensorFlow becomes the bad program when it is imported.
MODULE = "import os, sys; os.execv({program!r}, [{program!r}])\n"
ROWS = read_rows(Path(__file__).with_name("waits.yaml"))
CODE = """
import queue, subprocess, sys, threading, time
real, factor = time.monotonic, float(sys.argv.pop(1))
zero = real()
time.monotonic = lambda: zero + (real() - zero) * factor
from tfgpu_doctor.probes import process
process.END_GRACE *= factor
process.KILL_GRACE *= factor
subprocess._time = time.monotonic
"""
MAIN = CODE + "from tfgpu_doctor.__main__ import main; main()"
MAGIC = CODE + "from tfgpu_doctor.integrations.notebook import run; run(' '.join(sys.argv[1:]))"
PYTEST = CODE + (
    "import pytest; sys.exit(pytest.main(['-p', 'tfgpu_doctor.integrations.pytest_plugin', '-p', 'no:cacheprovider', "
    "*sys.argv[1:]]))"
)
MARKED = "import pytest\n@pytest.mark.gpu\ndef test_gpu(): raise SystemExit('it has no GPU')\n"
HELLO = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
CALL = {"name": "doctor", "arguments": {}}
MCP = (
    {"jsonrpc": "2.0", "method": "initialize", "id": 1, "params": HELLO},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "method": "tools/call", "id": 2, "params": CALL},
)


COMMANDS = ROWS["commands"]
CODES = {"notebook": MAGIC, "pytest": PYTEST}

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


class Stage:
    """A folder with the bad programs, and what runs of them: all of it has a mark on its command line."""

    def __init__(self, folder: Path) -> None:
        self.mark = f"86400.{time.monotonic_ns()}{os.getpid()}"
        self.folder = folder / f"stage-{self.mark}"  # so that it stands on the command line of a script, too
        (self.folder / "bin").mkdir(parents=True)
        (self.folder / "temporary").mkdir()
        (self.folder / "test_gpu.py").write_text(MARKED)
        self.driver: dict[str, str] = {}  # variables with which a program finds a GPU

    def plant(self, habit: str) -> None:
        """Make every program do that, and write down with what it was started."""
        escape = shlex.join([sys.executable, "-I", "-S", "-c", ESCAPE, self.mark, *WAYS.values()])
        body = ROWS["habits"][habit].replace("MARK", self.mark).replace("ESCAPE", escape)
        script = f'#!/bin/sh\necho "$0 $*" >> {self.folder}/started\n{body}\n'
        for name in NAMES:
            self.write(self.folder / "bin" / name, script)
        package = self.folder / "modules" / "tensorflow"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(MODULE.format(program=str(self.folder / "bin" / "tensorflow")))

    def write(self, path: Path, script: str) -> None:
        """Make a program."""
        path.write_text(script)
        path.chmod(0o755)

    def start(self, name: str, factor: float | None = None) -> subprocess.Popen[str]:
        """Start a command, for which time runs faster; a server is asked, and ends with its input."""
        foreign = ("SLURM_", "CONDA_", "PYENV_", "UV_", "PYTEST_")
        environ = {one: value for one, value in os.environ.items() if not one.startswith(foreign)} | self.driver
        environ |= {
            "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin",
            "PYTHONPATH": f"{self.folder / 'modules'}:{ROOT}",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder / "temporary"),
        }
        command = COMMANDS.get(name) or ROWS["one of two machines"]
        words = command["words"].replace("PYTHON", f"{self.folder}/bin/python").replace("HERE", str(self.folder))
        running = subprocess.Popen(
            [sys.executable, "-c", CODES.get(name, MAIN), str(factor or command["factor"]), *words.split()],
            env=environ,
            stdin=subprocess.PIPE if name == "mcp" else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            cwd=self.folder,
        )
        for request in MCP if running.stdin else ():
            running.stdin.write(json.dumps(request) + "\n")  # type: ignore[union-attr]
            running.stdin.flush()  # type: ignore[union-attr]
        return running

    def started(self) -> str:
        """The command lines of all that was started."""
        file = self.folder / "started"
        return file.read_text() if file.exists() else ""

    def alive(self) -> list[str]:
        """The command lines of what still runs."""
        return [f"{pid} {line}"[:200] for pid, line in alive(self.mark).items()]

    def escaped(self) -> set[str]:
        """The numbers of the ways to escape in which something runs."""
        return {line[-1] for line in alive(self.mark).values() if re.fullmatch(rf"sleep {self.mark}\d", line)}


@pytest.fixture
def stage(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stage]:
    one = Stage(tmp_path)
    if "pytest" in str(request.node.name):  # without a GPU, the plugin would not start TensorFlow
        lab: Lab = request.getfixturevalue("driver_lab")
        one.driver = lab.environ(gpus=1, name="NVIDIA H200", cc="9.0", memory_mib=143771, driver="580.65.06")
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
    assert eventually(lambda: not stage.alive(), PATIENCE), stage.alive()  # what was killed is gone a moment later
    assert list((stage.folder / "temporary").iterdir()) == []
    return running.returncode, output + errors


DAILY = (
    ("doctor", "escapes in every way"),
    ("bench", "leaves one with the pipe"),
    ("install", "ignores signals"),
    ("install", "speaks in options"),
)
# a kernel and a test run go on: what cannot be told from their own children is not killed
LIVE_ON = [("notebook", "leaves one that has escaped")]
LIVE_ON += [(name, habit) for name in CODES for habit in ROWS["habits"] if habit.startswith("escapes")]
WAITS = [(name, habit) for name in COMMANDS for habit in ROWS["habits"] if (name, habit) not in LIVE_ON]


@pytest.mark.parametrize("row", usual(WAITS, lambda row: row in DAILY), ids=": ".join)
def test_every_wait_has_an_end(row: tuple[str, str], stage: Stage) -> None:
    name, habit = row
    stage.plant(habit)
    quick = habit == "speaks in options" and name.startswith("install")  # what ends by itself is not to be cut short
    running = stage.start(name, 20 if quick else None)
    if name == "mcp":
        assert running.stdout
        with guarded(PATIENCE, waiting=True):
            while '"id":2' not in running.stdout.readline():
                assert running.poll() is None
    code, output = ended(running, stage)
    assert code in COMMANDS[name].get("codes", (1, 2, 3)), output
    assert "zq7" not in stage.started()  # nothing that a child writes is an argument of another
    assert stage.started(), output  # else nothing was tried
    assert name in ("notebook", "mcp") or output  # a server has answered before


NUMBERS = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT)
DAILY_HANG_UPS = (
    *(("install", signal.SIGHUP), ("doctor", signal.SIGINT), ("bench", signal.SIGTERM), ("pytest", signal.SIGTERM)),
)
HANG_UPS = [(name, number) for name in COMMANDS if name != "notebook" for number in NUMBERS]


@pytest.mark.parametrize(
    "row", usual(HANG_UPS, lambda row: row in DAILY_HANG_UPS), ids=lambda row: f"{row[0]}: {row[1].name}"
)
def test_nothing_runs_on_after_a_hang_up(row: tuple[str, signal.Signals], stage: Stage) -> None:
    name, number = row
    stage.plant("ignores signals" if name == "pytest" else "escapes, and ignores signals")
    running = stage.start(name, factor=1)
    ways = 0 if name == "pytest" else len(WAYS)
    ready = lambda: stage.started() and len(stage.escaped()) == ways  # noqa: E731
    assert eventually(lambda: ready() or running.poll() is not None, PATIENCE)
    running.send_signal(number)
    code, output = ended(running, stage)
    own = -number if number != signal.SIGINT else 2
    assert code == (own if name == "pytest" else 128 + number), output
    assert name == "pytest" or ("tfgpu: interrupted" in output) == (number == signal.SIGINT)


@pytest.mark.full
def test_nothing_runs_on_after_the_client_has_gone(stage: Stage) -> None:
    stage.plant("ignores signals")
    running = stage.start("mcp", factor=1)
    assert eventually(stage.started, PATIENCE)
    assert ended(running, stage)[0] == 0  # it closes the input


LOST = """
import os, signal, sys, time
import click
from tfgpu_doctor import __main__ as entry

entry.AGAIN = 0.1

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

click.Group.main = command
entry.main()
"""


@pytest.mark.parametrize("number", usual(NUMBERS, lambda number: number == signal.SIGTERM))
def test_a_signal_that_python_loses_is_raised_again(number: signal.Signals) -> None:
    argv = [sys.executable, "-c", LOST.format(name=number.name)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (128 + number, "cleaned up\n")
    assert done.stderr == ("tfgpu: interrupted\n" if number == signal.SIGINT else "")


# A worker that waits for the other machine, as TensorFlow does: for ever, in the request that is named.
WAITING = """
import json, os, sys, time
for line in sys.stdin:
    request = json.loads(line)["do"]
    if request == sys.argv[1]:
        os.execv("/bin/sleep", ["sleep", sys.argv[2]])
    hello = {"tensorflow": "2.21.0", "numpy": "2.0.0", "python": "3.12.1", "gpus": []}
    print(json.dumps(hello if request == "hello" else {"cold": {}}), flush=True)
"""


def machine(stage: Stage, index: int, address: str, waits_in: str) -> subprocess.Popen[str]:
    """Start `bench cnn` on one of two machines, whose worker waits in a request for the other machine."""
    stage.plant("sleeps")
    script = stage.folder / "waiting.py"
    script.write_text(WAITING)
    stage.write(
        stage.folder / "bin" / "python",
        f"#!/bin/sh\necho worker >> {stage.folder}/started\n"
        f'case "$*" in *worker.py*) exec {sys.executable} {script} {waits_in} {stage.mark} ;; esac\n'
        f'exec {sys.executable} "$@"\n',
    )
    addresses = [address, address]
    with socket.create_server(("127.0.0.1", 0)) as own:
        addresses[index] = f"127.0.0.1:{own.getsockname()[1]}"
    cluster = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
    stage.driver = {"TF_CONFIG": json.dumps(cluster)}
    return stage.start("one of two machines")


MISSED = [
    (habit, index, where) for habit in ("never comes", "dies") for index in (0, 1) for where in ("prepare", "next")
]


@pytest.mark.parametrize("row", usual(MISSED, lambda row: row == ("dies", 0, "next")), ids=str)
def test_another_machine_that_does_not_do_its_part(stage: Stage, row: tuple[str, int, str]) -> None:
    habit, index, waits_in = row
    request = waits_in if waits_in == "prepare" else ("sample", "follow")[index]
    with socket.create_server(("127.0.0.1", 0), backlog=64) as peer:  # the system takes its connections
        address = f"127.0.0.1:{peer.getsockname()[1]}"
        if habit == "never comes":
            peer.close()
        running = machine(stage, index, address, request)
        time.sleep(2.0 if habit == "dies" else 0.0)
    code, output = ended(running, stage)
    assert code in (1, 3), output
