"""Statistics, and intervals over processes, against distributions whose answers are known."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from tests.healthy import healthy, known, spoil
from tests.tables import each
from tfgpu_doctor.bench import samples
from tfgpu_doctor.bench.comparison import ratio_of_times
from tfgpu_doctor.bench.plans.inference import LATENCIES, WANTED
from tfgpu_doctor.bench.samples import DISTURBED, PROCESS_SPREAD, Samples, interval, lost_shares, usable_cpus
from tfgpu_doctor.bench.statistics import StoppingRule, median_interval, percent, quantile, quantile_interval

TIMES = [1.0] * 5 + [1.1] * 5  # median 1.05


def test_medians_quantiles_and_digits() -> None:
    for q, expected in ((0.0, 1.0), (0.25, 2.0), (0.5, 3.0), (0.6, 3.4), (1.0, 5.0)):
        assert quantile([5.0, 4.0, 3.0, 2.0, 1.0], q) == pytest.approx(expected)
    said = {0.0012: "0.12", 0.051: "5.1", 0.58: "58", 0.996: "100", 1.04: "104"}
    assert {share: percent(share) for share in said} == said


@each(
    ("q", "count", "ranks"),
    [(0.5, 10, (2, 9)), (0.9, 36, (29, 36)), (0.99, 368, (360, 368)), (0.99, 2000, (1971, 1989)), (0.01, 368, (1, 9))],
)
def test_the_interval_of_a_quantile(q: float, count: int, ranks: tuple[int, int]) -> None:
    # the narrowest ranks of which a binomial distribution leaves 2.5 % at most on either side
    samples = [float(place) for place in range(count, 0, -1)]
    assert quantile_interval(samples, q) == ranks
    enough = math.ceil(math.log(0.025) / math.log(max(q, 1 - q)))
    assert enough <= count and quantile_interval([1.0] * enough, q) == (1.0, 1.0)
    assert quantile_interval([1.0] * (enough - 1), q) is None
    assert quantile_interval([1.0] * WANTED, 0.99) and not quantile_interval([1.0] * (WANTED - 1), 0.99)
    assert median_interval([3.0, 1.0, 2.0]) == (1.0, 3.0), "of few samples it is their range"


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


def test_the_deadline_and_what_processes_share() -> None:
    rule = StoppingRule(deadline=5.0)
    assert [rule.done(TIMES, elapsed) for elapsed in (4.9, 5.0)] == [False, True]
    assert not rule.done([], elapsed=6.0), "not without a sample"
    assert rule.done([1e-5, 2e-5] * 1000, elapsed=0.03), "samples without number"
    patient = replace(LATENCIES, min_samples=40, min_seconds=0.5, deadline=50.0, max_samples=2000)
    assert patient.share(1) is patient and patient.share(100).min_samples == 5
    each = replace(patient, min_samples=10, min_seconds=0.125, deadline=12.5, max_samples=500)
    assert patient.share(4) == each, "with what a workload adds to the rule"


def drawn(rng: random.Random, processes: int, spread: float, count: int = 12) -> Samples:
    """Processes whose medians scatter by `spread`; within one, samples scatter by 2 %."""
    middles = [rng.gauss(0, spread) for _ in range(processes)]
    return Samples(tuple(tuple(math.exp(one + rng.gauss(0, 0.02)) for _ in range(count)) for one in middles))


def noise(base: Samples, new: Samples) -> float:
    found = ratio_of_times(base, new)
    return found.high / found.value


def test_the_interval_holds_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    """With fewer than five processes, a spread above what is assumed could not be seen."""
    monkeypatch.setattr(samples, "DRAWS", 300)
    rng, trials = random.Random(20261121), 35
    rows = [*((count, PROCESS_SPREAD) for count in (1, 2, 5)), (1, 0.0), (10, 0.03)]
    covered = dict.fromkeys(rows, 0)
    for count, spread in rows:
        for _ in range(trials):
            found = ratio_of_times(drawn(rng, count, spread), drawn(rng, count, spread))
            covered[count, spread] += found.low <= 1 <= found.high
    assert sum(covered.values()) >= 0.93 * trials * len(rows) and min(covered.values()) >= 0.86 * trials, covered


def test_what_a_process_does_not_show_is_assumed_and_more_processes_narrow_it() -> None:
    """Samples of one process that hardly scatter say nothing of how processes differ."""
    steady = Samples(((1.0,) * 1000,))
    assert noise(steady, steady) == pytest.approx(math.exp(1.96 * math.sqrt(2) * PROCESS_SPREAD), rel=0.005)
    rng = random.Random(1)
    noises = [noise(*(drawn(rng, count, PROCESS_SPREAD, 40) for _ in range(2))) for count in (1, 3, 10)]
    assert noises == sorted(noises, reverse=True)
    apart = Samples(((1.0,) * 10, (1.2,) * 10, (1.0,) * 10))
    assert noise(apart, apart) > 1.1, "scattered ones widen it"


def test_what_slows_some_samples_or_one_process_of_five_changes_little_and_slow_waves_count() -> None:
    calm = Samples(((1.0, 1.01, 1.02, 1.03) * 5,) * 5)
    delayed = ((1.0, 1.01, 1.5, 2.0) * 5,) * 4
    found = ratio_of_times(calm, Samples((*delayed, (3.0,) * 20)))
    assert found.value == pytest.approx(1, abs=0.01) and found.high / found.value < 1.05
    assert noise(calm, Samples((*delayed[:3], (3.0,) * 20))) > 1.3, "one of four may be no exception"
    restless, waving = (Samples((tuple(one),)) for one in ([1.0, 1.1, 1.2] * 16, [1.0] * 16 + [1.1] * 16 + [1.2] * 16))
    assert math.log(noise(waving, waving)) > 1.4 * math.log(noise(restless, restless))


def test_a_ratio_is_a_quotient() -> None:
    one, other = (Samples(((seconds,) * 10,) * 5) for seconds in (2.0, 2.2))
    forth, back = ratio_of_times(one, other), ratio_of_times(other, one)
    assert forth.value == pytest.approx(1.1)
    assert (forth.low * back.high, forth.high * back.low) == pytest.approx((1, 1), rel=0.003)
    low, high = interval(one)
    assert low < 2.0 < high < 2.05


@each(
    ("load", "wait", "cpus", "share"),  # CPUs used, waited for, that there are, share
    [
        (1.0, 1.0, 2, 0.5),  # somebody had the other CPU all the time
        (2.0, 3.0, 2, 0.0),  # more threads than CPUs: they wait for one another
        (0.5, 0.0, 2, 0.0),  # it sleeps, or has one thread, half of the time
        (1.0, 0.1, 64, 0.1 / 1.1),
        (0.0, 0.0, 2, 0.0),
        (0.0, 1.0, 2, 1.0),
        (2.1, 1.0, 2, 0.0),  # clocks are coarse
    ],
)
def test_share_of_the_cpu_time_that_others_had(load: float, wait: float, cpus: int, share: float) -> None:
    assert lost_shares([load], [wait], cpus) == pytest.approx([share])


def test_usable_cpus() -> None:
    assert usable_cpus(spoil(healthy(), {"host.cpus": known(8), "host.cpu_quota": known(1.5)})) == 1.5
    assert usable_cpus(healthy()) == 16


def test_disturbed_samples_are_left_out_and_so_is_a_process_that_has_no_others() -> None:
    calm, disturbed = DISTURBED, DISTURBED + 0.01
    found = Samples(((1.0, 5.0, 1.0, 1.0), (5.0, 5.0, 1.0)), ((calm, disturbed, 0, 0), (1.0, 1.0, 0))).undisturbed()
    assert found.processes == ((1.0, 1.0, 1.0),)
    mostly = Samples(((1.0,) * 10, (1.0,) * 12), ((0.0,) * 3 + (0.5,) * 7, (0.0,) * 4 + (0.5,) * 8)).undisturbed()
    assert list(map(len, mostly.processes)) == [4]  # what is left of a process that was disturbed mostly is no evidence
    assert Samples(((1.0, 5.0),), None).undisturbed().processes == ((1.0, 5.0),)
