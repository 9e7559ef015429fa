"""`tfgpu bench matpow`, the parent's side: which cases, which size, and the result of all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial

import msgspec
import psutil

from tfgpu_doctor import __version__
from tfgpu_doctor.bench.devices import Case, GpuFound, plan_cases
from tfgpu_doctor.bench.peaks import percent_of_peak
from tfgpu_doctor.bench.ratios import relate
from tfgpu_doctor.bench.results import SCHEMA, BenchResult, Run
from tfgpu_doctor.bench.runner import PATIENCE, Job, Measurement, hello, measure, prepare, to_run
from tfgpu_doctor.bench.runner_process import Worker, WorkerError
from tfgpu_doctor.bench.statistics import StoppingRule
from tfgpu_doctor.bench.workloads import matpow
from tfgpu_doctor.facts import Facts, Gpu, value_or
from tfgpu_doctor.matrix import Matrix
from tfgpu_doctor.report import Tool

DTYPES = tuple(matpow.TF_TYPES)
TARGET = 2.0  # seconds that a sample of the slowest device shall take
PROBE_SIZE = 768  # of the calibration: big enough for a BLAS to show its speed, done in a blink
SMALLEST, LARGEST = 256, 16384
MEMORY_SHARE = 0.8  # of the free memory that the inputs and results may take


class TooLargeError(Exception):
    """The matrices do not fit into a memory; the message says which, and what would."""


class NoTensorFlowError(Exception):
    """TensorFlow cannot be used in the interpreter under test; the message says how it ended."""


@dataclass(frozen=True)
class Settings:
    """What was asked for."""

    executable: str
    size: int | None = None  # None: chosen for about TARGET seconds
    power: int = 10
    dtypes: tuple[str, ...] = ("float32",)
    gpus: int | None = 1  # None: all
    explicit: bool = False  # the number of GPUs was given
    devices: tuple[str, ...] | None = None
    virtual: int | None = None
    spreads: tuple[str, ...] = ("terms", "rows")
    rule: StoppingRule = field(default_factory=StoppingRule)


class Bench:
    """One run of the benchmark: from the settings to the result."""

    def __init__(
        self,
        settings: Settings,
        matrix: Matrix,
        environment: Facts,
        start_worker: Callable[[], Worker],
        *,
        progress: Callable[[str, float], None] = lambda label, done: None,
        save: Callable[[BenchResult], None] = lambda result: None,
    ) -> None:
        """Nothing is started yet; `save` will get what there is after every round."""
        self._settings, self._matrix, self._environment = settings, matrix, environment
        self._start_worker, self._progress, self._save = start_worker, progress, save
        self._created = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._software: dict[str, str] = {}
        self._found: tuple[GpuFound, ...] = ()
        self._size = 0

    def run(self) -> BenchResult:
        """Measure every case in every type.

        Raises:
            DeviceError: GPUs were asked for that are not there.
            TooLargeError: the matrices do not fit.
            NoTensorFlowError: TensorFlow does not start.
        """
        self._progress("starting TensorFlow", 0.0)
        first = self._start_worker()
        try:
            self._software, self._found = _greet(first)
            cases = self._cases()
            self._size, expected = self._choose_size(cases, first)
            self._check_memory(cases)
            return self._measure_all(cases, first, expected)
        finally:
            first.close()

    def _cases(self) -> tuple[Case, ...]:
        wanted = self._settings
        return plan_cases(
            self._found,
            gpus=wanted.gpus,
            explicit=wanted.explicit,
            devices=wanted.devices,
            virtual=wanted.virtual,
            spreads=wanted.spreads,
        )

    # ------------------------------------------------------------------- size

    def _job(self, dtype: str, size: int) -> Job:
        power = self._settings.power
        return Job("matpow", size, power, dtype, lambda terms: matpow.flop(size, power, terms))

    def _choose_size(self, cases: Sequence[Case], worker: Worker) -> tuple[int, float]:
        """The size asked for, or the one at which the slowest device needs about TARGET s; and that time, estimated.

        The first case is the slowest device: the CPU where it takes part.
        """
        settings = self._settings
        self._progress("choosing a size", 0.0)
        rates = []
        for dtype in settings.dtypes:
            prepare(worker, cases[0], self._job(dtype, PROBE_SIZE), PROBE_SIZE)
            seconds = min(worker.ask(PATIENCE, do="sample", count=3)["samples"][1:])
            rates.append(matpow.flop(PROBE_SIZE, settings.power, 2) / seconds)
        slowest = min(rates)
        size = settings.size or sane_size(slowest * TARGET, settings.power)
        return size, matpow.flop(size, settings.power, 2) / slowest

    def _check_memory(self, cases: Sequence[Case]) -> None:
        """Refuse what would not fit, before anything is allocated."""
        size = self._size
        for dtype in self._settings.dtypes:
            host = 0
            for case in cases:
                host += matpow.host_bytes(size, dtype, 2)
                need = matpow.device_bytes(size, dtype, len(case.devices), case.spread)
                if case.devices[0].startswith("/CPU"):
                    host += need * len(case.devices)
                    continue
                for gpu in self._gpus(case):
                    free = value_or(gpu.memory_free, None)
                    if free is not None and need > MEMORY_SHARE * free:
                        name = f"GPU {gpu.index} ({value_or(gpu.name, 'unknown model')})"
                        raise TooLargeError(_too_large(size, dtype, need, name, free))
            available = min(psutil.virtual_memory().available, value_or(self._environment.host.memory_limit, 2**62))
            if host > MEMORY_SHARE * available:
                raise TooLargeError(_too_large(size, dtype, host, "the host's memory", available))

    def _gpus(self, case: Case) -> list[Gpu]:
        """The GPUs of a case among the facts; empty where the driver's order cannot be told from TensorFlow's."""
        known = value_or(self._environment.gpus, ())
        # one model throughout: whichever they are, their facts are alike
        alike = len({value_or(gpu.name, None) for gpu in known}) == 1
        return [known[index] for index in case.gpus if index < len(known)] if alike or len(known) == 1 else []

    # ---------------------------------------------------------------- measure

    def _measure_all(self, cases: Sequence[Case], first: Worker, expected: float) -> BenchResult:
        finished: tuple[Run, ...] = ()
        for place, dtype in enumerate(self._settings.dtypes):
            job = self._job(dtype, self._size)
            keep = partial(self._keep, finished, job)
            measured = measure(
                cases,
                job,
                self._started,
                rule=self._settings.rule,
                first=first if place == 0 else None,
                expected=expected,
                progress=self._progress,
                save=keep,
            )
            finished = self._keep(finished, job, measured)
        return self._result(finished)

    def _keep(self, finished: tuple[Run, ...], job: Job, measured: Sequence[Measurement]) -> tuple[Run, ...]:
        """Save what there is: an interrupt must lose nothing."""
        runs = (*finished, *(to_run(one, job, self._settings.rule) for one in measured))
        self._save(self._result(runs))
        return runs

    def _started(self) -> Worker:
        worker = self._start_worker()
        hello(worker)
        return worker

    def _result(self, runs: Sequence[Run]) -> BenchResult:
        with_peaks = [self._with_peak(run) for run in runs]
        return BenchResult(
            schema=SCHEMA,
            tool=Tool(name="tfgpu", version=__version__),
            created=self._created,
            environment=self._environment,
            workload="matpow",
            parameters={"size": self._size, "power": self._settings.power, "seed": matpow.SEED},
            runs=relate(with_peaks, value_or(self._environment.host.cpus, None)),
            notes=self._notes(),
            software=self._software,
        )

    def _with_peak(self, run: Run) -> Run:
        if run.throughput is None or run.virtual or not run.devices[0].startswith("/GPU"):
            return run
        names = {telemetry.name for telemetry in run.gpu}
        gpus = [gpu for gpu in value_or(self._environment.gpus, ()) if value_or(gpu.name, None) in names]
        chosen = gpus[: len(run.devices)]
        if len(chosen) < len(run.devices):
            return run
        percent = percent_of_peak(run.throughput.value, chosen, run.dtype, self._matrix)
        return msgspec.structs.replace(run, percent_of_peak=percent)

    def _notes(self) -> tuple[str, ...]:
        said = []
        if not self._found:
            said.append("TensorFlow lists no GPU: this measures the CPU. tfgpu doctor says what keeps it from the GPU.")
        if self._settings.virtual:
            said.append("Virtual devices share one physical device: they prove function, never speed.")
        if "tf32" in self._settings.dtypes:
            said.append("TF32 exists on GPUs of compute capability 8.0 and later; the CPU computes in float32.")
        return tuple(said)


def _greet(worker: Worker) -> tuple[dict[str, str], tuple[GpuFound, ...]]:
    try:
        return hello(worker)
    except WorkerError as error:
        raise NoTensorFlowError(str(error)) from error


def sane_size(flop: float, power: int) -> int:
    """The largest round size whose sample (two powers) takes at most about `flop` operations.

    Multiples of 256 up to 4096 and of 1024 above, which suit the tiles of every BLAS.
    """
    exact: float = (flop / (4.0 * max(power - 1, 1))) ** (1 / 3)
    step = 256 if exact < 4096 else 1024
    return min(max(round(exact / step) * step, SMALLEST), LARGEST)


def _too_large(size: int, dtype: str, need: int, where: str, free: int) -> str:
    fits = int(size * (MEMORY_SHARE * free / need) ** 0.5) // 256 * 256
    return (
        f"--size {size} in {dtype} needs {need / 2**30:.1f} GiB of {where}, of which {free / 2**30:.1f} GiB are free; "
        f"--size {max(fits, SMALLEST)} fits"
    )
