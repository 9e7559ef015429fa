"""One run of a benchmark: what every workload shares, from the first process to the result that is kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone

import msgspec
import psutil

from tfgpu_doctor import __version__
from tfgpu_doctor.bench.devices import Case, GpuFound
from tfgpu_doctor.bench.plans.base import HOST, Group, PlanBase
from tfgpu_doctor.bench.results import SCHEMA, BenchResult, Run
from tfgpu_doctor.bench.runner.process import Worker, WorkerError, Workers
from tfgpu_doctor.bench.runner.runner import Measurement, measure, to_run
from tfgpu_doctor.bench.samples import usable_cpus
from tfgpu_doctor.bench.speeds import About, advise, relate, with_peak
from tfgpu_doctor.bench.statistics import StoppingRule
from tfgpu_doctor.facts.facts import Facts, Known, value_or
from tfgpu_doctor.facts.report import Tool
from tfgpu_doctor.facts.units import count, seconds
from tfgpu_doctor.matrix.loader import Matrix

MANY = 6  # runs; of more, the labels are not listed
NO_GPU = "TensorFlow lists no GPU: only the CPU is measured. tfgpu doctor explains why."
VIRTUAL = "Virtual devices share one physical device: they test multi-device code, not speed."


class NoTensorFlowError(Exception):
    """TensorFlow cannot be used in the interpreter under test; the message says how it ended."""


@dataclass
class Session:
    """What is known while a benchmark runs."""

    plan: PlanBase
    matrix: Matrix
    environment: Facts
    start_worker: Callable[[], Worker]
    rule: StoppingRule = field(default_factory=StoppingRule)
    processes: int = 1  # of each case, one after the other
    progress: Callable[[str, float], None] = lambda *_: None
    announce: Callable[[str], object] = lambda _: None  # gets a line for people: how long it will take
    save: Callable[[BenchResult], None] = lambda _: None  # gets what there is, again and again
    created: str = field(default_factory=lambda: datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"))
    command: str = ""  # what was typed
    software: dict[str, str] = field(default_factory=dict)
    found: tuple[GpuFound, ...] = ()  # the GPUs that TensorFlow lists
    runs: tuple[Run, ...] = ()  # of the groups that are done; plans may choose the next by them
    first: Worker = field(init=False)  # the first process, greeted; plans find out sizes with it
    not_run: list[str] = field(default_factory=list)  # what was asked for and does not take place, with the reason
    clock: Callable[[], float] = time.monotonic
    total: float = 1.0  # runs that were announced
    done: float = 0.0  # of them

    def run(self) -> BenchResult:
        """Measure every group.

        Raises:
            DeviceError: GPUs were asked for that are not there.
            TooLargeError: something does not fit.
            CannotRunError: what was asked for cannot be measured.
            NoTensorFlowError: TensorFlow does not start.
        """
        self.progress("starting TensorFlow", 0.0)
        with Workers(self.start_worker) as workers:
            try:
                self.first, self.software, self.found = workers.first()
            except WorkerError as error:
                raise NoTensorFlowError(str(error)) from error
            for group in self.plan.groups(self):
                self.runs = self._measure(group, workers)
        result = self._result(self.runs)
        self.save(result)
        return result

    def begin(self, labels: Sequence[str], *, sampling: float | None = None, besides: int = 0) -> None:
        """Say how long all runs are sampled at most; plans call it before their first group.

        Args:
            labels: of all runs.
            sampling: seconds at most for the samples of all runs; None: the deadline of each.
            besides: what else is done, as so many runs.
        """
        runs, self.total = len(labels), float(len(labels) + besides)
        names = dict.fromkeys(labels)
        what = f"{count(runs, 'run')} ({'; '.join(names)})" if len(names) <= MANY else count(runs, "run")
        most = self.rule.deadline * runs if sampling is None else sampling
        self.announce(f"{what}: at most {seconds(most)} of sampling")

    def skip(self, runs: int) -> None:
        """So many of the runs that were announced do not take place."""
        self.done += runs

    def show(self, label: str, part: float = 0.0) -> None:
        """Show what is done now, and that `part` of a run more is over."""
        self.progress(label, min((self.done + part) / max(self.total, self.done + part, 1.0), 1.0))

    def _measure(self, group: Group, workers: Workers) -> tuple[Run, ...]:
        def keep(measured: Sequence[Measurement]) -> tuple[Run, ...]:
            """Save what there is: an interrupt must lose nothing."""
            runs = (*self.runs, *(to_run(one, group.rule or self.rule) for one in measured))
            self.save(msgspec.structs.replace(self._result(runs), unfinished=True))
            return runs

        measured = measure(
            group.jobs,
            workers,
            rule=group.rule or self.rule,
            processes=self.processes,
            cpus=self.cpus,
            expected=group.expected,
            keep=group.keep,
            progress=self.show,
            save=keep,
            clock=self.clock,
        )
        self.done += len(measured)
        return keep(measured)

    def free(self, cases: Sequence[Case]) -> dict[str | int, int]:
        """Bytes that are free, where that is known: of the host, and of the GPUs by TensorFlow's index."""
        limit, known = value_or(self.environment.host.memory_limit, 2**62), value_or(self.environment.gpus, ())
        free: dict[str | int, int] = {HOST: min(psutil.virtual_memory().available, limit)}
        if len({value_or(gpu.name, None) for gpu in known}) == 1:  # else the driver's order may not be TensorFlow's
            indices = {index for case in cases for index in case.gpus if index < len(known)}
            free |= {index: one.value for index in indices if isinstance(one := known[index].memory_free, Known)}
        return free

    @property
    def cpus(self) -> float | None:
        """How many CPUs a process may use at most, where that is known."""
        return usable_cpus(self.environment)

    def _result(self, runs: Sequence[Run]) -> BenchResult:
        about = About.of(self.plan.workload, self.environment, self.plan.parameters())
        related = advise(relate([with_peak(run, self.environment, self.matrix) for run in runs]), about)
        advised = tuple(
            msgspec.structs.replace(run, advice=(*run.advice, *self.plan.advice(run, related))) for run in related
        )
        notes = [NO_GPU] if not self.found else []
        notes += [VIRTUAL] if any(run.virtual for run in runs) else []
        return BenchResult(
            schema=SCHEMA,
            tool=Tool(name="tfgpu", version=__version__),
            created=self.created,
            environment=self.environment,
            workload=self.plan.workload,
            title=self.plan.title(),
            parameters={
                **self.plan.parameters(),
                "min_samples": self.rule.min_samples,
                "deadline_s": self.rule.deadline,
                "processes": self.processes,
            },
            runs=advised,
            not_run=tuple(self.not_run),
            conclusions=tuple(self.plan.conclusions(runs)),
            notes=(*notes, *self.plan.notes(runs)),
            command=self.command,
            software=self.software,
        )
