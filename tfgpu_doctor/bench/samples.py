"""The samples of a run: which of them other programs disturbed, and how well a time is known from the others. Pure.

Linux reports how long the threads of a process were ready to run and had no CPU; what others used of that at most
stands beside each sample (`Run.cpu_wait`). On 2 CPUs that other programs kept more or less busy, a sample of matpow
(N = 512) took 10.8 to 11.9 ms where others had up to 8 % of the CPU time, and 15 to 22 ms above 10 % (4 200 samples,
2026-11-21).

The unit of evidence is the process (docs/comparing.md), as Kalibera and Jones argue ("Rigorous Benchmarking in
Reasonable Time", ISMM 2013, doi 10.1145/2464157.2464160). Two or three processes show badly how much they differ: each
number that the bootstrap draws is therefore moved by chance, by as much as processes were measured to differ.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import fmean, stdev

from tfgpu_doctor.bench.results import Run
from tfgpu_doctor.bench.statistics import quantile
from tfgpu_doctor.facts.facts import Facts, value_or

DISTURBED = 0.05  # share of the CPU time that a process wanted and others had, from which a sample is disturbed
# Undisturbed samples of a process, below which it does not count: in one that was disturbed nearly always, the few that
# look otherwise are those whose disturbance was not noticed (medians of processes then lie 7 % apart instead of 1.4 %).
LEAST_SAMPLES, LEAST_SHARE = 3, 1 / 3
FEWEST = 5  # samples of a run, below which its spread is unknown
# Standard deviation of the logarithm of a process's median (its lower quartile varies less). Measured for matpow,
# N = 512, on 2 CPUs: 1.0 % on a calm machine, 1.4 % on a busy one (benchmarks/compare_gate.py). GPUs were not at hand.
PROCESS_SPREAD = 0.013
PARTS = 8  # consecutive parts of the samples of a process, whose quantiles show what is not independent in it
PART = 4  # samples of a part at least
DRAWS = 1000  # of the bootstrap


def usable_cpus(environment: Facts) -> float | None:
    """Return how many CPUs a process may use: those it may run on, and what the cgroup allows; None if unknown."""
    cpus: int | None = value_or(environment.host.cpus, None)
    return None if cpus is None else min(float(cpus), value_or(environment.host.cpu_quota, math.inf))


def lost_shares(loads: Sequence[float], waits: Sequence[float], cpus: float) -> list[float]:
    """Return the share of the CPU time wanted that others had, from 0 to 1, for each sample.

    Args:
        loads: CPUs that the worker kept busy.
        waits: CPUs that its threads were ready for while others had them.
        cpus: that it may use; what it used itself cannot have gone to others.
    """
    taken = [max(min(wait, cpus - load), 0.0) for load, wait in zip(loads, waits, strict=True)]
    return [lost / (load + lost) if load + lost > 0 else 0.0 for load, lost in zip(loads, taken, strict=True)]


@dataclass(frozen=True)
class Samples:
    """The samples of one run: seconds, process by process."""

    processes: tuple[tuple[float, ...], ...]
    lost: tuple[tuple[float, ...], ...] | None = None  # share of the CPU time wanted that something else took

    def undisturbed(self) -> Samples:
        """Return them without those that lost more than DISTURBED, and without processes of which too few are left."""
        if self.lost is None:
            return self
        kept = []
        for times, lost in zip(self.processes, self.lost, strict=True):
            left = [pair for pair in zip(times, lost, strict=True) if pair[1] <= DISTURBED]
            if len(left) >= max(min(LEAST_SAMPLES, len(times)), LEAST_SHARE * len(times)):
                kept.append(tuple(zip(*left, strict=True)))
        return Samples(tuple(times for times, _ in kept), tuple(lost for _, lost in kept))

    def settled(self) -> Samples:
        """Return those that a speed is the median of: the undisturbed ones, or all where too few are left."""
        kept = self.undisturbed()
        return kept if len(kept) >= FEWEST else self

    def all(self) -> list[float]:
        """Return the samples, whatever their process."""
        return [sample for process in self.processes for sample in process]

    def __len__(self) -> int:
        return sum(map(len, self.processes))


def samples_of(run: Run, cpus: float | None, steps: int = 1) -> Samples:
    """Return the samples of a run, with what others took of the `cpus` meanwhile where that was recorded.

    Args:
        steps: by how many their seconds are divided.
    """
    known = cpus is not None and len(run.cpu_wait) == len(run.cpu_load) == len(run.samples_s)
    shares = lost_shares(run.cpu_load, run.cpu_wait, cpus or 0.0) if known else []
    ends = list(accumulate([count for count in run.processes if count > 0] or [len(run.samples_s)]))

    def by_process(values: Sequence[float]) -> tuple[tuple[float, ...], ...]:
        return tuple(tuple(values[begin:end]) for begin, end in zip([0, *ends], ends, strict=False))

    return Samples(by_process([sample / steps for sample in run.samples_s]), by_process(shares) if known else None)


def center(samples: Samples, q: float, slowest: int = 0) -> float:
    """Return the mean over processes of the logarithm of their q-quantiles, the `slowest` processes left out."""
    logs = sorted(math.log(quantile(process, q)) for process in samples.processes)
    return fmean(logs[: len(logs) - slowest])


def deviations(samples: Samples, q: float, seed: int, slowest: int = 0) -> list[float]:
    """Draw by how much chance alone may have moved :func:`center`.

    Each draw is a mean over as many processes as there are, drawn with replacement, whose distances from their mean are
    scaled to the standard deviation of a sample; each is moved by the spread that is assumed and that inside of it.
    """
    logs = sorted(
        (math.log(quantile(process, q)), math.hypot(PROCESS_SPREAD, _inside(process, q)))
        for process in samples.processes
    )[: len(samples.processes) - slowest]
    count, middle, numbers = len(logs), fmean(log for log, _ in logs), random.Random(seed)
    scale = math.sqrt(count / (count - 1)) if count > 1 else 1.0
    processes = [(scale * (log - middle), spread) for log, spread in logs]
    return [sum(numbers.gauss(*one) for one in numbers.choices(processes, k=count)) / count for _ in range(DRAWS)]


def interval(samples: Samples) -> tuple[float, float]:
    """Return a 95 % interval for the median time over several processes."""
    middle, moved = center(samples, 0.5), deviations(samples, 0.5, seed=0)
    return math.exp(middle + quantile(moved, 0.025)), math.exp(middle + quantile(moved, 0.975))


def _inside(process: Sequence[float], q: float) -> float:
    """Return the standard error of the logarithm of a process's quantile, from consecutive parts: waves count, too."""
    parts = min(PARTS, len(process) // PART)
    parts = parts if parts > 1 else len(process)
    if parts < 2:
        return 0.0
    edges = [len(process) * part // parts for part in range(parts + 1)]
    logs = [math.log(quantile(process[begin:end], q)) for begin, end in pairwise(edges)]
    return stdev(logs) / math.sqrt(parts)
