"""What makes the figure of a run doubtful, and nothing else: a run is marked for this. Pure.

That samples differ says little about their median: an H100 at its power limit varies by 3 to 5 % from sample to sample,
and 1,726 samples give its median to 0.7 % (tests/captures/h100/bench). So the median is judged, by what may be
wrong with it by more than LIMIT:

    too few samples    fewer than six have no 95 % interval
    interval           one of its ends lies farther from the median than that
    drift              the second half of the samples differs from the first by more than that, whatever lies within the
                       intervals of their medians: the figure depends on when it was taken
    disturbed          other programs had the CPUs in so many samples that the median counts those, too
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfgpu_doctor.bench.samples import DISTURBED, Samples
from tfgpu_doctor.bench.statistics import FEWEST_FOR_INTERVAL, median, median_interval, percent, relative_error

LIMIT = 0.05  # share of the median
DOUBTFUL = "uncertain: "  # how the advice begins that says them


def doubts(kept: Samples, ci95: tuple[float, float]) -> tuple[str, ...]:
    """Return the reasons, gravest first; none where the figure can be relied on.

    Args:
        kept: the samples that the median is of, in the order of time.
        ci95: its interval.
    """
    return tuple(_reasons(kept, ci95))


def _reasons(kept: Samples, ci95: tuple[float, float]) -> Iterator[str]:
    samples = kept.all()
    if len(samples) < FEWEST_FOR_INTERVAL:
        yield f"only {len(samples)} sample{'s' * (len(samples) != 1)}"
    elif (error := relative_error(median(samples), ci95)) > LIMIT:
        yield f"95 % interval ±{percent(error)} %"
    if change := drift(samples):
        yield f"drift: the second half took {percent(abs(change))} % {'longer' if change > 0 else 'less time'}"
    shares = [share for process in kept.lost or () for share in process]
    if (disturbed := sum(share > DISTURBED for share in shares)) and len(samples) >= FEWEST_FOR_INTERVAL:
        yield f"disturbed by other programs in {disturbed} of {len(samples)} samples"


def drift(samples: Sequence[float]) -> float | None:
    """By how much the median of the second half differs from that of the first, where that is surely above LIMIT."""
    half = len(samples) // 2
    if half < FEWEST_FOR_INTERVAL:
        return None
    first, second = samples[:half], samples[-half:]
    (low, high), (low_after, high_after) = median_interval(first), median_interval(second)
    least = max(low_after / high, low / high_after) - 1  # what both intervals leave of the change
    return median(second) / median(first) - 1 if least > LIMIT else None
