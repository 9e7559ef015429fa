"""Drives the worker processes of a benchmark: one for each case, sampled in turns, verified, with deadlines."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from tfgpu_doctor.bench.devices import Case, GpuFound
from tfgpu_doctor.bench.results import Run, Throughput, Verified
from tfgpu_doctor.bench.runner_nvml import Telemetry, bus_ids
from tfgpu_doctor.bench.runner_process import Worker, WorkerError
from tfgpu_doctor.bench.statistics import StoppingRule, iqr_spread, median, median_interval
from tfgpu_doctor.bench.verification import ROW_FACTOR, Residual, is_right, tolerance

START = 300.0  # seconds for import, device initialisation and inputs; a first CUDA start may compile PTX for long
WARM_UPS = 2
METHOD = (
    "C x against A(A(... x)) in float64, 4 vectors of ±1; the results of further samples are the same bit by bit, "
    "or were compared in this way themselves"
)
BLOCK = 0.25  # seconds of work asked for at once, so that the devices take turns often
PATIENCE = 60.0  # seconds that a sample may always take

Clock = Callable[[], float]


@dataclass(frozen=True)
class Job:
    """What every case of a group computes."""

    workload: str
    size: int
    power: int
    dtype: str
    flop: Callable[[int], float]  # of one sample, for a number of terms
    virtual_memory_mib: int = 2048


class Reference:
    """What the powers must be, in float64: computed once by the first worker that can, for all cases and types.

    Use as a context manager: leaving the block removes the file.
    """

    def __init__(self) -> None:
        """Nothing is computed yet."""
        self._folder = tempfile.TemporaryDirectory(prefix="tfgpu-bench-")
        self._terms = 0

    def file(self, worker: Worker, job: Job, terms: int, timeout: float) -> str:
        """The file's path; `worker` writes it where it does not hold `terms` powers yet."""
        path = str(Path(self._folder.name) / "reference.float64")
        if self._terms < terms:
            asked = {"workload": job.workload, "size": job.size, "power": job.power, "terms": terms, "file": path}
            worker.ask(timeout, do="reference", **asked)
            self._terms = terms
        return path

    def __enter__(self) -> Reference:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.cleanup()


@dataclass
class Measurement:
    """One case while it is measured."""

    case: Case
    dtype: str
    worker: Worker | None
    cold: dict[str, float] = field(default_factory=dict)
    warmup: list[float] = field(default_factory=list)
    samples: list[float] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)
    throttled: list[int] = field(default_factory=list)  # places in `samples`
    placed_on: tuple[str, ...] = ()
    verified: Verified | None = None
    like_float32: bool = False
    failure: str | None = None
    telemetry: Telemetry | None = None
    elapsed: float = 0.0
    done: bool = False

    def fail(self, why: str) -> None:
        """Give the case up."""
        self.failure = why
        self.end()

    def end(self) -> None:
        """Free the process and the memory of its devices."""
        self.done = True
        if self.telemetry:
            self.telemetry.close()
        if self.worker:
            self.worker.close()
        self.worker = None


def hello(worker: Worker) -> tuple[dict[str, str], tuple[GpuFound, ...]]:
    """Import TensorFlow in a worker: its versions, and the GPUs it lists.

    Raises:
        WorkerError: TensorFlow cannot be imported there.
    """
    answer = worker.ask(START, do="hello")
    software = {name: str(answer[name]) for name in ("tensorflow", "numpy", "python")}
    return software, tuple(GpuFound(gpu["name"], gpu["compute_capability"]) for gpu in answer["gpus"])


def prepare(worker: Worker, case: Case, job: Job, size: int) -> dict[str, Any]:
    """Let a worker put its inputs on the devices of a case."""
    return worker.ask(
        START,
        do="prepare",
        workload=job.workload,
        size=size,
        power=job.power,
        dtype=dtype_on(case, job.dtype),
        devices=list(case.devices),
        gpus=list(case.gpus),
        spread=case.spread,
        virtual=case.virtual,
        virtual_memory_mib=job.virtual_memory_mib,
    )


def dtype_on(case: Case, dtype: str) -> str:
    """The type in which a case computes: TF32 exists on GPUs only: the CPU beside it computes in float32."""
    return "float32" if dtype == "tf32" and case.devices[0].startswith("/CPU") else dtype


def measure(
    cases: Sequence[Case],
    job: Job,
    start_worker: Callable[[], Worker],
    reference: Reference,
    *,
    rule: StoppingRule,
    expected: float | None = None,
    progress: Callable[[str, float], None] = lambda label, done: None,
    save: Callable[[Sequence[Measurement]], object] = lambda measurements: None,
    clock: Clock = time.monotonic,
) -> list[Measurement]:
    """Measure all cases side by side.

    Args:
        start_worker: gives a worker process that has imported TensorFlow.
        reference: what the results are compared with.
        expected: seconds that a sample of the slowest device will take, where known: one that takes longer than a
            third of the deadline is warmed up only once, and given time.
        save: called whenever there is something worth keeping.
    """
    measurements = [Measurement(case, dtype_on(case, job.dtype), None) for case in cases]
    patience = max(PATIENCE, rule.deadline, 4 * (expected or 0.0))
    warm_ups = 1 if (expected or 0.0) > rule.deadline / 3 else WARM_UPS
    terms = max(case.terms for case in cases)
    try:
        for one in measurements:
            progress(f"{one.case.label} {one.dtype}: starting", 0.0)
            try:
                one.worker = start_worker()
                _warm_up(one, one.worker, job, patience, warm_ups)
                _verify(one, one.worker, job, reference.file(one.worker, job, terms, patience), patience)
            except WorkerError as error:
                one.fail(str(error))
            save(measurements)
        while any(not one.done for one in measurements):
            for one in measurements:
                if not one.done:
                    _turn(one, job, rule, patience, clock)
                    progress(f"{one.case.label} {one.dtype}", _share(one, rule))
            save(measurements)
    finally:
        for one in measurements:
            one.end()
    return measurements


def _warm_up(one: Measurement, worker: Worker, job: Job, patience: float, count: int) -> None:
    """Put the inputs on the devices and compute what need not be quick yet."""
    one.cold = dict(prepare(worker, one.case, job, job.size)["cold"])
    for _ in range(count):
        _take(one, worker, job, 1, patience, one.warmup, [])
    one.telemetry = Telemetry(bus_ids(worker.log()) if one.case.gpus else {})


def _take(
    one: Measurement,
    worker: Worker,
    job: Job,
    count: int,
    patience: float,
    into: list[float],
    loads: list[float],
) -> None:
    """Take a block of samples."""
    if one.telemetry:
        one.telemetry.start()
    throttled: tuple[str, ...] = ()
    try:
        # not by count: several samples are asked for only where all of them take about BLOCK seconds
        answer = worker.ask(patience, do="sample", count=count)
    finally:
        if one.telemetry:
            throttled = one.telemetry.pause()
    one.placed_on = tuple(answer["placed_on"])
    if answer["misplaced"] or set(one.placed_on) != set(one.case.devices):
        raise WorkerError(answer["misplaced"] or f"computed on {', '.join(one.placed_on)}")
    for found in answer["residuals"]:
        _judge(one, job, found)
    if throttled:
        one.throttled += range(len(into), len(into) + len(answer["samples"]))
    into += answer["samples"]
    loads += answer["loads"]


def _verify(one: Measurement, worker: Worker, job: Job, file: str, patience: float) -> None:
    """Compare the last result with the reference; later ones must be the same, or right themselves."""
    _judge(one, job, worker.ask(patience, do="verify", file=file))


def _judge(one: Measurement, job: Job, answer: dict[str, float | None]) -> None:
    """Say whether a residual is one that the type explains, which the worker is not asked."""
    rms, worst_row = answer["rms"], answer["worst_row"]
    found = Residual(math.nan if rms is None else rms, math.nan if worst_row is None else worst_row)
    limit = tolerance(one.dtype, job.power)
    one.like_float32 = is_right(found, "float32", job.power)
    one.verified = Verified(
        ok=is_right(found, one.dtype, job.power),
        residual=rms,
        tolerance=limit,
        worst_row=worst_row,
        row_tolerance=ROW_FACTOR * limit,
        method=METHOD,
    )
    if not one.verified.ok:
        raise WorkerError(_why_wrong(one.verified))


def _why_wrong(found: Verified) -> str:
    if found.residual is None:
        return "the result is wrong: it holds numbers that are not finite"
    if found.residual > found.tolerance:
        return f"the result is wrong: residual {found.residual:.2g}, at most {found.tolerance:.2g} is rounding"
    return f"the result is wrong: a row is off by {found.worst_row:.2g}, at most {found.row_tolerance:.2g} is rounding"


def _turn(one: Measurement, job: Job, rule: StoppingRule, patience: float, clock: Clock) -> None:
    """Let one case take a block of samples; it ends when it has enough."""
    assert one.worker is not None
    typical = median(one.samples or one.warmup)
    count = max(1, min(int(BLOCK / max(typical, 1e-9)), rule.max_samples - len(one.samples), 500))
    started = clock()
    try:
        _take(one, one.worker, job, count, patience, one.samples, one.loads)
    except WorkerError as error:
        one.fail(str(error))
        return
    one.elapsed += clock() - started
    if rule.done(one.samples, one.elapsed):
        one.end()


def _share(one: Measurement, rule: StoppingRule) -> float:
    """How far a case is, from 0 to 1."""
    if one.done:
        return 1.0
    by_count = len(one.samples) / rule.min_samples
    by_time = sum(one.samples) / rule.min_seconds
    return min(max(min(by_count, by_time), one.elapsed / rule.deadline), 0.99)


def to_run(one: Measurement, job: Job, rule: StoppingRule) -> Run:
    """Turn a measurement into a result. What is not verified carries no speed."""
    verified = one.verified
    run = Run(
        label=one.case.label,
        devices=one.case.devices,
        dtype=one.dtype,
        spread=one.case.spread,
        virtual=one.case.virtual,
        placed_on=one.placed_on,
        flop=job.flop(one.case.terms),
        cold_start_s=one.cold,
        verified=verified and msgspec.structs.replace(verified, samples=len(one.samples) + 1),
        gpu=one.telemetry.summary() if one.telemetry else (),
        failure=one.failure,
    )
    if one.failure or verified is None or not verified.ok or not one.samples:
        return run
    low, high = median_interval(one.samples)
    middle = median(one.samples)
    work = job.flop(one.case.terms)
    return msgspec.structs.replace(
        run,
        computed_in="float32" if one.dtype == "tf32" and one.like_float32 else one.dtype,
        warmup_s=tuple(one.warmup),
        samples_s=tuple(one.samples),
        cpu_load=tuple(round(load, 3) for load in one.loads),
        throttled_samples=tuple(one.throttled),
        median_s=middle,
        ci95_s=(low, high),
        spread_iqr=iqr_spread(one.samples),
        throughput=Throughput(value=work / middle, unit="FLOP/s", ci95=(work / high, work / low)),
        stopped=rule.unmet(one.samples),
    )
