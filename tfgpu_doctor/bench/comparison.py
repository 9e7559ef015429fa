"""Two bench results compared: which runs became slower or faster, and which are inconclusive, and why. Pure.

docs/comparing.md explains the verdicts. Why the lower quartile, and not the slowest process: Chen and Revels, "Robust
benchmarking in noisy environments", 2016, arXiv 1608.04295. On a restless virtual machine (benchmarks/compare_gate.py,
2026-11-23), that made 1 of 15 pairs of the same slower or faster, and found 29 of 30 changes of 10 %; medians and means
2, and 23. What is unknown on one side is no difference. Times are seconds of a step: a sample over the steps it holds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from statistics import median
from typing import Annotated, Any, Literal

from msgspec.structs import replace

from tfgpu_doctor import __version__
from tfgpu_doctor.bench.results import WORKLOADS, BenchResult, Figure, Parameters, Ratio, Run
from tfgpu_doctor.bench.samples import FEWEST, Samples, center, deviations, samples_of, usable_cpus
from tfgpu_doctor.bench.statistics import percent, quantile
from tfgpu_doctor.facts.about import public
from tfgpu_doctor.facts.environment_variables import changes_results
from tfgpu_doctor.facts.facts import Document, Known, Record, value_or
from tfgpu_doctor.facts.report import EXIT_OK, EXIT_PROBLEM, EXIT_UNKNOWN, Tool
from tfgpu_doctor.facts.units import count, quantity

SCHEMA: Literal["tfgpu.bench-compare/1"] = "tfgpu.bench-compare/1"
FACTOR = 1.05
NAMES = ("BASE", "NEW")
QUARTILE = 0.25
PROCESSES_FOR_ONE_SLOW = 5  # the slowest of so many processes is left out
ENOUGH = 5  # processes, with which the gate holds its promise (benchmarks/compare_gate.py)

Verdict = Literal["slower", "faster", "same", "cannot tell", "not comparable"]
# the verdicts as people read them
WORDS: dict[Verdict, str] = {
    "slower": "slower",
    "faster": "faster",
    "same": "the same",
    "cannot tell": "inconclusive",
    "not comparable": "not comparable",
}
JUDGED: tuple[Verdict, ...] = ("slower", "faster", "same")
FailOnSpeed = Literal["slower", "faster", "change", "never"]
_FAILING: dict[FailOnSpeed, tuple[Verdict, ...]] = {
    "slower": ("slower",),
    "faster": ("faster",),
    "change": ("slower", "faster"),
    "never": (),
}
Pair = tuple[Run, Run]  # BASE, NEW
# parameters that say how well was measured, and how many sizes; each run has its own
_HOW_LONG = ("min_samples", "deadline_s", "processes", "sweep")
_MOSTLY = 0.5  # share of throttled samples from which a run is one of a throttled GPU


class Side(Record, frozen=True):
    """One of the two results."""

    name: str
    created: str
    tool: str  # version that measured
    workload: str
    title: str
    software: Annotated[dict[str, str], public("software")]  # and "driver" and "GPU", where they are known


class Measured(Record, frozen=True):
    """One run, as it was judged."""

    step_s: float  # the median, as the result has it
    samples: int  # that count
    processes: int  # that count
    left_out: int  # samples during which something else wanted the CPUs
    throughput: float  # likewise
    unit: str
    figures: tuple[Figure, ...] = ()  # they have no verdict, since their samples are not in the file


class RunChange(Record, frozen=True):
    """One case: in both results, or in one of them alone, which then is all that is known of it."""

    label: str
    dtype: str
    spread: str
    parameters: dict[str, int | float | str | None]
    step_name: str
    verdict: Verdict = "not comparable"
    reasons: tuple[str, ...] = ()  # of the verdict, where the ratio is none
    ratio: Ratio | None = None  # time of a step, NEW over BASE; above 1 is slower
    base: Measured | None = None  # None: no speed
    new: Measured | None = None
    lost: bool = False  # it had a speed in BASE and has failed in NEW
    notes: tuple[str, ...] = ()


class BenchComparison(Document, frozen=True):
    """Two bench results beside each other."""

    schema: Literal["tfgpu.bench-compare/1"]
    tool: Tool
    created: str  # UTC
    base: Side
    new: Side
    factor: float  # a change counts when it is larger, and clear
    across: tuple[str, ...]  # differences that were allowed
    runs: tuple[RunChange, ...]
    only_base: tuple[RunChange, ...] = ()
    only_new: tuple[RunChange, ...] = ()
    notes: tuple[str, ...] = ()


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
        across: names in ACROSS that may differ.
        names: what the results are called.
    """
    base, new = _in_points_of(base, new), _in_points_of(new, base)
    ours, theirs = _by_case(base.runs), _by_case(new.runs)
    alike = ("created", "workload", "title")
    sides = [
        Side(
            name=name, tool=one.tool.version, software=_software(one), **{field: getattr(one, field) for field in alike}
        )
        for name, one in zip(names, (base, new), strict=True)
    ]
    return BenchComparison(
        schema=SCHEMA,
        tool=Tool(name="tfgpu", version=__version__),
        created=created,
        base=sides[0],
        new=sides[1],
        factor=factor,
        across=tuple(sorted(set(across))),
        runs=tuple(_compare((base, new), (ours[key], theirs[key]), factor, across) for key in ours if key in theirs),
        only_base=tuple(_case(run, base=_measured(run, base)) for key, run in ours.items() if key not in theirs),
        only_new=tuple(_case(run, new=_measured(run, new)) for key, run in theirs.items() if key not in ours),
        notes=tuple(_asides(base, new)),
    )


def exit_code(comparison: BenchComparison, fail_on: FailOnSpeed) -> int:
    """Return 0 if all runs of BASE were judged and pass, 1 if a run fails the gate, 3 if one was not judged.

    A run that had a speed in BASE and has failed in NEW fails the gates for what is slower and for any change.
    """
    if fail_on == "never":
        return EXIT_OK
    if any(is_failing(run, fail_on) for run in comparison.runs):
        return EXIT_PROBLEM
    return EXIT_UNKNOWN if is_incomplete(comparison) else EXIT_OK


def is_incomplete(comparison: BenchComparison) -> bool:
    """True if a run of BASE was not judged, or there is none."""
    return not comparison.runs or bool(comparison.only_base) or any(map(is_open, comparison.runs))


def is_failing(run: RunChange, fail_on: FailOnSpeed) -> bool:
    """True if a run makes the exit code 1."""
    return run.verdict in _FAILING[fail_on] or (run.lost and "slower" in _FAILING[fail_on])


def is_open(run: RunChange) -> bool:
    """True if a run was not judged."""
    return run.verdict not in JUDGED


def speedless(run: Run, name: str) -> str | None:
    """Return why a run has no speed that could be compared; None when it has one."""
    if run.failure is not None:
        return f"the run failed in {name}: {run.failure}"
    if run.virtual:
        return "virtual devices have no meaningful speed"
    if run.throughput is None or run.verified is None or not run.verified.ok or not run.samples_s:
        return f"the run has no verified speed in {name}"
    return None


def ratio_of_times(base: Samples, new: Samples) -> Ratio:
    """Return the time of NEW over that of BASE, with the 95 % interval of a bootstrap over their processes."""
    slowest = [len(one.processes) // PROCESSES_FOR_ONE_SLOW for one in (base, new)]
    middle = center(new, QUARTILE, slowest[1]) - center(base, QUARTILE, slowest[0])
    moved = [deviations(one, QUARTILE, seed, slowest[seed]) for seed, one in enumerate((base, new))]
    both = [after - before for before, after in zip(*moved, strict=True)]
    low, high = (math.exp(middle + quantile(both, share)) for share in (0.025, 0.975))
    return Ratio(value=math.exp(middle), low=low, high=high)


def verdict_of(ratio: Ratio, factor: float) -> Verdict:
    """Return what a ratio with its interval says."""
    if ratio.value > factor and ratio.low > 1:
        return "slower"
    if ratio.value < 1 / factor and ratio.high < 1:
        return "faster"
    return "same" if ratio.high / ratio.value <= factor else "cannot tell"


def _by_case(runs: Sequence[Run]) -> dict[object, Run]:
    """Return runs by what makes them the same case, which no other run of a result has."""
    points = [tuple(sorted((name, str(value)) for name, value in run.parameters.items())) for run in runs]
    return {(run.label, run.dtype, run.spread, point): run for run, point in zip(runs, points, strict=True)}


def _in_points_of(result: BenchResult, other: BenchResult) -> BenchResult:
    """Return a result whose runs name what those of the other name: the size, which all runs of one size share."""
    axes = {name for run in other.runs for name in run.parameters if name in result.parameters}
    shared = {name: result.parameters[name] for name in axes}
    runs = tuple(replace(run, parameters={**shared, **run.parameters}) for run in result.runs)
    return replace(result, runs=runs, parameters={name: x for name, x in result.parameters.items() if name not in axes})


def _case(run: Run, **found: Any) -> RunChange:
    alike = ("label", "dtype", "spread", "parameters", "step_name")
    return RunChange(**{name: getattr(run, name) for name in alike}, **found)


# ------------------------------------------------------------------------------------------------------ what must agree


def _all(values: Iterable[str | None]) -> str:
    return ", ".join(sorted(set(filter(None, values))))


def _packages(result: BenchResult, pattern: str) -> str:
    """Return the versions of the packages whose name matches, in the environment that was measured."""
    packages = value_or(result.environment.python.packages, ())
    return _all(one.version for one in packages if re.fullmatch(pattern, one.name.lower()))


def _keras(result: BenchResult, _run: Run) -> str:
    known = WORKLOADS.get(result.workload)
    return _packages(result, "keras|tf[-_]keras") if known is None or known.keras else ""


def _cuda(result: BenchResult, _run: Run) -> str:
    kits = value_or(result.environment.cuda.toolkits, ())
    return _packages(result, "nvidia-(cuda-runtime|cublas)(-cu[0-9]+)?") or _all(kit.version for kit in kits)


def _cudnn(result: BenchResult, _run: Run) -> str:
    return _packages(result, "nvidia-cudnn(-cu[0-9]+)?") or value_or(result.environment.cudnn.runtime, "")


def _models(result: BenchResult, run: Run) -> str:
    """Return the cards that took part, by the telemetry; else all cards of the machine."""
    gpus = value_or(result.environment.gpus, ())
    return _all(one.name for one in run.gpu) or _all(value_or(gpu.name, None) for gpu in gpus)


def _settings(result: BenchResult, _run: Run) -> str:
    """Return what an administrator sets, of each card that is set otherwise: "700 W, 1980 MHz, ECC on, MIG off"."""
    switch = {True: "on", False: "off"}
    found = []
    for gpu in value_or(result.environment.gpus, ()):
        texts = [f"{fact.value:.0f} W" for fact in (gpu.power_limit,) if isinstance(fact, Known)]
        texts += [f"{fact.value} MHz" for fact in (gpu.sm_clock_max,) if isinstance(fact, Known)]
        modes = (("ECC", gpu.ecc_mode), ("MIG", gpu.mig_mode))
        texts += [f"{name} {switch[fact.value]}" for name, fact in modes if isinstance(fact, Known)]
        found.append(", ".join(texts))
    return _all(found)


def _cpu(result: BenchResult, _run: Run) -> str:
    host = result.environment.host
    model, cpus = value_or(host.cpu_model, ""), usable_cpus(result.environment)
    return f"{model} ({'?' if cpus is None else f'{cpus:g}'} CPUs)" if model else ""


def _step(run: Run, amount: float | None, unit: str) -> str:
    return "" if amount is None else quantity(amount / run.steps, unit)


def _clocks(_result: BenchResult, run: Run) -> str:
    throttled = len(set(run.throttled_samples)) > _MOSTLY * len(run.samples_s)
    return "throttled in most samples" if throttled else "not throttled"


# What must be the same: the name in --across that allows it to differ (None: other work, which is never compared), the
# label, the devices whose runs it matters to, and how it is read; empty: unknown, or there is none.
CIRCUMSTANCES: tuple[tuple[str | None, str, str, Callable[[BenchResult, Run], str]], ...] = (
    (None, "workload", "CPU GPU", lambda result, _: result.workload),
    (None, "computed on", "CPU GPU", lambda _, run: _all(run.placed_on)),
    (None, "computed in", "CPU GPU", lambda _, run: run.computed_in or ""),
    (None, "work per step", "CPU GPU", lambda _, run: _step(run, run.flop, "FLOP")),
    (None, "data per step", "CPU GPU", lambda _, run: _step(run, run.bytes_moved, "B")),
    ("tensorflow", "TensorFlow", "CPU GPU", lambda result, _: result.software.get("tensorflow", "")),
    # these drive TensorFlow, and feed it in the input pipeline: small steps are theirs, too
    ("keras", "Keras", "CPU GPU", _keras),
    ("python", "Python", "CPU GPU", lambda result, _: result.software.get("python", "")),
    ("numpy", "NumPy", "CPU GPU", lambda result, _: result.software.get("numpy", "")),
    ("driver", "driver", "GPU", lambda result, _: value_or(result.environment.driver.version, "")),
    ("cuda", "CUDA", "GPU", _cuda),
    ("cudnn", "cuDNN", "GPU", _cudnn),
    ("gpu", "GPU", "GPU", _models),
    ("power", "GPU settings", "GPU", _settings),
    ("cpu", "CPU", "CPU", _cpu),  # of a GPU's run it launches the kernels, and does not compute
    ("clocks", "GPU clocks", "GPU", _clocks),
)
_FOLLOW = ("work per step", "data per step")  # from the workload and its parameters, which say it where they differ


def _software(result: BenchResult) -> dict[str, str]:
    also = {label: _all(read(result, run) for run in result.runs) for _, label, _, read in CIRCUMSTANCES}
    return result.software | {label: also[label] for label in ("driver", "GPU") if also[label]}


ACROSS = tuple(name for name, *_ in CIRCUMSTANCES if name)


def _differences(results: tuple[BenchResult, BenchResult], pair: Pair) -> Iterator[tuple[str, str | None]]:
    """Yield what differs and must not, with the name in --across that allows it; None where nothing does."""
    device = pair[0].devices[0][1:4]  # CPU or GPU
    are_alike = results[0].workload == results[1].workload
    others = list(_other_parameters(*(result.parameters for result in results))) if are_alike else []
    for across, label, devices, read in CIRCUMSTANCES:
        before, after = (read(result, run) for result, run in zip(results, pair, strict=True))
        follows = label in _FOLLOW and (others or not are_alike)
        if device in devices and before and after and before != after and not follows:
            yield f"{label} {before} → {after}", across
    yield from ((text, None) for text in others)


def _other_parameters(base: Parameters, new: Parameters) -> Iterator[str]:
    for name in dict.fromkeys((*base, *new)):
        old, recent = base.get(name, "none"), new.get(name, "none")
        if name not in _HOW_LONG and old != recent:
            hint = f" (--size {old} repeats BASE)" if name == "size" and name in base else ""
            yield f"{name} {old} → {recent}{hint}"


def _asides(base: BenchResult, new: BenchResult) -> Iterator[str]:
    """Yield what differs around two results and is only worth a note."""
    for name, one in zip(NAMES, (base, new), strict=True):
        if one.unfinished:
            yield f"{name} is unfinished: it was saved while it was measured, and runs or samples are missing"
    if base.workload != new.workload and not _by_case(base.runs).keys() & _by_case(new.runs).keys():
        works = " → ".join(f"{one.workload} {one.parameters.get('model', '')}".rstrip() for one in (base, new))
        yield f"{works}: another workload, so that no run is compared; measure both with one command"
    if base.tool.version != new.tool.version:
        yield f"measured by tfgpu {base.tool.version} → {new.tool.version}, which may measure differently"
    before, after = (value_or(one.environment.variables, None) for one in (base, new))
    if before is None or after is None:
        return
    for name in sorted({*before, *after}):
        old, now = before.get(name, "not set"), after.get(name, "not set")
        if changes_results(name) and old != now:
            yield f"{name} {old} → {now}"


# --------------------------------------------------------------------------------------------------------- the verdict


def _compare(results: tuple[BenchResult, BenchResult], pair: Pair, factor: float, across: Collection[str]) -> RunChange:
    """Compare two runs of one case: what forbids it, then the times of a step."""
    without = [speedless(run, name) for run, name in zip(pair, NAMES, strict=True)]
    found = [] if any(without) else list(_differences(results, pair))
    refused = [
        text if name is None else f"{text} (--across {name} allows it)" for text, name in found if name not in across
    ]
    base, new = (_measured(run, result) for run, result in zip(pair, results, strict=True))
    change = _case(
        pair[0],
        reasons=tuple(dict.fromkeys(filter(None, (*without, *refused)))),
        base=base,
        new=new,
        lost=base is not None and pair[1].failure is not None,
        notes=tuple(f"across {text}" for text, name in found if name in across),
    )
    return change if change.reasons else _judged(change, pair, results, factor)


def _samples(run: Run, result: BenchResult) -> Samples:
    return samples_of(run, usable_cpus(result.environment), run.steps)


def _measured(run: Run, result: BenchResult, kept: Samples | None = None) -> Measured | None:
    """Return a run in numbers: time and speed as `tfgpu bench` shows them, and how many samples count here."""
    if speedless(run, "") or run.throughput is None:
        return None
    whole = _samples(run, result)
    kept = kept or whole
    return Measured(
        step_s=(run.median_s or median(run.samples_s)) / run.steps,
        samples=len(kept),
        processes=len(kept.processes),
        left_out=len(whole) - len(kept),
        throughput=run.throughput.value,
        unit=run.throughput.unit,
        figures=run.figures,
    )


def _judged(change: RunChange, pair: Pair, results: tuple[BenchResult, BenchResult], factor: float) -> RunChange:
    """Return the verdict over two runs that may be compared."""
    if pair[0].samples_s == pair[1].samples_s and pair[0].steps == pair[1].steps:
        why = ("both results have the same samples",)
        return replace(change, verdict="same", ratio=Ratio(value=1.0, low=1.0, high=1.0), reasons=why)
    whole = [_samples(run, result) for run, result in zip(pair, results, strict=True)]
    kept = [samples.undisturbed() for samples in whole]
    is_disturbed = any(len(left) < FEWEST <= len(every) for left, every in zip(kept, whole, strict=True))
    if pair[0].devices[0].startswith("/GPU") and is_disturbed:
        # a CPU launches the kernels of a GPU and does not compute: its disturbed samples count where no others are left
        kept, note = whole, "other programs used the CPUs during the runs, which may have delayed kernel launches"
        change = replace(change, notes=(*change.notes, note))
    if reasons := tuple(_too_few(kept, whole)):
        return replace(change, verdict="cannot tell", reasons=reasons)
    ratio = ratio_of_times(*kept)
    verdict = verdict_of(ratio, factor)
    reason = _unclear(verdict, ratio, kept, factor)
    base, new = (_measured(*one) for one in zip(pair, results, kept, strict=True))
    verdict = "cannot tell" if reason else verdict
    return replace(change, verdict=verdict, reasons=(reason,) if reason else (), ratio=ratio, base=base, new=new)


def _too_few(kept: Sequence[Samples], whole: Sequence[Samples]) -> Iterator[str]:
    for name, left, every in zip(NAMES, map(len, kept), map(len, whole), strict=True):
        if every < FEWEST:
            yield f"{name} has only {count(every, 'sample')}; at least {FEWEST} are needed"
        elif left < FEWEST:
            yield f"other programs used the CPUs during most samples of {name}: measure on an idle machine"


def _unclear(verdict: Verdict, ratio: Ratio, kept: Sequence[Samples], factor: float) -> str:
    """Say that chance is larger than the factor, or that only the medians changed by more than it."""
    change = median(kept[1].all()) / median(kept[0].all())
    if verdict == "same" and not 1 / factor <= change <= factor:
        medians = f"the median of all samples changed by a factor of {change:.2f}, the lower quartile did not"
        return f"{medians}: only some of the steps changed, or other programs slowed them down"
    if verdict != "cannot tell":
        return ""
    counts = " and ".join(str(len(one.processes)) for one in kept)
    noise = f"the ratio is only known to ±{percent(ratio.high / ratio.value - 1)} %, from {counts} processes"
    return f"{noise}: measure both on an idle machine with --processes {ENOUGH} or more, or raise --factor"
