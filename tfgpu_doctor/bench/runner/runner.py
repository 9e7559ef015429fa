"""Drives the worker processes of a benchmark: one for each case, sampled in turns, verified, with deadlines."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import msgspec

from tfgpu_doctor.bench.devices import Job, Key
from tfgpu_doctor.bench.results import Check, Figure, Run, Verified
from tfgpu_doctor.bench.runner.process import PATIENCE, Clock, Worker, WorkerError, Workers, prepare
from tfgpu_doctor.bench.runner.telemetry import Telemetry, bus_ids, busy_seconds
from tfgpu_doctor.bench.samples import DISTURBED, lost_shares, samples_of
from tfgpu_doctor.bench.speeds import with_speed
from tfgpu_doctor.bench.statistics import StoppingRule, median
from tfgpu_doctor.bench.workloads.training import Judgement

WARM_UPS = 2
BLOCK = 0.25  # seconds of work asked for at once, so that the devices take turns often
STEPS = 0.1  # seconds that the steps of one sample shall take together, where a workload queues several
WATCHED = 1.0  # seconds, below which the ticks of 10 ms are too coarse to tell what other programs used


@dataclass
class Measurement:
    """One case while it is measured."""

    job: Job
    cpus: float | None = None  # that its process may use, where known
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
    steps: int = 1
    failure: str | None = None
    telemetry: Telemetry | None = None
    watched: float = 0.0  # seconds in which it is known what other programs used
    others: float = 0.0  # CPU seconds that they used
    elapsed: float = 0.0
    done: bool = False

    @property
    def current(self) -> list[float]:
        """The samples of the process at work."""
        return self.samples[self.begun[-1] :]

    def end(self) -> None:
        """The process at work has done its part; behind the last, stop watching its devices."""
        self.done = True
        if self.telemetry and (self.last or self.failure):
            self.telemetry.close()

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

    def judge(self, answer: dict[str, Any]) -> None:
        """Judge what the worker says of a result. Raises WorkerError: it is wrong, or the answer cannot be used."""
        try:
            verified = self.job.judge(answer, self.job.dtype, self.job.parameters)
            self.verified = msgspec.convert(tuple(verified), Judgement)
        except (LookupError, TypeError, ValueError, ArithmeticError) as error:  # a ValidationError is a ValueError
            raise WorkerError(f"the answer to 'verify' cannot be used: {type(error).__name__}: {error}") from error
        if not self.verified.ok:
            raise WorkerError(f"the result is wrong: {self.verified.why}")


def measure(
    jobs: Sequence[Job],
    workers: Workers,
    *,
    rule: StoppingRule,
    processes: int = 1,
    cpus: float | None = None,
    expected: float | None = None,
    keep: Collection[Key] = (),
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
        progress: gets what is done now, and how many of the cases are over, in parts.
        save: called whenever there is something worth keeping.
    """
    measurements = [Measurement(job, cpus) for job in jobs]
    turns = _Turns(
        workers=workers,
        keep=keep,
        rule=rule.share(processes),
        patience=max(PATIENCE, rule.deadline, 4 * (expected or 0.0)),
        warm_ups=1 if (expected or 0.0) > rule.deadline / 5 else WARM_UPS,
        clock=clock,
    )

    def show(job: Job, doing: str = "") -> None:
        over = sum(one.part(processes, turns.rule.deadline) for one in measurements)
        point = ", ".join(f"{name} {value}" for name, value in job.point.items())
        progress(" ".join(filter(None, (job.case.label, job.dtype, point))) + doing, over)

    try:
        for start in range(processes):
            for measurement in (one for one in measurements if not one.failure):
                measurement.begun.append(len(measurement.samples))
                measurement.elapsed, measurement.last, measurement.done = 0.0, start == processes - 1, False
                show(measurement.job, ": starting")
                turns.guarded(measurement, turns.start)
                save(measurements)
            while any(not measurement.done for measurement in measurements):
                for measurement in (one for one in measurements if not one.done):
                    show(measurement.job)
                    turns.guarded(measurement, turns.take)
                save(measurements)
    finally:
        for measurement in measurements:
            measurement.last = True
            measurement.end()
    return measurements


@dataclass(frozen=True)
class _Turns:
    """One turn of a case after the other."""

    workers: Workers
    keep: Collection[Key]
    rule: StoppingRule  # for one process
    patience: float  # seconds that an answer may take at least
    warm_ups: int
    clock: Clock

    def guarded(self, measurement: Measurement, turn: Callable[[Measurement], None]) -> None:
        """Take a turn; a case that is over ends its process, unless that is needed again."""
        key = measurement.job.key
        try:
            turn(measurement)
        except WorkerError as error:
            measurement.failure = measurement.job.explain(str(error))
            measurement.done = True
        if measurement.done:
            measurement.end()
            if measurement.failure or key not in self.keep or not measurement.last:
                self.workers.drop(key)

    def start(self, measurement: Measurement) -> None:
        """Start the process of a case, warm it up, and verify its result: later ones must be the same, or right."""
        job = measurement.job
        worker = measurement.worker = self.workers.take(job.key)
        cold, warmup = dict(prepare(worker, job)["cold"]), []
        steps, measurement.steps = measurement.steps, 1
        for _ in range(self.warm_ups):
            warmup += self._sampled(measurement, 1)["samples"]
        measurement.steps = steps
        if len(measurement.begun) == 1:  # start-up times are those of the first process, and its steps those of all
            measurement.cold, measurement.warmup = cold, warmup
            if job.blocks:
                measurement.steps = max(1, min(round(STEPS / max(warmup[-1], 1e-9)), 1000))
            measurement.telemetry = Telemetry(bus_ids(worker.log()) if job.case.gpus else {})

        def ask(**request: Any) -> dict[str, Any]:
            return self._ask(measurement, **request)

        measurement.judge(ask(do="verify", **job.verify(ask)))

    def take(self, measurement: Measurement) -> None:
        """Let a case take a block of samples; it ends when it has enough, or when its time is over."""
        rule = self.rule
        if measurement.job.case.virtual:  # its speed says nothing, so that its samples need not settle
            rule = replace(rule, precision=math.inf)
        typical = median(measurement.samples) if measurement.samples else median(measurement.warmup) * measurement.steps
        count = max(1, min(int(BLOCK / max(typical, 1e-9)), rule.max_samples - len(measurement.current), 500))
        started = self.clock()
        self._block(measurement, count)
        measurement.elapsed += self.clock() - started
        if not rule.done(measurement.current, measurement.elapsed):
            return
        over = measurement.elapsed >= rule.deadline or len(measurement.current) >= rule.max_samples
        if not over and measurement.disturbed(self.rule, measurement.begun[-1]):
            return  # enough samples, and too many of them disturbed by other programs
        if measurement.last and measurement.job.figures:
            answer = self._ask(measurement, do="figures")
            measurement.figures = tuple(msgspec.convert(answer["figures"], list[Figure]))
        if measurement.last and measurement.job.farewell:
            self._ask(measurement, do="farewell")
        measurement.done = True

    def _ask(self, measurement: Measurement, **request: Any) -> dict[str, Any]:
        assert measurement.worker is not None
        return measurement.worker.ask(max(self.patience, measurement.job.patience), **request)

    def _sampled(self, measurement: Measurement, count: int) -> dict[str, Any]:
        """Take a block of samples on the right devices, with right results."""
        # not by count: several samples are asked for only where all of them take about BLOCK seconds
        answer = self._ask(measurement, do="sample", count=count, steps=measurement.steps)
        measurement.placed_on = tuple(answer["placed_on"])
        if answer["misplaced"] or set(measurement.placed_on) != set(measurement.job.case.devices):
            raise WorkerError(answer["misplaced"] or f"computed on {', '.join(measurement.placed_on)}")
        for found in answer["rechecked"]:
            measurement.judge(found)
        return answer

    def _block(self, measurement: Measurement, count: int) -> None:
        """Take a block of samples that count, while the GPUs and the other programs are watched."""
        assert measurement.telemetry is not None
        measurement.telemetry.start()
        throttled: tuple[str, ...] = ()
        started, busy = time.monotonic(), busy_seconds()
        try:
            answer = self._sampled(measurement, count)
        finally:
            throttled = measurement.telemetry.pause()
        elapsed, samples = time.monotonic() - started, answer["samples"]
        if "busy" in answer:
            others = busy_seconds() - busy - answer["busy"]  # may be a tick below zero; over the blocks, ticks even out
            measurement.watched += elapsed
            measurement.others += others
            if answer.get("waited") is not None:
                # threads also wait for one another, so that it is at most what others used meanwhile
                measurement.waits += [min(answer["waited"], max(others, 0.0) / elapsed)] * len(samples)
        if throttled:
            measurement.throttled += range(len(measurement.samples), len(measurement.samples) + len(samples))
        measurement.samples += samples
        measurement.loads += answer["loads"]


def to_run(measurement: Measurement, rule: StoppingRule) -> Run:
    """Turn a measurement into a result. What is not verified carries no speed."""
    job, case, steps = measurement.job, measurement.job.case, measurement.steps
    found, samples = measurement.verified, tuple(measurement.samples)
    run = Run(
        label=case.label,
        devices=case.devices,
        dtype=job.dtype,
        spread=case.spread,
        virtual=case.virtual,
        placed_on=measurement.placed_on,
        parameters=dict(job.point),
        steps=steps,
        step_name=job.step_name,
        scaling=job.scaling,
        flop=None if job.flop is None else job.flop * steps,
        bytes_moved=None if job.bytes_moved is None else job.bytes_moved * steps,
        cold_start_s=measurement.cold,
        verified=_record(found, len(samples) + 1) if found else None,
        gpu=measurement.telemetry.summary(sum(samples)) if measurement.telemetry else (),
        failure=measurement.failure,
    )
    if measurement.failure or found is None or not found.ok or not samples:
        return run
    counts = (after - before for before, after in pairwise((*measurement.begun, len(samples))))
    measured = msgspec.structs.replace(
        run,
        computed_in=found.computed_in or job.dtype,
        warmup_s=tuple(measurement.warmup),
        samples_s=samples,
        processes=tuple(filter(None, counts)),
        cpu_load=_rounded(measurement.loads),
        cpu_wait=_rounded(measurement.waits if len(measurement.waits) == len(samples) else ()),
        throttled_samples=tuple(measurement.throttled),
        others_cpus=max(measurement.others / measurement.watched, 0.0) if measurement.watched >= WATCHED else None,
        stopped=None if case.virtual else rule.unmet(samples) or measurement.disturbed(rule),
    )
    counted = samples_of(measured, measurement.cpus).settled().all()
    measured = msgspec.structs.replace(measured, figures=(*job.derive(counted), *measurement.figures))
    return with_speed(measured, job.work * steps, job.unit, measurement.cpus)


def _record(found: Judgement, samples: int) -> Verified:
    fields = {name: value for name, value in found._asdict().items() if name in Verified.__struct_fields__}
    checks = tuple(Check(**check._asdict()) for check in found.checks)
    return Verified(**{**fields, "checks": checks, "samples": samples})


def _rounded(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(round(value, 3) for value in values)
