"""What all plans share: requested types and devices, defaults, and the files that results are compared with."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from tfgpu_doctor.bench.devices import Case, Selection
from tfgpu_doctor.bench.jobs import Ask, Job
from tfgpu_doctor.bench.results import Run
from tfgpu_doctor.bench.runner.workers import Key

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


@dataclass(kw_only=True)
class PlanBase:
    """One run of a benchmark: what was asked for, and defaults of what session.Plan wants."""

    workload: ClassVar[str]  # a name in workload_registry.WORKLOADS
    dtypes: tuple[str, ...] = ("float32",)
    selection: Selection = field(default_factory=Selection)
    # what a process needs beside the import of TensorFlow and its samples (devices, inputs, tracing, verification), as
    # a multiple of that import: much the same on 2 CPUs in use and on 16 beside an H100 (benchmarks/estimates.py)
    ready: ClassVar[float] = 1.5
    steady: ClassVar[bool] = False  # a GPU takes nearly the same time again and again; a host that takes part does not

    def settles(self, label: str) -> bool:
        """Whether the median is usually known long before the deadline: never on a CPU."""
        return self.steady and "GPU" in label and "virtual" not in label

    def conclusions(self, _runs: Sequence[Run]) -> Sequence[str]:
        """Nothing: the runs answer no further question together."""
        return ()

    def notes(self, _runs: Sequence[Run]) -> Sequence[str]:
        """Where TF32 was requested, on which devices it exists."""
        return (TF32_NOTE,) if "tf32" in self.dtypes else ()

    def advice(self, _run: Run, _runs: Sequence[Run]) -> Sequence[str]:
        """Nothing beyond what holds for every workload."""
        return ()

    def cases_by_type(self, cases: Sequence[Case]) -> Iterator[tuple[str, tuple[Case, ...]]]:
        """Each type with the cases that compute in it; the CPU's float32 counts for its tf32, too."""
        done: set[tuple[str, str]] = set()
        for dtype in self.dtypes:
            todo = tuple(case for case in cases if (case.label, case.dtype(dtype)) not in done)
            done |= {(case.label, case.dtype(dtype)) for case in todo}
            if todo:
                yield dtype, todo
