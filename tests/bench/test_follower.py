"""A machine that follows: every job in a process of its own, to the first machine's last word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.bench.fake_worker import Clock, FakeWorker
from tests.bench.test_cnn import cluster
from tfgpu_doctor.bench.cluster import follow
from tfgpu_doctor.bench.devices import DeviceError, GpuFound, Selection
from tfgpu_doctor.bench.plans.training import Cnn
from tfgpu_doctor.bench.runner.process import WorkerError
from tfgpu_doctor.bench.session import NoTensorFlowError


class Follower(FakeWorker):
    """Is led through some pieces of work."""

    def __init__(self, pieces: Sequence[str] = ("verify", "steps", "end"), **options: Any) -> None:
        super().__init__(Clock(), **options)
        self.pieces = list(pieces)

    def _follow(self, _request: dict[str, Any]) -> dict[str, Any]:
        return {"done": self.pieces.pop(0)}


def test_every_type_has_a_process_of_its_own_and_all_are_ended() -> None:
    workers = [Follower(gpus=1), Follower(("steps", "end"), gpus=1)]
    waiting = list(workers)
    plan = Cnn(dtypes=("float32", "tf32"), cluster=cluster(1))
    assert follow(plan.part, lambda: waiting.pop(0), patience=1.0) == 3
    assert [worker.asked for worker in workers] == [
        ["hello", "prepare", "follow", "follow", "follow"],
        ["hello", "prepare", "follow", "follow"],
    ]
    assert all(worker.closed for worker in workers)
    assert workers[0].devices == ["/GPU:0", "/task:0/GPU:0"]


def test_a_tensorflow_that_does_not_start() -> None:
    def trouble(_verb: str, _sample: int) -> None:
        raise WorkerError("killed by SIGILL")

    worker = Follower(trouble=trouble)
    with pytest.raises(NoTensorFlowError, match="SIGILL"):
        follow(Cnn(cluster=cluster(1)).part, lambda: worker, patience=1.0)
    assert worker.closed


def test_a_machine_that_is_gone_ends_the_process_here() -> None:
    def trouble(verb: str, _sample: int) -> None:
        if verb == "follow":
            raise WorkerError("worker 0 (a:1) is no longer reachable: Connection refused")

    worker = Follower(trouble=trouble)
    with pytest.raises(WorkerError, match=r"worker 0 .* is no longer reachable"):
        follow(Cnn(cluster=cluster(1)).part, lambda: worker, patience=1.0)
    assert worker.closed


def test_gpus_that_only_others_have() -> None:
    worker = Follower()
    plan = Cnn(selection=Selection(gpus=1, explicit=True), cluster=cluster(1))
    with pytest.raises(DeviceError, match="1 GPU requested"):
        follow(plan.part, lambda: worker, patience=1.0)
    assert worker.closed


def test_devices_are_found_before_a_part_is_chosen() -> None:
    seen: list[tuple[GpuFound, ...]] = []
    follow(lambda found: seen.append(tuple(found)) or (), lambda: Follower(gpus=2), patience=1.0)
    assert len(seen[0]) == 2
