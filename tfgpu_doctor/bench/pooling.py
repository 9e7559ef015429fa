"""Two results of the same benchmark as one: the processes of both count. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import msgspec

from tfgpu_doctor.bench.advice import NOISY
from tfgpu_doctor.bench.comparing.ratio_interval import Samples, interval
from tfgpu_doctor.bench.ratios import relate
from tfgpu_doctor.bench.results import BenchResult, Run, Throughput
from tfgpu_doctor.bench.statistics import StoppingRule, iqr_spread, median, median_interval


def pooled(first: BenchResult, more: BenchResult) -> BenchResult:
    """`more`, with the samples of `first` before its own; a run that failed in either has failed."""
    earlier = {_key(run): run for run in first.runs}
    least = more.parameters.get("min_samples")
    rule = StoppingRule(min_samples=least if isinstance(least, int) else StoppingRule.min_samples)
    runs = [_pooled(earlier.pop(_key(run)), run, rule) if _key(run) in earlier else run for run in more.runs]
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


def _pooled(first: Run, more: Run, rule: StoppingRule) -> Run:
    if more.throughput is None and more.failure is None:  # it has not taken samples yet
        return first
    if first.throughput is None or more.throughput is None or more.median_s is None:
        return first if first.throughput is None else more
    earlier = tuple(sample / first.steps * more.steps for sample in first.samples_s)  # of as many steps
    samples, processes = (*earlier, *more.samples_s), (*_processes(first), *_processes(more))
    ends = list(accumulate(processes))
    low, high = interval_of([samples[begin:end] for begin, end in zip([0, *ends], ends, strict=False)])
    work, middle = more.throughput.value * more.median_s, median(samples)  # of a sample
    stopped = rule.unmet(samples)
    return msgspec.structs.replace(
        more,
        cold_start_s=first.cold_start_s,
        warmup_s=first.warmup_s,
        samples_s=samples,
        processes=processes,
        cpu_load=_both(first.cpu_load, more.cpu_load),
        cpu_wait=_both(first.cpu_wait, more.cpu_wait),
        throttled_samples=(*first.throttled_samples, *(place + len(earlier) for place in more.throttled_samples)),
        median_s=middle,
        ci95_s=(low, high),
        spread_iqr=iqr_spread(samples),
        throughput=Throughput(value=work / middle, unit=more.throughput.unit, ci95=(work / high, work / low)),
        stopped=stopped,
        advice=(*((NOISY + stopped,) if stopped else ()), *(one for one in more.advice if not one.startswith(NOISY))),
    )


def _processes(run: Run) -> tuple[int, ...]:
    return run.processes or (len(run.samples_s),)


def _both(first: tuple[float, ...], more: tuple[float, ...]) -> tuple[float, ...]:
    """Values of all samples; empty, for unknown, where those of one side are."""
    return (*first, *more) if first and more else ()
