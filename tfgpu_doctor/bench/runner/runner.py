"""Drives the worker processes of a benchmark: one for each case, sampled in turns, verified, with deadlines."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
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
from tfgpu_doctor.bench.runner.schedule import Schedule, Start
from tfgpu_doctor.bench.runner.workers import PATIENCE, Key, Workers, prepare
from tfgpu_doctor.bench.statistics import StoppingRule, median
from tfgpu_doctor.bench.workloads.judgement import Judgement

WARM_UPS = 2
BLOCK = 0.25  # seconds of work asked for at once, so that the devices take turns often
STEPS = 0.1  # seconds that the steps of one sample shall take together, where a workload queues several
LEAST = 10.0  # seconds up to which cases get their least number of samples, however long their processes took to start
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
    progress: Callable[[str, float], None] = lambda *_: None,
    save: Callable[[Sequence[Measurement]], object] = lambda _: None,
    schedule: Schedule | None = None,
) -> list[Measurement]:
    """Measure all cases of a group side by side; one for which there is no time is not run, and is left out.

    Args:
        processes: how many processes each case gets, one after the other; they share the time and the samples.
        cpus: that a process may use, where known: a case goes on until enough samples were undisturbed by others.
        expected: seconds that a sample of the slowest device will take, where known: one that takes longer than a
            third of the deadline is warmed up only once, and given time.
        keep: processes that will be needed again; the others end with their case.
        profile: a folder for traces of some more steps of each case.
        save: called whenever there is something worth keeping.
        schedule: the time that all runs of the benchmark share.
    """
    schedule = schedule or Schedule()
    clock, measurements = schedule.clock, [Measurement(case, job, cpus=cpus) for case, job in group]
    schedule.begin_group(len(group))
    began = clock()
    turns = _Turns(
        workers=workers,
        keep=keep,
        rule=rule.share(processes),
        patience=max(PATIENCE, rule.deadline, 4 * (expected or 0.0)),
        warm_ups=1 if (expected or 0.0) > rule.deadline / 3 else WARM_UPS,
        profile=profile,
        clock=clock,
    )
    try:
        for start in range(processes):
            alive = [measurement for measurement in measurements if not measurement.failure]
            for measurement in alive:
                needed = _least(measurements, turns.rule, 1)
                measurement.begin(last=start == processes - 1)
                progress(f"{_name(measurement)}: starting", schedule.progress())
                if not turns.start(measurement, schedule, needed):
                    schedule.not_run.append(_name(measurement))
                    measurements[:] = [one for one in measurements if one is not measurement]
                save(measurements)
            share = (start + 1) / processes
            end = schedule.until if share == 1 else began + (schedule.until - began) * share
            end = max(end, clock() + min(LEAST, _least(measurements, turns.rule)))
            _take_turns(turns, measurements, end, schedule, progress, save)
    finally:
        for measurement in measurements:
            measurement.last = True
            measurement.end()
    schedule.end_group()
    return measurements


def _least(measurements: Sequence[Measurement], rule: StoppingRule, more: int = 0) -> float:
    """Seconds that the least number of samples takes of all cases that have begun, and of so many more like them."""
    each = [one.least(rule) for one in measurements if one.begun and not one.done]
    return sum(each) + more * max(each, default=min(rule.min_seconds, rule.deadline))


def _take_turns(
    turns: _Turns,
    measurements: Sequence[Measurement],
    end: float,
    schedule: Schedule,
    progress: Callable[[str, float], None],
    save: Callable[[Sequence[Measurement]], object],
) -> None:
    """Let the cases take samples in turns, until each has enough or the time is over."""
    while any(not measurement.done for measurement in measurements):
        for measurement in measurements:
            if not measurement.done:
                turns.take(measurement, end)
                finished = sum(one.done and one.last for one in measurements)
                progress(_name(measurement), schedule.progress(finished))
        save(measurements)


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

    def start(self, measurement: Measurement, schedule: Schedule, needed: float) -> bool:
        """Start the process of a case, warm it up, and verify its result; False: there is, or was, no time for that.

        Args:
            needed: seconds of samples for which there must be time as well.
        """
        patience, first = max(self.patience, measurement.job.patience), self.clock()
        kind = Start(measurement.case.label, not self.workers.is_alive(measurement.key))
        # not for another process of a case, nor where other machines wait for it
        if is_limited := bool(len(measurement.begun) == 1 and schedule.starts and not measurement.job.farewell):
            if not schedule.has_room(kind, needed):
                measurement.end()
                return False
            schedule.limit.set(schedule.end - first)
        try:
            measurement.worker = self.workers.take(measurement.key)
            _warm_up(measurement, measurement.worker, patience, self.warm_ups)
            _verify(measurement, measurement.worker, patience)
        except WorkerError as error:
            measurement.fail(measurement.job.explain(str(error)))
            self._end(measurement)
            return not schedule.limit.ran_out
        finally:
            schedule.started(kind, self.clock() - first)
            if is_limited:
                schedule.limit.set(math.inf)
        return True

    def take(self, measurement: Measurement, end: float) -> None:
        """Let a case take a block of samples; it ends when it has enough, or when the time of all is over."""
        assert measurement.worker is not None
        rule, patience = self.rule, max(self.patience, measurement.job.patience)
        typical = median(measurement.samples) if measurement.samples else median(measurement.warmup) * measurement.steps
        count = max(1, min(int(BLOCK / max(typical, 1e-9)), rule.max_samples - len(measurement.current), 500))
        started = self.clock()
        try:
            _take(measurement, measurement.worker, count, patience, measurement.samples, measurement.loads)
            measurement.elapsed += self.clock() - started
            enough = rule.done(measurement.current, measurement.elapsed) and not self._goes_on(measurement)
            if enough or self.clock() >= end:
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
