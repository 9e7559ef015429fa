"""Which batch to try next, by what the tries so far have shown: doubling, then halving the gap. Pure.

On the CPU nothing refuses memory until the machine is short of it, so there the search has a budget, and goes only
where the growth of the last tries stays within it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

START = 8
MOST = 2**20  # images; a network for which this fits teaches nothing more
FINE = 32  # the gap that is left is at most this part of the batch
SHARE_FINE = 16  # a step within the budget that is smaller than this part is not worth a try
MARGIN = 1.25  # on the growth of the last tries
STEEPER = 4.0  # times that growth may rise from one doubling to the next, as far as it is believed
STEPS_A_TRY = 2
POINTS = 5  # batches whose speed is measured, at most

MEMORY, BUDGET, TIME, LIMIT = "memory", "budget", "time", "limit"  # what bounds the batch


@dataclass(frozen=True)
class Try:
    """One batch that was tried."""

    batch: int
    fits: bool
    peak: int | None = None  # bytes at most, where known
    seconds: float = 0.0  # of a step
    why: str = ""  # it does not fit: what was said


@dataclass
class BatchSearch:
    """The tries so far, and what follows from them."""

    budget: int | None = None  # bytes; None: the memory itself says when it is full
    seconds: float = 600.0  # that the steps of all tries may take; starting and tracing come on top
    start: int = START
    tries: list[Try] = field(default_factory=list)
    bound: str | None = None  # once it has ended

    @property
    def largest(self) -> Try | None:
        """The largest that fits."""
        return max((attempt for attempt in self.tries if attempt.fits), key=lambda attempt: attempt.batch, default=None)

    @property
    def failed(self) -> Try | None:
        """The smallest that does not."""
        return min(
            (attempt for attempt in self.tries if not attempt.fits), key=lambda attempt: attempt.batch, default=None
        )

    def peaks(self) -> dict[int, int]:
        """Bytes at most, by batch, where known."""
        return {attempt.batch: attempt.peak for attempt in self.tries if attempt.fits and attempt.peak is not None}

    @property
    def spent(self) -> float:
        """Seconds that the steps of all tries took."""
        return sum(STEPS_A_TRY * attempt.seconds for attempt in self.tries)

    def next(self) -> int | None:
        """The batch to try next; None when the search has ended (see `bound`)."""
        low, high = self.largest, self.failed
        if low is None:
            return self._below(high)
        if high is not None and high.batch - low.batch <= max(1, low.batch // FINE):
            return self._end(MEMORY)
        if low.batch >= MOST:
            return self._end(LIMIT)
        wanted = (low.batch + high.batch) // 2 if high else min(2 * low.batch, MOST)
        allowed = self._affordable(low)
        if allowed is not None and wanted > allowed:
            grain = 1 << max(low.batch.bit_length() - 5, 0)  # round numbers
            wanted = allowed // grain * grain
            if wanted < low.batch + max(1, low.batch // SHARE_FINE):
                return self._end(BUDGET)
        if self.spent + STEPS_A_TRY * low.seconds * wanted / low.batch > self.seconds:
            return self._end(TIME)
        return wanted

    def _below(self, high: Try | None) -> int | None:
        """The next where none has fitted yet."""
        if high is None:
            return self.start
        return high.batch // 2 if high.batch > 1 else self._end(MEMORY)

    def _end(self, bound: str) -> int | None:
        """The search has ended, by this bound."""
        self.bound = bound
        return None

    def _affordable(self, low: Try) -> int | None:
        """The largest batch that the budget allows by the growth so far; None where there is no budget to keep."""
        if self.budget is None or low.peak is None:
            return None
        return low.batch + max(int((self.budget - low.peak) / (MARGIN * self._growth(low))), 0)

    def _growth(self, low: Try) -> float:
        """Bytes an image, beyond the largest: the last two differences, which go on to rise where they have risen."""
        peaks = sorted(self.peaks().items())[-3:]
        if len(peaks) < 2:
            return max((low.peak or 0) / low.batch, 1.0)
        last, before = _slope(peaks[-2:]), _slope(peaks[:2])
        rising = min(max(last / before, 1.0), STEEPER) if before > 0 else 1.0
        return max(1.0, before, last * rising)

    def growth(self) -> float | None:
        """Bytes that an image takes, by the two largest batches that fit; None where that is not known."""
        peaks = sorted(self.peaks().items())[-2:]
        return _slope(peaks) if len(peaks) == 2 and _slope(peaks) > 0 else None


def _slope(pair: Sequence[tuple[int, int]]) -> float:
    (batch, peak), (next_batch, next_peak) = pair
    return (next_peak - peak) / (next_batch - batch)


def points(largest: int, count: int = POINTS) -> list[int]:
    """Batches whose speed is measured, largest first: the largest, and powers of 4 clearly below it."""
    powers = [4**exponent for exponent in range(11) if 4**exponent <= 0.75 * largest]
    return [largest, *reversed(powers[-(count - 1) :])]
