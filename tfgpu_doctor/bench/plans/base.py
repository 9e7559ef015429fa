"""What all plans share: requested types and devices, defaults, and the files that results are compared with."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any, ClassVar

from tfgpu_doctor.bench.devices import Ask, Case, Job, Scalar, Selection
from tfgpu_doctor.bench.results import Ratio, Run, Throughput
from tfgpu_doctor.bench.runner.process import Key
from tfgpu_doctor.bench.speeds import ratio
from tfgpu_doctor.bench.statistics import StoppingRule
from tfgpu_doctor.records.units import approximate

TF32_NOTE = "TF32 exists on GPUs of compute capability 8.0 and later; the CPU computes in float32."


class Reference:
    """Files that results are compared with, each written once by the first worker that is asked for it.

    Use as a context manager: leaving the block removes the files.
    """

    def __init__(self) -> None:
        """Nothing is computed yet."""
        self._folder = tempfile.TemporaryDirectory(prefix="tfgpu-bench-")
        self._written: set[Path] = set()

    def file(self, ask: Ask, name: str, **request: Any) -> str:
        """The path of the file `name`; the worker behind `ask` writes it by `request` if nobody has yet."""
        path = Path(self._folder.name) / name
        if path not in self._written:
            ask(do="reference", file=str(path), **request)
            self._written.add(path)
        return str(path)

    def __enter__(self) -> Reference:
        return self

    def __exit__(self, *error: object) -> None:
        self._folder.cleanup()


def keys(cases: Sequence[Case], job: Job) -> frozenset[Key]:
    """The processes of the cases, to be kept for another group."""
    return frozenset((case.label, job.dtype_on(case)) for case in cases)


@dataclass(frozen=True)
class Group:
    """Cases that take turns: one size, one type."""

    entries: tuple[tuple[Case, Job], ...]
    expected: float | None = None  # seconds that a sample of the slowest device will take, where known
    keep: frozenset[Key] = frozenset()  # processes that a later group needs
    rule: StoppingRule | None = None  # when a case has enough; None: what holds for the whole benchmark


@dataclass(kw_only=True)
class PlanBase:
    """One run of a benchmark, which a workload decides: the cases, the sizes, and the notes about the result."""

    workload: ClassVar[str]  # a name in workload_registry.WORKLOADS
    dtypes: tuple[str, ...] = ("float32",)
    selection: Selection = field(default_factory=Selection)
    # what a process needs beside the import of TensorFlow and its samples (devices, inputs, tracing, verification), as
    # a multiple of that import: much the same on 2 CPUs in use and on 16 beside an H100 (benchmarks/estimates.py)
    ready: ClassVar[float] = 1.5
    steady: ClassVar[bool] = False  # a GPU takes nearly the same time again and again; a host that takes part does not

    def groups(self, session: Any) -> Iterator[Group]:
        """Yield the groups, one after the other; may ask `session.first` to find out sizes.

        Raises:
            DeviceError: devices were asked for that are not there.
            TooLargeError: something does not fit.
            CannotRunError: what was asked for cannot be measured here.
        """
        raise NotImplementedError

    def title(self) -> str:
        """Return what is computed, for people."""
        raise NotImplementedError

    def parameters(self) -> dict[str, Scalar]:
        """Return what two results must share to be compared."""
        raise NotImplementedError

    def settles(self, label: str) -> bool:
        """Whether the median is usually known long before the deadline: never on a CPU."""
        return self.steady and "GPU" in label and "virtual" not in label

    def conclusions(self, _runs: Sequence[Run]) -> Sequence[str]:
        """Return what the runs answer together, in sentences without their end; it stands first in every report."""
        return ()

    def notes(self, _runs: Sequence[Run]) -> Sequence[str]:
        """Where TF32 was requested, on which devices it exists."""
        return (TF32_NOTE,) if "tf32" in self.dtypes else ()

    def advice(self, _run: Run, _runs: Sequence[Run]) -> Sequence[str]:
        """Return what the figures of a run give reason to say, for this workload."""
        return ()

    def cases_by_type(self, cases: Sequence[Case]) -> Iterator[tuple[str, tuple[Case, ...]]]:
        """Each type with the cases that compute in it; the CPU's float32 counts for its tf32, too."""
        done: set[tuple[str, str]] = set()
        for dtype in self.dtypes:
            todo = tuple(case for case in cases if (case.label, case.dtype(dtype)) not in done)
            done |= {(case.label, case.dtype(dtype)) for case in todo}
            if todo:
                yield dtype, todo


# ---------------------------------------------------------------------------------------------------------------------
# What a sweep shows: where one device overtakes another, and where each is fastest. Pure.
#
# A point counts as faster or slower when the interval of the quotient leaves 1 outside; between the last point that is
# clearly slower and the first from which on all are clearly faster nothing is known but the interpolation.


FULL = 0.9  # of the best throughput: hardly more is to be had

Curve = dict[int, Throughput]  # by size, ascending


def curves(runs: Sequence[Run], axis: str) -> dict[tuple[str, str], Curve]:
    """The measured points of each device and type, by label and type, in the order of the runs.

    Virtual devices have none: their speed says nothing.
    """
    found: dict[tuple[str, str], Curve] = {}
    for run in runs:
        point = run.parameters.get(axis)
        if run.throughput is not None and not run.virtual and isinstance(point, int):
            found.setdefault((run.label, run.dtype), {})[point] = run.throughput
    return {key: dict(sorted(curve.items())) for key, curve in found.items()}


def overtaking(runs: Sequence[Run], axis: str, name: str) -> Iterator[str]:
    """Sentences: from which size on each GPU case is faster than the CPU. `name` is that of the size, "N"."""
    found = curves(runs, axis)
    for (label, dtype), curve in found.items():
        base = found.get(("CPU", dtype)) or (found.get(("CPU", "float32")) if dtype == "tf32" else None)
        if label != "CPU" and base:
            yield f"{label}, {dtype}: {_crossing(curve, base, name)}"


def _crossing(curve: Mapping[int, Throughput], base: Mapping[int, Throughput], name: str) -> str:
    """Where `curve` rises above `base` for good."""
    ratios = {size: ratio(curve[size], base[size]) for size in curve if size in base}
    if not ratios:
        return "no size was also measured on the CPU"
    sizes = list(ratios)
    faster = list(takewhile(lambda size: ratios[size].low > 1, reversed(sizes)))[::-1]
    if not faster:
        last = ratios[sizes[-1]]
        known = "slower than the CPU" if last.high < 1 else "not clearly faster than the CPU"
        times = f"{approximate(last.value)} times as fast"
        return f"{known} up to {name} = {sizes[-1]}, the largest measured on both ({times})"
    if faster == sizes:
        times = approximate(ratios[sizes[0]].value)
        return f"faster than the CPU from the smallest size on ({name} = {sizes[0]}, {times} times)"
    low = max((size for size in sizes if ratios[size].high < 1), default=None)
    if low is None:
        return f"faster than the CPU from {name} = {faster[0]} on; inconclusive below"
    about = float(f"{_interpolate(ratios, low, faster[0]):.2g}")
    best = max(faster, key=lambda size: ratios[size].value)
    return (
        f"overtakes the CPU between {name} = {low} and {faster[0]}, at about {about:.0f}; "
        f"{approximate(ratios[best].value)} times as fast at {best}"
    )


def _interpolate(ratios: Mapping[int, Ratio], low: int, high: int) -> float:
    """Where the quotient is 1: a straight line, in logarithms, between the neighbours on both sides of 1."""
    sizes = [size for size in ratios if low <= size <= high]
    for left, right in pairwise(sizes):
        if ratios[left].value <= 1 < ratios[right].value:
            below, above = math.log(ratios[left].value), math.log(ratios[right].value)
            share = -below / (above - below)
            return math.exp(math.log(left) + share * (math.log(right) - math.log(left)))
    return math.sqrt(low * high)


def saturation(runs: Sequence[Run], axis: str, name: str) -> Iterator[str]:
    """Sentences: at which size each device and type is fastest, and from which on nearly so."""
    for (label, dtype), curve in curves(runs, axis).items():
        if len(curve) < 2:
            continue
        sizes = list(curve)
        best = max(sizes, key=lambda size: curve[size].value)
        full = next(size for size in sizes if curve[size].value >= FULL * curve[best].value)
        text = f"fastest at {name} = {best}"
        if full == sizes[-1]:
            before = sizes[-2]
            more = 100 * (curve[full].value / curve[before].value - 1)
            text += f", the largest, by {more:.0f} % over {before}: a larger one may be faster still"
        elif full != best:
            text += f"; {100 * FULL:.0f} % of that from {full} on"
        yield f"{label}, {dtype}: {text}"
