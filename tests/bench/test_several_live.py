"""Several machines for real: two processes on 127.0.0.1, each its own `tfgpu bench cnn`."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from tests.guard import eventually
from tfgpu_doctor.bench.results import BenchResult
from tfgpu_doctor.bench.runner.process import WorkerProcess

pytestmark = [pytest.mark.full, pytest.mark.tensorflow, pytest.mark.skipif(os.name != "posix", reason="signals")]
TINY = ("--batch-size", "8", "--min-samples", "3", "--deadline", "1")
LONG = ("--batch-size", "8", "--min-samples", "1000", "--deadline", "300")
Process = subprocess.Popen[str]


def test_slurm_numbers_its_tasks_in_the_order_of_its_nodes(tensorflow_python: str) -> None:
    slurm = {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "6", "SLURM_STEP_NODELIST": "node[2,9-10]"}
    environ = {**os.environ, **slurm, "SLURM_STEP_TASKS_PER_NODE": "2(x3)", "CUDA_VISIBLE_DEVICES": "-1"}
    with WorkerProcess(tensorflow_python, environ) as worker:
        worker.ask(120.0, do="hello")
        found = worker.ask(60.0, do="reference", workload="machines", task="slurm")
    nodes = [f"node{number}:{port}" for number in (2, 9, 10) for port in (8888, 8889)]
    assert found == {"cluster": {"worker": nodes}, "index": 3}


class Pair:
    """Starts the two."""

    def __init__(self, python: str) -> None:
        self.python = python
        with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
            self.addresses = [f"127.0.0.1:{server.getsockname()[1]}" for server in (one, two)]
        self.started: list[Process] = []

    def start(self, index: int, *arguments: str) -> Process:
        config = json.dumps({"cluster": {"worker": self.addresses}, "task": {"type": "worker", "index": index}})
        command = [sys.executable, "-m", "tfgpu_doctor", "bench", "cnn", "--python", self.python, *arguments]
        environ = {**os.environ, "TF_CONFIG": config, "CUDA_VISIBLE_DEVICES": "-1", "COLUMNS": "200"}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.started.append(subprocess.Popen(command, text=True, env=environ, **pipes))
        return self.started[-1]


@pytest.fixture
def pair(tensorflow_python: str) -> Iterator[Pair]:
    """Two workers on this machine; what is left of them is killed."""
    pair = Pair(tensorflow_python)
    yield pair
    for process in pair.started:
        process.kill()
        process.communicate(timeout=30)


def children(process: Process) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def final(told: str) -> str:
    """Without the lines of progress that a slow machine prints ("after 13 s")."""
    return "".join(line for line in told.splitlines(keepends=True) if not line.startswith("tfgpu: after "))


def test_two_train_together_and_the_first_reports(pair: Pair, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    other = pair.start(1, *TINY, "--output", str(tmp_path / "other.json"))
    chief = pair.start(0, *TINY, "--output", str(file))
    text, error = chief.communicate(timeout=240)
    silent, told = other.communicate(timeout=30)
    assert (chief.returncode, other.returncode) == (0, 0), error + told
    together, alone = msgspec.json.decode(file.read_bytes(), type=BenchResult).runs
    assert (together.label, alone.label) == ("2 workers, CPU", "CPU")
    assert together.verified and together.verified.ok
    names = [check.name for check in together.verified.checks]
    assert names[2:] == ["like one device", "same update", "replicas identical"]
    assert together.verified.checks[-1].saw == "10 of 10 weights in 2 replicas"
    assert together.placed_on == together.devices == ("/CPU:0", "/task:1/CPU:0")
    assert together.virtual  # both are this one machine
    assert "2 workers, CPU" in text
    assert silent == "" and not (tmp_path / "other.json").exists()
    assert final(told) == f"tfgpu: worker 1 of 2 is done; worker 0 ({pair.addresses[0]}) prints the report\n"


def test_one_that_dies_midway_ends_both(pair: Pair, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    other, chief = pair.start(1, *LONG), pair.start(0, *LONG, "--output", str(file))
    assert eventually(lambda: file.exists() and b'"samples_s": [\n' in file.read_bytes(), 180), "no samples"
    left = [*children(chief), *children(other)]
    for child in children(other):
        child.kill()
    died = time.monotonic()
    text, _ = chief.communicate(timeout=60)
    assert time.monotonic() - died < 30
    _, told = other.communicate(timeout=60)
    assert (chief.returncode, other.returncode) == (1, 1)
    assert f"worker 1 ({pair.addresses[1]}) is not reachable" in text
    assert final(told).startswith("tfgpu: worker 1 of 2: ") and "Traceback" not in told
    assert psutil.wait_procs(left, timeout=10)[1] == []
    together = msgspec.json.decode(file.read_bytes(), type=BenchResult).runs[0]
    assert together.throughput is None and together.failure


def test_different_options_are_told(pair: Pair) -> None:
    other, chief = pair.start(1, *TINY, "--dtype", "mixed_bfloat16"), pair.start(0, *TINY)
    text, _ = chief.communicate(timeout=240)
    _, told = other.communicate(timeout=120)
    assert (chief.returncode, other.returncode) == (1, 1)
    assert "use the same command on each" in text or "use the same command on each" in told
