"""Drives the worker processes of a benchmark: one for each case, sampled in turns, verified, with deadlines."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tfgpu_doctor.bench.devices import Case, GpuFound
from tfgpu_doctor.bench.results import Run, Throughput, Verified
from tfgpu_doctor.bench.runner_nvml import Telemetry
from tfgpu_doctor.bench.runner_process import Worker, WorkerError
from tfgpu_doctor.bench.statistics import StoppingRule, iqr_spread, median, median_interval

START = 300.0  # seconds for import, device initialisation and inputs; a first CUDA start may compile PTX for long
WARM_UPS = 2
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
    placed_on: tuple[str, ...] = ()
    verified: Verified | None = None
    like_float32: bool = False
    failure: str | None = None
    telemetry: Telemetry | None = None
    elapsed: float = 0.0
    done: bool = False

    @property
    def terms(self) -> int:
        """How many matrix powers a sample computes."""
        return len(self.case.devices) if self.case.spread == "terms" else 2

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
        dtype=_dtype_on(case, job.dtype),
        devices=list(case.devices),
        gpus=list(case.gpus),
        spread=case.spread,
        virtual=case.virtual,
        virtual_memory_mib=job.virtual_memory_mib,
    )


def _dtype_on(case: Case, dtype: str) -> str:
    """TF32 exists on GPUs only: the CPU beside it computes in float32."""
    return "float32" if dtype == "tf32" and case.devices[0].startswith("/CPU") else dtype


def measure(
    cases: Sequence[Case],
    job: Job,
    start_worker: Callable[[], Worker],
    *,
    rule: StoppingRule,
    first: Worker | None = None,
    expected: float | None = None,
    progress: Callable[[str, float], None] = lambda label, done: None,
    save: Callable[[Sequence[Measurement]], object] = lambda measurements: None,
    clock: Clock = time.monotonic,
) -> list[Measurement]:
    """Measure all cases side by side.

    Args:
        start_worker: starts a worker process and imports TensorFlow there.
        first: such a worker, already there, for the first case.
        expected: seconds that a sample of the slowest device will take, where known: one that takes longer than a
            third of the deadline is warmed up only once, and given time.
        save: called whenever there is something worth keeping.
    """
    measurements = [Measurement(case, _dtype_on(case, job.dtype), None) for case in cases]
    patience = max(PATIENCE, rule.deadline, 4 * (expected or 0.0))
    warm_ups = 1 if (expected or 0.0) > rule.deadline / 3 else WARM_UPS
    try:
        reference: list[str] | None = None
        for place, one in enumerate(measurements):
            progress(f"{one.case.label} {one.dtype}: starting", 0.0)
            try:
                one.worker = first if place == 0 and first is not None else start_worker()
                reference = _warm_up(one, job, reference, measurements, patience, warm_ups)
            except WorkerError as error:
                one.fail(str(error))
            save(measurements)
        while any(not one.done for one in measurements):
            for one in measurements:
                if not one.done:
                    _turn(one, job, reference, rule, patience, clock)
                    progress(f"{one.case.label} {one.dtype}", _share(one, rule))
            save(measurements)
    finally:
        for one in measurements:
            one.end()
    return measurements


def _warm_up(
    one: Measurement, job: Job, reference: list[str] | None, all_of_them: list[Measurement], patience: float, count: int
) -> list[str]:
    """Start the case, warm it up, and verify its first result; returns the reference for the other cases."""
    assert one.worker is not None
    answer = prepare(one.worker, one.case, job, job.size)
    one.cold = dict(answer["cold"])
    one.telemetry = Telemetry(answer["bus_ids"])
    for _ in range(count):
        _take(one, one.worker, 1, patience, one.warmup, [])
    if reference is None:
        terms = max(other.terms for other in all_of_them)
        reference = one.worker.ask(patience, do="reference", terms=terms)["reference"]
    _verify(one, job, reference, patience)
    return reference


def _take(one: Measurement, worker: Worker, count: int, patience: float, into: list[float], loads: list[float]) -> None:
    if one.telemetry:
        one.telemetry.start()
    try:
        answer = worker.ask(patience + count * patience / 4, do="sample", count=count)
    finally:
        if one.telemetry:
            one.telemetry.pause()
    one.placed_on = tuple(answer["placed_on"])
    if answer["misplaced"]:
        raise WorkerError(str(answer["misplaced"]))
    into += answer["samples"]
    loads += answer["loads"]


def _verify(one: Measurement, job: Job, reference: list[str], patience: float) -> None:
    assert one.worker is not None
    answer = one.worker.ask(patience, do="verify", reference=reference)
    one.like_float32 = bool(answer["like_float32"])
    one.verified = Verified(
        ok=bool(answer["ok"]),
        residual=answer["residual"],
        tolerance=answer["tolerance"],
        worst_row=answer["worst_row"],
        row_tolerance=answer["row_tolerance"],
        method="C x against A(A(... x)) in float64, 4 vectors of ±1",
    )
    if not one.verified.ok:
        raise WorkerError(f"the result is wrong: residual {answer['residual']}, at most {answer['tolerance']:.2g}")


def _turn(
    one: Measurement, job: Job, reference: list[str] | None, rule: StoppingRule, patience: float, clock: Clock
) -> None:
    """Let one case take a block of samples, and verify its last result when it has enough."""
    assert one.worker is not None and reference is not None
    typical = median(one.samples or one.warmup)
    count = max(1, min(int(BLOCK / max(typical, 1e-9)), rule.max_samples - len(one.samples), 500))
    started = clock()
    try:
        _take(one, one.worker, count, patience, one.samples, one.loads)
        one.elapsed += clock() - started
        if rule.done(one.samples, one.elapsed):
            _verify(one, job, reference, patience)
            one.end()
    except WorkerError as error:
        one.fail(str(error))


def _share(one: Measurement, rule: StoppingRule) -> float:
    """How far a case is, from 0 to 1."""
    if one.done:
        return 1.0
    by_count = len(one.samples) / rule.min_samples
    by_time = sum(one.samples) / rule.min_seconds
    return min(max(min(by_count, by_time), one.elapsed / rule.deadline), 0.99)


def to_run(one: Measurement, job: Job, rule: StoppingRule) -> Run:
    """Turn a measurement into a result. What is not verified carries no speed."""
    run = Run(
        label=one.case.label,
        devices=one.case.devices,
        dtype=one.dtype,
        spread=one.case.spread,
        virtual=one.case.virtual,
        placed_on=one.placed_on,
        flop=job.flop(one.terms),
        cold_start_s=one.cold,
        verified=one.verified,
        gpu=one.telemetry.summary(one.case.devices) if one.telemetry else (),
        failure=one.failure,
    )
    if one.failure or one.verified is None or not one.verified.ok or not one.samples:
        return run
    low, high = median_interval(one.samples)
    middle = median(one.samples)
    work = job.flop(one.terms)
    return msgspec.structs.replace(
        run,
        warmup_s=tuple(one.warmup),
        samples_s=tuple(one.samples),
        cpu_load=tuple(round(load, 3) for load in one.loads),
        median_s=middle,
        ci95_s=(low, high),
        spread_iqr=iqr_spread(one.samples),
        throughput=Throughput(value=work / middle, unit="FLOP/s", ci95=(work / high, work / low)),
        stopped=rule.unmet(one.samples),
    )
