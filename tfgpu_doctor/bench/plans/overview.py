"""`tfgpu bench` without a workload: powers of matrices and a CNN on the CPU, one GPU and all GPUs, within a time limit.

The jobs of both workloads, one after the other in one process that sees all GPUs: a second import of TensorFlow takes
as long as all samples of a GPU. Sizes are fixed or powers of two, so that two results can be compared; those of GPUs
are those of the references (references.py).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import msgspec

from tfgpu_doctor.bench.devices import Case, GpuFound, Job, Scalar
from tfgpu_doctor.bench.plans.base import Group, PlanBase, scratch
from tfgpu_doctor.bench.plans.matpow import AUTO, MatPow, lacking, sane_size
from tfgpu_doctor.bench.plans.training import SPREAD, Cnn
from tfgpu_doctor.bench.results import OVERVIEW, BenchResult, Run
from tfgpu_doctor.bench.runner.process import Asked, Worker, WorkerError
from tfgpu_doctor.bench.runner.runner import Session
from tfgpu_doctor.bench.statistics import StoppingRule
from tfgpu_doctor.bench.workloads import matpow
from tfgpu_doctor.facts.units import digits

LIMIT = 45.0  # seconds for everything
# A figure of two digits: an H100 takes a second for each type; CPUs, whose samples vary more, go on to the deadline.
RULE = StoppingRule(min_samples=6, min_seconds=0.3, precision=0.02, deadline=2.0)
CPU_SECONDS = 0.3  # that a sample of the CPU shall take
GPU_SIZES = (4096, 2048)  # the first that the memory holds
TO_REPORT = 1.0  # seconds kept for the end
NEEDED = {"matpow": 2.0, "cnn": 6.0}  # seconds that a run takes at least, with its verification
MATPOW, CNN = MatPow(), Cnn(model="cifar")
_WHERE = {"matpow": "in float32", "cnn": "in CNN training"}


@dataclass(kw_only=True)
class Overview(PlanBase):
    """Jobs of both workloads, as long as there is time for them."""

    file: ClassVar[Any] = matpow
    workload: ClassVar[str] = OVERVIEW
    end: float = math.inf  # by the session's clock

    @classmethod
    def read(cls, _options: Mapping[str, Any], **common: Any) -> Overview:
        """Make the plan; its time begins."""
        return cls(end=time.monotonic() + LIMIT, **common)

    def title(self) -> str:
        return f"A^{MATPOW.power} and B^{MATPOW.power}, and {CNN.title()}"

    def parameters(self) -> dict[str, Scalar]:
        return {"power": MATPOW.power, **CNN.parameters()}

    def groups(self, session: Session) -> Iterator[Group]:
        labels = dict.fromkeys(case.label.partition(",")[0] for case in self._cases(session, SPREAD))
        session.announce(f"matrix products and CNN training ({'; '.join(labels)}): at most {LIMIT:g} s")
        cases = self._cases(session, "terms")
        halves = len(half_type(session.found)) * sum(bool(case.gpus) for case in cases)
        session.planned = len(cases) + halves + len(self._cases(session, SPREAD))
        session.total = float(session.planned)
        with scratch() as folder:
            for job in self._jobs(session, folder):
                left = self.end - session.clock() - TO_REPORT
                if left < NEEDED[job.workload]:
                    session.not_run.append(f"{job.workload} {job.dtype} on {job.case.label}")
                else:
                    rule = replace(RULE, deadline=min(RULE.deadline, left / 3))
                    yield Group((job,), keep=frozenset({job.key}), rule=rule)

    def _jobs(self, session: Session, folder: str) -> Iterator[Job]:
        cases = self._cases(session, "terms")
        gpus, terms = [case for case in cases if case.gpus], max(case.terms for case in cases)
        for dtype in ("float32", *half_type(session.found)):
            for case in cases if dtype == "float32" else gpus:
                session.show(f"{case.label} {dtype}: choosing a size")
                if case.gpus:
                    fitting = (one for one in GPU_SIZES if not lacking(gpus, one, dtype, session.free(gpus)))
                else:
                    most = sane_size(MATPOW.speed(session, case, dtype) * CPU_SECONDS, MATPOW.power)
                    fitting = (one for one in reversed(AUTO) if one <= most)
                size = next(fitting, AUTO[0])
                job = MATPOW.job(case, dtype, size, folder, terms)
                yield replace(job, point={"workload": "matpow", "size": size})
        for case in self._cases(session, SPREAD):
            yield replace(CNN.job("float32", case), point={"workload": "cnn"})

    def _cases(self, session: Session, spread: str) -> tuple[Case, ...]:
        cases = self.selection.cases(session.found, (spread,))
        together = tuple(dict.fromkeys(index for case in cases for index in case.gpus))
        return tuple(replace(case, sees=together) for case in cases)

    def conclusions(self, runs: Sequence[Run]) -> tuple[str, ...]:
        """Say what the GPU brings, and what several bring; nothing without a GPU."""
        most = max((len(run.devices) for run in runs), default=1)
        several = f"{'two' if most == 2 else most} GPUs are"
        keys = [(str(run.parameters["workload"]), run.dtype, run.label.partition(",")[0]) for run in runs]
        found = {key: run.throughput.value for key, run in zip(keys, runs, strict=True) if run.throughput}
        parts = (_times(found, "The GPU is", "1 GPU", "CPU"), _times(found, several, f"{most} GPUs", "1 GPU"))
        return tuple(filter(None, ["; ".join(filter(None, parts))]))


def _times(found: Mapping[tuple[str, str, str], float], subject: str, label: str, base: str) -> str:
    """Return how many times the speed of `base` that of `label` is: "two GPUs are 1.9 times one in float32"."""
    texts = list[str]()
    for (workload, dtype, of), speed in found.items():
        old = found.get((workload, "float32", base))
        if of == label and old and (base == "CPU" or dtype == "float32"):
            where = f"with {dtype} on the GPU" if dtype != "float32" else _WHERE[workload]
            named = "" if texts else "the CPU " if base == "CPU" else "one "
            shown = digits(speed / old, 0.9 * speed / old, 1.1 * speed / old)
            texts.append(f"{shown} times {named}{where}")
    return f"{subject} {', '.join(texts)}" if texts else ""


def half_type(found: Sequence[GpuFound]) -> tuple[str, ...]:
    """Return the 16-bit type for which all of these GPUs have fast arithmetic, if there is one."""
    oldest = min((float(gpu.compute_capability or 0) for gpu in found), default=0.0)
    return ("bfloat16",) if oldest >= 8 else ("float16",) if oldest >= 7 else ()


def in_time(session: Session) -> BenchResult:
    """Run a session of an `Overview`, which ends in time whatever its worker does. Raises what Session.run raises."""
    plan: Any = session.plan
    start, late = session.start_worker, f"no answer within the time limit of {LIMIT:g} s"

    def ask(worker: Worker, timeout: float, **request: Any) -> dict[str, Any]:
        left = plan.end - session.clock() - TO_REPORT
        try:
            return worker.ask(min(timeout, max(left, 0.1)), **request)
        except WorkerError as error:
            raise WorkerError(late) if left < timeout and session.clock() >= plan.end - TO_REPORT else error from None

    session.start_worker = lambda: Asked(start(), ask)
    result = session.run()
    cut = tuple(run for run in result.runs if run.failure == late)
    not_run = (*(f"{run.parameters['workload']} {run.dtype} on {run.label}" for run in cut), *result.not_run)
    return msgspec.structs.replace(result, runs=tuple(run for run in result.runs if run not in cut), not_run=not_run)
