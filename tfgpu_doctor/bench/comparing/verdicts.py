"""The verdict over two runs of one case: slower, faster, the same, or inconclusive, and why. Pure.

A change counts when it is larger than the factor and clear, that is when the 95 % interval of the quotient of the
times excludes 1 (ratio_interval.py says where the interval comes from). A change that does not count is *same* when
chance alone could hardly have moved the quotient by the factor, and *cannot tell* when it could: then a change of that
size might hide. It is *cannot tell*, too, where the medians of all samples differ by more than the factor, although the
lower quartiles, which are compared, do not: the change may concern only some of the steps. The same samples
are *same* whatever they are.

Where other programs disturbed too many samples for that, a change counts when it is larger than what they can have
done to the times of both runs, or when the CPU time of a step shows it (disturbance.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from tfgpu_doctor.bench.comparing.cpu_contention import lost_shares
from tfgpu_doctor.bench.comparing.disturbance import Usage, between, by_cpu_time
from tfgpu_doctor.bench.comparing.ratio_interval import FEWEST, Samples, Shift, level, shift
from tfgpu_doctor.bench.comparing.records import Basis, Measured, Verdict
from tfgpu_doctor.bench.results import Ratio, Run
from tfgpu_doctor.bench.statistics import median, percent
from tfgpu_doctor.records.units import digits

ALIKE = 0.9  # share of the other run's CPUs, from which two runs got alike
ENOUGH = 5  # processes, with which the gate holds its promise (benchmarks/compare_gate.py)
NAMES = ("BASE", "NEW")

Pair = tuple[Run, Run]  # BASE, NEW
Both = tuple[Samples, Samples]
Cpus = tuple[float | None, float | None]  # that a process may use
_ITSELF = Shift(1.0, 1.0, 1.0)
_BOUNDS: Basis = "bounds"
_CPU_TIME: Basis = "CPU time"
_CLEAR = {
    _BOUNDS: "the change is larger than other programs can have caused",
    _CPU_TIME: "compared by the CPU time of a step, which other programs hardly change",
}


class Judged(NamedTuple):
    """A verdict with what it rests on."""

    verdict: Verdict
    reasons: tuple[str, ...]
    base: Measured
    new: Measured
    ratio: Ratio | None = None
    notes: tuple[str, ...] = ()
    basis: Basis = "time"


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
    known = cpus is not None and len(run.cpu_wait) == len(run.cpu_load) == len(run.samples_s)  # an older one has none
    shares = lost_shares(run.cpu_load, run.cpu_wait, cpus or 0.0) if known else []
    return Samples(_by_process(run, _steps(run)), _by_process(run, shares) if known else None)


def _steps(run: Run) -> tuple[float, ...]:
    return tuple(sample / run.steps for sample in run.samples_s)


def _by_process(run: Run, values: Sequence[float]) -> tuple[tuple[float, ...], ...]:
    """Values of samples, process by process."""
    ends = list(accumulate([count for count in run.processes if count > 0] or [len(run.samples_s)]))
    return tuple(tuple(values[begin:end]) for begin, end in zip([0, *ends], ends, strict=False))


def _usage(run: Run) -> tuple[Usage, ...]:
    """How each process used the CPUs; nothing where that was not recorded, as by older versions."""
    if len(run.cpu_load) != len(run.samples_s):
        return ()
    parts = (_by_process(run, values) for values in (_steps(run), run.cpu_load, run.cpu_wait))
    return tuple(Usage(*one) for one in zip(*parts, strict=True))


def measured(run: Run, whole: Samples, kept: Samples) -> Measured:
    """A run in numbers: its time and speed as `tfgpu bench` shows them, and how many samples count here."""
    speed = run.throughput
    middle = run.median_s if run.median_s and math.isfinite(run.median_s) else median(run.samples_s)
    return Measured(
        step_s=middle / run.steps,
        samples=len(kept),
        processes=len(kept.processes),
        left_out=len(whole) - len(kept),
        throughput=speed.value if speed else None,
        unit=speed.unit if speed else None,
    )


def judge(pair: Pair, samples: Both, factor: float, cpus: Cpus, *, alike: bool) -> Judged:
    """The verdict over two runs that may be compared.

    Args:
        cpus: that a process may use, in BASE and in NEW.
        alike: nothing differs that may change over how many threads the work is spread.
    """
    kept, notes = _counting(pair, samples)
    base, new = (measured(*one) for one in zip(pair, samples, kept, strict=True))
    whole = measured(pair[0], samples[0], samples[0]), measured(pair[1], samples[1], samples[1])
    if _same_samples(pair):
        return Judged("same", (), *whole, ratio=_ratio(_ITSELF), notes=("both results have the same samples",))
    found: Shift | None = None
    why = tuple(_too_few(kept, samples)) or tuple(_loads_apart(pair, samples))
    if not why:
        found = shift(level(kept[0]), level(kept[1]))
        verdict = verdict_of(found, factor)
        why = tuple(_unclear(verdict, found, samples, kept, factor))
        if not why:
            return Judged(verdict, (), base, new, _ratio(found), notes)
    limits: tuple[str, ...] = ()
    if (kept != samples or found is None) and min(map(len, samples)) >= FEWEST:
        by_usage = _by_usage(pair, cpus, alike=alike)
        for basis, clear in by_usage.items():
            if beyond := _beyond(clear, factor):
                return Judged(beyond, (), *whole, _ratio(clear), (*notes, *why, _CLEAR[basis]), basis)
        limits = tuple(_moved(one) for basis, one in by_usage.items() if basis == _BOUNDS)
    if not found:
        base, new = whole  # what is left of a disturbed run may be a few samples, which nothing rests on
    return Judged("cannot tell", (*why, *limits), base, new, _ratio(found) if found else None, notes)


def _by_usage(pair: Pair, cpus: Cpus, *, alike: bool) -> dict[Basis, Shift]:
    """What the use of the CPUs says of runs that other programs disturbed, on each basis that they allow."""
    usage = _usage(pair[0]), _usage(pair[1])
    limits = between(*usage, (cpus[0] or math.inf, cpus[1] or math.inf))
    by_cpu = by_cpu_time(*usage) if alike and _on("/CPU", pair) else None
    return {basis: found for basis, found in ((_BOUNDS, limits), (_CPU_TIME, by_cpu)) if found}


def _same_samples(pair: Pair) -> bool:
    return pair[0].samples_s == pair[1].samples_s and pair[0].steps == pair[1].steps


def _ratio(found: Shift) -> Ratio:
    return Ratio(value=found.ratio, low=found.low, high=found.high)


def verdict_of(found: Shift, factor: float) -> Verdict:
    """What a quotient with its interval says."""
    if found.ratio > factor and found.low > 1:
        return "slower"
    if found.ratio < 1 / factor and found.high < 1:
        return "faster"
    return "same" if found.noise <= factor else "cannot tell"


def _beyond(found: Shift, factor: float) -> Verdict | None:
    """The verdict of an interval that lies beyond the factor as a whole; None for any other."""
    return "slower" if found.low > factor else "faster" if found.high < 1 / factor else None


def _moved(limits: Shift) -> str:
    low, high = (digits(one, limits.low, limits.high) for one in (limits.low, limits.high))
    return f"therefore, the time may have changed by any factor from {low} to {high}"


def _on(device: str, pair: Pair) -> bool:
    return all(name.startswith(device) for run in pair for name in run.devices)


def _counting(pair: Pair, samples: Both) -> tuple[Both, tuple[str, ...]]:
    """The samples that count, and notes about them.

    On GPUs those that others disturbed count where no others are left: a CPU launches their kernels, and does not
    compute.
    """
    kept = samples[0].undisturbed(), samples[1].undisturbed()
    if _on("/GPU", pair) and any(len(one) < FEWEST <= len(whole) for one, whole in zip(kept, samples, strict=True)):
        return samples, ("other programs used the CPUs during the runs, which may have delayed kernel launches",)
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
    if not _on("/CPU", pair) or all(one.lost is not None for one in samples) or not all(run.cpu_load for run in pair):
        return
    loads = [median(run.cpu_load) for run in pair]
    if min(loads) <= ALIKE * max(loads):
        used = f"the run used {loads[0]:.1f} CPUs in BASE and {loads[1]:.1f} in NEW"
        yield f"{used}; it is unknown whether other programs used the rest"


def _unclear(verdict: Verdict, found: Shift, samples: Both, kept: Both, factor: float) -> Iterator[str]:
    """Say that chance is larger than the factor, or that only the medians changed by more than it."""
    change = median(kept[1].all()) / median(kept[0].all())
    if verdict == "cannot tell":
        yield _noise(found, samples, kept)
    elif verdict == "same" and not 1 / factor <= change <= factor:
        medians = f"the median of all samples changed by a factor of {change:.2f}, the lower quartile did not"
        yield f"{medians}: only some of the steps changed, or other programs slowed them down"


def _noise(found: Shift, samples: Both, kept: Both) -> str:
    """Say that chance is larger than the factor, and what makes it smaller."""
    noise = f"the ratio is only known to ±{percent(found.noise - 1)} %"
    counts = [len(one.processes) for one in kept]
    if min(len(one.processes) for one in samples) < ENOUGH:
        few = "one process each" if counts == [1, 1] else f"{counts[0]} and {counts[1]} processes"
        return f"{noise}, from {few}: measure both with --processes {ENOUGH} on an idle machine"
    return f"{noise}: measure on an idle machine, with more --processes, or raise --factor"
