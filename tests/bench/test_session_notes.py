"""What a result says of the circumstances in which it came about."""

from __future__ import annotations

import pytest

from tests.bench.planned import QUICK, Workers
from tests.healthy import MATRIX, healthy, known, spoil
from tests.tables import each
from tfgpu_doctor.bench.plans.base import PlanBase
from tfgpu_doctor.bench.plans.cnn import Cnn
from tfgpu_doctor.bench.plans.gan import Gan
from tfgpu_doctor.bench.plans.inference import Inference
from tfgpu_doctor.bench.plans.matpow import MatPow
from tfgpu_doctor.bench.results import BenchResult
from tfgpu_doctor.bench.session import Session, TooSlowError
from tfgpu_doctor.bench.statistics import StoppingRule


def bench(load: float | None, cpus: int = 16, command: str = "") -> BenchResult:
    environment = spoil(healthy(), {"host.cpus": known(cpus)})
    return Session(MatPow(size=512), MATRIX, environment, Workers(), QUICK, command=command, load_average=load).run()


@each(("load", "cpus", "said"), [(None, 2, False), (0.9, 2, False), (1.1, 2, True), (4.0, 16, False)])
def test_a_machine_that_was_busy_before_is_noted(load: float | None, cpus: int, said: bool) -> None:
    result = bench(load, cpus)
    assert result.load_average == load
    notes = [note for note in result.notes if "load average" in note]
    expected = f"The machine was busy before the start: load average {load} on {cpus} CPUs."
    assert notes == ([expected] if said else [])


def test_how_long_all_runs_are_sampled_at_most_is_said_beforehand() -> None:
    said: list[str] = []
    rule = StoppingRule(deadline=20.0)
    Session(MatPow(size=512), MATRIX, healthy(), Workers(), rule, announce=said.append).begin(["CPU", "1 GPU"])
    assert said == ["2 runs (CPU; 1 GPU): at most 40 s of sampling"]


@each(
    "plan",
    [
        Cnn(model="resnet50", batch=4096),
        Cnn(model="resnet50", global_batch=4096),
        Gan(batch=2**20),
        Inference(model="resnet50", batches=(1, 65536)),
        MatPow(size=16384),
    ],
)
def test_what_the_cpu_has_no_time_for_is_refused_before_it_starts(plan: PlanBase) -> None:
    workers = Workers(seconds=0.05)
    rule = StoppingRule(deadline=5.0)
    with pytest.raises(TooSlowError, match=r"would take about .* too long for --deadline 5\. Try --[a-z-]+ \d+, or"):
        Session(plan, MATRIX, healthy(), workers, rule).run()
    assert all(size is None or size < 4096 for worker in workers.started for size in worker.sizes)
    assert all(worker.closed for worker in workers.started)


@each(("size", "doing"), [(None, "choosing a size"), (512, "estimating the time")])
def test_a_size_that_was_given_is_not_chosen(size: int | None, doing: str) -> None:
    shown: list[str] = []
    show = lambda label, _: shown.append(label)  # noqa: E731 - without the progress
    Session(MatPow(size=size), MATRIX, healthy(), Workers(), QUICK, progress=show).run()
    assert shown[:2] == ["starting TensorFlow", doing]
