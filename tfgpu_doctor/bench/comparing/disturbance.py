"""What is clear about two runs although other programs used the CPUs meanwhile. Pure.

Other programs delay a step and never hasten it (Chen and Revels, "Robust benchmarking in noisy environments", 2016,
arXiv 1608.04295), so that the disturbance has a size. Without it a step would have taken

  at most   what the fastest tenth of the samples took, in the process in which it took least;
  at least  its CPU time divided by the CPUs that the process may use, and
            the part of its time in which none of its threads waited for a CPU.

The quotient of two runs lies between the quotients of these bounds. What lies between them on one side of 1 is slower
or faster, however busy the machine was.

On the CPU there is something that other programs hardly change: the CPU time of a step. Where two runs differ in
nothing else (same versions, variables and CPUs, so that the work is spread over as many threads), a step that needs
half as much CPU time again takes half as long again. Measured for matpow, N = 512, 5 processes, on 2 CPUs
(benchmarks/compare_gate.py, 2026-11-22), medians of a step and CPU time of its fastest tenth:

    27 runs with priority             13.0 to 14.1 ms     24.3 to 25.8 ms     standard deviation 1.7 %
    16 runs, load average 9 to 14     25.1 to 114 ms      24.1 to 27.7 ms                        3.9 %
    8 of those with half more work    51.4 to 128 ms      37.6 to 42.5 ms                        4.0 %
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tfgpu_doctor.bench.comparing.ratio_interval import PRIOR_DEGREES, PROCESS_SPREAD, Level, Shift, combined, shift
from tfgpu_doctor.bench.statistics import quantile

FAST = 0.1  # share of the samples of a process, the slowest of which stands for the process with the least delay
# Standard deviation of the logarithm of the CPU time of a step, over runs on a busy machine (the table above): caches
# and the other half of a core are shared with whatever runs beside.
CPU_TIME_SPREAD = 0.04


@dataclass(frozen=True)
class Usage:
    """The samples of one process: seconds of a step, CPUs kept busy, and CPUs waited for where that is known."""

    times: Sequence[float]
    loads: Sequence[float]
    waits: Sequence[float] = ()

    def cpu_times(self) -> list[float]:
        """CPU seconds of a step."""
        return [time * load for time, load in zip(self.times, self.loads, strict=True)]

    def alone(self) -> list[float]:
        """Seconds of a step in which no thread waited for a CPU, at least."""
        return [time * (1 - min(wait, 1.0)) for time, wait in zip(self.times, self.waits, strict=False)]


def _fast(values: Sequence[Sequence[float]]) -> float:
    return min((quantile(one, FAST) for one in values if one), default=0.0)


def _about(value: float, spread: float) -> Level:
    return Level(math.log(value), spread**2, PRIOR_DEGREES)


def least(processes: Sequence[Usage], cpus: float) -> float:
    """Seconds that an undisturbed step took at least; 0 where nothing is known."""
    by_cpu = _fast([one.cpu_times() for one in processes]) / cpus
    return min(max(by_cpu, _fast([one.alone() for one in processes])), most(processes))


def most(processes: Sequence[Usage]) -> float:
    """Seconds that an undisturbed step took at most."""
    return _fast([one.times for one in processes])


def between(base: Sequence[Usage], new: Sequence[Usage], cpus: tuple[float, float]) -> Shift | None:
    """The quotient with the interval in which it lies; None where CPU times are unknown."""
    low, high = ([least(one, each) for one, each in zip((base, new), cpus, strict=True)], [most(base), most(new)])
    if not all(low):
        return None
    smallest = shift(_about(high[0], PROCESS_SPREAD), _about(low[1], CPU_TIME_SPREAD)).low
    largest = shift(_about(low[0], CPU_TIME_SPREAD), _about(high[1], PROCESS_SPREAD)).high
    return Shift(math.sqrt(smallest * largest), smallest, largest)


def by_cpu_time(base: Sequence[Usage], new: Sequence[Usage]) -> Shift | None:
    """The quotient of the CPU times of a step; None where they are unknown."""
    found = [[quantile(one.cpu_times(), FAST) for one in side if one.times] for side in (base, new)]
    if not all(found) or not all(map(all, found)):
        return None
    levels = [combined([math.log(one) for one in side]) for side in found]
    return shift(*(replace(one, variance=one.variance + CPU_TIME_SPREAD**2) for one in levels))
