"""Worker processes that hang, die, talk nonsense: each is an error with a reason, and none is left behind."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
import pytest

from tfgpu_doctor.bench.runner.process import WorkerError, WorkerProcess

ANSWER_ONCE = "import sys\nsys.stdin.readline()\nprint('{\"fine\": 1}', flush=True)\n"

SCRIPTS = {
    "hangs": ("import time\ntime.sleep(600)", "no answer to 'hello' within 0 s"),
    "dies of a signal": (
        "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)",
        "the worker was killed by SIGSEGV",
    ),
    "exits": (
        "import sys\nprint('something broke', file=sys.stderr)\nsys.exit(7)",
        "the worker ended with exit code 7: something broke",
    ),
    "talks nonsense": (
        "print('Hello there [bold]', flush=True)\ninput()",
        "answered 'hello' with 'Hello there [bold]'",
    ),
    "answers with a list": ("print('[1, 2]', flush=True)\ninput()", "answered 'hello' with '[1, 2]'"),
    "answers with an error": (
        'print(\'{"error": "ModuleNotFoundError: no tensorflow"}\', flush=True)\ninput()',
        "ModuleNotFoundError: no tensorflow",
    ),
}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return tmp_path / "worker.py"


@pytest.mark.parametrize("name", SCRIPTS)
def test_trouble(name: str, script: Path) -> None:
    source, message = SCRIPTS[name]
    script.write_text(source)
    waits = 0.3 if "within" in message else 30.0
    with WorkerProcess(sys.executable, script=script) as worker:
        pid = worker._child.process.pid
        with pytest.raises(WorkerError) as info:
            worker.ask(waits, do="hello")
    assert str(info.value).startswith(message)
    assert not psutil.pid_exists(pid)


def test_an_answer_and_the_end(script: Path) -> None:
    script.write_text(ANSWER_ONCE)
    with WorkerProcess(sys.executable, script=script) as worker:
        assert worker.ask(30.0, do="hello") == {"fine": 1}
        with pytest.raises(WorkerError, match="the worker ended with exit code 0"):
            worker.ask(30.0, do="sample")


def test_no_such_interpreter() -> None:
    with pytest.raises(WorkerError, match="/no/such/python cannot be started: No such file or directory"):
        WorkerProcess("/no/such/python")


def test_children_of_a_worker_end_with_it(script: Path) -> None:
    script.write_text(
        "import subprocess, sys\nchild = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print('{\"pid\": %d}' % child.pid, flush=True)\ninput()\n"
    )
    with WorkerProcess(sys.executable, script=script) as worker:
        grandchild = psutil.Process(worker.ask(30.0, do="hello")["pid"])
    psutil.wait_procs([grandchild], timeout=10)
    assert not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE
