"""Two bench results compared: which runs became slower or faster, and which are inconclusive, and why. Pure.

The times of two runs are compared by the lower quartile of the samples of each process, and the slowest of every five
processes is left out: whatever else uses the machine only ever slows a step (Chen and Revels, "Robust benchmarking in
noisy environments", 2016, arXiv 1608.04295). On a restless virtual machine (benchmarks/compare_gate.py, 2026-11-23),
that made 1 of 15 pairs of the same slower or faster, and found 29 of 30 changes of 10 %; medians and means 2, and 23.

A change counts when it is larger than the factor and clear, that is when the 95 % interval of the ratio excludes 1
(samples.py has the bootstrap). Else it is *same* when chance alone could hardly have moved the ratio by the factor, and
*cannot tell* when it could, or when the medians of all samples differ by more than the factor, although the lower
quartiles do not: the change may concern only some of the steps.

Nothing is compared of other work, under other circumstances, or with too few undisturbed samples. What can make a
difference in time (CIRCUMSTANCES) must be the same, unless `--across` names it; what is unknown on one side is no
difference. Times are seconds of one step: a sample over the steps that it holds.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from statistics import median
from typing import Annotated, Literal

from msgspec.structs import replace

from tfgpu_doctor import __version__
from tfgpu_doctor.bench.results import WORKLOADS, BenchResult, Ratio, Run
from tfgpu_doctor.bench.samples import FEWEST, Samples, center, deviations, samples_of, usable_cpus
from tfgpu_doctor.bench.statistics import percent, quantile
from tfgpu_doctor.facts.about import public
from tfgpu_doctor.facts.environment_variables import changes_results
from tfgpu_doctor.facts.facts import Document, Gpu, Known, Record, value_or
from tfgpu_doctor.facts.report import EXIT_OK, EXIT_PROBLEM, EXIT_UNKNOWN, Tool

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
Both = tuple[Samples, Samples]
_HOW_LONG = ("min_samples", "deadline_s", "processes")  # parameters that say how well was measured, and not what
_MOSTLY = 0.5  # share of throttled samples from which a run is one of a throttled GPU


class Side(Record, frozen=True):
    """One of the two results."""

    name: str
    created: str
    tool: str  # version that measured
    workload: str
    title: str
    software: Annotated[dict[str, str], public("software")]


class Measured(Record, frozen=True):
    """One run, as it was judged."""

    step_s: float  # the median, as the result has it
    samples: int  # that count
    processes: int  # that count
    left_out: int  # samples during which something else wanted the CPUs
    throughput: float | None  # likewise
    unit: str | None


class FigureChange(Record, frozen=True):
    """A figure beside the samples; it has no verdict, since its samples are not in the file."""

    name: str
    unit: str
    base: float
    new: float
    ratio: Ratio | None  # NEW over BASE, with what both intervals allow at worst; None where BASE is 0


class RunChange(Record, frozen=True):
    """One case in both results."""

    label: str
    dtype: str
    spread: str
    parameters: dict[str, int | float | str | None]
    step_name: str
    verdict: Verdict
    reasons: tuple[str, ...] = ()  # why it cannot be told or compared
    ratio: Ratio | None = None  # time of a step, NEW over BASE; above 1 is slower
    base: Measured | None = None
    new: Measured | None = None
    lost: bool = False  # it had a speed in BASE and has failed in NEW
    figures: tuple[FigureChange, ...] = ()
    notes: tuple[str, ...] = ()


class Alone(Record, frozen=True):
    """A case that only one of the results has."""

    label: str
    dtype: str
    parameters: dict[str, int | float | str | None]
    measured: bool  # whether it has a speed


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
    only_base: tuple[Alone, ...] = ()
    only_new: tuple[Alone, ...] = ()
    notes: tuple[str, ...] = ()

    def in_brief(self) -> str:
        """Return how many cases have which verdict."""
        verdicts = Counter(run.verdict for run in self.runs)
        return ", ".join(f"{many} {WORDS[verdict]}" for verdict, many in verdicts.items()) or "no common runs"


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
    ours, theirs = _by_case(base.runs), _by_case(new.runs)
    alike = ("created", "workload", "title", "software")
    sides = [
        Side(name=name, tool=one.tool.version, **{field: getattr(one, field) for field in alike})
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
        only_base=tuple(_alone(run) for key, run in ours.items() if key not in theirs),
        only_new=tuple(_alone(run) for key, run in theirs.items() if key not in ours),
        notes=tuple(_asides(base, new)),
    )


def exit_code(comparison: BenchComparison, fail_on: FailOnSpeed) -> int:
    """Return 0 if all that BASE measured was judged and passes, 1 if a run fails the gate, 3 if one is inconclusive.

    A run that had a speed in BASE and has failed in NEW fails the gates for what is slower and for any change.
    """
    if fail_on == "never":
        return EXIT_OK
    if any(is_failing(run, fail_on) for run in comparison.runs):
        return EXIT_PROBLEM
    counted = any(run.base is not None for run in comparison.runs)
    missing = any(run.measured for run in comparison.only_base)
    return EXIT_UNKNOWN if not counted or missing or any(map(is_open, comparison.runs)) else EXIT_OK


def is_failing(run: RunChange, fail_on: FailOnSpeed) -> bool:
    """True if a run makes the exit code 1."""
    return run.verdict in _FAILING[fail_on] or (run.lost and "slower" in _FAILING[fail_on])


def is_open(run: RunChange) -> bool:
    """True if BASE has a speed of this run, and it was not judged."""
    return run.base is not None and run.verdict not in JUDGED and not run.lost


def speedless(run: Run, name: str) -> str | None:
    """Return why a run has no speed that could be compared; None when it has one."""
    if run.failure is not None:
        return f"the run failed in {name}: {run.failure}"
    if run.virtual:
        return "virtual devices have no meaningful speed"
    if run.verified is None or not run.verified.ok:
        return f"the result in {name} is {'wrong' if run.verified else 'not verified'}"
    if not run.samples_s:
        return f"{name} has no samples"
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
    """Return runs by what makes them the same case; a second one of the same kind is the second one's partner."""
    found: dict[object, Run] = {}
    counts: Counter[object] = Counter()
    for run in runs:
        point = tuple(sorted((name, str(value)) for name, value in run.parameters.items()))
        key = run.label, run.dtype, run.spread, point
        found[key, counts[key]] = run
        counts[key] += 1
    return found


def _alone(run: Run) -> Alone:
    return Alone(label=run.label, dtype=run.dtype, parameters=run.parameters, measured=speedless(run, "") is None)


# ------------------------------------------------------------------------------------------------------ what must agree


def _each(result: BenchResult, read: Callable[[Gpu], str | None]) -> str | None:
    """Return what all cards of the machine say, each thing once; None where none says anything."""
    return ", ".join(sorted({text for gpu in value_or(result.environment.gpus, ()) if (text := read(gpu))})) or None


def _packages(result: BenchResult, pattern: str) -> str | None:
    """Return the versions of the packages whose name matches, in the environment that was measured."""
    packages = value_or(result.environment.python.packages, ())
    return ", ".join(sorted({one.version for one in packages if re.fullmatch(pattern, one.name.lower())})) or None


def _keras(result: BenchResult) -> str | None:
    """Keras takes part only where a model is built, and then as the installed package."""
    known = WORKLOADS.get(result.workload)
    if known is not None and not known.keras:
        return None
    return result.software.get("keras") or _packages(result, "keras|tf[-_]keras")


def _cuda(result: BenchResult) -> str | None:
    wheels = _packages(result, "nvidia-(cuda-runtime|cublas)(-cu[0-9]+)?")
    build = value_or(result.environment.tensorflow.build, None)
    kits = {kit.version for kit in value_or(result.environment.cuda.toolkits, ()) if kit.version}
    return wheels or (build.cuda_version if build else None) or ", ".join(sorted(kits)) or None


def _cudnn(result: BenchResult) -> str | None:
    return _packages(result, "nvidia-cudnn(-cu[0-9]+)?") or value_or(result.environment.cudnn.runtime, None)


def _models(result: BenchResult) -> str | None:
    """Return the cards that took part, by the telemetry of the runs; else all cards of the machine."""
    ran = {one.name for run in result.runs for one in run.gpu if one.name}
    return ", ".join(sorted(ran)) or _each(result, lambda gpu: value_or(gpu.name, None))


def _settings(gpu: Gpu) -> str | None:
    """Return what an administrator sets: "700 W, 1980 MHz, ECC on, MIG off"."""
    power, clock = value_or(gpu.power_limit, None), value_or(gpu.sm_clock_max, None)
    texts = [] if power is None else [f"{power:.0f} W"]
    texts += [] if clock is None else [f"{clock} MHz"]
    for name, fact in (("ECC", gpu.ecc_mode), ("MIG", gpu.mig_mode)):
        texts += [f"{name} {'on' if fact.value else 'off'}"] if isinstance(fact, Known) else []
    return ", ".join(texts) or None


def _cpu(result: BenchResult) -> str | None:
    host = result.environment.host
    quota: float | None = value_or(host.cpu_quota, None)
    limit = f", limited to {quota:g}" if quota else ""
    known = isinstance(host.cpu_model, Known)
    return f"{value_or(host.cpu_model, '')} ({value_or(host.cpus, '?')} CPUs{limit})" if known else None


# The name in --across: label, the devices whose runs it matters to, and how it is read; None: unknown, or there is none
CIRCUMSTANCES: dict[str, tuple[str, str, Callable[[BenchResult], str | None]]] = {
    "tensorflow": ("TensorFlow", "CPU GPU", lambda result: result.software.get("tensorflow")),
    # these drive TensorFlow, and feed it in the input pipeline: small steps are theirs, too
    "keras": ("Keras", "CPU GPU", _keras),
    "python": ("Python", "CPU GPU", lambda result: result.software.get("python")),
    "numpy": ("NumPy", "CPU GPU", lambda result: result.software.get("numpy")),
    "driver": ("driver", "GPU", lambda result: value_or(result.environment.driver.version, None)),
    "cuda": ("CUDA", "GPU", _cuda),
    "cudnn": ("cuDNN", "GPU", _cudnn),
    "gpu": ("GPU", "GPU", _models),
    "power": ("GPU settings", "GPU", lambda result: _each(result, _settings)),
    "cpu": ("CPU", "CPU", _cpu),  # of a GPU's run it launches the kernels, and does not compute
}
ACROSS = (*CIRCUMSTANCES, "clocks")  # "clocks": one run was throttled in most of its samples, the other was not


def _differences(base: BenchResult, new: BenchResult, runs: tuple[Run, Run]) -> Iterator[tuple[str, str | None]]:
    """Yield what differs and must not, with the name in --across that allows it; None where nothing does."""
    if base.workload != new.workload:
        yield f"workload {base.workload} → {new.workload}", None
    else:
        yield from ((text, None) for text in _other_parameters(base, new))
    device = "GPU" if any(name.startswith("/GPU") for run in runs for name in run.devices) else "CPU"
    for across, (label, devices, read) in CIRCUMSTANCES.items():
        before, after = read(base), read(new)
        if device in devices and before and after and before != after:
            yield f"{label} {before} → {after}", across
    yield from _other_run(*runs)


def _other_parameters(base: BenchResult, new: BenchResult) -> Iterator[str]:
    known = WORKLOADS.get(base.workload)
    for name in dict.fromkeys((*base.parameters, *new.parameters)):
        old, recent = ("none" if (value := one.parameters.get(name)) is None else value for one in (base, new))
        if name not in _HOW_LONG and old != recent:
            hint = f" (--{name} {old} repeats BASE)" if known and name in known.chosen and old != "none" else ""
            yield f"{name} {old} → {recent}{hint}"


def _other_run(base: Run, new: Run) -> Iterator[tuple[str, str | None]]:
    """Yield what makes two runs of one label runs of other work, or of a GPU in another state."""
    if len(base.devices) != len(new.devices):
        yield f"devices {', '.join(base.devices)} → {', '.join(new.devices)}", None
    elif base.placed_on and new.placed_on and set(base.placed_on) != set(new.placed_on):
        yield f"computed on {', '.join(base.placed_on)} → {', '.join(new.placed_on)}", None
    if base.computed_in and new.computed_in and base.computed_in != new.computed_in:
        yield f"computed in {base.computed_in} → {new.computed_in}", None
    for name, before, after in (("FLOP", base.flop, new.flop), ("bytes", base.bytes_moved, new.bytes_moved)):
        if before is not None and after is not None:
            old, recent = before / base.steps, after / new.steps
            if not math.isclose(old, recent, rel_tol=1e-6):
                yield f"{name} a {base.step_name} {old:.6g} → {recent:.6g}", None
    shares = [len(set(run.throttled_samples)) / max(len(run.samples_s), 1) for run in (base, new)]
    if (shares[0] > _MOSTLY) != (shares[1] > _MOSTLY):
        yield f"throttled samples {shares[0]:.0%} → {shares[1]:.0%}", "clocks"


def _asides(base: BenchResult, new: BenchResult) -> Iterator[str]:
    """Yield what differs around two results and is only worth a note."""
    for name, one in zip(NAMES, (base, new), strict=True):
        if one.unfinished:
            yield f"{name} is unfinished: it was saved while it was measured, and runs or samples are missing"
    if base.tool.version != new.tool.version:
        yield f"measured by tfgpu {base.tool.version} → {new.tool.version}, which may measure differently"
    before, after = (value_or(one.environment.variables, None) for one in (base, new))
    if before is not None and after is not None:
        for name in sorted({*before, *after}):
            old, now = before.get(name, "not set"), after.get(name, "not set")
            if changes_results(name) and old != now:
                yield f"{name} {old} → {now}"


# --------------------------------------------------------------------------------------------------------- the verdict


def _compare(results: tuple[BenchResult, BenchResult], pair: Pair, factor: float, across: Collection[str]) -> RunChange:
    """Compare two runs of one case: what forbids it, then the times of a step."""
    base, new = pair
    without = [speedless(run, name) for run, name in zip(pair, NAMES, strict=True)]
    whole = [samples_of(run, usable_cpus(one.environment), run.steps) for run, one in zip(pair, results, strict=True)]
    sides = [None if why else _measured(run, one, one) for run, one, why in zip(pair, whole, without, strict=True)]
    found = [] if any(without) else list(_differences(*results, pair))
    refused = [
        text if name is None else f"{text} (--across {name} allows it)" for text, name in found if name not in across
    ]
    change = RunChange(
        label=base.label,
        dtype=base.dtype,
        spread=base.spread,
        parameters=dict(base.parameters),
        step_name=base.step_name,
        verdict="not comparable",
        reasons=tuple(dict.fromkeys(filter(None, (*without, *refused)))),
        base=sides[0],
        new=sides[1],
        lost=without[0] is None and new.failure is not None,
        notes=tuple(f"across {text}" for text, name in found if name in across),
    )
    return change if change.reasons else _judged(change, pair, (whole[0], whole[1]), factor)


def _measured(run: Run, whole: Samples, kept: Samples) -> Measured:
    """Return a run in numbers: time and speed as `tfgpu bench` shows them, and how many samples count here."""
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


def _judged(change: RunChange, pair: Pair, whole: Both, factor: float) -> RunChange:
    """Return the verdict over two runs that may be compared."""
    change = replace(change, figures=tuple(_figures(*pair)))
    if pair[0].samples_s == pair[1].samples_s and pair[0].steps == pair[1].steps:
        notes, one = (*change.notes, "both results have the same samples"), Ratio(value=1.0, low=1.0, high=1.0)
        return replace(change, verdict="same", ratio=one, notes=notes)
    kept = whole[0].undisturbed(), whole[1].undisturbed()
    on_gpu = all(name.startswith("/GPU") for run in pair for name in run.devices)
    if on_gpu and any(len(left) < FEWEST <= len(all_) for left, all_ in zip(kept, whole, strict=True)):
        # a CPU launches the kernels of a GPU and does not compute: its disturbed samples count where no others are left
        kept, note = whole, "other programs used the CPUs during the runs, which may have delayed kernel launches"
        change = replace(change, notes=(*change.notes, note))
    if reasons := tuple(_too_few(kept, whole)):
        return replace(change, verdict="cannot tell", reasons=reasons)
    ratio = ratio_of_times(*kept)
    verdict = verdict_of(ratio, factor)
    reason = _unclear(verdict, ratio, kept, factor)
    base, new = (_measured(*one) for one in zip(pair, whole, kept, strict=True))
    verdict = "cannot tell" if reason else verdict
    return replace(change, verdict=verdict, reasons=(reason,) if reason else (), ratio=ratio, base=base, new=new)


def _too_few(kept: Both, whole: Both) -> Iterator[str]:
    for name, left, all_ in zip(NAMES, map(len, kept), map(len, whole), strict=True):
        if all_ < FEWEST:
            yield f"{name} has only {all_} sample{'s' * (all_ != 1)}; at least {FEWEST} are needed"
        elif left < FEWEST:
            some = f"all but {left} of {all_}" if left else f"all {all_}"
            yield f"other programs used the CPUs during {some} samples of {name}: measure on an idle machine"


def _unclear(verdict: Verdict, ratio: Ratio, kept: Both, factor: float) -> str | None:
    """Say that chance is larger than the factor, or that only the medians changed by more than it."""
    change = median(kept[1].all()) / median(kept[0].all())
    if verdict == "same" and not 1 / factor <= change <= factor:
        medians = f"the median of all samples changed by a factor of {change:.2f}, the lower quartile did not"
        return f"{medians}: only some of the steps changed, or other programs slowed them down"
    if verdict != "cannot tell":
        return None
    noise = f"the ratio is only known to ±{percent(ratio.high / ratio.value - 1)} %"
    counts = [len(one.processes) for one in kept]
    if min(counts) >= ENOUGH:
        return f"{noise}: measure on an idle machine, with more --processes, or raise --factor"
    few = "one process each" if counts == [1, 1] else f"{counts[0]} and {counts[1]} processes"
    return f"{noise}, from {few}: measure both with --processes {ENOUGH} on an idle machine"


def _figures(base: Run, new: Run) -> Iterator[FigureChange]:
    """Yield figures of the same name and unit in both; the ratio is of what both intervals allow at worst."""
    theirs = {(one.name, one.unit): one for one in new.figures}
    for one in base.figures:
        other = theirs.get((one.name, one.unit))
        if other is None or not math.isfinite(one.value) or not math.isfinite(other.value):
            continue
        (least, most), (low, high) = (side.ci95 or (side.value, side.value) for side in (one, other))
        ratio = None
        if all(math.isfinite(number) and number > 0 for number in (one.value, other.value, low, high, least, most)):
            ratio = Ratio(value=other.value / one.value, low=low / most, high=high / least)
        yield FigureChange(name=one.name, unit=one.unit, base=one.value, new=other.value, ratio=ratio)
