"""Drives the worker processes of a benchmark: one for each case, sampled in turns, verified, with deadlines."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from tfgpu_doctor.bench.devices import Case, Job
from tfgpu_doctor.bench.results import Check, Figure, Run, Verified
from tfgpu_doctor.bench.runner.process import Worker, WorkerError
from tfgpu_doctor.bench.runner.telemetry import OtherPrograms, Telemetry, bus_ids, busy_seconds
from tfgpu_doctor.bench.runner.workers import PATIENCE, Clock, Key, Workers, prepare
from tfgpu_doctor.bench.samples import DISTURBED, lost_shares
from tfgpu_doctor.bench.speeds import settled, with_speed
from tfgpu_doctor.bench.statistics import StoppingRule, median
from tfgpu_doctor.bench.workloads.judgement import Judgement

WARM_UPS = 2
BLOCK = 0.25  # seconds of work asked for at once, so that the devices take turns often
STEPS = 0.1  # seconds that the steps of one sample shall take together, where a workload queues several
PROFILED = 10  # steps that a trace holds at most
TRACE = ".xplane.pb"  # what TensorBoard's profile plugin opens
_SEPARATORS = re.compile(r"[^A-Za-z0-9]+")


def measure(
    group: Sequence[tuple[Case, Job]],
    workers: Workers,
    *,
    rule: StoppingRule,
    processes: int = 1,
    cpus: float | None = None,
    expected: float | None = None,
    keep: Collection[Key] = (),
    profile: Path | None = None,
    progress: Callable[[str, float], object] = lambda *_: None,
    save: Callable[[Sequence[Measurement]], object] = lambda _: None,
    clock: Clock = time.monotonic,
) -> list[Measurement]:
    """Measure all cases of a group side by side, each until it has enough samples or its own deadline has come.

    Args:
        processes: how many processes each case gets, one after the other; they share the time and the samples.
        cpus: that a process may use, where known: a case goes on until enough samples were undisturbed by others.
        expected: seconds that a sample of the slowest device will take, where known: one that takes longer than a
            fifth of the deadline is warmed up only once.
        keep: processes that will be needed again; the others end with their case.
        profile: a folder for traces of some more steps of each case.
        progress: gets what is done now, and how many of the cases are over, in parts.
        save: called whenever there is something worth keeping.
    """
    measurements = [Measurement(case, job, cpus=cpus) for case, job in group]
    turns = _Turns(
        workers=workers,
        keep=keep,
        rule=rule.share(processes),
        patience=max(PATIENCE, rule.deadline, 4 * (expected or 0.0)),
        warm_ups=1 if (expected or 0.0) > rule.deadline / 5 else WARM_UPS,
        profile=profile,
        clock=clock,
    )

    def show(measurement: Measurement, doing: str = "") -> None:
        progress(_name(measurement) + doing, sum(one.part(processes, turns.rule.deadline) for one in measurements))

    try:
        for start in range(processes):
            for measurement in (one for one in measurements if not one.failure):
                measurement.begin(last=start == processes - 1)
                show(measurement, ": starting")
                turns.start(measurement)
                save(measurements)
            while any(not measurement.done for measurement in measurements):
                for measurement in (one for one in measurements if not one.done):
                    show(measurement)
                    turns.take(measurement)
                save(measurements)
    finally:
        for measurement in measurements:
            measurement.last = True
            measurement.end()
    return measurements


@dataclass(frozen=True)
class _Turns:
    """What every turn of a case needs to know."""

    workers: Workers
    keep: Collection[Key]
    rule: StoppingRule  # for one process
    patience: float  # seconds that an answer may take at least
    warm_ups: int
    profile: Path | None
    clock: Clock

    def start(self, measurement: Measurement) -> None:
        """Start the process of a case, warm it up, and verify its result."""
        patience = max(self.patience, measurement.job.patience)
        try:
            measurement.worker = self.workers.take(measurement.key)
            _warm_up(measurement, measurement.worker, patience, self.warm_ups)
            _verify(measurement, measurement.worker, patience)
        except WorkerError as error:
            measurement.fail(measurement.job.explain(str(error)))
            self._end(measurement)

    def take(self, measurement: Measurement) -> None:
        """Let a case take a block of samples; it ends when it has enough, or when its time is over."""
        assert measurement.worker is not None
        rule, patience = self.rule, max(self.patience, measurement.job.patience)
        if measurement.case.virtual:  # its speed says nothing, so that its samples need not settle
            rule = replace(rule, precision=math.inf)
        typical = median(measurement.samples) if measurement.samples else median(measurement.warmup) * measurement.steps
        count = max(1, min(int(BLOCK / max(typical, 1e-9)), rule.max_samples - len(measurement.current), 500))
        started = self.clock()
        try:
            _take(measurement, measurement.worker, count, patience, measurement.samples, measurement.loads)
            measurement.elapsed += self.clock() - started
            if rule.done(measurement.current, measurement.elapsed) and not self._goes_on(measurement):
                if measurement.last:
                    _finish(measurement, measurement.worker, patience, self.profile)
                measurement.end()
        except WorkerError as error:
            measurement.fail(measurement.job.explain(str(error)))
        if measurement.done:
            self._end(measurement)

    def _goes_on(self, measurement: Measurement) -> bool:
        """Whether a case with enough samples takes more, because other programs disturbed too many of them."""
        disturbed = measurement.disturbed(self.rule, measurement.begun[-1])
        return (
            bool(disturbed)
            and measurement.elapsed < self.rule.deadline
            and len(measurement.current) < self.rule.max_samples
        )

    def _end(self, measurement: Measurement) -> None:
        """End the process of a case, unless it is needed again."""
        measurement.end()
        if measurement.failure or measurement.key not in self.keep or not measurement.last:
            self.workers.drop(measurement.key)


def _name(measurement: Measurement) -> str:
    point = ", ".join(f"{name} {value}" for name, value in measurement.job.point.items())
    return " ".join(part for part in (measurement.case.label, measurement.dtype, point) if part)


def _warm_up(measurement: Measurement, worker: Worker, patience: float, count: int) -> None:
    """Put the inputs on the devices and compute what need not be quick yet."""
    cold = dict(prepare(worker, measurement.case, measurement.job)["cold"])
    warmup: list[float] = []
    steps, measurement.steps = measurement.steps, 1
    for _ in range(count):
        _take(measurement, worker, 1, patience, warmup, [])
    if len(measurement.begun) > 1:  # the start-up times are those of the first process, and all samples have its steps
        measurement.steps = steps
        return
    measurement.cold, measurement.warmup = cold, warmup
    if measurement.job.blocks:
        measurement.steps = max(1, min(round(STEPS / max(warmup[-1], 1e-9)), 1000))
    measurement.telemetry = Telemetry(bus_ids(worker.log()) if measurement.case.gpus else {})


def _take(
    measurement: Measurement, worker: Worker, count: int, patience: float, into: list[float], loads: list[float]
) -> None:
    """Take a block of samples, of the warm-up or of those that count."""
    telemetry = measurement.telemetry if into is measurement.samples else None
    if telemetry:
        telemetry.start()
    throttled: tuple[str, ...] = ()
    started, busy = time.monotonic(), busy_seconds()
    try:
        # not by count: several samples are asked for only where all of them take about BLOCK seconds
        answer = worker.ask(patience, do="sample", count=count, steps=measurement.steps)
    finally:
        if telemetry:
            throttled = telemetry.pause()
    elapsed, everybody = time.monotonic() - started, busy_seconds() - busy
    if "busy" in answer:
        measurement.others.add(elapsed, everybody, answer["busy"])
    measurement.placed_on = tuple(answer["placed_on"])
    if answer["misplaced"] or set(measurement.placed_on) != set(measurement.case.devices):
        raise WorkerError(answer["misplaced"] or f"computed on {', '.join(measurement.placed_on)}")
    for found in answer["rechecked"]:
        _judge(measurement, found)
    if throttled:
        measurement.throttled += range(len(into), len(into) + len(answer["samples"]))
    into += answer["samples"]
    loads += answer["loads"]
    if into is measurement.samples and answer.get("waited") is not None and "busy" in answer:
        # threads also wait for one another, so that it is at most what others used meanwhile
        others = max(everybody - answer["busy"], 0.0) / elapsed
        measurement.waits += [min(answer["waited"], others)] * len(answer["samples"])


def _verify(measurement: Measurement, worker: Worker, patience: float) -> None:
    """Judge the last result; later ones must be the same, or right themselves."""
    asked = measurement.job.verify(partial(worker.ask, patience), measurement.case)
    _judge(measurement, worker.ask(patience, do="verify", **asked))


def _judge(measurement: Measurement, answer: dict[str, Any]) -> None:
    try:
        verified = measurement.job.judge(answer, measurement.dtype, measurement.job.parameters)
        measurement.verified = msgspec.convert(tuple(verified), Judgement)
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:  # a ValidationError is a ValueError
        raise WorkerError(f"the answer to 'verify' cannot be used: {type(error).__name__}: {error}") from error
    if not measurement.verified.ok:
        raise WorkerError(f"the result is wrong: {measurement.verified.why}")


def _finish(measurement: Measurement, worker: Worker, patience: float, profile: Path | None) -> None:
    """What is asked behind the last sample: figures, a trace, and to tell others that this is the end."""
    if measurement.job.figures:
        answer = worker.ask(patience, do="figures")
        measurement.figures = tuple(msgspec.convert(answer["figures"], list[Figure]))
        measurement.remarks = tuple(answer.get("remarks", ()))
    if profile is not None:
        folder = profile / _SEPARATORS.sub("-", _name(measurement)).strip("-")
        try:
            files = worker.ask(patience, do="profile", folder=str(folder), steps=min(measurement.steps, PROFILED))[
                "files"
            ]
            why = "" if any(file.endswith(TRACE) for file in files) else f"no {TRACE} was written"
        except WorkerError as error:  # what was measured stands
            why = str(error)
        if why:
            measurement.remarks = (*measurement.remarks, f"no profile: {why}")
    if measurement.job.farewell:
        worker.ask(patience, do="farewell")


# ---------------------------------------------------------------------------------------------------------------------
# One case while it is measured, and the run that it becomes.


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
