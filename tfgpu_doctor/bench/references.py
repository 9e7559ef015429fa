"""What a model of GPU gives: speeds that were measured and verified on real ones, small enough to come with tfgpu.

The files of benchmarks/reference/, one for each measurement; a wheel has them beside this module. docs/measuring.md
explains them, CONTRIBUTING.md how one is made and sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from tfgpu_doctor.bench.devices import RequestError
from tfgpu_doctor.bench.results import AtLeastOne, BenchResult, Parameters, Run, Throughput
from tfgpu_doctor.facts.facts import StrictRecord, value_or
from tfgpu_doctor.facts.reading import read_whole

_SOURCES = Path(__file__).parents[2] / "benchmarks" / "reference"
FOLDER = _SOURCES if (_SOURCES.parents[1] / "compat_matrix.yaml").is_file() else Path(__file__).with_name("reference")
LARGEST = 2**20  # bytes of a file
MEASURED = "measured with TensorFlow"  # stands in each note about a reference
# what has to be the same: the parameters of each workload that has references
WORK = {"matpow": ("size", "power", "seed"), "cnn": ("model", "batch", "xla", "seed")}


class Speed(StrictRecord, frozen=True):
    """The speed of one GPU alone, verified."""

    workload: str
    parameters: Parameters
    dtype: str
    throughput: Throughput
    samples: AtLeastOne


class Reference(StrictRecord, frozen=True):
    """What was measured on one machine, with what it depends on."""

    schema: Literal["tfgpu.bench-reference/1"]
    gpu: str  # as NVML names it
    tensorflow: str
    driver: str
    measured: str  # day
    tool: str  # version of tfgpu
    speeds: tuple[Speed, ...]


@cache
def references() -> tuple[Reference, ...]:
    """Read those that come with tfgpu, the newest first."""
    files = (read_whole(str(path), LARGEST) for path in FOLDER.glob("*.json"))
    found = (msgspec.json.decode(data, type=Reference) for data in files)
    return tuple(sorted(found, key=lambda one: one.measured, reverse=True))


def make_reference(result: BenchResult) -> tuple[Reference, tuple[str, ...]]:
    """Make the reference of a result, and say which speeds are left out since they cannot be relied on.

    Raises RequestError: the result is unfinished, or has no reliable speed of one GPU.
    """
    runs = _of_one_gpu(result)
    if result.unfinished or not runs:
        why = "is unfinished" if result.unfinished else "does not have a run on one GPU"
        raise RequestError(f"no reference is saved: the result {why}")
    driver, tensorflow = value_or(result.environment.driver.version, ""), result.software.get("tensorflow", "")
    known = {"gpu": _card(result, runs[0]), "driver": driver, "tensorflow": tensorflow}
    if missing := [name for name, value in known.items() if not value]:
        raise RequestError(f"no reference is saved: the result does not have {missing[0]}")
    found = [_speed(result, run) for run in runs]
    left_out = tuple(one for one in found if isinstance(one, str))
    if not (speeds := tuple(one for one in found if isinstance(one, Speed))):
        raise RequestError(f"no reference is saved: {'; '.join(left_out)}")
    day, version = result.created[:10], result.tool.version
    return Reference(schema="tfgpu.bench-reference/1", measured=day, tool=version, speeds=speeds, **known), left_out


def _speed(result: BenchResult, run: Run) -> Speed | str:
    """Return the speed of a run, or why it cannot be relied on."""
    workload, every = _workload(result, run), {**result.parameters, **run.parameters}
    slowed = "heat or the power supply slowed the GPU down" if run.throttled_samples else ""
    why = "; ".join(run.doubts) or slowed or ("" if run.throughput else run.failure or "it was not verified")
    if why or run.throughput is None or not every.keys() >= {*WORK[workload]}:
        doubt = why or "it has no batch of one GPU"
        return f"{run.label} {run.dtype} is no reliable speed: {doubt}"
    work, samples = {key: every[key] for key in WORK[workload]}, len(run.samples_s)
    return Speed(workload=workload, parameters=work, dtype=run.dtype, throughput=run.throughput, samples=samples)


def with_references(result: BenchResult) -> BenchResult:
    """Add to the notes what share of the speed of its model each GPU gave, where the same was measured on one."""
    own = (note for note in result.notes if MEASURED not in note)
    return msgspec.structs.replace(result, notes=(*own, *_beside_references(result)))


def _beside_references(result: BenchResult) -> Iterator[str]:
    shares: dict[str, list[str]] = {}
    for run in _of_one_gpu(result):
        work, what = {**result.parameters, **run.parameters}.items(), (_workload(result, run), run.dtype)
        found = (
            (one, speed.throughput.value)
            for one in (references() if run.computed_in == run.dtype else ())
            for speed in one.speeds
            if one.gpu == _card(result, run)
            if (speed.workload, speed.dtype) == what and speed.parameters.items() <= work
        )
        one, value = next(found, (None, 1.0))
        if one and run.throughput:
            model = one.gpu.removeprefix("NVIDIA ")
            named = f"{'an' if model[0] in 'AEFHILMNORSX' else 'a'} {model}"
            how = f"{MEASURED} {one.tensorflow}, driver {one.driver}, {one.measured}"
            how += " (the reference is this result)" * (run.throughput.value == value)
            share = f"{' '.join(what)} {100 * run.throughput.value / value:.0f} %"
            shares.setdefault(f"{named} {how}", []).append(share)
    yield from (f"{', '.join(parts)} of {what}" for what, parts in shares.items())


def _of_one_gpu(result: BenchResult) -> list[Run]:
    """Return the runs of one GPU, of workloads that have references."""
    runs = (run for run in result.runs if run.devices == ("/GPU:0",) and not run.virtual)
    return [run for run in runs if _workload(result, run) in WORK]


def _workload(result: BenchResult, run: Run) -> str:
    return str(run.parameters.get("workload", result.workload))


def _card(result: BenchResult, run: Run) -> str:
    """Return the name of the GPU of a run; empty where it is not known, or MIG divides it."""
    known = value_or(result.environment.gpus, ())
    names = {gpu.name or "" for gpu in run.gpu} or {value_or(gpu.name, "") for gpu in known}
    return "" if len(names) != 1 or any(value_or(gpu.mig_mode, False) for gpu in known) else names.pop()
