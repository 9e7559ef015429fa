"""Medians with intervals, the stopping rule, and how many digits a figure deserves. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import median

CONFIDENCE = 0.95
FEWEST_FOR_INTERVAL = 6  # samples: the whole range of n covers the median with 1 - 2^(1-n), of five with 94 %
LEAST_OF_A_PROCESS = 5  # samples of each of several processes; with fewer, its median is that of its first ones


def quantile(samples: Sequence[float], q: float) -> float:
    """Return the q-quantile by linear interpolation between order statistics."""
    ordered = sorted(samples)
    place = q * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def iqr_spread(samples: Sequence[float]) -> float:
    """Return the interquartile range over the median: how wide the bulk of the samples is."""
    return (quantile(samples, 0.75) - quantile(samples, 0.25)) / median(samples)


def median_interval(samples: Sequence[float]) -> tuple[float, float]:
    """Return a 95 % interval for the median from order statistics: no assumption about the distribution.

    Fewer than six samples cannot give 95 %; then it is their whole range.
    """
    return quantile_interval(samples, 0.5) or (min(samples), max(samples))


def relative_error(value: float, interval: tuple[float, float]) -> float:
    """Return how far the farther end of an interval lies from the value, as a share of it."""
    return max(value - interval[0], interval[1] - value) / value


@lru_cache(maxsize=256)
def _ranks(count: int, q: float) -> tuple[int, int] | None:
    """The narrowest k < l for which [x(k), x(l)] misses the q-quantile with at most 2.5 % on either side."""
    tail, cumulative = (1 - CONFIDENCE) / 2, 0.0
    low = high = 0
    for below in range(count + 1):  # how many samples lie below the quantile: binomial
        log = math.lgamma(count + 1) - math.lgamma(below + 1) - math.lgamma(count - below + 1)
        chance = math.exp(log + below * math.log(q) + (count - below) * math.log(1 - q))
        if cumulative + chance <= tail:
            low = below + 1  # x(low) is above the quantile in those cases only
        cumulative += chance
        if not high and cumulative >= 1 - tail:
            high = below + 1
    return (low, high) if low and high <= count else None


def quantile_interval(samples: Sequence[float], q: float) -> tuple[float, float] | None:
    """Return a 95 % interval for the q-quantile from order statistics; None when the samples are too few for one.

    Args:
        q: from 0 to 1, neither of them.
    """
    ranks = _ranks(len(samples), q)
    if ranks is None:
        return None
    ordered = sorted(samples)
    return ordered[ranks[0] - 1], ordered[ranks[1] - 1]


@dataclass(frozen=True)
class StoppingRule:
    """Enough samples, enough time, and a median that is known well; or the deadline."""

    min_samples: int = 10
    min_seconds: float = 0.5
    precision: float = 0.005  # of the median: how far either end of its interval may lie from it
    deadline: float = 20.0  # seconds of sampling
    max_samples: int = 2000

    def share(self, processes: int) -> StoppingRule:
        """Return what each of several processes has to reach, so that all of them take about the time of one."""
        if processes == 1:
            return self
        return replace(
            self,
            min_samples=max(-(-self.min_samples // processes), LEAST_OF_A_PROCESS),
            min_seconds=self.min_seconds / processes,
            deadline=self.deadline / processes,
            max_samples=max(self.max_samples // processes, LEAST_OF_A_PROCESS),
        )

    def unmet(self, samples: Sequence[float]) -> str | None:
        """Return the first condition that the samples do not meet; None when all are met."""
        if len(samples) < self.min_samples:
            return f"only {len(samples)} of {self.min_samples} samples"
        if sum(samples) < self.min_seconds:
            return f"samples of only {sum(samples):.2f} of {self.min_seconds} s"
        if (error := relative_error(median(samples), median_interval(samples))) > self.precision:
            return f"interval ±{percent(error)} % (target ±{100 * self.precision:g} %)"
        return None

    def done(self, samples: Sequence[float], elapsed: float) -> bool:
        """True if sampling ends: all conditions met, the deadline reached, or samples without number."""
        over = len(samples) >= self.max_samples or (bool(samples) and elapsed >= self.deadline)
        return over or self.unmet(samples) is None


def percent(share: float) -> str:
    """Return a share in per cent, with two digits and never with an exponent: "5.1", "58", "104"."""
    return f"{100 * share:.2g}" if share < 0.995 else f"{100 * share:.0f}"
