"""How far the times of two runs lie apart, and how far chance alone could have put them. Pure.

Samples of one process are not independent: where a process finds its memory, and what its neighbours do meanwhile,
moves all of them together. So the unit of evidence is the process, as Kalibera and Jones argue ("Rigorous
Benchmarking in Reasonable Time", ISMM 2013, doi 10.1145/2464157.2464160): each process gives one number, the median
of its samples, and an interval comes from the spread of these numbers, by Student's t on logarithms (times are
positive, changes are factors).

How much processes differ cannot be seen in one process, and two or three show it badly. Therefore the spread that was
measured elsewhere (PROCESS_SPREAD) takes part as if it came from PRIOR_DEGREES further processes: the moderated
variance of Smyth ("Linear models and empirical Bayes methods", 2004, doi 10.2202/1544-6115.1027). One process is then
judged by that spread alone; with several, it counts only where they seem to differ by less.

Samples during which something else had the CPUs that the process wanted are left out (cpu_contention.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tfgpu_doctor.bench.comparing.cpu_contention import DISTURBED
from tfgpu_doctor.bench.statistics import median

# Standard deviation of the logarithm of a process's median. Measured for matpow, N = 512, on 2 CPUs: 1.0 % on a calm
# machine, 1.4 % on a busy one (benchmarks/compare_gate.py). GPUs were not at hand.
PROCESS_SPREAD = 0.013
PRIOR_DEGREES = 4
# Undisturbed samples of a process, below which it does not count: in one that was disturbed nearly always, the few that
# look otherwise are those whose disturbance was not noticed (medians of processes then lie 7 % apart instead of 1.4 %).
LEAST_SAMPLES, LEAST_SHARE = 3, 1 / 3
FEWEST = 5  # samples of a run, below which its spread is unknown
PARTS = 8  # consecutive parts of the samples of a process, whose medians show what is not independent in it
PART = 4  # samples of a part at least
Z = 1.959964  # of the normal distribution, 95 %


@dataclass(frozen=True)
class Samples:
    """The samples of one run: seconds of a step, process by process."""

    processes: tuple[tuple[float, ...], ...]
    lost: tuple[tuple[float, ...], ...] | None = None  # share of the CPU time wanted that something else took

    def undisturbed(self) -> Samples:
        """Without the samples that lost more than DISTURBED, and without processes of which too few are left."""
        if self.lost is None:
            return self
        kept = []
        for times, lost in zip(self.processes, self.lost, strict=True):
            left = [(time, share) for time, share in zip(times, lost, strict=True) if share <= DISTURBED]
            if len(left) >= max(min(LEAST_SAMPLES, len(times)), LEAST_SHARE * len(times)):
                kept.append(left)
        return Samples(
            tuple(tuple(time for time, _ in process) for process in kept),
            tuple(tuple(share for _, share in process) for process in kept),
        )

    def settled(self) -> Samples:
        """Those that a speed is the median of: the undisturbed ones, or all where too few are left."""
        kept = self.undisturbed()
        return kept if len(kept) >= FEWEST else self

    def all(self) -> list[float]:
        """The samples, whatever their process."""
        return [sample for process in self.processes for sample in process]

    def __len__(self) -> int:
        return sum(map(len, self.processes))


@dataclass(frozen=True)
class Level:
    """Where the times of a run lie: the logarithm of seconds, its variance, and how well that variance is known."""

    log: float
    variance: float
    degrees: float


@dataclass(frozen=True)
class Shift:
    """The time of one run over that of another, and the 95 % interval of this quotient."""

    ratio: float
    low: float
    high: float

    @property
    def noise(self) -> float:
        """The factor by which chance alone may have moved the quotient."""
        return self.high / self.ratio


def level(samples: Samples) -> Level:
    """Where the times of a run lie. Raises ValueError: there is no process."""
    medians = [math.log(median(process)) for process in samples.processes]
    if not medians:
        raise ValueError("no process")
    return combined(medians, sum(_within(process) for process in samples.processes) / len(medians))


def combined(logs: Sequence[float], inside: float = 0.0) -> Level:
    """Where processes lie, by the logarithm of one number of each; `inside` is the variance of one such number."""
    count = len(logs)
    middle = sum(logs) / count
    between = sum((one - middle) ** 2 for one in logs)
    degrees = PRIOR_DEGREES + count - 1
    spread = (PRIOR_DEGREES * (PROCESS_SPREAD**2 + inside) + between) / degrees
    if count > 1:  # what is assumed must not talk down what was seen
        spread = max(spread, between / (count - 1))
    return Level(middle, spread / count, degrees)


def shift(base: Level, new: Level) -> Shift:
    """The quotient of two levels with its interval (Welch's, since the runs need not be alike)."""
    variance = base.variance + new.variance
    degrees = variance**2 / (base.variance**2 / base.degrees + new.variance**2 / new.degrees)
    half = student(degrees) * math.sqrt(variance)
    middle = new.log - base.log
    return Shift(_exp(middle), _exp(middle - half), _exp(middle + half))


def interval(samples: Samples) -> tuple[float, float]:
    """A 95 % interval for the time of a step over several processes."""
    found = level(samples)
    half = student(found.degrees) * math.sqrt(found.variance)
    return _exp(found.log - half), _exp(found.log + half)


def student(degrees: float) -> float:
    """The two-sided 95 % quantile of Student's t, by the expansion of Cornish and Fisher; 0.3 % off at 4 degrees."""
    z, n = Z, degrees
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
    )


def _within(process: Sequence[float]) -> float:
    """Variance of the logarithm of a process's median, from the medians of consecutive parts: slow waves count, too."""
    parts = min(PARTS, len(process) // PART)
    if parts < 2:
        parts = len(process)
    if parts < 2:
        return 0.0
    edges = [len(process) * part // parts for part in range(parts + 1)]
    logs = [math.log(median(process[edges[part] : edges[part + 1]])) for part in range(parts)]
    middle = sum(logs) / parts
    return sum((one - middle) ** 2 for one in logs) / (parts - 1) / parts


def _exp(value: float) -> float:
    """e to the power, within what a float and a reader can bear."""
    return math.exp(min(max(value, -30.0), 30.0))
