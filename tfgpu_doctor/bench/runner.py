"""Drives the worker processes of a benchmark: one for each case, sampled in turns, verified, with deadlines."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from tfgpu_doctor.bench.devices import Case, GpuFound
from tfgpu_doctor.bench.disturbance import DISTURBED, lost_shares
from tfgpu_doctor.bench.jobs import Job
from tfgpu_doctor.bench.results import Check, Figure, Run, Throughput, Verified
from tfgpu_doctor.bench.runner_load import OtherPrograms, busy_seconds
from tfgpu_doctor.bench.runner_nvml import Telemetry, bus_ids
from tfgpu_doctor.bench.runner_process import Worker, WorkerError
from tfgpu_doctor.bench.shift import Samples, interval
from tfgpu_doctor.bench.statistics import StoppingRule, iqr_spread, median, median_interval
from tfgpu_doctor.bench.workloads.judgement import Judgement

START = 300.0  # seconds for import, device initialisation and inputs; a first CUDA start may compile PTX for long
WARM_UPS = 2
BLOCK = 0.25  # seconds of work asked for at once, so that the devices take turns often
STEPS = 0.1  # seconds that the steps of one sample shall take together, where a workload queues several
PATIENCE = 60.0  # seconds that a sample may always take
PROFILED = 10  # steps that a trace holds at most
TRACE = ".xplane.pb"  # what TensorBoard's profile plugin opens
_SEPARATORS = re.compile(r"[^A-Za-z0-9]+")

Clock = Callable[[], float]
Key = tuple[str, str]  # label and type: what one process is for


def hello(worker: Worker) -> tuple[dict[str, str], tuple[GpuFound, ...]]:
    """Import TensorFlow in a worker: its versions, and the GPUs it lists.

    Raises:
        WorkerError: TensorFlow cannot be imported there.
    """
    answer = worker.ask(START, do="hello")
    software = {name: str(answer[name]) for name in ("tensorflow", "numpy", "python")}
    return software, tuple(GpuFound(gpu["name"], gpu["compute_capability"]) for gpu in answer["gpus"])


class Workers:
    """The processes that are alive, one for each case and type; a case that is measured at several sizes keeps its own.

    Use as a context manager: leaving the block ends them all.
    """

    def __init__(self, start: Callable[[], Worker]) -> None:
        """None is started yet."""
        self._start = start
        self._alive: dict[Key, Worker] = {}
        self._spare: list[Worker] = []  # started and greeted, not used for any case yet

    def first(self) -> tuple[Worker, dict[str, str], tuple[GpuFound, ...]]:
        """Start one, and say what it told of itself.

        Raises:
            WorkerError: TensorFlow cannot be imported there.
        """
        self._spare.append(self._start())
        software, found = hello(self._spare[0])
        return self._spare[0], software, found

    def take(self, key: Key) -> Worker:
        """The process of a case, started where there is none.

        Raises:
            WorkerError: it does not start.
        """
        if key not in self._alive:
            self._alive[key] = self._spare.pop() if self._spare else self._start_one()
        return self._alive[key]

    def _start_one(self) -> Worker:
        worker = self._start()
        try:
            hello(worker)
        except BaseException:
            worker.close()
            raise
        return worker

    def drop(self, key: Key) -> None:
        """End the process of a case, and free the memory of its devices."""
        if worker := self._alive.pop(key, None):
            worker.close()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        for worker in (*self._spare, *self._alive.values()):
            worker.close()
        self._spare.clear()
        self._alive.clear()


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
        return None if enough else f"{calm} of {rule.min_samples} samples undisturbed by other programs"

    def processes(self) -> tuple[int, ...]:
        """How many samples each process gave."""
        edges = (*self.begun, len(self.samples))
        return tuple(after - before for before, after in pairwise(edges))

    def end(self) -> None:
        """The process at work has done its part; behind the last, stop watching its devices."""
        self.done = True
        if self.telemetry and (self.last or self.failure):
            self.telemetry.close()


def prepare(worker: Worker, case: Case, job: Job) -> dict[str, Any]:
    """Let a worker put its inputs on the devices of a case."""
    return worker.ask(
        START,
        do="prepare",
        workload=job.workload,
        parameters=job.parameters,
        dtype=job.dtype_on(case),
        devices=list(case.devices),
        gpus=list(case.gpus),
        spread=case.spread,
        virtual=case.virtual,
        virtual_memory_mib=job.virtual_memory_mib,
    )


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
    progress: Callable[[str, float], None] = lambda label, done: None,
    save: Callable[[Sequence[Measurement]], object] = lambda measurements: None,
    clock: Clock = time.monotonic,
) -> list[Measurement]:
    """Measure all cases of a group side by side.

    Args:
        processes: how many processes each case gets, one after the other; they share the time and the samples.
        cpus: that a process may use, where known: a case goes on until enough samples were undisturbed by others.
        expected: seconds that a sample of the slowest device will take, where known: one that takes longer than a
            third of the deadline is warmed up only once, and given time.
        keep: processes that will be needed again; the others end with their case.
        profile: a folder for traces of some more steps of each case.
        save: called whenever there is something worth keeping.
    """
    measurements = [Measurement(case, job, cpus=cpus) for case, job in group]
    least = max(PATIENCE, rule.deadline, 4 * (expected or 0.0))
    rule = rule.share(processes)
    warm_ups = 1 if (expected or 0.0) > rule.deadline / 3 else WARM_UPS

    def end(one: Measurement) -> None:
        one.end()
        if one.failure or one.key not in keep or not one.last:
            workers.drop(one.key)

    try:
        for start in range(processes):
            alive = [one for one in measurements if not one.failure]
            for one in alive:
                one.begin(last=start == processes - 1)
                progress(f"{_name(one)}: starting", start / processes)
                try:
                    one.worker = workers.take(one.key)
                    _warm_up(one, one.worker, max(least, one.job.patience), warm_ups)
                    _verify(one, one.worker, max(least, one.job.patience))
                except WorkerError as error:
                    one.fail(one.job.explain(str(error)))
                    end(one)
                save(measurements)
            while any(not one.done for one in alive):
                for one in alive:
                    if not one.done:
                        _turn(one, rule, max(least, one.job.patience), clock, profile)
                        progress(_name(one), (start + _share(one, rule)) / processes)
                        if one.done:
                            end(one)
                save(measurements)
    finally:
        for one in measurements:
            one.last = True
            one.end()
    return measurements


def _name(one: Measurement) -> str:
    point = ", ".join(f"{name} {value}" for name, value in one.job.point.items())
    return " ".join(part for part in (one.case.label, one.dtype, point) if part)


def _warm_up(one: Measurement, worker: Worker, patience: float, count: int) -> None:
    """Put the inputs on the devices and compute what need not be quick yet."""
    cold = dict(prepare(worker, one.case, one.job)["cold"])
    warmup: list[float] = []
    steps, one.steps = one.steps, 1
    for _ in range(count):
        _take(one, worker, 1, patience, warmup, [])
    if len(one.begun) > 1:  # what is told of the start is that of the first process, and all samples have its steps
        one.steps = steps
        return
    one.cold, one.warmup = cold, warmup
    if one.job.blocks:
        one.steps = max(1, min(round(STEPS / max(warmup[-1], 1e-9)), 1000))
    one.telemetry = Telemetry(bus_ids(worker.log()) if one.case.gpus else {})


def _take(one: Measurement, worker: Worker, count: int, patience: float, into: list[float], loads: list[float]) -> None:
    """Take a block of samples, of the warm-up or of those that count."""
    telemetry = one.telemetry if into is one.samples else None
    if telemetry:
        telemetry.start()
    throttled: tuple[str, ...] = ()
    started, busy = time.monotonic(), busy_seconds()
    try:
        # not by count: several samples are asked for only where all of them take about BLOCK seconds
        answer = worker.ask(patience, do="sample", count=count, steps=one.steps)
    finally:
        if telemetry:
            throttled = telemetry.pause()
    elapsed, everybody = time.monotonic() - started, busy_seconds() - busy
    if "busy" in answer:
        one.others.add(elapsed, everybody, answer["busy"])
    one.placed_on = tuple(answer["placed_on"])
    if answer["misplaced"] or set(one.placed_on) != set(one.case.devices):
        raise WorkerError(answer["misplaced"] or f"computed on {', '.join(one.placed_on)}")
    for found in answer["rechecked"]:
        _judge(one, found)
    if throttled:
        one.throttled += range(len(into), len(into) + len(answer["samples"]))
    into += answer["samples"]
    loads += answer["loads"]
    if into is one.samples and answer.get("waited") is not None:
        # threads also wait for one another, so that it is at most what others used meanwhile
        others = max(everybody - answer["busy"], 0.0) / elapsed
        one.waits += [min(answer["waited"], others)] * len(answer["samples"])


def _verify(one: Measurement, worker: Worker, patience: float) -> None:
    """Judge the last result; later ones must be the same, or right themselves."""
    asked = one.job.verify(partial(worker.ask, patience), one.case)
    _judge(one, worker.ask(patience, do="verify", **asked))


def _judge(one: Measurement, answer: dict[str, Any]) -> None:
    one.verified = one.job.judge(answer, one.dtype, one.job.parameters)
    if not one.verified.ok:
        raise WorkerError(f"the result is wrong: {one.verified.why}")


def _turn(one: Measurement, rule: StoppingRule, patience: float, clock: Clock, profile: Path | None = None) -> None:
    """Let one case take a block of samples; it ends when it has enough."""
    assert one.worker is not None
    typical = median(one.samples) if one.samples else median(one.warmup) * one.steps
    count = max(1, min(int(BLOCK / max(typical, 1e-9)), rule.max_samples - len(one.current), 500))
    started = clock()
    try:
        _take(one, one.worker, count, patience, one.samples, one.loads)
        one.elapsed += clock() - started
        if rule.done(one.current, one.elapsed) and not (
            one.disturbed(rule, one.begun[-1]) and one.elapsed < rule.deadline and len(one.current) < rule.max_samples
        ):
            if one.last:
                _finish(one, one.worker, patience, profile)
            one.end()
    except WorkerError as error:
        one.fail(one.job.explain(str(error)))


def _finish(one: Measurement, worker: Worker, patience: float, profile: Path | None) -> None:
    """What is asked behind the last sample: figures, a trace, and to tell others that this is the end."""
    if one.job.figures:
        answer = worker.ask(patience, do="figures")
        one.figures = tuple(msgspec.convert(answer["figures"], list[Figure]))
        one.said = tuple(answer.get("said", ()))
    if profile is not None:
        folder = profile / _SEPARATORS.sub("-", _name(one)).strip("-")
        try:
            files = worker.ask(patience, do="profile", folder=str(folder), steps=min(one.steps, PROFILED))["files"]
            why = "" if any(file.endswith(TRACE) for file in files) else f"no {TRACE} was written"
        except WorkerError as error:  # what was measured stands
            why = str(error)
        if why:
            one.said = (*one.said, f"no trace: {why}")
    if one.job.farewell:
        worker.ask(patience, do="farewell")


def _share(one: Measurement, rule: StoppingRule) -> float:
    """How far a case is, from 0 to 1."""
    if one.done:
        return 1.0
    by_count = len(one.current) / rule.min_samples
    by_time = sum(one.current) / rule.min_seconds
    return min(max(min(by_count, by_time), one.elapsed / rule.deadline), 0.99)


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
