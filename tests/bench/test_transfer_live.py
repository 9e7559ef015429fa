"""`tfgpu bench transfer` with the real TensorFlow over logical CPU devices: bytes do move, and wrong ones are seen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tfgpu_doctor.bench.runner.process import WorkerProcess
from tfgpu_doctor.bench.workloads import routes, transfer

TFGPU = [sys.executable, "-m", "tfgpu_doctor", "bench", "transfer"]
FOLDER = Path(transfer.__file__).parents[1]
NO_GPUS = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "COLUMNS": "80"}


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TFGPU, *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=NO_GPUS,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sizes", "1"], "--sizes: '1' is no size from 1KiB to 64GiB in whole float32 numbers"),
        (["--sizes", "1MiB,lots"], "write for example 1MiB,16MiB,256MiB"),
        (["--gpus", "none"], "give a number from 1 up, or all"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    done = command(*arguments)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())


@pytest.mark.tensorflow
def test_every_route_of_logical_devices(tensorflow_python: str, tmp_path: Path) -> None:
    file = tmp_path / "transfer.json"
    short = ["--min-samples", "3", "--deadline", "0.1", "--sizes", "4KiB,64KiB", "--virtual-gpus", "3"]
    done = command("--python", tensorflow_python, *short, "--output", str(file))
    assert done.returncode == 0, done.stderr
    runs = json.loads(file.read_bytes())["runs"]
    assert [(run["parameters"]["route"], run["parameters"]["bytes"]) for run in runs] == [
        (route, size)
        for route in ("memory copy", "CPU 0 to CPU 1", "CPU 1 to CPU 0", "all-reduce", "all-reduce by one device")
        for size in (4096, 65536)
    ]
    assert all(run["verified"]["ok"] and run["verified"]["checks"][0]["ok"] for run in runs)
    assert runs[0]["throughput"]["unit"] == "B/s" and not runs[0]["virtual"]
    assert [figure["name"] for figure in runs[-1]["figures"]] == ["algbw"]
    assert set(runs[-1]["placed_on"]) == {"/CPU:0", "/CPU:1", "/CPU:2"}
    assert "10 of 10 results measured and verified" in " ".join(done.stdout.split())


@pytest.fixture(scope="module")
def worker(tensorflow_python: str) -> Iterator[WorkerProcess]:
    """A worker with two logical CPU devices."""
    with WorkerProcess(tensorflow_python, NO_GPUS) as process:
        process.ask(120, do="hello")
        yield process


def prepare(worker: WorkerProcess, route: str, count: int) -> None:
    worker.ask(
        120,
        do="prepare",
        workload="transfer",
        parameters={"route": route, "bytes": count},
        dtype="float32",
        devices=["/CPU:0", "/CPU:1"] if route == routes.PEER else ["/CPU:0"],
        gpus=[],
        spread="together",
        virtual=True,
        virtual_memory_mib=256,
    )


@pytest.mark.tensorflow
@pytest.mark.parametrize("route", [routes.PEER, routes.WITHIN])
def test_time_grows_with_bytes(route: str, worker: WorkerProcess) -> None:
    """What is elided takes the same time for any size; here 256 times as many bytes have to take 8 times as long."""
    seconds = []
    for count in (2**18, 2**26):
        prepare(worker, route, count)
        worker.ask(60, do="sample", count=2, steps=1)
        assert transfer.judge(worker.ask(60, do="verify"), "float32", {}).ok
        answer = worker.ask(60, do="sample", count=7, steps=1)
        assert answer["rechecked"] == [] and answer["misplaced"] is None
        seconds.append(min(answer["samples"]))
    assert seconds[1] > 8 * seconds[0]


# One element of what arrives is spoiled, or what was sent before arrives again: judged by the real workload.
SPOIL = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("worker", sys.argv[1] + "/worker.py")
worker = importlib.util.module_from_spec(spec)
spec.loader.exec_module(worker)
import tensorflow as tf
work = worker.load("transfer").Workload({"route": sys.argv[2], "bytes": 4096}, "float32", ["/CPU:0"], "one device")
move, sources = work.step.move, work.step.sources
ways = {
    "right": move,
    "spoiled": lambda source: (tf.tensor_scatter_nd_add(move(source)[0], [[1023]], [1e-6]),),
    "stale": lambda source: move(sources[0]),
}
answers = {}
for name, way in ways.items():
    work.verified, work.step = False, work.step._replace(move=way)
    work.sample(3)
    first = work.verify({})
    later = []
    for _ in range(2):
        work.sample(2)
        later.append(work.recheck())
    answers[name] = {"first": first, "later": later}
print(json.dumps(answers))
"""


@pytest.mark.tensorflow
def test_wrong_and_stale_bytes_are_seen(tensorflow_python: str) -> None:
    done = subprocess.run(
        [tensorflow_python, "-c", SPOIL, str(FOLDER), routes.WITHIN],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=NO_GPUS,
    )
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    right, spoiled, stale = answers["right"], answers["spoiled"], answers["stale"]
    assert transfer.judge(right["first"], "float32", {}).ok and right["later"] == [None, None]
    assert spoiled["first"]["wrong"] == 1
    assert [transfer.judge(later, "float32", {}).ok for later in spoiled["later"]] == [False, False]
    wrong = [found for found in [stale["first"], *stale["later"]] if found and found["wrong"]]
    assert wrong, "the second set of numbers is sent in turns"
