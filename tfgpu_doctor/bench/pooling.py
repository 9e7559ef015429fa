"""Two results of the same benchmark as one: the processes of both count. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tfgpu_doctor.bench.comparing.cpu_contention import usable_cpus
from tfgpu_doctor.bench.comparing.ratio_interval import Samples, interval
from tfgpu_doctor.bench.comparing.verdicts import samples_of
from tfgpu_doctor.bench.doubts import DOUBTFUL, doubts
from tfgpu_doctor.bench.ratios import relate
from tfgpu_doctor.bench.results import BenchResult, Run, Throughput
from tfgpu_doctor.bench.statistics import StoppingRule, iqr_spread, median, median_interval

OLDER = ("noisy: ", "rough: ")  # how it began where the spread of the samples was judged


def pooled(first: BenchResult, more: BenchResult) -> BenchResult:
    """`more`, with the samples of `first` before its own; a run that failed in either has failed."""
    earlier = {_key(run): run for run in first.runs}
    least = more.parameters.get("min_samples")
    rule = StoppingRule(min_samples=least if isinstance(least, int) else StoppingRule.min_samples)
    cpus = usable_cpus(more.environment)
    runs = [_pooled(earlier.pop(_key(run)), run, rule, cpus) if _key(run) in earlier else run for run in more.runs]
    runs += earlier.values()  # for which there was no time this time
    counts = [one.parameters.get("processes") for one in (first, more)]
    processes = sum(count for count in counts if isinstance(count, int))
    return msgspec.structs.replace(
        more,
        created=first.created,
        parameters={**more.parameters, "processes": processes},
        runs=relate(runs),
        not_run=tuple(name for name in more.not_run if name in first.not_run),
    )


def settled(run: Run, cpus: float | None) -> Samples:
    """The samples that its speed is the median of."""
    return samples_of(msgspec.structs.replace(run, steps=1), cpus).settled()  # samples, not steps


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


def _key(run: Run) -> object:
    return run.label, run.dtype, run.spread, tuple(sorted((name, str(value)) for name, value in run.parameters.items()))


def _pooled(first: Run, more: Run, rule: StoppingRule, cpus: float | None) -> Run:
    if more.throughput is None and more.failure is None:  # it has not taken samples yet
        return first
    if first.throughput is None or more.throughput is None or more.median_s is None:
        return first if first.throughput is None else more
    earlier = tuple(sample / first.steps * more.steps for sample in first.samples_s)  # of as many steps
    samples, processes = (*earlier, *more.samples_s), (*_processes(first), *_processes(more))
    both = msgspec.structs.replace(
        more,
        cold_start_s=first.cold_start_s,
        warmup_s=first.warmup_s,
        samples_s=samples,
        processes=processes,
        cpu_load=_both(first.cpu_load, more.cpu_load),
        cpu_wait=_both(first.cpu_wait, more.cpu_wait),
        throttled_samples=(*first.throttled_samples, *(place + len(earlier) for place in more.throttled_samples)),
        stopped=rule.unmet(samples),
    )
    return with_speed(both, more.throughput.value * more.median_s, more.throughput.unit, cpus)


def _processes(run: Run) -> tuple[int, ...]:
    return run.processes or (len(run.samples_s),)


def _both(first: tuple[float, ...], more: tuple[float, ...]) -> tuple[float, ...]:
    """Values of all samples; empty, for unknown, where those of one side are."""
    return (*first, *more) if first and more else ()
