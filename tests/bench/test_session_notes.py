"""What a result says of the circumstances in which it came about."""

from __future__ import annotations

import pytest

from tests.bench.planned import QUICK, Workers
from tests.healthy import MATRIX, healthy
from tests.tables import each
from tfgpu_doctor.bench.plans.base import PlanBase, TooSlowError
from tfgpu_doctor.bench.plans.inference import Inference
from tfgpu_doctor.bench.plans.matpow import MatPow
from tfgpu_doctor.bench.plans.training import Cnn, Gan
from tfgpu_doctor.bench.session import Session
from tfgpu_doctor.bench.statistics import StoppingRule


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
