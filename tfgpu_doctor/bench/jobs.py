"""What a case computes, as the runner needs to know it: any workload, one size, one type. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfgpu_doctor.bench.devices import Case
from tfgpu_doctor.bench.results import Figure
from tfgpu_doctor.bench.workloads.judgement import Judgement

Scalar = int | float | str | None
Ask = Callable[..., dict[str, Any]]


def none_of(case: Case) -> None:
    """For what a workload has no number of."""


@dataclass(frozen=True)
class Job:
    """What every case of a group computes."""

    workload: str  # the file of workloads/
    parameters: dict[str, Any]  # for the worker
    dtype: str
    unit: str  # of throughput
    work: Callable[[Case], float]  # of one step, in `unit` times seconds
    judge: Callable[[dict[str, Any], str, dict[str, Any]], Judgement]
    flop: Callable[[Case], float | None] = none_of  # of one step
    bytes_moved: Callable[[Case], float | None] = none_of  # of one step, at least
    scaling: Callable[[Case], str | None] = none_of
    point: Mapping[str, Scalar] = field(default_factory=dict)  # what tells it from the other jobs of one benchmark
    process: str = ""  # a name: jobs of one case that take turns have a process each; without, they share the case's
    step_name: str = "sample"
    blocks: bool = False  # several steps are queued together and waited for once, as training does
    figures: bool = False  # the workload has figures beside the samples
    explain: Callable[[str], str] = lambda why: why  # a failure in words of this workload
    farewell: bool = False  # the worker has others to tell that this was the last
    patience: float = 0.0  # seconds that one answer may take, where that is more than what holds for every workload
    virtual_memory_mib: int = 2048
    derive: Callable[[Case, Sequence[float]], tuple[Figure, ...]] = lambda *_: ()  # what the samples show
    # what `verify` is asked with; the first argument asks the worker of the case, for a reference to be made
    verify: Callable[[Ask, Case], Mapping[str, Any]] = lambda *_: {}

    def dtype_on(self, case: Case) -> str:
        """The type in which a case computes."""
        return case.dtype(self.dtype)
