"""What pipelines and trainings show beside each other: is the training input-bound, by how much, what helps. Pure.

Training waits for the share of a step that one with its data on the device does not need: 1 - fed / alone, both
in images a second. Its interval follows from theirs.

A difference counts when its interval leaves 1 outside and it is larger than MARGIN and than the spread of the samples:
neighbours on the machine come and go, samples that follow each other share them, and their intervals are too narrow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tfgpu_doctor.bench.ratios import ratio
from tfgpu_doctor.bench.results import Ratio, Run
from tfgpu_doctor.bench.workloads.pipelines import FEEDING, PIPELINES
from tfgpu_doctor.records.units import digits

MARGIN = 0.05  # by which one must be faster than the other at least
BOUND = 0.05  # of the step; input that clearly waits for more makes a training input-bound
UNCLEAR = 0.25  # of the step: an interval from below BOUND to above this tells nothing
ALONE, MODEL, FED = "pipeline alone", "training alone", "training fed"  # what a run measures: its parameter "measured"
RESIDENT = "data on the device"  # the input of a training that needs none


@dataclass
class RunsByInput:
    """The runs that have a speed, by what they measure."""

    alone: dict[str, Run] = field(default_factory=dict)  # by pipeline
    training: dict[str, Run] = field(default_factory=dict)  # by label
    fed: dict[str, dict[str, Run]] = field(default_factory=dict)  # by label, then pipeline


def sort(runs: Sequence[Run]) -> RunsByInput:
    """Put each run in its place; virtual devices have no speed that means anything."""
    found = RunsByInput()
    for run in runs:
        if run.throughput is None or run.virtual:
            continue
        pipeline = str(run.parameters.get("input"))
        if run.parameters["measured"] == ALONE:
            found.alone[pipeline] = run
        elif run.parameters["measured"] == MODEL:
            found.training[run.label] = run
        else:
            found.fed.setdefault(run.label, {})[pipeline] = run
    return found


def waits(fed: Run, training: Run) -> Ratio:
    """The share of the step for which input waits, 0 to 1."""
    assert fed.throughput is not None and training.throughput is not None
    part = ratio(fed.throughput, training.throughput)
    return Ratio(value=max(1 - part.value, 0.0), low=max(1 - part.high, 0.0), high=max(1 - part.low, 0.0))


def _margin(*runs: Run) -> float:
    return max(MARGIN, *(run.spread_iqr or 0.0 for run in runs))


def _faster(new: Run, base: Run) -> Ratio | None:
    """The quotient, where `new` is clearly faster than `base`."""
    assert new.throughput is not None and base.throughput is not None
    effect = ratio(new.throughput, base.throughput)
    return effect if effect.low > 1 and effect.value > 1 + _margin(new, base) else None


def _is_bound(fed: Run, training: Run) -> bool:
    """Whether input clearly waits."""
    return waits(fed, training).low > BOUND and _faster(training, fed) is not None


def verdicts(runs: Sequence[Run]) -> Iterator[str]:
    """For each device whether its training is input-bound, and by how much."""
    found = sort(runs)
    for label, training in found.training.items():
        fed = {name: found.fed[label][name] for name in FEEDING if name in found.fed.get(label, {})}
        if fed:
            yield f"{label}: {_verdict(fed, training)}"


def _verdict(fed: Mapping[str, Run], training: Run) -> str:
    share = {name: waits(run, training) for name, run in fed.items()}
    best = max(fed, key=lambda name: _speed(fed[name]))
    plain = next(iter(fed))
    alone = f"training alone consumes {_rate(training)}"
    bound = {name: _is_bound(run, training) for name, run in fed.items()}
    if bound[best]:
        return f"input-bound with every pipeline; {alone}, and {_rate(fed[best])} with {best}: {_waits(share[best])}"
    enough = next((name for name in fed if not bound[name] and share[name].high <= UNCLEAR), None)
    if enough is None or share[best].high > UNCLEAR:
        return f"inconclusive whether input-bound; {alone}; with {best} {_waits(share[best])}"
    if enough == plain:
        return f"not input-bound, not even with {plain}; {alone}; {_waits(share[plain])}"
    slow = f"input-bound with {plain}" if bound[plain] else f"inconclusive with {plain}"
    fast = f"not with {enough}" if bound[plain] else f"not input-bound with {enough}"
    return f"{slow}: {_waits(share[plain])}; {fast}: {_waits(share[enough])}; {alone}"


def ranking(runs: Sequence[Run]) -> Iterator[str]:
    """Which options help, the largest effect first: of the pipeline alone, and of each training that is fed."""
    found = sort(runs)
    if len(found.alone) > 1:
        yield f"options of the pipeline alone: {_ranked(found.alone)}"
    for label, fed in found.fed.items():
        if len(fed) > 1:
            yield f"options of the pipeline that feeds {label}: {_ranked(fed)}"


def _ranked(measured: Mapping[str, Run]) -> str:
    """ "cache 5.1 times (4.9 to 5.3) over parallel decode; no clear effect: prefetch to device"."""
    helps: list[tuple[float, str]] = []
    slows, unclear = [], []
    for name, run in measured.items():
        base = _base(name, measured)
        if base is None:
            continue
        if effect := _faster(run, measured[base]):
            helps.append((effect.value, f"{name} {_times(effect)} over {base}"))
        elif _faster(measured[base], run) and run.throughput and (other := measured[base].throughput):
            slows.append(f"{name} is slower: {_times(ratio(run.throughput, other))} over {base}")
        else:
            unclear.append(name)
    sentences = [text for _, text in sorted(helps, reverse=True)] + slows
    sentences += [f"no clear effect: {', '.join(unclear)}"] if unclear else []
    return "; ".join(sentences)


def _base(name: str, measured: Mapping[str, Run]) -> str | None:
    """The nearest pipeline with fewer knobs that was measured, too."""
    base = PIPELINES[name].base if name in PIPELINES else None
    while base is not None and base not in measured:
        base = PIPELINES[base].base
    return base


def advice(run: Run, runs: Sequence[Run]) -> Iterator[str]:
    """What a training that waits for its input should be given."""
    found = sort(runs)
    if run.parameters["measured"] != FED or run.throughput is None or run.virtual or run.label not in found.training:
        return
    share = waits(run, found.training[run.label])
    if not _is_bound(run, found.training[run.label]):
        return
    fed = found.fed[run.label]
    better = max(fed, key=lambda name: _speed(fed[name]))
    if gain := _faster(fed[better], run):
        yield f"{_waits(share)}: try {better}, {_times(gain)} as fast"
        return
    fastest = max(found.alone, key=lambda name: _speed(found.alone[name]), default=None)
    if fastest is not None and _speed(found.alone[fastest]) < _speed(found.training[run.label]):
        most = f"the best pipeline alone gives {_rate(found.alone[fastest])}"
        yield f"{_waits(share)}: {most}; try more or faster CPUs, smaller images, or already decoded images"
    else:
        yield (
            f"{_waits(share)}, although the pipeline alone is fast enough: pipeline and training share CPUs or the "
            "link to the device"
        )


def _speed(run: Run) -> float:
    return run.throughput.value if run.throughput else 0.0


def _rate(run: Run) -> str:
    assert run.throughput is not None
    return f"{digits(run.throughput.value, *run.throughput.ci95)} images/s"


def _waits(share: Ratio) -> str:
    value, low, high = (f"{100 * part:.0f}" for part in (share.value, share.low, share.high))
    return f"training waits for input {value} % of the time" + (f" ({low} to {high})" if low != high else "")


def _times(effect: Ratio) -> str:
    value, low, high = (digits(part, effect.low, effect.high) for part in (effect.value, effect.low, effect.high))
    return f"{value} times" + (f" ({low} to {high})" if low != high else "")
