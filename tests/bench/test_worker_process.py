"""Worker processes that hang, die, talk nonsense: each is an error with a reason, and none is left behind."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

import tfgpu_doctor
from tests.tables import each, read_rows
from tfgpu_doctor.bench.runner.process import _ANSWERS, WorkerError, WorkerProcess, problem

BENCH = Path(tfgpu_doctor.__file__).parent / "bench"
ANSWER_ONCE = "import sys\nsys.stdin.readline()\nprint('hello from a profile\\n[1]\\n{\"fine\": 1}', flush=True)\n"
SAMPLE = {"samples": [], "placed_on": [], "misplaced": None, "rechecked": [], "waited": 0.0, "busy": 0.0}

ROWS = read_rows(Path(__file__).with_name("rows.yaml"))


@each(("source", "message"), ROWS["workers"].values())
def test_trouble(source: str, message: str, tmp_path: Path) -> None:
    (script := tmp_path / "worker.py").write_text(source)
    with WorkerProcess(sys.executable, script=script) as worker:
        pid = worker._child.process.pid
        with pytest.raises(WorkerError) as info:
            worker.ask(0.3 if "within" in message else 30.0, do="hello")
    assert str(info.value).startswith(message)
    assert not psutil.pid_exists(pid)


def test_an_answer_and_the_end(tmp_path: Path) -> None:
    (script := tmp_path / "worker.py").write_text(ANSWER_ONCE)
    with WorkerProcess(sys.executable, script=script) as worker:
        assert worker.ask(30.0, do="farewell") == {"fine": 1}  # the lines before it are another program's
        with pytest.raises(WorkerError, match="the worker ended with exit code 0"):
            worker.ask(30.0, do="sample")


def test_no_such_interpreter() -> None:
    with pytest.raises(WorkerError, match="/no/such/python cannot be started: No such file or directory"):
        WorkerProcess("/no/such/python")


LEAVES = """
import json, os, subprocess, sys, tempfile, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(json.dumps({"file": tempfile.mkstemp()[1], "child": child.pid}), flush=True)
input()
"""


@each("then", ["os._exit(0)", "time.sleep(600)"])
def test_children_and_temporary_files_of_a_worker_go_with_it(then: str, tmp_path: Path) -> None:
    """As those of AutoGraph, which TensorFlow removes at an orderly end only."""
    (script := tmp_path / "worker.py").write_text(LEAVES + then)
    with WorkerProcess(sys.executable, script=script) as worker:
        left = worker.ask(30.0, do="farewell")
        file, child = Path(left["file"]), psutil.Process(left["child"])
        assert file.is_file()
    assert not file.parent.exists() and file.parent.name.startswith("tfgpu-")
    psutil.wait_procs([child], timeout=10)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


@each(("request_", "answer"), ROWS["answers"])
def test_every_part_of_an_answer_is_checked(request_: dict[str, Any], answer: dict[str, Any]) -> None:
    assert problem(request_, answer) is None
    for name in answer:
        assert "missing" in (problem(request_, {key: one for key, one in answer.items() if key != name}) or "")
    for name in answer:
        for odd in (object, {"x": [None]}, [{}], -1, "\0", float("nan"), 2**200):
            if problem(request_, {**answer, name: odd}) is None:
                text = isinstance(odd, str) and isinstance(answer[name], str | None)
                assert text or (name, odd) == ("rechecked", [{}]), (name, odd)  # that is for the judge
    for odd in ([], [0.0, 1.0], [-1.0, 1.0], [float("nan"), 1.0], [float("inf"), 1.0], [1.0, -1.0], [1.0]):
        assert problem({"do": "sample"}, {**SAMPLE, "samples": [odd]}), "samples are times with their loads"
    assert problem({"do": "sample"}, SAMPLE), "no samples"


def test_every_request_of_a_worker_has_its_answer() -> None:
    verbs = set(re.findall(r'do="(\w+)"', "".join(file.read_text() for file in BENCH.rglob("*.py"))))
    # nobody reads the answer to a farewell; verify is the workload's, and reference has its tasks
    assert verbs - set(_ANSWERS) == {"farewell", "verify", "reference"}
    assert set(_ANSWERS) - verbs == {"describe", "unusable", "slurm"}


def test_a_process_that_is_forked_off_does_not_answer() -> None:
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "patients" / "forks")}
    with WorkerProcess(sys.executable, environ) as worker, pytest.raises(WorkerError, match="of the parent"):
        worker.ask(60.0, do="hello")
