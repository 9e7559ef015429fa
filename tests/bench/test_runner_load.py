"""CPU time of other programs: of everybody, less the worker's."""

from __future__ import annotations

import pytest

from tfgpu_doctor.bench.runner_load import OtherPrograms, busy_seconds


def test_what_the_worker_did_not_use_was_used_by_others() -> None:
    others = OtherPrograms()
    others.add(wall=1.0, everybody=1.9, worker=1.5)
    others.add(wall=3.0, everybody=6.0, worker=5.2)
    assert others.cpus() == pytest.approx(1.2 / 4)


def test_ticks_are_too_coarse_for_less_than_a_second() -> None:
    others = OtherPrograms()
    others.add(0.9, 1.0, 0.1)
    assert others.cpus() is None


def test_a_tick_too_few_is_no_negative_load() -> None:
    others = OtherPrograms()
    others.add(2.0, 1.98, 1.99)
    assert others.cpus() == 0.0


def test_busy_seconds_only_grow() -> None:
    before = busy_seconds()
    sum(range(3_000_000))
    assert busy_seconds() >= before > 0
