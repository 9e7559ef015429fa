"""Drives the worker processes of a benchmark: one for each case, sampled in turns, verified, with deadlines."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from tfgpu_doctor.bench.devices import Case
from tfgpu_doctor.bench.jobs import Job
from tfgpu_doctor.bench.results import Figure
from tfgpu_doctor.bench.runner.budget import Clock
from tfgpu_doctor.bench.runner.load import busy_seconds
from tfgpu_doctor.bench.runner.measurement import Measurement
from tfgpu_doctor.bench.runner.nvml import Telemetry, bus_ids
from tfgpu_doctor.bench.runner.process import Worker, WorkerError
from tfgpu_doctor.bench.runner.workers import PATIENCE, Key, Workers, prepare
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
