"""One case while it is measured, and the run that it becomes."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import msgspec

from tfgpu_doctor.bench.devices import Case
from tfgpu_doctor.bench.jobs import Job
from tfgpu_doctor.bench.results import Check, Figure, Run, Verified
from tfgpu_doctor.bench.runner.load import OtherPrograms
from tfgpu_doctor.bench.runner.nvml import Telemetry
from tfgpu_doctor.bench.runner.process import Worker
from tfgpu_doctor.bench.runner.workers import Key
from tfgpu_doctor.bench.samples import DISTURBED, lost_shares
from tfgpu_doctor.bench.speeds import settled, with_speed
from tfgpu_doctor.bench.statistics import StoppingRule
from tfgpu_doctor.bench.workloads.judgement import Judgement


@dataclass
class Measurement:
    """One case while it is measured."""

    case: Case
    job: Job
    worker: Worker | None = None
    cold: dict[str, float] = field(default_factory=dict)
    warmup: list[float] = field(default_factory=list)
    samples: list[float] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    begun: list[int] = field(default_factory=list)  # places in `samples` at which a process began
    last: bool = True  # whether the process is the last of this case
    throttled: list[int] = field(default_factory=list)  # places in `samples`
    placed_on: tuple[str, ...] = ()
    verified: Judgement | None = None
    figures: tuple[Figure, ...] = ()
    remarks: tuple[str, ...] = ()  # of the workload, for people
    steps: int = 1
    failure: str | None = None
    telemetry: Telemetry | None = None
    others: OtherPrograms = field(default_factory=OtherPrograms)
    cpus: float | None = None  # that its process may use, where known
    elapsed: float = 0.0
    done: bool = False

    @property
    def dtype(self) -> str:
        """The type in which it computes."""
        return self.job.dtype_on(self.case)

    @property
    def key(self) -> Key:
        """Which process it has."""
        return self.case.label + self.job.process, self.dtype

    def fail(self, why: str) -> None:
        """Give the case up."""
        self.failure = why
        self.end()

    def begin(self, *, last: bool) -> None:
        """Start on a process."""
        self.begun.append(len(self.samples))
        self.elapsed = 0.0
        self.last = last
        self.done = False

    @property
    def current(self) -> list[float]:
        """The samples of the process at work."""
        return self.samples[self.begun[-1] :]

    def part(self, processes: int, deadline: float) -> float:
        """How much of it is over, from 0 to 1: of each process a third when it has started, then by its deadline."""
        if self.done and (self.last or self.failure):
            return 1.0
        at_work = (1 + 2 * min(self.elapsed / deadline, 1.0)) / 3 if self.worker and not self.done else 0.0
        return (max(len(self.begun) - (not self.done), 0) + at_work) / processes

    def disturbed(self, rule: StoppingRule, since: int = 0) -> str | None:
        """Say how few samples from place `since` on other programs left alone, where too few; None where enough are."""
        if self.cpus is None or len(self.waits) < len(self.samples):
            return None
        shares = lost_shares(self.loads[since:], self.waits[since:], self.cpus)
        calm = sum(share <= DISTURBED for share in shares)
        enough = calm >= rule.min_samples or calm == len(shares)
        return None if enough else f"only {calm} of {rule.min_samples} samples undisturbed by other programs"

    def processes(self) -> tuple[int, ...]:
        """How many samples each process gave."""
        edges = (*self.begun, len(self.samples))
        return tuple(after - before for before, after in pairwise(edges))

    def end(self) -> None:
        """The process at work has done its part; behind the last, stop watching its devices."""
        self.done = True
        if self.telemetry and (self.last or self.failure):
            self.telemetry.close()


def to_run(measurement: Measurement, rule: StoppingRule) -> Run:
    """Turn a measurement into a result. What is not verified carries no speed."""
    job, case = measurement.job, measurement.case
    flop, moved = job.flop(case), job.bytes_moved(case)
    run = Run(
        label=case.label,
        devices=case.devices,
        dtype=measurement.dtype,
        spread=case.spread,
        virtual=case.virtual,
        placed_on=measurement.placed_on,
        parameters=dict(job.point),
        steps=measurement.steps,
        step_name=job.step_name,
        scaling=job.scaling(case),
        flop=None if flop is None else flop * measurement.steps,
        bytes_moved=None if moved is None else moved * measurement.steps,
        cold_start_s=measurement.cold,
        verified=_record(measurement),
        gpu=measurement.telemetry.summary() if measurement.telemetry else (),
        failure=measurement.failure,
    )
    if measurement.failure or measurement.verified is None or not measurement.verified.ok or not measurement.samples:
        return run
    return _measured(measurement, run, measurement.verified, rule)


def _measured(measurement: Measurement, run: Run, verified: Judgement, rule: StoppingRule) -> Run:
    """The run with its samples, and with what they say."""
    job, case = measurement.job, measurement.case
    measured = msgspec.structs.replace(
        run,
        computed_in=verified.computed_in or measurement.dtype,
        warmup_s=tuple(measurement.warmup),
        samples_s=tuple(measurement.samples),
        processes=tuple(count for count in measurement.processes() if count),
        cpu_load=tuple(round(load, 3) for load in measurement.loads),
        cpu_wait=tuple(round(wait, 3) for wait in measurement.waits)
        if len(measurement.waits) == len(measurement.samples)
        else (),
        throttled_samples=tuple(measurement.throttled),
        others_cpus=measurement.others.cpus(),
        advice=measurement.remarks,
        stopped=None if case.virtual else rule.unmet(measurement.samples) or measurement.disturbed(rule),
    )
    counted = settled(measured, measurement.cpus).all()
    measured = msgspec.structs.replace(measured, figures=(*job.derive(case, counted), *measurement.figures))
    return with_speed(measured, job.work(case) * measurement.steps, job.unit, measurement.cpus)


def _record(measurement: Measurement) -> Verified | None:
    found = measurement.verified
    if found is None:
        return None
    return Verified(
        ok=found.ok,
        residual=found.residual,
        tolerance=found.tolerance,
        method=found.method,
        worst_row=found.worst_row,
        row_tolerance=found.row_tolerance,
        samples=len(measurement.samples) + 1,
        checks=tuple(Check(name=check.name, ok=check.ok, saw=check.saw) for check in found.checks),
    )
