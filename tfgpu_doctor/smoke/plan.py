"""Which steps a smoke test has, and whether one still fits into what is left of the budget. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tfgpu_doctor.bench.devices import Case

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
    factor: float = 1.2  # slower than the baseline by more than this fails
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
