"""Drives a benchmark, from the first worker process to the result: cases are sampled in turns, verified, in time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from itertools import pairwise
from statistics import median
from typing import Any

import msgspec
import psutil

from tfgpu_doctor import __version__
from tfgpu_doctor.bench.devices import Case, GpuFound, Job, Key, plain
from tfgpu_doctor.bench.plans.base import HOST, Group, PlanBase
from tfgpu_doctor.bench.references import with_references
from tfgpu_doctor.bench.results import SCHEMA, BenchResult, Run, Verified
from tfgpu_doctor.bench.runner.process import PATIENCE, Clock, Worker, WorkerError, Workers, prepare
from tfgpu_doctor.bench.runner.telemetry import Telemetry, bus_ids, busy_seconds
from tfgpu_doctor.bench.samples import DISTURBED, lost_shares, samples_of, usable_cpus
from tfgpu_doctor.bench.speeds import advise, relate, with_peak, with_speed
from tfgpu_doctor.bench.statistics import FEWEST_FOR_INTERVAL, StoppingRule
from tfgpu_doctor.facts.facts import Facts, Known, value_or
from tfgpu_doctor.facts.report import Tool
from tfgpu_doctor.facts.units import count, quantity, seconds
from tfgpu_doctor.matrix.loader import Matrix

WARM_UPS = 2
BLOCK = 0.25  # seconds of work asked for at once, so that the devices take turns often
STEPS = 0.1  # seconds that the steps of one sample shall take together, where a workload queues several
NO_GPU = "TensorFlow lists no GPU: only the CPU is measured."
VIRTUAL = "Virtual devices share one physical device: they test multi-device code, not speed."
WATCHED = 1.0  # seconds, below which the ticks of 10 ms are too coarse to tell what other programs used


@dataclass(frozen=True)
class Setting:
    """How the cases of a group are measured side by side, each until it has enough samples or its time is over."""

    workers: Workers
    rule: StoppingRule  # of a case: its processes share the time and the samples
    processes: int = 1  # that each case gets, one after the other
    cpus: float | None = None  # that a process may use, where known: it goes on until enough samples were undisturbed
    expected: float = 0.0  # seconds that a sample of the slowest device will take, where known
    keep: Collection[Key] = ()  # processes that will be needed again; the others end with their case
    clock: Clock = time.monotonic

    @property
    def patience(self) -> float:
        """Seconds that an answer may take at least."""
        return max(PATIENCE, self.rule.deadline, 4 * self.expected)


@dataclass
class Measurement:
    """One case while it is measured."""

    job: Job
    setting: Setting
    worker: Worker | None = None
    cold: dict[str, float] = field(default_factory=dict)
    warmup: list[float] = field(default_factory=list)
    samples: list[float] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    begun: list[int] = field(default_factory=list)  # places in `samples` at which a process began
    throttled: list[int] = field(default_factory=list)  # places in `samples`
    placed_on: tuple[str, ...] = ()
    verified: Verified | None = None
    computed_in: str | None = None
    steps: int = 1
    failure: str | None = None
    refused: str = ""  # why there is no time for its samples
    telemetry: Telemetry = field(default_factory=lambda: Telemetry({}))
    watched: float = 0.0  # seconds in which it is known what other programs used
    others: float = 0.0  # CPU seconds that they used
    elapsed: float = 0.0
    done: bool = False  # the process at work has done its part

    @property
    def label(self) -> str:
        """The case, its type and its point, for people."""
        point = []
        for name, value in self.job.point.items():
            named = f"{value}" if name in ("workload", "route") else f"{name} {value}"
            point.append(quantity(value, "B") if name == "bytes" and isinstance(value, int) else named)
        return ", ".join((f"{self.job.case.label} {self.job.dtype}", *point))

    @property
    def over(self) -> bool:
        """True if its last process has done its part, or it failed."""
        return self.done and (self.failure is not None or len(self.begun) == self.setting.processes)

    def part(self) -> float:
        """How much of it is over, from 0 to 1, by the deadlines of its processes."""
        if self.over:
            return 1.0
        at_work = self.elapsed / self.rule.deadline
        return (max(len(self.begun) - 1, 0) + (1.0 if self.done else min(at_work, 1.0))) / self.setting.processes

    @property
    def rule(self) -> StoppingRule:
        """What one process has to reach; virtual devices need not settle, since their speed says nothing."""
        rule = self.setting.rule.share(self.setting.processes)
        return replace(rule, precision=math.inf) if self.job.case.virtual else rule

    def disturbed(self, least: int, since: int = 0) -> str | None:
        """Say that other programs left fewer than `least` samples alone from place `since` on; None for enough."""
        cpus = self.setting.cpus
        if cpus is None or len(self.waits) < len(self.samples):
            return None
        shares = lost_shares(self.loads[since:], self.waits[since:], cpus)
        calm = sum(share <= DISTURBED for share in shares)
        enough = calm >= least or calm == len(shares)
        return None if enough else f"only {calm} of {least} samples undisturbed by other programs"

    def turn(self, action: Callable[..., None], *arguments: Any) -> None:
        """Take a turn; a case that is over ends its process, unless that is needed again."""
        try:
            action(*arguments)
        except WorkerError as error:
            self.failure, self.done = self.job.explain(str(error)), True
        if self.done and (self.failure or self.job.key not in self.setting.keep or not self.over):
            self.setting.workers.drop(self.job.key)

    def start(self, show: Callable[[str], None]) -> None:
        """Start the process, warm it up, and verify its result: later ones must be the same, or right."""
        job = self.job
        show(f"{self.label}: starting")
        self.begun.append(len(self.samples))
        self.elapsed, self.done = 0.0, False
        self.worker = self.setting.workers.take(job.key)
        cold, warmup = dict(prepare(self.worker, job)["cold"]), list[float]()
        show(f"{self.label}: warming up")
        for _ in range(1 if self.setting.expected > self.setting.rule.deadline / 5 else WARM_UPS):
            warmup += [seconds for seconds, _ in self._sampled(1, 1)["samples"]]
        if len(self.begun) == 1:  # start-up times are those of the first process, and its steps those of all
            self.cold, self.warmup = cold, warmup
            if job.blocks:
                self.steps = max(1, min(round(STEPS / max(warmup[-1], 1e-9)), 1000))
            if job.case.gpus:
                found = bus_ids(self.worker.log())
                self.telemetry = Telemetry({name: one for name, one in found.items() if name in job.case.devices})
        each = f"a {job.step_name} takes {seconds(warmup[-1])}"
        if job.least * warmup[-1] > self.setting.rule.deadline and not self.samples:
            self.refused = f"too slow ({each}): try --deadline {math.ceil(warmup[-1]) * FEWEST_FOR_INTERVAL}"
            raise WorkerError(self.refused)
        show(f"{self.label}: verifying" + (f"; {each}" if warmup[-1] >= 1 else ""))
        self.judge(self._ask(do="verify", **job.verify(self._ask)))

    def take(self) -> None:
        """Take a block of samples; the process ends when it has enough, or when its time is over."""
        rule, since = self.rule, self.begun[-1]
        typical = median(self.samples) if self.samples else median(self.warmup) * self.steps
        count = max(1, min(int(BLOCK / max(typical, 1e-9)), rule.max_samples - len(self.samples) + since, 500))
        started = self.setting.clock()
        self._block(count)
        self.elapsed += self.setting.clock() - started
        current = self.samples[since:]
        if not rule.done(current, self.elapsed):
            return
        going_on = self.elapsed < rule.deadline and len(current) < rule.max_samples
        if going_on and self.disturbed(rule.min_samples, since):
            return
        if self.job.farewell and len(self.begun) == self.setting.processes:
            self._ask(do="farewell")
        self.done = True

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self.worker is not None
        return self.worker.ask(max(self.setting.patience, self.job.patience), **request)

    def judge(self, answer: dict[str, Any]) -> None:
        """Judge what the worker says of a result. Raises WorkerError: it is wrong, or the answer cannot be used."""
        try:
            judged = self.job.judge(answer, self.job.dtype, self.job.parameters)
            self.verified = msgspec.convert(judged, Verified, from_attributes=True)
        except (LookupError, TypeError, ValueError, ArithmeticError) as error:  # a ValidationError is a ValueError
            raise WorkerError(f"the answer to 'verify' cannot be used: {type(error).__name__}: {error}") from error
        self.computed_in = judged.computed_in
        if not judged.ok:
            raise WorkerError(f"the result is wrong: {judged.why}")

    def _sampled(self, count: int, steps: int) -> dict[str, Any]:
        """Take a block of samples on the right devices, with right results."""
        # not by count: several samples are asked for only where all of them take about BLOCK seconds
        answer = self._ask(do="sample", count=count, steps=steps)
        self.placed_on = tuple(answer["placed_on"])
        if answer["misplaced"] or set(self.placed_on) != set(self.job.case.devices):
            raise WorkerError(answer["misplaced"] or f"computed on {', '.join(self.placed_on)}")
        for found in answer["rechecked"]:
            self.judge(found)
        return answer

    def _block(self, count: int) -> None:
        """Take a block of samples that count, while the GPUs and the other programs are watched."""
        self.telemetry.start()
        started, busy = time.monotonic(), busy_seconds()
        try:
            answer = self._sampled(count, self.steps)
        finally:
            throttled = self.telemetry.pause()
        elapsed, (samples, loads) = time.monotonic() - started, zip(*answer["samples"], strict=True)
        others = busy_seconds() - busy - answer["busy"]  # may be a tick below zero; over the blocks, ticks even out
        self.watched += elapsed
        self.others += others
        if answer["waited"] is not None:
            # threads also wait for one another, so that it is at most what others used meanwhile
            self.waits += [round(min(answer["waited"], max(others, 0.0) / elapsed), 3)] * len(samples)
        if throttled:
            self.throttled += range(len(self.samples), len(self.samples) + len(samples))
        self.samples += samples
        self.loads += [round(load, 3) for load in loads]


def measure(
    jobs: Sequence[Job],
    setting: Setting,
    *,
    progress: Callable[[str, float], object] = lambda *_: None,
    save: Callable[[Sequence[Measurement]], object] = lambda _: None,
) -> list[Measurement]:
    """Measure all cases of a group.

    Args:
        progress: gets what is done now, and how many of the cases are over, in parts.
        save: called whenever there is something worth keeping.
    """
    measurements = [Measurement(job, setting) for job in jobs]

    def show(label: str) -> None:
        progress(label, sum(one.part() for one in measurements))

    try:
        for _ in range(setting.processes):
            for measurement in (one for one in measurements if not one.failure):
                measurement.turn(measurement.start, show)
                save(measurements)
            while any(not measurement.done for measurement in measurements):
                for measurement in (one for one in measurements if not one.done):
                    show(measurement.label)
                    measurement.turn(measurement.take)
                save(measurements)
    finally:
        for measurement in measurements:
            measurement.telemetry.close()
    return measurements


def to_run(measurement: Measurement) -> Run:
    """Turn a measurement into a result. What is not verified carries no speed."""
    job, case, steps, rule = measurement.job, measurement.job.case, measurement.steps, measurement.setting.rule
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
        verified=msgspec.structs.replace(found, samples=len(samples) + 1) if found else None,
        gpu=measurement.telemetry.summary(sum(samples)),
        failure=measurement.failure,
    )
    if measurement.failure or found is None or not found.ok or not samples:
        return run
    counts = (after - before for before, after in pairwise((*measurement.begun, len(samples))))
    waits = measurement.waits if len(measurement.waits) == len(samples) else ()
    measured = msgspec.structs.replace(
        run,
        computed_in=measurement.computed_in or job.dtype,
        warmup_s=tuple(measurement.warmup),
        samples_s=samples,
        processes=tuple(filter(None, counts)),
        cpu_load=tuple(measurement.loads),
        cpu_wait=tuple(waits),
        throttled_samples=tuple(measurement.throttled),
        others_cpus=max(measurement.others / measurement.watched, 0.0) if measurement.watched >= WATCHED else None,
        stopped=None if case.virtual else rule.unmet(samples) or measurement.disturbed(rule.min_samples),
    )
    counted = samples_of(measured, measurement.setting.cpus).settled().all()
    measured = msgspec.structs.replace(measured, figures=job.derive(counted))
    return with_speed(measured, job.work * steps, job.unit, measurement.setting.cpus)


# ---------------------------------------------------------------------------------------------------------------------
# One run of a benchmark: what every workload shares, from the first process to the result that is kept.


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
    shared: bool = False  # one process for all cases, which do not take turns
    software: dict[str, str] = field(default_factory=dict)
    found: tuple[GpuFound, ...] = ()  # the GPUs that TensorFlow lists
    runs: tuple[Run, ...] = ()  # of the groups that are done; plans may choose the next by them
    first: Worker = field(init=False)  # the first process, greeted; plans find out sizes with it
    drop: Callable[[], None] = field(init=False)  # ends it, so that the first case gets a new one
    not_run: list[str] = field(default_factory=list)  # what was asked for and does not take place, with the reason
    clock: Callable[[], float] = time.monotonic
    planned: int = 0  # runs that were announced
    total: float = 1.0  # and what else is done, as so many runs
    done: float = 0.0  # of them

    def run(self) -> BenchResult:
        """Measure every group.

        Raises:
            DeviceError: GPUs were asked for that are not there.
            CannotRunError: what was asked for cannot be measured, or does not fit.
            NoTensorFlowError: TensorFlow does not start.
        """
        self.progress("starting TensorFlow", 0.0)
        with Workers(self.start_worker, shared=self.shared) as workers:
            self.first, self.software, self.found = workers.first(), workers.software, workers.found
            self.drop = workers.drop
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
        runs, self.planned, self.total = len(labels), len(labels), float(len(labels) + besides)
        most = self.rule.deadline * runs if sampling is None else sampling
        what = f"{count(runs, 'run')} ({plain('; '.join(dict.fromkeys(labels)))})"
        self.announce(f"{what}: at most about {seconds(most)} of sampling, besides start-up and verification")

    def skip(self, runs: int) -> None:
        """So many of the runs that were announced do not take place."""
        self.done += runs

    def show(self, label: str, part: float = 0.0) -> None:
        """Show what is done now, and that `part` of a run more is over."""
        self.progress(plain(label), min((self.done + part) / max(self.total, self.done + part, 1.0), 1.0))

    def _measure(self, group: Group, workers: Workers) -> tuple[Run, ...]:
        def keep(measured: Sequence[Measurement]) -> tuple[Run, ...]:
            """Save what there is: an interrupt must lose nothing."""
            runs = (*self.runs, *(to_run(one) for one in measured if not one.refused))
            self.save(msgspec.structs.replace(self._result(runs), unfinished=True, planned=self.planned))
            return runs

        rule = group.rule or self.rule
        setting = Setting(workers, rule, self.processes, self.cpus, group.expected, group.keep, self.clock)
        measured = measure(group.jobs, setting, progress=self.show, save=keep)
        late = (f"{one.label}: {one.refused}" for one in measured if one.refused)
        (self.plan.left_out if self.plan.may_skip_cpu([job.case for job in group.jobs]) else self.not_run).extend(late)
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
        related = relate([with_peak(run, self.environment, self.matrix) for run in runs])
        related = advise(related, self.plan.workload, self.environment, self.plan.parameters())
        advised = tuple(
            msgspec.structs.replace(run, advice=(*run.advice, *self.plan.advice(run, related))) for run in related
        )
        notes = [NO_GPU] if not self.found else []
        notes += [VIRTUAL] if any(run.virtual for run in runs) else []
        result = BenchResult(
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
        return with_references(result)
