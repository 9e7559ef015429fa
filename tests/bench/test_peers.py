"""The watch over other machines, with a door that opens and closes as the test says, and with real ones."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.bench.fake_worker import Clock, FakeWorker
from tests.bench.test_cluster import TWO
from tests.tables import each
from tfgpu_doctor.bench import cluster as cluster_module
from tfgpu_doctor.bench.cluster import Cluster, Watch, config, knock, parse
from tfgpu_doctor.bench.runner.process import WorkerError


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "PERIOD", 0.01)
    monkeypatch.setattr(cluster_module, "SETTLE", 2.0)


@pytest.fixture
def pair() -> Cluster:
    found = parse(config(TWO, 0))
    assert found is not None
    return found


class Door:
    """Whether the other machine answers."""

    def __init__(self, *, is_open: bool) -> None:
        self.is_open = is_open
        self.knocked: list[str] = []

    def __call__(self, address: str) -> str | None:
        self.knocked.append(address)
        return None if self.is_open else "Connection refused"


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


def common(worker: Any) -> dict[str, Any]:
    answer: dict[str, Any] = worker.ask(1.0, do="prepare", spread="workers", devices=["/CPU:0"], parameters={})
    return answer


@pytest.fixture
def started(pair: Cluster) -> Iterator[Callable[..., tuple[Watch, Any, FakeWorker]]]:
    watches = []

    def start(door: Door, patience: float = 60.0, **options: Any) -> tuple[Watch, Any, FakeWorker]:
        watch, worker = Watch(pair, patience, door), FakeWorker(Clock(), **options)
        watches.append(watch)
        return watch, watch.over(worker), worker

    yield start
    for watch in watches:
        watch.disarm()


def test_one_that_never_comes_ends_the_work_here_and_is_named(started: Any) -> None:
    door = Door(is_open=False)
    watch, watched, worker = started(door, 0.05)
    common(watched)
    until(lambda: watch.lost)
    assert worker.closed
    assert set(door.knocked) == {"b:2222"}
    with pytest.raises(
        WorkerError, match=r"not reachable within 0.05 s: worker 1 \(b:2222\): Connection refused; start the"
    ):
        watched.ask(1.0, do="sample", count=1, steps=1)


def test_one_that_is_gone_is_named_even_where_tensorflow_says_something_else(started: Any) -> None:
    door = Door(is_open=True)

    def trouble(verb: str, _sample: int) -> None:
        if verb == "sample":
            door.is_open = False
            raise WorkerError("UnavailableError: Socket closed")

    _, watched, worker = started(door, trouble=trouble)
    common(watched)
    until(lambda: door.knocked)
    with pytest.raises(WorkerError, match=r"^worker 1 \(b:2222\) is no longer reachable: Connection refused$"):
        watched.ask(1.0, do="sample", count=1, steps=1)
    assert worker.closed


def test_an_error_here_stays_what_it_is_while_the_others_answer(started: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "SETTLE", 0.05)

    def trouble(verb: str, _sample: int) -> None:
        if verb == "verify":
            raise WorkerError("the result is wrong")

    watch, watched, worker = started(Door(is_open=True), trouble=trouble)
    common(watched)
    with pytest.raises(WorkerError, match=r"^the result is wrong$"):
        watched.ask(1.0, do="verify")
    assert watch.lost is None and not worker.closed


def test_one_look_without_an_answer_is_no_loss(pair: Cluster) -> None:
    answers = iter([None, "no answer", "no answer", None, "no answer", "no answer"])
    knocks = []

    def sometimes(address: str) -> str | None:
        knocks.append(address)
        return next(answers, None)

    watch = Watch(pair, 60.0, sometimes)
    watch.arm()
    until(lambda: len(knocks) > 10)
    watch.disarm()
    assert watch.lost is None


@each("last", ["farewell", "follow"])
def test_after_the_last_word_the_others_may_go(last: str, started: Any) -> None:
    class Follower(FakeWorker):
        def _follow(self, _request: dict[str, Any]) -> dict[str, Any]:
            return {"done": "end"}

    door = Door(is_open=True)
    watch, _, _ = started(door)
    worker = Follower(Clock())
    watched = watch.over(worker)
    common(watched)
    watched.ask(1.0, do=last)
    assert not watch.armed
    door.is_open = False
    time.sleep(0.1)
    assert watch.lost is None and not worker.closed


def test_nobody_is_expected_by_a_case_of_this_machine_alone(started: Any) -> None:
    door = Door(is_open=False)
    watch, watched, _ = started(door, 0.01)
    watched.ask(1.0, do="prepare", spread="one device", devices=["/CPU:0"], parameters={})
    assert not watch.armed and door.knocked == []


def test_a_real_door() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert knock(address) is None
    assert knock(address) == "Connection refused"
