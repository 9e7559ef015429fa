"""How far the times of two runs lie apart, and how far chance alone could have put them. Pure.

Samples of one process are not independent: where a process finds its memory, and what its neighbours do meanwhile,
moves all of them together. So the unit of evidence is the process, as Kalibera and Jones argue ("Rigorous
Benchmarking in Reasonable Time", ISMM 2013, doi 10.1145/2464157.2464160): each process gives one number, and an
interval comes from the spread of these numbers, by Student's t on logarithms (times are positive, changes are factors).

Whatever else uses the machine only ever slows a step (Chen and Revels, "Robust benchmarking in noisy environments",
2016, arXiv 1608.04295). So two runs are compared by the lower quartile of the samples of each process, and the slowest
of every five processes is left out, with the standard error of a trimmed mean, from the winsorized variance (Tukey and
McLaughlin, 1963, as given for unequal trimming in NIST's Dataplot, "Trimmed Mean Standard Error"). A quarter, not less:
a change must slow three of four steps to be seen, and a smaller share would hide more. On a virtual machine whose host
was restless, 15 rounds of benchmarks/compare_gate.py of 2026-11-23 (A against A, A against 10 % more):

    each process   over processes        slower, faster    same     10 % more found
    median         mean                  2 of 15           3        23 of 30
    quartile       mean                  1 of 15           6        27 of 30
    quartile       without the slowest   1 of 15           8        29 of 30

Chosen on 8 of the rounds (11, 15 and 15 of 16 found), the other 7 agree (12, 12 and 14 of 14).

Runs also differ as a whole, which their processes do not show: there by a standard deviation of 0.6 % within a round
(80 s), 1.9 % from one round to the next, and 3 % over two. It takes no part in the interval: 1 % avoids no false alarm
of those rounds and leaves 5 of the 8 that are the same, 1.5 % leaves 1; 2 % excludes that verdict at a factor of 1.05.

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
from tfgpu_doctor.bench.statistics import quantile

# Standard deviation of the logarithm of a process's median (its lower quartile varies less). Measured for matpow,
# N = 512, on 2 CPUs: 1.0 % on a calm machine, 1.4 % on a busy one (benchmarks/compare_gate.py). GPUs were not at hand.
PROCESS_SPREAD = 0.013
QUARTILE = 0.25
PROCESSES_FOR_ONE_SLOW = 5  # the slowest of so many processes is left out
PRIOR_DEGREES = 4
# Undisturbed samples of a process, below which it does not count: in one that was disturbed nearly always, the few that
# look otherwise are those whose disturbance was not noticed (medians of processes then lie 7 % apart instead of 1.4 %).
LEAST_SAMPLES, LEAST_SHARE = 3, 1 / 3
FEWEST = 5  # samples of a run, below which its spread is unknown
PARTS = 8  # consecutive parts of the samples of a process, whose quantiles show what is not independent in it
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
    """Where the times of a run lie, for a comparison. Raises ValueError: there is no process."""
    return _level(samples, QUARTILE, len(samples.processes) // PROCESSES_FOR_ONE_SLOW)


def _level(samples: Samples, share: float, slowest: int) -> Level:
    """The same by any quantile of each process, without so many of the slowest processes."""
    if not samples.processes:
        raise ValueError("no process")
    logs = [math.log(quantile(process, share)) for process in samples.processes]
    return combined(logs, sum(_within(process, share) for process in samples.processes) / len(logs), slowest)


def combined(logs: Sequence[float], inside: float = 0.0, slowest: int = 0) -> Level:
    """Where processes lie, by the logarithm of one number of each; the `slowest` of them count as the one before them.

    Args:
        inside: the variance of one such number.
    """
    kept = sorted(logs)[: len(logs) - slowest]
    count = len(kept)
    winsorized = [*kept, *kept[-1:] * slowest]
    middle = sum(winsorized) / len(winsorized)
    between = sum((one - middle) ** 2 for one in winsorized)
    degrees = PRIOR_DEGREES + count - 1
    spread = (PRIOR_DEGREES * (PROCESS_SPREAD**2 + inside) + between) / degrees
    if count > 1:  # what is assumed must not talk down what was seen
        spread = max(spread, between / (count - 1))
    return Level(sum(kept) / count, spread / count, degrees)


def shift(base: Level, new: Level) -> Shift:
    """The quotient of two levels with its interval (Welch's, since the runs need not be alike)."""
    variance = base.variance + new.variance
    degrees = variance**2 / (base.variance**2 / base.degrees + new.variance**2 / new.degrees)
    half = student(degrees) * math.sqrt(variance)
    middle = new.log - base.log
    return Shift(_exp(middle), _exp(middle - half), _exp(middle + half))


def interval(samples: Samples) -> tuple[float, float]:
    """A 95 % interval for the median time of a step over several processes."""
    found = _level(samples, 0.5, 0)
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


def _within(process: Sequence[float], share: float) -> float:
    """Variance of the logarithm of a process's quantile, from those of consecutive parts: slow waves count, too."""
    parts = min(PARTS, len(process) // PART)
    if parts < 2:
        parts = len(process)
    if parts < 2:
        return 0.0
    edges = [len(process) * part // parts for part in range(parts + 1)]
    logs = [math.log(quantile(process[edges[part] : edges[part + 1]], share)) for part in range(parts)]
    middle = sum(logs) / parts
    return sum((one - middle) ** 2 for one in logs) / (parts - 1) / parts


def _exp(value: float) -> float:
    """e to the power, within what a float and a reader can bear."""
    return math.exp(min(max(value, -30.0), 30.0))
