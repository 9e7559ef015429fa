"""Which steps a smoke test has, and whether one still fits into what is left of the budget. Pure."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tfgpu_doctor.bench.devices import Case, Job, Scalar
from tfgpu_doctor.bench.plans.base import PlanBase, Reference
from tfgpu_doctor.bench.plans.cnn import Cnn
from tfgpu_doctor.bench.plans.matpow import MatPow

# Seconds that the first step of its kind is expected to take at least (measured with TensorFlow 2.21 on two CPU cores:
# matpow 1.3 s, cnn 3 s); what it really took is expected of the next one.
FIRST = {"matpow": 2.0, "cnn": 4.0}
# How the work of each is spread over several devices.
SPREADS = {"matpow": "rows", "cnn": "MirroredStrategy"}
ROOM = 1.25  # of the seconds that the slowest of its kind took
START = 5.0  # seconds from a process's start to TensorFlow's answer, where the doctor could not tell
TO_EXAMINE = 0.6  # share of the budget that the doctor may take: a slower import leaves no room for a second one
TO_REPORT = 1.0  # seconds kept for killing what hangs and for the report
USUAL = 60.0  # seconds of a budget that is not given
HALF = 0.5  # share of what is left that one step may take while others wait: one card that hangs must not hide the rest


@dataclass(frozen=True)
class SmokeOptions:
    """What the user asked for."""

    budget: float = USUAL  # seconds for everything
    require_gpus: int = 1  # 0: the CPU will do where there is no GPU
    dtype: str = "float32"
    min_tflops: float | None = None  # of each GPU alone
    max_import: float | None = None  # seconds
    rounds: int = 1
    virtual: int | None = None


class Step(NamedTuple):
    """One check that computes: a workload on some devices."""

    workload: str
    case: Case

    @property
    def on(self) -> str:
        """The devices, for people."""
        return self.case.label


def steps(gpus: int, options: SmokeOptions) -> tuple[Step, ...]:
    """Every workload on each GPU alone and on all together; on the CPU where there is none and none is required.

    Args:
        gpus: how many TensorFlow lists.
        options: none are planned where GPUs are required and there is none.
    """
    if not gpus and options.require_gpus:
        return ()
    everywhere = tuple(range(gpus))
    cases = [Case(f"GPU {index}", (f"/GPU:{index}",), everywhere) for index in everywhere]
    if not gpus:
        cases = [Case("CPU", ("/CPU:0",), ())]
    if gpus > 1:
        cases.append(Case(f"{gpus} GPUs", tuple(f"/GPU:{index}" for index in everywhere), everywhere))
    virtual = []
    if options.virtual:
        kind = "GPU" if gpus else "CPU"
        names = tuple(f"/{kind}:{index}" for index in range(options.virtual))
        virtual = [Case(f"{options.virtual} virtual {kind}s", names, (0,) if gpus else (), virtual=True)]
    # one workload everywhere before the next: in a small budget, every card should get its turn; logical devices last,
    # since they need a process of their own
    return tuple(
        Step(workload, _spread(case, workload)) for group in (cases, virtual) for workload in FIRST for case in group
    )


def _spread(case: Case, workload: str) -> Case:
    return replace(case, spread=SPREADS[workload]) if len(case.devices) > 1 else case


@dataclass
class Costs:
    """How long steps take, estimated from those that have run."""

    start: float = START
    known: dict[str, float] = field(default_factory=lambda: dict(FIRST))
    measured: set[str] = field(default_factory=set)

    def of(self, workload: str, *, starts: bool) -> float:
        """Seconds that a step will take; with `starts`, a process has to be started for it."""
        room = ROOM if workload in self.measured else 1.0
        return self.known[workload] * room + (self.start * ROOM if starts else 0.0)

    def learn(self, workload: str, seconds: float) -> None:
        """A step took that long."""
        self.known[workload] = max(seconds, self.known[workload] if workload in self.measured else 0.0)
        self.measured.add(workload)

    def of_all(self, todo: tuple[Step, ...], processes: int, spent: float) -> float:
        """Seconds that a budget would need for `todo` in so many processes, rounded up to 10, beside those `spent`."""
        needed = spent + processes * self.start * ROOM + sum(self.of(step.workload, starts=False) for step in todo)
        return -(-needed // 10) * 10.0


def more_than(budget: float) -> float:
    """A budget to try where how long the import takes is not known yet."""
    return max(USUAL, 3 * budget)


def no_room(workload: str, cost: float, left: float, budget: float, enough: float) -> str:
    """Why a step is not started; true of every step of its workload that is left out with it."""
    return (
        f"{workload} needs about {cost:.1f} s, but only {max(left, 0):.1f} s of the budget of {budget:g} s are left: "
        f"use --budget {enough:.0f}"
    )


# ---------------------------------------------------------------------------------------------------------------------
# What the steps of a smoke test compute: the jobs of the benchmarks, in sizes that take a second.


# Rows of the matrices. A GPU needs about 4096 to come near its peak (2.5 TFLOP a sample: 40 ms at 60 TFLOP/s); two CPU
# cores need 0.1 s for 1024. float64 has half the rows: GPUs that are made for graphics do 1/64 of float32 in it.
GPU_SIZE, CPU_SIZE = 4096, 1024

BATCH = 64  # images on each device
VIRTUAL_MIB = 1536  # of a logical GPU, which serves all workloads: the first of them sets it
# The type of a training beside that of a product; nobody trains in float64.
CNN_TYPES = {
    "float32": "float32",
    "tf32": "tf32",
    "float64": "float32",
    "float16": "mixed_float16",
    "bfloat16": "mixed_bfloat16",
}


class Jobs:
    """Makes the job of a step. Use as a context manager: references are kept in files, which leaving removes."""

    def __init__(self, dtype: str) -> None:
        """For arithmetic in one of the types of matpow."""
        self._dtype = dtype
        self._stack = ExitStack()
        self._reference = self._stack.enter_context(Reference())
        self._make: dict[str, Callable[[Step], Job]] = {"matpow": self._matpow_job, "cnn": self._cnn_job}
        self._plans: dict[str, Callable[[Step], PlanBase]] = {"matpow": self._matpow, "cnn": lambda _: Cnn(batch=BATCH)}

    def of(self, step: Step) -> Job:
        """What the step computes."""
        job = self._make[step.workload](step)
        return replace(job, virtual_memory_mib=VIRTUAL_MIB)

    def parameters(self, step: Step) -> dict[str, Scalar]:
        """What two results of the step must share, as the benchmark of its workload says it."""
        return self._plans[step.workload](step).parameters()

    def _matpow(self, step: Step) -> MatPow:
        size = GPU_SIZE if step.case.gpus else CPU_SIZE
        size = size // 2 if self._dtype == "float64" else size
        return MatPow(size=size, dtypes=(self._dtype,), chosen=size)

    def _matpow_job(self, step: Step) -> Job:
        plan = self._matpow(step)
        return plan.job(self._dtype, plan.chosen, self._reference, 2)

    def _cnn_job(self, step: Step) -> Job:
        job = Cnn(batch=BATCH).job(CNN_TYPES[self._dtype], step.case)
        return replace(job, figures=False)  # what `fit` needs beside it takes longer than all the rest

    def __enter__(self) -> Jobs:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()
