"""What all plans share: groups of jobs, time and memory, and what sweeps show."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, ClassVar

from tfgpu_doctor.bench.devices import Case, Job, Key, Scalar, Selection
from tfgpu_doctor.bench.results import Run, Throughput
from tfgpu_doctor.bench.speeds import ratio
from tfgpu_doctor.bench.statistics import StoppingRule
from tfgpu_doctor.facts.units import approximate
from tfgpu_doctor.facts.units import seconds as duration


class CannotRunError(Exception):
    """What was asked for cannot be measured, through no fault of TensorFlow's; the message says why and what to do."""


class PartError(CannotRunError):
    """The part of this machine in what another one leads failed."""


class NoRoomError(CannotRunError):
    """What was asked for takes longer than the time that was given, or more than the free memory; what would fit."""


def too_slow(what: str, expected: float, deadline: float, shorter: str, longer: int, least: float) -> NoRoomError:
    """Return the error that `what` takes too long.

    Args:
        shorter: an option that will do; empty: none.
        longer: a deadline for enough samples.
        least: seconds from which on it is tried, whatever so few samples are worth.
    """
    took = f"{what} would take about {duration(expected)}, too long for --deadline {deadline:g}"
    few = f"from {math.ceil(least)} on it is tried; such a speed is uncertain"
    return NoRoomError(f"{took}. Try {shorter}{', or ' * bool(shorter)}--deadline {longer} ({few})")


def scratch() -> TemporaryDirectory[str]:
    """Make a folder for models, images, and what results are compared with; leaving the block removes it."""
    return TemporaryDirectory(prefix="tfgpu-bench-")


@dataclass(frozen=True)
class Group:
    """Jobs that take turns: one size, one type."""

    jobs: tuple[Job, ...]
    expected: float = 0.0  # seconds that a sample of the slowest device will take, where known
    keep: frozenset[Key] = frozenset()  # processes that a later group needs
    rule: StoppingRule | None = None  # when a case has enough; None: what holds for the whole benchmark


@dataclass(kw_only=True)
class PlanBase:
    """One run of a benchmark, which a workload decides: the cases, the sizes, and the notes about the result."""

    file: ClassVar[ModuleType]  # the workload's: UNIT, judge
    step_name: ClassVar[str] = "sample"
    blocks: ClassVar[bool] = False  # several steps are queued together and waited for once
    dtypes: tuple[str, ...] = ("float32",)
    selection: Selection = field(default_factory=Selection)
    named: bool = False  # each size was asked for; where one is not measured, that is told
    left_out: list[str] = field(default_factory=list)  # sentences: what is not measured, and why

    @property
    def workload(self) -> str:
        """The name in requests.WORKLOADS."""
        return self.file.__name__.rpartition(".")[2]

    def groups(self, session: Any) -> Iterator[Group]:
        """Yield the groups, one after the other; may ask `session.first` to find out sizes.

        Raises:
            DeviceError: devices were asked for that are not there.
            CannotRunError: what was asked for cannot be measured here, or does not fit.
        """
        raise NotImplementedError

    def title(self) -> str:
        """Return what is computed, for people."""
        raise NotImplementedError

    def parameters(self) -> dict[str, Scalar]:
        """Return what two results must share to be compared; what varies within a result stands with its runs."""
        raise NotImplementedError

    def conclusions(self, _runs: Sequence[Run]) -> Sequence[str]:
        """Return what the runs answer together, in sentences without their end; it stands first in every report."""
        return ()

    def notes(self, _runs: Sequence[Run]) -> Sequence[str]:
        """Return what qualifies the result: where TF32 exists, and what is not measured, and why."""
        tf32 = "TF32 exists on GPUs of compute capability 8.0 and later; the CPU computes in float32."
        return (*((tf32,) if "tf32" in self.dtypes else ()), *self.left_out)

    def advice(self, _run: Run, _runs: Sequence[Run]) -> Sequence[str]:
        """Return what the figures of a run give reason to say, for this workload."""
        return ()

    def make_job(self, case: Case, dtype: str, parameters: dict[str, Any], work: float, **more: Any) -> Job:
        """Return what a case computes in the type that was asked for; `more` are other fields of the job."""
        return Job(
            case,
            self.workload,
            parameters,
            case.dtype(dtype),
            self.file.UNIT,
            work,
            self.file.judge,
            **{"step_name": self.step_name, "blocks": self.blocks, **more},
        )

    def cases_by_type(self, cases: Sequence[Case]) -> Iterator[tuple[str, tuple[Case, ...]]]:
        """Yield each type with the cases that compute in it; the CPU's float32 counts for its tf32, too."""
        done: set[tuple[str, str]] = set()
        for dtype in self.dtypes:
            todo = tuple(case for case in cases if (case.label, case.dtype(dtype)) not in done)
            done |= {(case.label, case.dtype(dtype)) for case in todo}
            if todo:
                yield dtype, todo

    def sweep(
        self,
        session: Any,
        dtype: str,
        cases: Sequence[Case],
        sizes: Sequence[int],
        make: Callable[[Case, str, int], Job],
        possible: Callable[[Job, list[Case]], bool],
        rule: StoppingRule | None = None,
    ) -> Iterator[Group]:
        """Yield a group for each size in one type; the processes stay to the last one.

        `possible` tells whether a job can be measured beside those of other cases, and notes why not.
        """
        for size in sizes:
            jobs: list[Job] = []
            for job in (make(case, dtype, size) for case in cases):
                if possible(job, [*(one.case for one in jobs), job.case]):
                    jobs.append(job)
            session.skip(len(cases) - len(jobs))
            if jobs:
                keep = frozenset(job.key for job in jobs if size != sizes[-1])
                yield Group(tuple(jobs), keep=keep, rule=rule)
            elif self.named:
                session.not_run.append(f"N = {size} in {cases[0].dtype(dtype)}")

    def skip_cpu(self, session: Any, cases: Sequence[Case], seconds: float, longer: str) -> tuple[Case, ...] | None:
        """Return the cases without a CPU that takes too long and stands beside GPUs unasked, and note it; else None."""
        if not self.may_skip_cpu(cases):
            return None
        session.drop()  # a process that has computed on the CPU alone sees no GPU any more
        took = f"a {self.step_name} would take about {duration(seconds)}"
        self.left_out.append(f"The CPU is skipped: {took}. To measure it: {longer}")
        return tuple(case for case in cases if case.gpus)

    def may_skip_cpu(self, cases: Sequence[Case]) -> bool:
        """True if the CPU stands beside GPUs unasked."""
        return len({bool(case.gpus) for case in cases}) == 2 and self.selection.devices is None


# ---------------------------------------------------------------------------------------------------------------------
# Memory that cases need beside each other. What is not known to be free is no reason to refuse.


HOST = "the host's memory"
SHARE = 0.8  # of the free memory that the benchmark may take
# What a process needs besides its data, roughly: TensorFlow itself (0.5 GiB resident after a product), and on a GPU its
# CUDA context with the kernels that it loads and the workspace of cuBLAS.
PROCESS = 2**29
CONTEXT = 3 * 2**28

Memory = str | int  # HOST, or a GPU by TensorFlow's index
Free = Mapping[Memory, int]


def demands(
    cases: Iterable[Case], on_device: Callable[[Case], int], on_host: Callable[[Case], int] = lambda _: 0
) -> Iterator[tuple[Memory, int]]:
    """Yield (memory, bytes) of what the processes of cases need that are all there at once.

    Args:
        on_device: bytes on each device of a case.
        on_host: bytes on the host beside them.
    """
    for case in cases:
        each = on_device(case)
        yield HOST, PROCESS + on_host(case) + (0 if case.gpus else each * len(case.devices))
        for gpu in case.gpus:
            yield gpu, CONTEXT + each * (len(case.devices) // len(case.gpus))


def shortage(needs: Iterable[tuple[Memory, int]], free: Free) -> tuple[Memory, int] | None:
    """Return the first memory that does not hold what is needed of it, and the need; None when all do."""
    total: dict[Memory, int] = {}
    for memory, need in needs:
        total[memory] = total.get(memory, 0) + need
    return next(((memory, need) for memory, need in total.items() if need > SHARE * free.get(memory, 2**62)), None)


def too_large(what: str, short: tuple[Memory, int], free: Free, advice: str) -> NoRoomError:
    """Return the error that `what` needs more of a memory than is free."""
    memory, need = short
    where, have = HOST if memory == HOST else f"GPU {memory}", f"{free[memory] / 2**30:.1f} GiB are free"
    if need <= free[memory]:
        have += f", and a benchmark takes at most {100 * SHARE:.0f} % of them"
    return NoRoomError(f"{what} {need / 2**30:.1f} GiB of {where}, of which {have}; {advice}")


# ---------------------------------------------------------------------------------------------------------------------
# What a sweep over ascending sizes shows: from which on a GPU is faster than the CPU, where each is fastest. Pure.


FULL = 0.9  # of the best throughput: hardly more is to be had

Curve = dict[int, Throughput]  # by size, ascending


def curves(runs: Sequence[Run], axis: str) -> dict[tuple[str, str], Curve]:
    """Return the measured points by label and type; none of virtual devices, whose speed says nothing."""
    found: dict[tuple[str, str], Curve] = {}
    for run in runs:
        point = run.parameters.get(axis)
        if run.throughput is not None and not run.virtual and isinstance(point, int):
            found.setdefault((run.label, run.dtype), {})[point] = run.throughput
    return found


def overtaking(runs: Sequence[Run], axis: str, name: str) -> Iterator[str]:
    """Yield sentences: from which size on each GPU case is faster than the CPU. `name` is that of the size, "N".

    It is where the interval of the quotient lies above 1, there and at all larger sizes.
    """
    found = curves(runs, axis)
    for (label, dtype), curve in found.items():
        base = found.get(("CPU", "float32" if dtype == "tf32" else dtype), {})
        ratios = {size: ratio(curve[size], base[size]) for size in curve if size in base}
        if label == "CPU" or not ratios:
            continue
        unclear = max((size for size, one in ratios.items() if one.low <= 1), default=0)
        faster = [size for size in ratios if size > unclear]
        best = max(faster, key=lambda size: ratios[size].value) if faster else unclear
        until = f"not clearly faster than the CPU up to {name} = {unclear}"
        known = f"faster than the CPU from {name} = {faster[0]} on" if faster else until
        times = approximate(ratios[best].value, interval=(ratios[best].low, ratios[best].high))
        unsure = _unsure(runs, (label, dtype), ("CPU", dtype), ("CPU", "float32"))
        yield f"{label}, {dtype}: {known}; {times} times as fast at {best}{unsure}"


def saturation(runs: Sequence[Run], axis: str, name: str) -> Iterator[str]:
    """Yield sentences: at which size each device and type is fastest, and from which on nearly so.

    Sizes whose speeds the intervals do not tell apart are named together.
    """
    for (label, dtype), curve in curves(runs, axis).items():
        best = max(curve, key=lambda size: curve[size].value)
        full = next(size for size in curve if curve[size].value >= FULL * curve[best].value)
        *others, last = [str(size) for size in curve if ratio(curve[best], curve[size]).low <= 1]
        text = f"fastest at {name} = {', '.join(others)}{' or ' if others else ''}{last}"
        if full == max(curve):
            text += ", the largest: a larger one may be faster still"
        elif str(full) not in (*others, last):
            text += f"; {100 * FULL:.0f} % of that from {full} on"
        if len(curve) > 1:
            yield f"{label}, {dtype}: {text}{_unsure(runs, (label, dtype))}"


def _unsure(runs: Sequence[Run], *keys: tuple[str, str]) -> str:
    """Say that a sentence rests on uncertain speeds, where one of these labels and types has some."""
    return " (uncertain)" if any(run.doubts and (run.label, run.dtype) in keys for run in runs) else ""
