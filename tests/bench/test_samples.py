"""Which samples count, and whether the intervals over processes keep their promise, on runs whose truth is known."""

from __future__ import annotations

import math
import random

import pytest

from tests.healthy import healthy, known, spoil
from tfgpu_doctor.bench.comparison import ratio_of_times
from tfgpu_doctor.bench.samples import DISTURBED, PROCESS_SPREAD, Samples, interval, lost_shares, usable_cpus


def drawn(rng: random.Random, processes: int, spread: float, count: int = 12) -> Samples:
    """Processes whose medians scatter by `spread`; within one, samples scatter by 2 %."""
    middles = [rng.gauss(0, spread) for _ in range(processes)]
    return Samples(tuple(tuple(math.exp(one + rng.gauss(0, 0.02)) for _ in range(count)) for one in middles))


def noise(base: Samples, new: Samples) -> float:
    found = ratio_of_times(base, new)
    return found.high / found.value


def test_the_interval_holds_the_truth() -> None:
    """With fewer than five processes, a spread above what is assumed could not be seen."""
    rng, trials = random.Random(20261121), 100
    rows = [*((count, PROCESS_SPREAD) for count in (1, 2, 3, 5, 10)), (1, 0.0), (5, 0.0), (10, 0.03)]
    covered = dict.fromkeys(rows, 0)
    for count, spread in rows:
        for _ in range(trials):
            found = ratio_of_times(drawn(rng, count, spread), drawn(rng, count, spread))
            covered[count, spread] += found.low <= 1 <= found.high
    assert sum(covered.values()) >= 0.94 * trials * len(rows) and min(covered.values()) >= 0.87 * trials, covered


def test_what_a_process_does_not_show_is_assumed() -> None:
    """Samples of one process that hardly scatter say nothing of how processes differ."""
    steady = Samples(((1.0,) * 1000,))
    assert noise(steady, steady) == pytest.approx(math.exp(1.96 * math.sqrt(2) * PROCESS_SPREAD), rel=0.005)


def test_more_processes_narrow_it_and_scattered_ones_widen_it() -> None:
    rng = random.Random(1)
    noises = [noise(*(drawn(rng, count, PROCESS_SPREAD, 40) for _ in range(2))) for count in (1, 3, 10)]
    assert noises == sorted(noises, reverse=True)
    apart = Samples(((1.0,) * 10, (1.2,) * 10, (1.0,) * 10))
    assert noise(apart, apart) > 1.1


def test_what_slows_some_samples_or_one_process_of_five_changes_little() -> None:
    calm = Samples(((1.0, 1.01, 1.02, 1.03) * 5,) * 5)
    delayed = ((1.0, 1.01, 1.5, 2.0) * 5,) * 4
    found = ratio_of_times(calm, Samples((*delayed, (3.0,) * 20)))
    assert found.value == pytest.approx(1, abs=0.01) and found.high / found.value < 1.05
    assert noise(calm, Samples((*delayed[:3], (3.0,) * 20))) > 1.3, "one of four may be no exception"


def test_slow_waves_in_a_process_count() -> None:
    restless, waving = (Samples((tuple(one),)) for one in ([1.0, 1.1, 1.2] * 16, [1.0] * 16 + [1.1] * 16 + [1.2] * 16))
    assert math.log(noise(waving, waving)) > 1.4 * math.log(noise(restless, restless))


def test_a_ratio_is_a_quotient() -> None:
    one, other = (Samples(((seconds,) * 10,) * 5) for seconds in (2.0, 2.2))
    forth, back = ratio_of_times(one, other), ratio_of_times(other, one)
    assert forth.value == pytest.approx(1.1) and forth == ratio_of_times(one, other)
    assert (forth.low * back.high, forth.high * back.low) == pytest.approx((1, 1), rel=0.003)
    low, high = interval(one)
    assert low < 2.0 < high < 2.05


def test_share_of_the_cpu_time_that_others_had() -> None:
    rows = [  # CPUs used, waited for, that there are, share
        (2.0, 0.0, 2, 0.0),
        (1.0, 1.0, 2, 0.5),  # somebody had the other CPU all the time
        (2.0, 3.0, 2, 0.0),  # more threads than CPUs: they wait for one another
        (0.5, 0.0, 2, 0.0),  # it sleeps, or has one thread, half of the time
        (1.0, 0.1, 64, 0.1 / 1.1),
        (0.0, 0.0, 2, 0.0),
        (0.0, 1.0, 2, 1.0),
        (2.1, 1.0, 2, 0.0),  # clocks are coarse
    ]
    found = [lost_shares([load], [wait], cpus)[0] for load, wait, cpus, _ in rows]
    assert found == pytest.approx([share for *_, share in rows])


def test_disturbed_samples_are_left_out_and_so_is_a_process_that_has_no_others() -> None:
    calm, disturbed = DISTURBED, DISTURBED + 0.01
    found = Samples(((1.0, 5.0, 1.0, 1.0), (5.0, 5.0, 1.0)), ((calm, disturbed, 0, 0), (1.0, 1.0, 0))).undisturbed()
    assert found.processes == ((1.0, 1.0, 1.0),)
    mostly = Samples(((1.0,) * 10, (1.0,) * 12), ((0.0,) * 3 + (0.5,) * 7, (0.0,) * 4 + (0.5,) * 8)).undisturbed()
    assert list(map(len, mostly.processes)) == [4]  # what is left of a process that was disturbed mostly is no evidence
    assert Samples(((1.0, 5.0),), None).undisturbed().processes == ((1.0, 5.0),)


def test_how_many_cpus_may_be_used() -> None:
    host = {"host.cpus": known(8), "host.cpu_quota": known(1.5)}
    assert usable_cpus(spoil(healthy(), host)) == 1.5
    assert usable_cpus(spoil(healthy(), {"host.cpus": known(2)})) == 2
