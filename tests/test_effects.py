"""What no command does: execute what lies in the current directory, use the network, start a shell, write unasked.

A folder holds a file of every name that tfgpu and its children could import: the whole standard library, and all that
is installed here. Each writes down its name when it is executed. An audit hook sees what the process of the command
does; what it starts is TensorFlow's interpreter and the programs of probes.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest

import tfgpu_doctor
from tests.bench.samples import result, run
from tests.healthy import MATRIX, healthy
from tfgpu_doctor.bench.runner.process import WorkerError, WorkerProcess
from tfgpu_doctor.cli import cli
from tfgpu_doctor.facts.facts import Known
from tfgpu_doctor.plan.diagnosis import make_report
from tfgpu_doctor.probes.tensorflow import ProbeResult, TensorFlowProbe

# The user's own TensorFlow is looked for there on purpose, and -m looks for the package that it is told to run.
EXPECTED = {"tensorflow", "tfgpu_doctor"}
TENSORFLOW = str(Path(__file__).parent / "patients" / "import_error")

# Every command, with what it reads. doctor, bench and smoke go on to a TensorFlow that cannot be imported.
CALLS = {
    "bench": (["show", "result.json", "--output", "result.html"], ["matpow", "--size", "64"]),
    "check": (["requirements.txt"],),
    "compare": (["report.json", "report.json"],),
    "doctor": (["--format", "html", "--output", "page.html"], ["--no-import"], ["--from", "report.json"]),
    "explain": (["requirements.txt"], ["cuda.version-mismatch"]),
    "fleet": (["report.json", "result.json"],),
    "install": (["made", "--dry-run", "--gpu", "H100", "--os", "macos"],),  # more in tests/install
    "matrix": (["cuda", "--version", "12.5"], ["find", "R36.4"], ["find"]),
    "mcp": ([],),  # standard input is empty
    "plan": ([], ["--gpu", "H100"]),
    "smoke": (["--budget", "5"],),
}
# The console script, several times in one process, with a hook that sees what it does. In a folder of its own, as the
# console script is. In the end it does what the hook must see.
CONSOLE = """
import json, os, socket, subprocess, sys, tempfile
from tfgpu_doctor.__main__ import main
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = {f"os.{verb}" for verb in ("mkdir", "rename", "remove", "rmdir", "link", "symlink", "truncate", "chmod")}
codes, seen = [], []

def path_of(event, arguments):
    # what removes a folder names the files in it by the descriptor of that folder
    folder = arguments[-1] if event in ("os.remove", "os.rmdir") else -1
    return os.path.join(os.readlink(f"/proc/self/fd/{folder}") if folder >= 0 else "", str(arguments[0]))

def hook(event, arguments):
    if event.startswith("socket.") and event != "socket.__new__":
        seen.append(("network", event))
    elif event in CHANGES or (event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITES):
        if not isinstance(arguments[0], int):  # a pipe to a child
            seen.append(("written", path_of(event, arguments)))
    elif event in ("os.system", "os.exec", "os.posix_spawn"):
        seen.append(("started", str(arguments)))
    elif event == "subprocess.Popen" and os.path.basename(str(arguments[0])) in ("sh", "bash", "dash"):
        seen.append(("shell", str(arguments)))

tempfile.gettempdir()  # is tried by writing a file
sys.addaudithook(hook)
for arguments in json.loads(sys.argv.pop()):
    sys.argv[1:] = arguments
    try:
        codes.append(main() or 0)
    except SystemExit as end:
        codes.append(end.code)
socket.socket().connect_ex(("127.0.0.1", 9))
subprocess.run("true", shell=True)
print(json.dumps([codes, seen]), file=sys.stderr)
"""


class Planted:
    """The folder, and what was executed there."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.record = folder / "planted", folder / "executed"
        self.folder.mkdir()
        self.record.touch()
        for name in {*sys.stdlib_module_names, *importlib.metadata.packages_distributions()} - EXPECTED:
            self.plant(name)

    def plant(self, name: str, more: str = "") -> None:
        """Add a module that writes down its name."""
        text = f"with open({str(self.record)!r}, 'a') as _record:\n    _record.write({name!r} + '\\n')\n{more}"
        (self.folder / f"{name}.py").write_text(text)

    def executed(self) -> list[str]:
        """What was executed since this was asked last."""
        names = self.record.read_text().split()
        self.record.write_text("")
        return names

    def run(self, *command: str, **variables: str) -> str:
        """Run a command there, and return what it wrote to stderr."""
        package = str(Path(tfgpu_doctor.__file__).parents[1])
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join([TENSORFLOW, package]), **variables}
        done = subprocess.run(command, cwd=self.folder, env=environ, capture_output=True, text=True, timeout=240)
        return done.stderr


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    return Planted(tmp_path_factory.mktemp("foreign"))


class Called(NamedTuple):
    """What every command did in the folder."""

    executed: list[str]
    seen: list[list[str]]  # kind, and what
    left: set[str]  # names of files


@pytest.fixture(scope="module")
def called(planted: Planted) -> Called:
    folder = planted.folder
    (folder / "report.json").write_bytes(make_report(healthy(), MATRIX, source="live", timings={}).to_json())
    (folder / "result.json").write_bytes(result(run("CPU"), run("1 GPU")).to_json())
    (folder / "requirements.txt").write_text("tensorflow==2.15.1\n-r more.txt\n")
    console = folder.parent / "bin" / "tfgpu"
    console.parent.mkdir()
    console.write_text(CONSOLE)
    before = set(os.listdir(folder))
    calls = [["--help"], *([name, *arguments] for name, rows in CALLS.items() for arguments in rows)]
    variables = {"UV_OFFLINE": "1", "PIP_NO_INDEX": "1", "PYTHONDONTWRITEBYTECODE": "1"}  # a resolver ends at once
    errors = planted.run(sys.executable, str(console), json.dumps(calls), **variables)
    codes, seen = json.loads(errors.splitlines()[-1])
    assert len(codes) == len(calls) and set(codes) <= {0, 1, 3}, errors
    return Called(planted.executed(), seen, set(os.listdir(folder)) - before)


def test_no_command_executes_what_lies_in_the_current_directory(called: Called) -> None:
    assert CALLS.keys() == cli.commands.keys()
    assert called.executed == []


def test_no_network_no_shell_and_nothing_written_but_what_was_asked_for(planted: Planted, called: Called) -> None:
    *seen, network, shell = called.seen
    assert (network[0], shell[0]) == ("network", "shell"), "the hook does not see what it looks for"
    # pages, and temporary files beside them; folders of benchmarks, which they remove
    here = [os.path.join(planted.folder, name) for name in ("page.html", "result.html", ".tfgpu-")]
    asked = (os.devnull, *here, os.path.join(tempfile.gettempdir(), "tfgpu-"))
    assert [[kind, what] for kind, what in seen if kind != "written" or not what.startswith(asked)] == []
    assert called.left == {"page.html", "result.html"}


def test_python_m_executes_no_more_than_python_itself(planted: Planted) -> None:
    planted.plant("does_nothing")
    planted.run(sys.executable, "-m", "does_nothing")
    own = {"does_nothing", *planted.executed()}
    planted.run(sys.executable, "-m", "tfgpu_doctor", "check", "-")
    assert set(planted.executed()) <= own


def examine(folder: Path, pythonpath: str = TENSORFLOW, **variables: str) -> ProbeResult:
    environ = {**os.environ, "PYTHONPATH": pythonpath, **variables}
    with pytest.MonkeyPatch.context() as here:
        here.chdir(folder)
        with TensorFlowProbe(sys.executable, environ=environ, until="import") as probe:
            return probe.result()


IMPORTS = "import json, sys\n__version__ = str([json.__file__, sys.path[0]])\n"


@pytest.mark.parametrize("safe", ["", "1"])
def test_tensorflow_is_imported_as_python_c_does_it(planted: Planted, tmp_path: Path, safe: str) -> None:
    """Then, and only then, with the current directory in its place, and no module of ours in front of the user's."""
    planted.plant("tensorflow", IMPORTS)
    (tmp_path / "tensorflow.py").write_text(IMPORTS)
    variables = {"PYTHONSAFEPATH": safe} if safe else {}
    command = "import tensorflow; print(tensorflow.__version__, file=__import__('sys').stderr)"
    expected = planted.run(sys.executable, "-c", command, PYTHONPATH=str(tmp_path), **variables).strip()
    own = planted.executed()
    found = examine(planted.folder, str(tmp_path), **variables)
    assert planted.executed() == own
    version = found.tensorflow.version
    assert (version.value if isinstance(version, Known) else None) == expected
    assert (str(planted.folder) == found.sys_path[0]) == (not safe or sys.version_info < (3, 11))
    paths = found.python.tensorflow_paths
    assert isinstance(paths, Known) and (str(planted.folder / "tensorflow.py") in paths.value) == bool(own)


def test_an_empty_entry_of_pythonpath_is_the_current_directory_too(tmp_path: Path) -> None:
    """Only a part of the standard library: Python's own start imports what lies there, before any program."""
    for name in ("json", "fcntl", "select", "traceback", "faulthandler"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('executed')\n")
    found = examine(tmp_path, f"{os.pathsep}{TENSORFLOW}")
    assert [phase.outcome for phase in found.tensorflow.phases[:3]] == ["ok", "ok", "raised"]
    assert found.sys_path[0] == str(tmp_path)
    assert "libcudart" in (found.tensorflow.phases[2].exception or "")


def test_the_worker_imports_the_same_tensorflow(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    planted.plant("tensorflow", "raise ImportError('this one')")
    monkeypatch.chdir(planted.folder)
    with WorkerProcess(sys.executable) as worker, pytest.raises(WorkerError, match="ImportError: this one"):
        worker.ask(60.0, do="hello")
    assert planted.executed() == ["tensorflow"]
