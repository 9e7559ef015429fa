"""`tfgpu bench matpow`, the parent's side: which cases, which size, and the result of all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial

import msgspec
import psutil

from tfgpu_doctor import __version__
from tfgpu_doctor.bench import sizing
from tfgpu_doctor.bench.devices import Case, GpuFound, plan_cases
from tfgpu_doctor.bench.peaks import percent_of_peak
from tfgpu_doctor.bench.ratios import relate
from tfgpu_doctor.bench.results import SCHEMA, BenchResult, Run
from tfgpu_doctor.bench.runner import PATIENCE, Job, Measurement, Reference, dtype_on, hello, measure, prepare, to_run
from tfgpu_doctor.bench.runner_process import Worker, WorkerError
from tfgpu_doctor.bench.statistics import StoppingRule
from tfgpu_doctor.bench.workloads import matpow
from tfgpu_doctor.facts import Facts, Gpu, Known, value_or
from tfgpu_doctor.matrix import Matrix
from tfgpu_doctor.report import Tool

PROBE_SIZES = (768, 1536, 3072, 6144)  # of the calibration, which goes on until a sample takes long enough to tell
PROBE_SECONDS = 0.05


class NoTensorFlowError(Exception):
    """TensorFlow cannot be used in the interpreter under test; the message says how it ended."""


@dataclass(frozen=True)
class Settings:
    """What was asked for."""

    executable: str
    size: int | None = None  # None: chosen for about sizing.TARGET seconds
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
            sizing.TooLargeError: the matrices do not fit.
            NoTensorFlowError: TensorFlow does not start.
        """
        self._progress("starting TensorFlow", 0.0)
        first = self._start_worker()
        try:
            self._software, self._found = _greet(first)
            cases = self._cases()
            self._size, expected = self._choose_size(cases, first)
            with Reference() as reference:
                return self._measure_all(cases, first, expected, reference)
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
        each = max(matpow.device_bytes(size, dtype, 2, way) for way in self._settings.spreads)
        return Job(
            "matpow",
            size,
            power,
            dtype,
            lambda terms: matpow.flop(size, power, terms),
            virtual_memory_mib=each * 5 // 4 // 2**20 + 256,  # a quarter for what the allocator cannot use
        )

    def _choose_size(self, cases: Sequence[Case], worker: Worker) -> tuple[int, float]:
        """The size asked for, or the one at which the slowest device needs about TARGET s; and that time, estimated.

        Raises:
            sizing.TooLargeError: it does not fit.
        """
        settings = self._settings
        self._progress("choosing a size", 0.0)
        slowest = min(self._speed(cases[0], worker, dtype) for dtype in settings.dtypes)
        chosen = sizing.sane_size(slowest * sizing.TARGET, settings.power)
        names = {index: gpu.name for index, gpu in enumerate(self._found)}
        size = sizing.fit(cases, settings.dtypes, settings.size, chosen, self._free(cases), names)
        return size, matpow.flop(size, settings.power, 2) / slowest

    def _speed(self, case: Case, worker: Worker, dtype: str) -> float:
        """FLOP/s of the slowest device, roughly: of the first case, which is the CPU where that takes part."""
        for probe in PROBE_SIZES:
            size = min(probe, self._settings.size or probe)
            prepare(worker, case, self._job(dtype, size), size)
            worker.ask(PATIENCE, do="sample", count=1)
            seconds: float = min(worker.ask(PATIENCE, do="sample", count=2)["samples"])
            if seconds >= PROBE_SECONDS or size < probe:
                break
        return matpow.flop(size, self._settings.power, 2) / seconds

    def _free(self, cases: Sequence[Case]) -> dict[str | int, int]:
        """Bytes that are free, where that is known: of the host, and of the GPUs by TensorFlow's index."""
        limit = value_or(self._environment.host.memory_limit, 2**62)
        free: dict[str | int, int] = {sizing.HOST: min(psutil.virtual_memory().available, limit)}
        for case in cases:
            for index, gpu in zip(case.gpus, self._gpus(case), strict=False):
                if isinstance(gpu.memory_free, Known):
                    free[index] = gpu.memory_free.value
        return free

    def _gpus(self, case: Case) -> list[Gpu]:
        """The GPUs of a case among the facts; empty where the driver's order cannot be told from TensorFlow's."""
        known = value_or(self._environment.gpus, ())
        # one model throughout: whichever they are, their facts are alike
        alike = len({value_or(gpu.name, None) for gpu in known}) == 1
        return [known[index] for index in case.gpus if index < len(known)] if alike or len(known) == 1 else []

    # ---------------------------------------------------------------- measure

    def _measure_all(self, cases: Sequence[Case], first: Worker, expected: float, reference: Reference) -> BenchResult:
        finished: tuple[Run, ...] = ()
        started: list[Worker] = [first]

        def start() -> Worker:
            return started.pop() if started else self._started()

        for dtype in self._settings.dtypes:
            done = {(run.label, run.dtype) for run in finished}  # the CPU's float32 stands for its tf32
            todo = [case for case in cases if (case.label, dtype_on(case, dtype)) not in done]
            if not todo:
                continue
            job = self._job(dtype, self._size)
            keep = partial(self._keep, finished, job)
            measured = measure(
                todo,
                job,
                start,
                reference,
                rule=self._settings.rule,
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
        try:
            hello(worker)
        except BaseException:
            worker.close()
            raise
        return worker

    def _result(self, runs: Sequence[Run]) -> BenchResult:
        with_peaks = [self._with_peak(run) for run in runs]
        return BenchResult(
            schema=SCHEMA,
            tool=Tool(name="tfgpu", version=__version__),
            created=self._created,
            environment=self._environment,
            workload="matpow",
            parameters={
                "size": self._size,
                "power": self._settings.power,
                "seed": matpow.SEED,
                "min_samples": self._settings.rule.min_samples,
                "deadline_s": self._settings.rule.deadline,
            },
            runs=relate(with_peaks, value_or(self._environment.host.cpus, None)),
            notes=self._notes(),
            software=self._software,
        )

    def _with_peak(self, run: Run) -> Run:
        if run.throughput is None or run.computed_in is None or run.virtual or not run.devices[0].startswith("/GPU"):
            return run
        known = {value_or(gpu.pci_bus_id, "").lower(): gpu for gpu in value_or(self._environment.gpus, ())}
        gpus = [known[bus_id] for one in run.gpu if (bus_id := (one.pci_bus_id or "").lower()) in known]
        if len(gpus) < len(run.devices):
            return run
        percent = percent_of_peak(run.throughput.value, gpus, run.computed_in, self._matrix)
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
