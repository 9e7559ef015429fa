"""Samples during which other programs had the CPUs that the worker wanted. Pure.

Linux tells how long the threads of a process were ready to run and had no CPU; what others used at most of that stands
beside each sample (`Run.cpu_wait`). On a machine of 2 CPUs that other programs kept more or less busy, A^10 and B^10 of
512 × 512 took, over the share of the wanted CPU time that others had (4 200 samples, 2026-11-21; medians, ms):

    share lost  0.01  0.02  0.03  0.04  0.05  0.06  0.08  0.10  0.16  0.24  above 0.3
    a sample    10.8  10.8  11.0  11.3  11.8  12.0  11.9  16.5  14.6  16.1  21.7

So a sample below DISTURBED is at most some per cent too slow, and one above it may take twice as long.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tfgpu_doctor.records.facts import Facts, value_or

DISTURBED = 0.05  # share of the CPU time that a process wanted and others had, from which a sample is disturbed


def usable_cpus(environment: Facts) -> float | None:
    """How many CPUs a process may use at most: those it may run on, and what the cgroup allows; None: unknown."""
    cpus: int | None = value_or(environment.host.cpus, None)
    return None if cpus is None else min(float(cpus), value_or(environment.host.cpu_quota, math.inf))


def lost_share(load: float, wait: float, cpus: float) -> float:
    """Share of the CPU time wanted that others had, from 0 to 1.

    Args:
        load: CPUs that the worker kept busy.
        wait: CPUs that its threads were ready for while others had them.
        cpus: that it may use; what it used itself cannot have gone to others.
    """
    taken = max(min(wait, cpus - load), 0.0)
    return taken / (load + taken) if load + taken > 0 else 0.0


def lost_shares(loads: Sequence[float], waits: Sequence[float], cpus: float) -> list[float]:
    """The same for each sample."""
    return [lost_share(load, wait, cpus) for load, wait in zip(loads, waits, strict=True)]
