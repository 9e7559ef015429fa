"""Two bench results compared: which runs became slower or faster, and which are inconclusive. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

import msgspec

from tfgpu_doctor import __version__
from tfgpu_doctor.bench.comparing.comparability import (
    Obstacle,
    asides,
    asides_of_run,
    other_circumstances,
    other_run,
    other_variables,
    other_work,
)
from tfgpu_doctor.bench.comparing.cpu_contention import usable_cpus
from tfgpu_doctor.bench.comparing.records import (
    SCHEMA,
    Alone,
    BenchComparison,
    FailOnSpeed,
    FigureChange,
    RunChange,
    Side,
    Verdict,
)
from tfgpu_doctor.bench.comparing.verdicts import NAMES, judge, measured, samples_of, speedless
from tfgpu_doctor.bench.results import BenchResult, Figure, Ratio, Run
from tfgpu_doctor.records.report import EXIT_OK, EXIT_PROBLEM, EXIT_UNKNOWN, Tool

FACTOR = 1.05
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
    names: tuple[str, str] = NAMES,
) -> BenchComparison:
    """Compare two results.

    Args:
        created: the time, UTC.
        factor: above 1; how much longer or shorter a step may take and still be the same.
        across: names in comparability.ACROSS that may differ.
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
    """0 all that BASE measured was judged, and passes; 1 a run fails the gate; 3 a run is inconclusive.

    A run that had a speed in BASE and has failed in NEW fails the gates for what is slower and for any change.
    """
    if fail_on == "never":
        return EXIT_OK
    if any(is_failing(one, fail_on) for one in comparison.runs):
        return EXIT_PROBLEM
    counted = any(one.base is not None for one in comparison.runs)
    missing = any(one.measured for one in comparison.only_base)
    return EXIT_UNKNOWN if not counted or missing or any(map(is_open, comparison.runs)) else EXIT_OK


def is_failing(run: RunChange, fail_on: FailOnSpeed) -> bool:
    """Whether a run makes the exit code 1."""
    return run.verdict in _FAILING[fail_on] or (run.lost and "slower" in _FAILING[fail_on])


def is_open(run: RunChange) -> bool:
    """Whether BASE has a speed of this run, and it was not judged."""
    return run.base is not None and run.verdict not in JUDGED and not run.lost


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
    counts: Counter[object] = Counter()
    for run in runs:
        point = tuple(sorted((name, str(value)) for name, value in run.parameters.items()))
        key = run.label, run.dtype, run.spread, point
        found[key, counts[key]] = run
        counts[key] += 1
    return found


def _alone(run: Run) -> Alone:
    return Alone(label=run.label, dtype=run.dtype, parameters=dict(run.parameters), measured=speedless(run, "") is None)


def _compare(
    base: BenchResult,
    new: BenchResult,
    pair: tuple[Run, Run],
    forbidden: Sequence[Obstacle],
    factor: float,
    across: Collection[str],
) -> RunChange:
    without = [speedless(run, name) for run, name in zip(pair, NAMES, strict=True)]
    obstacles = [] if any(without) else _obstacles(base, new, pair, forbidden)
    reasons = tuple(dict.fromkeys(filter(None, without))) or _reasons(obstacles, across)
    samples = [
        None if why else samples_of(run, usable_cpus(result.environment))
        for run, result, why in zip(pair, (base, new), without, strict=True)
    ]
    change = RunChange(
        label=pair[0].label,
        dtype=pair[0].dtype,
        spread=pair[0].spread,
        parameters=dict(pair[0].parameters),
        step_name=pair[0].step_name,
        verdict="not comparable",
        reasons=reasons,
        lost=without[0] is None and pair[1].failure is not None,
        notes=(
            *(f"across {obstacle.text}" for obstacle in obstacles if obstacle.across in across),
            *asides_of_run(base, new, pair),
        ),
    )
    if reasons or not samples[0] or not samples[1]:
        sides = [measured(run, one, one) if one else None for run, one in zip(pair, samples, strict=True)]
        return msgspec.structs.replace(change, base=sides[0], new=sides[1])
    cpus = usable_cpus(base.environment), usable_cpus(new.environment)
    judged = judge(
        pair, (samples[0], samples[1]), factor, cpus, alike=not obstacles and not any(other_variables(base, new))
    )
    return msgspec.structs.replace(
        change,
        verdict=judged.verdict,
        reasons=judged.reasons,
        ratio=judged.ratio,
        basis=judged.basis,
        base=judged.base,
        new=judged.new,
        figures=tuple(_figures(*pair)),
        notes=(*change.notes, *judged.notes),
    )


def _obstacles(
    base: BenchResult, new: BenchResult, pair: tuple[Run, Run], forbidden: Sequence[Obstacle]
) -> list[Obstacle]:
    on_gpu = any(device.startswith("/GPU") for run in pair for device in run.devices)
    return [*forbidden, *other_circumstances(base, new, on_gpu=on_gpu), *other_run(*pair)]


def _reasons(obstacles: Sequence[Obstacle], across: Collection[str]) -> tuple[str, ...]:
    return tuple(
        f"{obstacle.text} (--across {obstacle.across} allows it)" if obstacle.across else obstacle.text
        for obstacle in obstacles
        if obstacle.across not in across
    )


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
