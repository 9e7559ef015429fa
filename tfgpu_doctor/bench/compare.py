"""Two bench results beside each other: what became slower, what faster, and of what that cannot be said. Pure.

A change counts when it is larger than the factor and clear, that is when the 95 % interval of the quotient of the
times excludes 1 (bench/shift.py says where the interval comes from). A change that does not count is *same* when
chance alone could hardly have moved the quotient by the factor, and *cannot tell* when it could: then a change of
that size might hide.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence

from tfgpu_doctor import __version__
from tfgpu_doctor.bench.circumstances import (
    Obstacle,
    asides,
    asides_of_run,
    other_circumstances,
    other_run,
    other_work,
)
from tfgpu_doctor.bench.compare_records import (
    SCHEMA,
    Alone,
    BenchComparison,
    FailOnSpeed,
    FigureChange,
    Measured,
    RunChange,
    Side,
    Verdict,
)
from tfgpu_doctor.bench.disturbance import lost_shares, usable_cpus
from tfgpu_doctor.bench.results import BenchResult, Figure, Ratio, Run
from tfgpu_doctor.bench.shift import Samples, Shift, level, shift
from tfgpu_doctor.bench.statistics import median
from tfgpu_doctor.report import EXIT_OK, EXIT_PROBLEM, EXIT_UNKNOWN, Tool

FACTOR = 1.05
FEWEST = 5  # samples of a run, below which nothing is said of its spread
ALIKE = 0.9  # share of the other run's CPUs, from which two runs got alike
ENOUGH = 5  # processes, with which the gate holds its promise (benchmarks/compare_gate.py)
JUDGED: tuple[Verdict, ...] = ("slower", "faster", "same")
_FAILING: dict[FailOnSpeed, tuple[Verdict, ...]] = {
    "slower": ("slower",),
    "faster": ("faster",),
    "change": ("slower", "faster"),
    "never": (),
}


def compare_benches(
    base: BenchResult,
    new: BenchResult,
    created: str,
    *,
    factor: float = FACTOR,
    across: Collection[str] = (),
    names: tuple[str, str] = ("BASE", "NEW"),
) -> BenchComparison:
    """Compare two results.

    Args:
        created: the time, UTC.
        factor: above 1; how much longer or shorter a step may take and still be the same.
        across: names of circumstances (circumstances.ACROSS) that may differ.
        names: what the results are called.
    """
    ours, theirs = _numbered(base.runs), _numbered(new.runs)
    forbidden = tuple(other_work(base, new))
    pairs = [(ours[key], theirs[key]) for key in ours if key in theirs]
    return BenchComparison(
        schema=SCHEMA,
        tool=Tool(name="tfgpu", version=__version__),
        created=created,
        base=_side(base, names[0]),
        new=_side(new, names[1]),
        factor=factor,
        across=tuple(sorted(set(across))),
        runs=tuple(_compare(base, new, pair, forbidden, factor, across) for pair in pairs),
        only_base=tuple(_alone(run) for key, run in ours.items() if key not in theirs),
        only_new=tuple(_alone(run) for key, run in theirs.items() if key not in ours),
        notes=tuple(asides(base, new)),
    )


def exit_code(comparison: BenchComparison, fail_on: FailOnSpeed) -> int:
    """0 all that BASE measured was judged, and passes; 1 a run fails the gate; 3 of some run that cannot be said.

    A run that had a speed in BASE and has failed in NEW fails the gates for what is slower and for any change.
    """
    if fail_on == "never":
        return EXIT_OK
    failing = _FAILING[fail_on]
    if any(one.verdict in failing or (one.lost and "slower" in failing) for one in comparison.runs):
        return EXIT_PROBLEM
    counted = [one for one in comparison.runs if one.base is not None]
    missing = any(one.measured for one in comparison.only_base)
    open_ones = [one for one in counted if one.verdict not in JUDGED and not one.lost]
    return EXIT_UNKNOWN if not counted or open_ones or missing else EXIT_OK


def _side(result: BenchResult, name: str) -> Side:
    return Side(
        name=name,
        created=result.created,
        tool=result.tool.version,
        workload=result.workload,
        title=result.title,
        software=dict(result.software),
    )


def _numbered(runs: Sequence[Run]) -> dict[object, Run]:
    """Runs by what makes them the same case; a second one of the same kind is the second one's partner."""
    found: dict[object, Run] = {}
    for run in runs:
        key = (
            run.label,
            run.dtype,
            run.spread,
            tuple(sorted((name, str(value)) for name, value in run.parameters.items())),
        )
        number = sum(1 for taken in found if isinstance(taken, tuple) and taken[0] == key)
        found[key, number] = run
    return found


def _alone(run: Run) -> Alone:
    return Alone(
        label=run.label, dtype=run.dtype, parameters=dict(run.parameters), measured=_speedless(run, "") is None
    )


# ------------------------------------------------------------------------------------------------ one case


def _compare(
    base: BenchResult,
    new: BenchResult,
    pair: tuple[Run, Run],
    forbidden: Sequence[Obstacle],
    factor: float,
    across: Collection[str],
) -> RunChange:
    on_gpu = any(device.startswith("/GPU") for run in pair for device in run.devices)
    obstacles = [*forbidden, *other_circumstances(base, new, on_gpu=on_gpu), *other_run(*pair)]
    allowed = tuple(one.text for one in obstacles if one.across in across)
    hindering = [one for one in obstacles if one.across not in across]
    speedless = [_speedless(pair[0], "BASE"), _speedless(pair[1], "NEW")]
    reasons = tuple(dict.fromkeys(text for text in speedless if text)) or tuple(map(_reason, hindering))
    samples = [
        None if why else samples_of(run, usable_cpus(result.environment))
        for run, result, why in zip(pair, (base, new), speedless, strict=True)
    ]
    notes = (*(f"across {text}" for text in allowed), *asides_of_run(base, new, pair))
    told: dict[str, object] = {}
    verdict: Verdict = "not comparable"
    if not reasons and samples[0] and samples[1]:
        verdict, reasons, told = _judge(pair, (samples[0], samples[1]), factor)
    else:
        told = {
            side: _measured(run, one, one) for side, run, one in zip(("base", "new"), pair, samples, strict=True) if one
        }
    return RunChange(
        label=pair[0].label,
        dtype=pair[0].dtype,
        spread=pair[0].spread,
        parameters=dict(pair[0].parameters),
        step_name=pair[0].step_name,
        verdict=verdict,
        reasons=reasons,
        lost=speedless[0] is None and pair[1].failure is not None,
        figures=tuple(_figures(*pair)) if verdict != "not comparable" else (),
        notes=notes,
        **told,  # type: ignore[arg-type]
    )


def _reason(obstacle: Obstacle) -> str:
    return f"{obstacle.text} (--across {obstacle.across} allows it)" if obstacle.across else obstacle.text


def _speedless(run: Run, name: str) -> str | None:
    """Say why a run has no speed that could be compared; None when it has one."""
    if run.failure is not None:
        return f"it failed in {name}: {run.failure}"
    if run.virtual:
        return "virtual devices prove function, never speed"
    if run.verified is None or not run.verified.ok:
        return f"its result in {name} is {'wrong' if run.verified else 'not verified'}"
    if not run.samples_s:
        return f"{name} has no samples of it"
    if run.steps < 1 or not all(math.isfinite(one) and one > 0 for one in run.samples_s):
        return f"{name} has samples of it that are no times"
    return None


def samples_of(run: Run, cpus: float | None) -> Samples:
    """The samples of a run, process by process, as seconds of a step, with what others took of the `cpus` meanwhile."""
    counts = [count for count in run.processes if count > 0]
    if sum(counts) != len(run.samples_s):
        counts = [len(run.samples_s)]
    times: list[tuple[float, ...]] = []
    lost: list[tuple[float, ...]] = []
    known = cpus is not None and len(run.cpu_wait) == len(run.cpu_load) == len(run.samples_s)
    shares = lost_shares(run.cpu_load, run.cpu_wait, cpus or 0.0) if known else []
    begun = 0
    for count in counts:
        times.append(tuple(sample / run.steps for sample in run.samples_s[begun : begun + count]))
        lost.append(tuple(shares[begun : begun + count]))
        begun += count
    return Samples(tuple(times), tuple(lost) if known else None)


def _measured(run: Run, all_of_it: Samples, kept: Samples) -> Measured:
    step = math.exp(level(kept if len(kept) else all_of_it).log)
    speed = run.throughput
    work = speed.value * (run.median_s or step * run.steps) / run.steps if speed else None  # of a step
    return Measured(
        step_s=step,
        samples=len(kept),
        processes=len(kept.processes),
        left_out=len(all_of_it) - len(kept),
        throughput=work / step if work is not None and math.isfinite(work) else None,
        unit=speed.unit if speed else None,
    )


def _judge(
    pair: tuple[Run, Run], samples: tuple[Samples, Samples], factor: float
) -> tuple[Verdict, tuple[str, ...], dict[str, object]]:
    """The verdict, why it cannot be told, and what it rests on."""
    kept = tuple(one.undisturbed() for one in samples)
    told: dict[str, object] = {
        side: _measured(run, *both)
        for side, run, both in zip(("base", "new"), pair, zip(samples, kept, strict=True), strict=True)
    }
    few = tuple(
        _too_few(name, len(one), len(whole))
        for name, one, whole in zip(("BASE", "NEW"), kept, samples, strict=True)
        if len(one) < FEWEST
    )
    if few:
        return "cannot tell", few, told
    if loads := _loads_apart(pair, samples):
        return "cannot tell", (loads,), told
    found = shift(level(kept[0]), level(kept[1]))
    told["ratio"] = Ratio(value=found.ratio, low=found.low, high=found.high)
    verdict = verdict_of(found, factor)
    reasons = (_noise(found, kept),) if verdict == "cannot tell" else ()
    return verdict, reasons, told


def _loads_apart(pair: tuple[Run, Run], samples: Sequence[Samples]) -> str | None:
    """Say that a CPU's run got fewer CPUs than the other; None where they got alike, or disturbed samples are known."""
    on_cpu = all(device.startswith("/CPU") for run in pair for device in run.devices)
    if not on_cpu or all(one.lost is not None for one in samples) or not all(run.cpu_load for run in pair):
        return None
    loads = [median(run.cpu_load) for run in pair]
    if min(loads) > ALIKE * max(loads):
        return None
    busy = f"it kept {loads[0]:.1f} CPUs busy in BASE and {loads[1]:.1f} in NEW"
    return f"{busy}; whether other programs had the rest is not known"


def _too_few(name: str, left: int, count: int) -> str:
    if count < FEWEST:
        return f"{name} has {count} sample{'s' * (count != 1)}, and {FEWEST} are needed"
    return f"something else wanted the CPUs during all but {left} of the {count} samples of {name}"


def verdict_of(found: Shift, factor: float) -> Verdict:
    """What a quotient with its interval says."""
    if found.ratio > factor and found.low > 1:
        return "slower"
    if found.ratio < 1 / factor and found.high < 1:
        return "faster"
    return "same" if found.noise <= factor else "cannot tell"


def _noise(found: Shift, kept: Sequence[Samples]) -> str:
    """Say that chance is larger than the factor, and what makes it smaller."""
    said = f"chance alone may have moved it by {100 * (found.noise - 1):.2g} %"
    counts = [len(one.processes) for one in kept]
    if min(counts) < ENOUGH:
        few = "a process each" if counts == [1, 1] else f"{counts[0]} and {counts[1]} processes"
        return f"{said}, with {few} to go by: measure both with --processes {ENOUGH} on a machine that is idle"
    return f"{said}: measure on a machine that is idle, with more --processes, or raise --factor"


# ------------------------------------------------------------------------------------------------ figures


def _figures(base: Run, new: Run) -> Iterator[FigureChange]:
    """Figures of the same name and unit in both."""
    theirs = {(one.name, one.unit): one for one in new.figures}
    for one in base.figures:
        other = theirs.get((one.name, one.unit))
        if other is not None and math.isfinite(one.value) and math.isfinite(other.value):
            yield FigureChange(
                name=one.name, unit=one.unit, base=one.value, new=other.value, ratio=_quotient(one, other)
            )


def _quotient(base: Figure, new: Figure) -> Ratio | None:
    """NEW over BASE, where that is a number; without intervals, it is its own."""
    low, high = new.ci95 or (new.value, new.value)
    least, most = base.ci95 or (base.value, base.value)
    if not all(math.isfinite(one) and one > 0 for one in (base.value, new.value, low, high, least, most)):
        return None
    return Ratio(value=new.value / base.value, low=low / most, high=high / least)
