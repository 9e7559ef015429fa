"""One case while it is measured, and the run that it becomes."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import msgspec

from tfgpu_doctor.bench.comparing.cpu_contention import DISTURBED, lost_shares
from tfgpu_doctor.bench.comparing.ratio_interval import Samples, interval
from tfgpu_doctor.bench.devices import Case
from tfgpu_doctor.bench.jobs import Job
from tfgpu_doctor.bench.results import Check, Figure, Run, Throughput, Verified
from tfgpu_doctor.bench.runner.load import OtherPrograms
from tfgpu_doctor.bench.runner.nvml import Telemetry
from tfgpu_doctor.bench.runner.process import Worker
from tfgpu_doctor.bench.runner.workers import Key
from tfgpu_doctor.bench.statistics import StoppingRule, iqr_spread, median, median_interval
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
    said: tuple[str, ...] = ()  # by the workload, for people
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


def to_run(one: Measurement, rule: StoppingRule) -> Run:
    """Turn a measurement into a result. What is not verified carries no speed."""
    job, case = one.job, one.case
    flop, moved = job.flop(case), job.bytes_moved(case)
    run = Run(
        label=case.label,
        devices=case.devices,
        dtype=one.dtype,
        spread=case.spread,
        virtual=case.virtual,
        placed_on=one.placed_on,
        parameters=dict(job.point),
        steps=one.steps,
        step_name=job.step_name,
        scaling=job.scaling(case),
        flop=None if flop is None else flop * one.steps,
        bytes_moved=None if moved is None else moved * one.steps,
        cold_start_s=one.cold,
        verified=_record(one),
        gpu=one.telemetry.summary() if one.telemetry else (),
        failure=one.failure,
    )
    if one.failure or one.verified is None or not one.verified.ok or not one.samples:
        return run
    low, high = _interval(one)
    middle = median(one.samples)
    work = job.work(case) * one.steps
    return msgspec.structs.replace(
        run,
        computed_in=one.verified.computed_in or one.dtype,
        warmup_s=tuple(one.warmup),
        samples_s=tuple(one.samples),
        processes=tuple(count for count in one.processes() if count),
        cpu_load=tuple(round(load, 3) for load in one.loads),
        cpu_wait=tuple(round(wait, 3) for wait in one.waits) if len(one.waits) == len(one.samples) else (),
        throttled_samples=tuple(one.throttled),
        others_cpus=one.others.cpus(),
        median_s=middle,
        ci95_s=(low, high),
        spread_iqr=iqr_spread(one.samples),
        throughput=Throughput(value=work / middle, unit=job.unit, ci95=(work / high, work / low)),
        figures=(*job.derive(case, one.samples), *one.figures),
        advice=one.said,
        stopped=rule.unmet(one.samples) or one.disturbed(rule),
    )


def _interval(one: Measurement) -> tuple[float, float]:
    """A 95 % interval for the median: of one process by its samples, which are all there is to go by; else by what the
    processes say, since samples of one process are not independent."""
    low, high = median_interval(one.samples)
    edges = (*one.begun, len(one.samples))
    parts = [tuple(one.samples[before:after]) for before, after in pairwise(edges) if before < after]
    if len(parts) < 2:
        return low, high
    least, most = interval(Samples(tuple(parts)))
    return min(low, least), max(high, most)


def _record(one: Measurement) -> Verified | None:
    found = one.verified
    if found is None:
        return None
    return Verified(
        ok=found.ok,
        residual=found.residual,
        tolerance=found.tolerance,
        method=found.method,
        worst_row=found.worst_row,
        row_tolerance=found.row_tolerance,
        samples=len(one.samples) + 1,
        checks=tuple(Check(name=check.name, ok=check.ok, saw=check.saw) for check in found.checks),
    )
