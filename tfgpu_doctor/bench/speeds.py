"""Compute the speed of a run from its samples: median, interval, spread, and what makes them doubtful. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tfgpu_doctor.bench.doubts import DOUBTFUL, doubts
from tfgpu_doctor.bench.results import Run, Throughput
from tfgpu_doctor.bench.samples import Samples, interval, samples_of
from tfgpu_doctor.bench.statistics import iqr_spread, median, median_interval

OLDER = ("noisy: ", "rough: ")  # how it began where the spread of the samples was judged


def settled(run: Run, cpus: float | None) -> Samples:
    """The samples that its speed is the median of."""
    return samples_of(run, cpus).settled()


def with_speed(run: Run, work: float, unit: str, cpus: float | None) -> Run:
    """The run with what its settled samples say: median, interval, spread and speed.

    Args:
        work: of a sample, in `unit` times seconds.
        cpus: that a process may use, where known; without, no sample is known to be disturbed.
    """
    kept = settled(run, cpus)
    samples = kept.all()
    middle, (low, high) = median(samples), interval_of([process for process in kept.processes if process])
    measured = msgspec.structs.replace(
        run,
        left_out=len(run.samples_s) - len(kept),
        median_s=middle,
        ci95_s=(low, high),
        spread_iqr=iqr_spread(samples),
        throughput=Throughput(value=work / middle, unit=unit, ci95=(work / high, work / low)),
    )
    return judged(measured, cpus)


def judged(run: Run, cpus: float | None) -> Run:
    """The run with what makes its figure doubtful, also as the first of its advice; virtual devices have no figure."""
    if run.throughput is None or run.ci95_s is None or not run.samples_s:
        return run
    found = () if run.virtual else doubts(settled(run, cpus), run.ci95_s)
    said = (DOUBTFUL + "; ".join(found),) if found else ()
    others = (advice for advice in run.advice if not advice.startswith((DOUBTFUL, *OLDER)))
    return msgspec.structs.replace(run, doubts=found, advice=(*said, *others))


def interval_of(processes: Sequence[Sequence[float]]) -> tuple[float, float]:
    """A 95 % interval for the median: of one process by its samples, which are all there is to go by; else by what the
    processes say, since samples of one process are not independent."""
    low, high = median_interval([sample for process in processes for sample in process])
    if len(processes) < 2:
        return low, high
    least, most = interval(Samples(tuple(map(tuple, processes))))
    return min(low, least), max(high, most)
