"""Whether the intervals of a comparison keep their promise, on runs whose truth is known."""

from __future__ import annotations

import math
import random

import pytest

from tests.healthy import healthy, known, spoil
from tests.tables import each
from tfgpu_doctor.bench.comparing.cpu_contention import DISTURBED, lost_share, usable_cpus
from tfgpu_doctor.bench.comparing.ratio_interval import PROCESS_SPREAD, Samples, interval, level, shift, student


def drawn(rng: random.Random, processes: int, spread: float, count: int = 12, wave: float = 0.0) -> Samples:
    """Processes whose medians scatter by `spread`; within one, samples drift by `wave` and scatter by 2 %."""
    found = []
    for _ in range(processes):
        middle, drift = rng.gauss(0, spread), rng.gauss(0, wave)
        found.append(tuple(math.exp(middle + drift * place / count + rng.gauss(0, 0.02)) for place in range(count)))
    return Samples(tuple(found))


@each(("degrees", "quantile"), [(4, 2.776), (5, 2.571), (8, 2.306), (16, 2.120), (1e9, 1.960)])
def test_student(degrees: float, quantile: float) -> None:
    assert student(degrees) == pytest.approx(quantile, rel=0.003)


@each(
    ("processes", "spread"),
    [
        *((count, spread) for count in (1, 2, 3, 5, 10) for spread in (0.0, PROCESS_SPREAD)),
        *((count, 0.03) for count in (5, 10)),  # more than what is assumed can only be seen in several processes
    ],
)
def test_the_interval_holds_the_truth(processes: int, spread: float) -> None:
    rng = random.Random(20261121)
    trials, covered = 1000, 0
    for _ in range(trials):
        found = shift(level(drawn(rng, processes, spread)), level(drawn(rng, processes, spread)))
        covered += found.low <= 1 <= found.high
    assert covered / trials >= 0.93


def test_what_a_process_does_not_show_is_assumed() -> None:
    """Samples of one process that hardly scatter say nothing of how processes differ."""
    steady = Samples(((1.0,) * 1000,))
    found = shift(level(steady), level(steady))
    assert found.ratio == 1
    assert found.noise == pytest.approx(math.exp(student(8) * math.sqrt(2) * PROCESS_SPREAD))


def test_more_processes_narrow_it_and_scattered_ones_widen_it() -> None:
    rng = random.Random(1)
    noises = []
    for processes in (1, 3, 10):
        pair = [level(drawn(rng, processes, PROCESS_SPREAD, count=40)) for _ in range(2)]
        noises.append(shift(*pair).noise)
    assert noises == sorted(noises, reverse=True)
    apart = Samples(((1.0,) * 10, (1.2,) * 10, (1.0,) * 10))
    assert shift(level(apart), level(apart)).noise > 1.1


def test_what_slows_some_samples_or_one_process_of_five_changes_little() -> None:
    calm = level(Samples(((1.0, 1.01, 1.02, 1.03) * 5,) * 5))
    delayed = ((1.0, 1.01, 1.5, 2.0) * 5,) * 4
    disturbed = level(Samples((*delayed, (3.0,) * 20)))
    assert disturbed.log == pytest.approx(calm.log, abs=0.01)
    assert shift(calm, disturbed).noise < 1.05
    assert shift(calm, level(Samples((*delayed[:3], (3.0,) * 20)))).noise > 1.5  # one of four may be no exception


def test_slow_waves_in_a_process_count() -> None:
    restless = Samples((tuple([1.0, 1.1, 1.2] * 16),))
    waving = Samples((tuple([1.0] * 16 + [1.1] * 16 + [1.2] * 16),))
    assert level(waving).log == pytest.approx(level(restless).log)
    assert level(waving).variance > 2 * level(restless).variance


def test_shift_is_a_quotient() -> None:
    one, other = (Samples(((seconds,) * 10,) * 5) for seconds in (2.0, 2.2))
    forth, back = shift(level(one), level(other)), shift(level(other), level(one))
    assert forth.ratio == pytest.approx(1.1)
    assert (forth.low * back.high, forth.high * back.low) == pytest.approx((1, 1))
    low, high = interval(one)
    assert low < 2.0 < high


def test_times_beyond_reason_overflow_nowhere() -> None:
    found = shift(level(Samples(((1e-300,) * 5,))), level(Samples(((1e300,) * 5,))))
    assert math.isfinite(found.high) and found.low > 1


def test_no_process_has_no_level() -> None:
    with pytest.raises(ValueError, match="no process"):
        level(Samples(()))


@each(
    ("load", "wait", "cpus", "share"),
    [
        (2.0, 0.0, 2, 0.0),
        (1.0, 1.0, 2, 0.5),  # somebody had the other CPU all the time
        (2.0, 3.0, 2, 0.0),  # more threads than CPUs: they wait for one another
        (0.5, 0.0, 2, 0.0),  # it sleeps, or has one thread, half of the time
        (1.0, 0.1, 64, 0.1 / 1.1),
        (0.0, 0.0, 2, 0.0),
        (0.0, 1.0, 2, 1.0),
        (2.1, 1.0, 2, 0.0),  # clocks are coarse
    ],
)
def test_share_of_the_cpu_time_that_others_had(load: float, wait: float, cpus: float, share: float) -> None:
    assert lost_share(load, wait, cpus) == pytest.approx(share)


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
