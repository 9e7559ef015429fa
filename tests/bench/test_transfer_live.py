"""`tfgpu bench transfer` with the real TensorFlow over logical CPU devices: bytes do move, and wrong ones are seen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench.live import WORKER_PROCESS, Shared, SharedWorker, bench, refuses, share
from tests.tables import each
from tfgpu_doctor.bench.workloads import transfer


@pytest.fixture(scope="module")
def alone(tensorflow_python: str) -> Iterator[Shared]:
    """A process of its own: reductions over devices share the keys of their collectives with trainings."""
    with share(tensorflow_python) as shared:
        yield shared


@each(
    ("arguments", "message"),
    [
        (["--size", "1"], "1 is not a number from 1024 to 68719476736 that is a multiple of 4"),
        (["--size", "1MiB,lots"], "'lots' is not a number such as 512"),
        (["--gpus", "none"], "must be a number from 1 up, or all"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    refuses(["transfer", *arguments], message)


@pytest.mark.full
@pytest.mark.tensorflow
def test_every_route_of_logical_devices(alone: Shared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "transfer.json"
    short = ["--min-samples", "3", "--deadline", "0.1", "--size", "4KiB,64KiB", "--virtual-gpus", "3"]
    monkeypatch.setattr(*WORKER_PROCESS, alone)
    done = bench("transfer", *short, "--output", str(file))
    assert done.exit_code == 0, done.stderr
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


def prepare(worker: SharedWorker, route: str, count: int) -> None:
    worker.ask(
        120,
        do="prepare",
        workload="transfer",
        parameters={"route": route, "bytes": count},
        dtype="float32",
        devices=["/CPU:0", "/CPU:1"] if route == transfer.PEER else ["/CPU:0"],
        gpus=[],
        spread="together",
        virtual=True,
        virtual_memory_mib=256,
    )


@pytest.mark.full  # by wall time
@pytest.mark.tensorflow
@each("route", [transfer.PEER, transfer.WITHIN])
def test_time_grows_with_bytes(route: str, alone: Shared) -> None:
    """What is elided takes the same time for any size; here 256 times as many bytes have to take 8 times as long."""
    worker, seconds = alone(), []
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
import tensorflow as tf
work = load("transfer").Workload({"route": "memory copy", "bytes": 4096}, "float32", ["/CPU:0"], "one device")
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
"""


@pytest.mark.tensorflow
def test_wrong_and_stale_bytes_are_seen(shared: Shared) -> None:
    answers: dict[str, Any] = shared.run(SPOIL)
    right, spoiled, stale = answers["right"], answers["spoiled"], answers["stale"]
    assert transfer.judge(right["first"], "float32", {}).ok and right["later"] == [None, None]
    assert spoiled["first"]["wrong"] == 1
    assert [transfer.judge(later, "float32", {}).ok for later in spoiled["later"]] == [False, False]
    wrong = [found for found in [stale["first"], *stale["later"]] if found and found["wrong"]]
    assert wrong, "the second set of numbers is sent in turns"
