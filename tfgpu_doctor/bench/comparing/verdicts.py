"""The verdict over two runs of one case: slower, faster, the same, or inconclusive, and why. Pure.

A change counts when it is larger than the factor and clear, that is when the 95 % interval of the quotient of the
times excludes 1 (ratio_interval.py says where the interval comes from). A change that does not count is *same* when
chance alone could hardly have moved the quotient by the factor, and *cannot tell* when it could: then a change of that
size might hide.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from tfgpu_doctor.bench.comparing.cpu_contention import lost_shares
from tfgpu_doctor.bench.comparing.ratio_interval import Samples, Shift, level, shift
from tfgpu_doctor.bench.comparing.records import Measured, Verdict
from tfgpu_doctor.bench.results import Ratio, Run
from tfgpu_doctor.bench.statistics import median

FEWEST = 5  # samples of a run, below which its spread is unknown
ALIKE = 0.9  # share of the other run's CPUs, from which two runs got alike
ENOUGH = 5  # processes, with which the gate holds its promise (benchmarks/compare_gate.py)
NAMES = ("BASE", "NEW")

Pair = tuple[Run, Run]  # BASE, NEW
Both = tuple[Samples, Samples]


class Judged(NamedTuple):
    """A verdict with what it rests on."""

    verdict: Verdict
    reasons: tuple[str, ...]
    base: Measured
    new: Measured
    ratio: Ratio | None = None
    notes: tuple[str, ...] = ()


def speedless(run: Run, name: str) -> str | None:
    """Say why a run has no speed that could be compared; None when it has one."""
    if run.failure is not None:
        return f"the run failed in {name}: {run.failure}"
    if run.virtual:
        return "virtual devices have no meaningful speed"
    if run.verified is None or not run.verified.ok:
        return f"the result in {name} is {'wrong' if run.verified else 'not verified'}"
    if not run.samples_s:
        return f"{name} has no samples"
    return None


def samples_of(run: Run, cpus: float | None) -> Samples:
    """The samples of a run, process by process, as seconds of a step, with what others took of the `cpus` meanwhile."""
    counts = [count for count in run.processes if count > 0] or [len(run.samples_s)]
    known = cpus is not None and len(run.cpu_wait) == len(run.cpu_load) == len(run.samples_s)  # an older one has none
    shares = lost_shares(run.cpu_load, run.cpu_wait, cpus or 0.0) if known else []
    times: list[tuple[float, ...]] = []
    lost: list[tuple[float, ...]] = []
    begun = 0
    for count in counts:
        times.append(tuple(sample / run.steps for sample in run.samples_s[begun : begun + count]))
        lost.append(tuple(shares[begun : begun + count]))
        begun += count
    return Samples(tuple(times), tuple(lost) if known else None)


def measured(run: Run, whole: Samples, kept: Samples) -> Measured:
    """A run in numbers, by the samples that count; where none does, by all."""
    step = math.exp(level(kept if len(kept) else whole).log)
    speed = run.throughput
    work = speed.value * (run.median_s or step * run.steps) / run.steps if speed else None  # of a step
    return Measured(
        step_s=step,
        samples=len(kept),
        processes=len(kept.processes),
        left_out=len(whole) - len(kept),
        throughput=work / step if work is not None and math.isfinite(work) else None,
        unit=speed.unit if speed else None,
    )


def judge(pair: Pair, samples: Both, factor: float) -> Judged:
    """The verdict over two runs that may be compared."""
    kept, notes = _counting(pair, samples)
    base, new = (measured(*one) for one in zip(pair, samples, kept, strict=True))
    why = tuple(_too_few(kept, samples)) or tuple(_loads_apart(pair, samples))
    if why:
        return Judged("cannot tell", why, base, new, notes=notes)
    found = shift(level(kept[0]), level(kept[1]))
    verdict = verdict_of(found, factor)
    reasons = (_noise(found, samples, kept),) if verdict == "cannot tell" else ()
    return Judged(verdict, reasons, base, new, Ratio(value=found.ratio, low=found.low, high=found.high), notes)


def verdict_of(found: Shift, factor: float) -> Verdict:
    """What a quotient with its interval says."""
    if found.ratio > factor and found.low > 1:
        return "slower"
    if found.ratio < 1 / factor and found.high < 1:
        return "faster"
    return "same" if found.noise <= factor else "cannot tell"


def _counting(pair: Pair, samples: Both) -> tuple[Both, tuple[str, ...]]:
    """The samples that count, and notes about them.

    On GPUs those that others disturbed count where no others are left: a CPU launches their kernels, and does not
    compute.
    """
    kept = samples[0].undisturbed(), samples[1].undisturbed()
    on_gpu = all(device.startswith("/GPU") for run in pair for device in run.devices)
    if on_gpu and any(len(one) < FEWEST <= len(whole) for one, whole in zip(kept, samples, strict=True)):
        return samples, ("other programs used the CPUs meanwhile, which may have delayed kernel launches",)
    return kept, ()


def _too_few(kept: Both, samples: Both) -> Iterator[str]:
    for name, left, whole in zip(NAMES, map(len, kept), map(len, samples), strict=True):
        if whole < FEWEST:
            yield f"{name} has only {whole} sample{'s' * (whole != 1)}; at least {FEWEST} are needed"
        elif left < FEWEST:
            some = f"all but {left} of {whole}" if left else f"all {whole}"
            yield f"other programs used the CPUs during {some} samples of {name}"


def _loads_apart(pair: Pair, samples: Both) -> Iterator[str]:
    """Say that a CPU's run got fewer CPUs than the other, where it is not known which samples were disturbed."""
    on_cpu = all(device.startswith("/CPU") for run in pair for device in run.devices)
    if not on_cpu or all(one.lost is not None for one in samples) or not all(run.cpu_load for run in pair):
        return
    loads = [median(run.cpu_load) for run in pair]
    if min(loads) <= ALIKE * max(loads):
        used = f"the run used {loads[0]:.1f} CPUs in BASE and {loads[1]:.1f} in NEW"
        yield f"{used}; it is unknown whether other programs used the rest"


def _noise(found: Shift, samples: Both, kept: Both) -> str:
    """Say that chance is larger than the factor, and what makes it smaller."""
    noise = f"the ratio is only known to ±{100 * (found.noise - 1):.2g} %"
    counts = [len(one.processes) for one in kept]
    if min(len(one.processes) for one in samples) < ENOUGH:
        few = "one process each" if counts == [1, 1] else f"{counts[0]} and {counts[1]} processes"
        return f"{noise}, from {few}: measure both with --processes {ENOUGH} on an idle machine"
    return f"{noise}: measure on an idle machine, with more --processes, or raise --factor"
