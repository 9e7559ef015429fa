"""Statistics against distributions whose answers are known."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.tables import each
from tfgpu_doctor.bench.statistics import (
    StoppingRule,
    median,
    median_interval,
    percent,
    quantile,
    quantile_interval,
    samples_for,
)

TIMES = [1.0] * 5 + [1.1] * 5  # median 1.05


@each(
    ("samples", "expected"),
    [([3.0], 3.0), ([2.0, 1.0], 1.5), ([5.0, 1.0, 3.0], 3.0), (TIMES, 1.05)],
)
def test_median(samples: list[float], expected: float) -> None:
    assert median(samples) == pytest.approx(expected)


@each(("q", "expected"), [(0.0, 1.0), (0.25, 2.0), (0.5, 3.0), (0.6, 3.4), (1.0, 5.0)])
def test_quantile(q: float, expected: float) -> None:
    assert quantile([5.0, 4.0, 3.0, 2.0, 1.0], q) == pytest.approx(expected)


DRAWS: dict[str, tuple[Callable[[random.Random], float], float]] = {
    "normal": (lambda rng: rng.gauss(10, 1), 10.0),
    "exponential": (lambda rng: rng.expovariate(1), math.log(2)),
    "bimodal": (lambda rng: rng.choice((1.0, 1.3)) + rng.random() * 0.4, 1.35),  # symmetric: the median is the centre
}


@each("name", DRAWS)
@each("count", [6, 10, 25, 60])
def test_interval_covers_the_true_median_as_often_as_it_says(name: str, count: int) -> None:
    draw, truth = DRAWS[name]
    rng = random.Random(20261121)
    trials = 2000
    covered = 0
    for _ in range(trials):
        low, high = median_interval([draw(rng) for _ in range(count)])
        covered += low <= truth <= high
    assert covered / trials >= 0.94  # 95 % less three standard errors


def test_interval_of_few_samples_is_their_range() -> None:
    assert median_interval([3.0, 1.0, 2.0]) == (1.0, 3.0)
    assert median_interval([1.0]) == (1.0, 1.0)


@each(
    ("samples", "unmet"),
    [
        ([1.0] * 9, "only 9 of 10 samples"),
        ([0.01] * 10, "samples of only 0.10 of 0.5 s"),
        (TIMES, "interval ±4.8 % (target ±0.5 %)"),
        ([1.0] * 10, None),
    ],
)
def test_stopping_rule_names_the_unmet_condition(samples: list[float], unmet: str | None) -> None:
    rule = StoppingRule()
    assert rule.unmet(samples) == unmet
    assert rule.done(samples, elapsed=sum(samples)) is (unmet is None)


def test_sampling_ends_at_the_deadline_but_not_without_a_sample() -> None:
    rule = StoppingRule(deadline=5.0)
    assert not rule.done([], elapsed=6.0)
    assert not rule.done(TIMES, elapsed=4.9)
    assert rule.done(TIMES, elapsed=5.0)
    assert rule.done([1e-5, 2e-5] * 1000, elapsed=0.03)  # samples without number


@dataclass(frozen=True)
class PatientRule(StoppingRule):
    wanted: int = 100


def test_processes_share_what_a_case_may_take() -> None:
    rule = PatientRule(min_samples=40, deadline=50.0)
    assert rule.share(1) is rule
    each = rule.share(4)
    assert isinstance(each, PatientRule)  # with what a workload adds to the rule
    assert (each.min_samples, each.min_seconds, each.deadline, each.max_samples) == (10, 0.125, 12.5, 500)
    assert rule.share(100).min_samples == 5


@each(
    ("q", "count", "ranks"),
    [(0.5, 10, (2, 9)), (0.9, 36, (29, 36)), (0.99, 368, (360, 368)), (0.99, 2000, (1971, 1989)), (0.01, 368, (1, 9))],
)
def test_the_interval_of_a_quantile(q: float, count: int, ranks: tuple[int, int]) -> None:
    samples = [float(place) for place in range(count, 0, -1)]
    assert quantile_interval(samples, q) == ranks
    assert samples_for(q) <= count


@each("q", [0.5, 0.9, 0.99])
def test_too_few_samples_give_a_quantile_no_interval(q: float) -> None:
    enough = samples_for(q)
    assert quantile_interval([1.0] * enough, q) == (1.0, 1.0)
    assert quantile_interval([1.0] * (enough - 1), q) is None


@each(("share", "said"), [(0.0012, "0.12"), (0.051, "5.1"), (0.58, "58"), (0.996, "100"), (1.04, "104")])
def test_a_share_in_per_cent_has_two_digits_and_no_exponent(share: float, said: str) -> None:
    assert percent(share) == said
