"""What a result says of the circumstances in which it came about."""

from __future__ import annotations

import re

import msgspec
import pytest

from tests.bench.test_matpow import QUICK, Workers
from tests.healthy import MATRIX, healthy, known, spoil
from tfgpu_doctor.bench.plans.matpow import MatPow
from tfgpu_doctor.bench.results import BenchResult
from tfgpu_doctor.bench.session import READY_LEAST, Session
from tfgpu_doctor.bench.statistics import StoppingRule


def bench(load: float | None, cpus: int = 16, command: str = "") -> BenchResult:
    environment = spoil(healthy(), {"host.cpus": known(cpus)})
    return Session(MatPow(size=512), MATRIX, environment, Workers(), QUICK, command=command, load_average=load).run()


@pytest.mark.parametrize(
    ("load", "cpus", "said"), [(None, 2, False), (0.9, 2, False), (1.1, 2, True), (4.0, 16, False)]
)
def test_a_machine_that_was_busy_before_is_noted(load: float | None, cpus: int, said: bool) -> None:
    result = bench(load, cpus)
    assert result.load_average == load
    notes = [note for note in result.notes if "load average" in note]
    expected = f"The machine was busy before the start: load average {load} on {cpus} CPUs."
    assert notes == ([expected] if said else [])


def test_how_long_it_will_take_is_said_beforehand() -> None:
    said: list[str] = []
    rule = StoppingRule(deadline=30.0)
    Session(MatPow(size=512), MATRIX, healthy(), Workers(), rule, announce=said.append).run()
    (line,) = said
    assert re.fullmatch(r"1 run \(CPU\): about [0-9.]+ m?s, at most [34][0-9] s", line)


@pytest.mark.parametrize("start", [0.4, 1.5, 20.0])  # the first two are short for compiling a network
@pytest.mark.parametrize(("labels", "processes"), [(["CPU"], 1), (["CPU", "1 GPU", "2 GPUs"], 5)])
def test_a_process_is_granted_twice_its_start_or_what_compiling_takes(
    start: float, labels: list[str], processes: int
) -> None:
    """What processes are granted follows from the start of the first one, and is enough for tracing a network."""
    rule = StoppingRule(deadline=1.0)  # twice min_seconds
    session = Session(MatPow(size=512), MATRIX, healthy(), Workers(), rule, processes=processes)
    session.start, began = start, session.schedule.clock()
    said: list[str] = []
    session.announce = said.append
    session.begin(labels, len(labels))
    found = re.search(r"about ([0-9.]+) s, at most ([0-9.]+) s", said[0])
    assert found, said
    about, most = map(float, found.groups())
    compiling = READY_LEAST * len(labels) * processes
    assert about < most <= max(2.1 * about, about + compiling + len(labels))  # both are rounded
    assert most >= compiling
    assert session.schedule.end == pytest.approx(began + most, abs=0.6)


@pytest.mark.parametrize(("size", "doing"), [(None, "choosing a size"), (512, "estimating the time")])
def test_a_size_that_was_given_is_not_chosen(size: int | None, doing: str) -> None:
    shown: list[str] = []
    show = lambda label, _: shown.append(label)  # noqa: E731 - without the progress
    Session(MatPow(size=size), MATRIX, healthy(), Workers(), QUICK, progress=show).run()
    assert shown[:2] == ["starting TensorFlow", doing]


def test_a_sample_longer_than_the_limit_is_said_beforehand() -> None:
    said: list[str] = []
    session = Session(
        MatPow(size=512), MATRIX, healthy(), Workers(), StoppingRule(deadline=30.0), limit=68.0, announce=said.append
    )
    session.begin(["CPU"], 1, expected=436.0)
    (slow,) = said
    assert slow.startswith("1 run (CPU): about 872 s, since") and "at most" not in slow
    assert slow.endswith("since one sample takes 436 s; less work: --size")


def test_the_command_is_kept() -> None:
    result = bench(None, command="tfgpu bench matpow --size 512")
    assert msgspec.json.decode(result.to_json(), type=BenchResult).command == "tfgpu bench matpow --size 512"
