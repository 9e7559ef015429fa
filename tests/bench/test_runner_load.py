"""CPU time of other programs: of everybody, less the worker's."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.bench.fake_worker import Clock, FakeWorker
from tests.bench.test_runner import CPU, runs
from tfgpu_doctor.bench.runner import runner
from tfgpu_doctor.bench.runner.telemetry import busy_seconds


def test_busy_seconds_only_grow() -> None:
    before = busy_seconds()
    sum(range(3_000_000))
    assert busy_seconds() >= before > 0


def test_a_run_says_what_others_used(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    # the machine has 4 CPUs, of which the worker uses 2 while it samples, and somebody else 1.5 all the time
    monkeypatch.setattr(runner, "busy_seconds", lambda: 3.5 * clock.now)
    monkeypatch.setattr(runner, "time", SimpleNamespace(monotonic=clock))
    taken: list[float] = []

    def busy(verb: str, _sample: int) -> dict[str, float] | None:
        if verb != "sample":
            return None
        seconds = clock.now - sum(taken)
        taken.append(seconds)
        return {"busy": 2.0 * seconds}

    (one,) = runs([CPU], [FakeWorker(clock, 0.2, busy)])
    assert one.others_cpus == pytest.approx(1.5)


def test_a_worker_that_does_not_say_what_it_used_leaves_it_open() -> None:
    (one,) = runs([CPU], [FakeWorker(Clock(), 0.2)])
    assert one.others_cpus is None
