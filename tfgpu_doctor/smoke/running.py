"""Run a smoke test: the doctor, then every step in turn, in one shared process, within the budget.

A step that no longer fits is not run, and reported as that.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tfgpu_doctor import __version__
from tfgpu_doctor.bench.devices import Case, Job, Scalar
from tfgpu_doctor.bench.plans.base import scratch
from tfgpu_doctor.bench.plans.matpow import MatPow
from tfgpu_doctor.bench.plans.training import Cnn
from tfgpu_doctor.bench.results import Run
from tfgpu_doctor.bench.runner.process import Asked, Clock, Worker, WorkerError, Workers
from tfgpu_doctor.bench.runner.runner import Setting, measure, to_run
from tfgpu_doctor.bench.speeds import slowdowns, with_peak
from tfgpu_doctor.bench.statistics import StoppingRule
from tfgpu_doctor.facts.facts import Known, Phase, value_or
from tfgpu_doctor.facts.report import Report, Severity, Tool, verdict_sentence
from tfgpu_doctor.facts.units import quantity
from tfgpu_doctor.facts.units import seconds as duration
from tfgpu_doctor.findings.imports import IMPORT_HANG
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.smoke.records import SCHEMA, Smoke, SmokeCheck, SmokeRun, Status, verdict_of

# Enough samples for a figure of two digits, in little time: a gate tells broken from sound, not 2 % from 3 %.
RULE = StoppingRule(min_samples=10, min_seconds=0.2, precision=0.05, deadline=2.0)
# Seconds that the first step of its kind is expected to take at least (measured with TensorFlow 2.21 on two CPU cores:
# matpow 1.3 s, cnn 3 s); what it really took is expected of the next one.
FIRST = {"matpow": 2.0, "cnn": 4.0}
SPREADS = {"matpow": "rows", "cnn": "MirroredStrategy"}  # how the work of each is spread over several devices
ROOM = 1.25  # of the seconds that the slowest of its kind took
RESERVE = 1.5  # of an advised budget: other programs may slow the next run
START = 5.0  # seconds from a process's start to TensorFlow's answer, where the doctor could not tell
TO_EXAMINE = 0.6  # share of the budget that the doctor may take: a slower import leaves no room for a second one
TO_REPORT = 1.0  # seconds kept for killing what hangs and for the report
USUAL = 60.0  # seconds of a budget that is not given
HALF = 0.5  # share of what is left that one step may take while others wait: one card that hangs must not hide the rest
OLDEST = (3, 7)  # Python that the worker of the benchmarks runs in

# Rows of the matrices. A GPU needs about 4096 to come near its peak (2.5 TFLOP a sample: 40 ms at 60 TFLOP/s); two CPU
# cores need 0.1 s for 1024. float64 has half the rows: GPUs that are made for graphics do 1/64 of float32 in it.
GPU_SIZE, CPU_SIZE = 4096, 1024
CNN = Cnn(batch=64)  # images on each device
# The type of a training beside that of a product; nobody trains in float64.
CNN_TYPES = {
    "float32": "float32",
    "tf32": "tf32",
    "float64": "float32",
    "float16": "mixed_float16",
    "bfloat16": "mixed_bfloat16",
}


@dataclass(frozen=True)
class SmokeOptions:
    """What the user asked for."""

    budget: float = USUAL  # seconds for everything
    require_gpus: int = 1  # 0: the CPU will do where there is no GPU
    dtype: str = "float32"
    min_tflops: float | None = None  # of each GPU alone


class Step(NamedTuple):
    """One check that computes: a workload on some devices."""

    workload: str
    case: Case


def steps(gpus: int, options: SmokeOptions) -> tuple[Step, ...]:
    """Return every workload on each GPU alone and on all together; on the CPU where there is none and none is required.

    One workload stands everywhere before the next: in a small budget, every card should get its turn.
    """
    if not gpus and options.require_gpus:
        return ()
    indices, names = tuple(range(gpus)), tuple(f"/GPU:{index}" for index in range(gpus))
    cases = [Case(f"GPU {index}", (names[index],), (index,), sees=indices) for index in indices]
    cases = cases or [Case("CPU", ("/CPU:0",), ())]
    together = [Case(f"{gpus} GPUs", names, indices)] if gpus > 1 else []
    return tuple(
        Step(workload, case)
        for workload, spread in SPREADS.items()
        for case in (*cases, *(replace(case, spread=spread) for case in together))
    )


@dataclass
class Smoking:
    """One smoke test. The clock is of seconds; `doctor` gets the seconds that it may take."""

    options: SmokeOptions
    doctor: Callable[[float], Report]
    start_worker: Callable[[], Worker]
    matrix: Matrix
    progress: Callable[[str, float], object] = lambda *_: None
    clock: Clock = time.monotonic
    runs: list[SmokeRun] = field(default_factory=list)
    imports: list[float] = field(default_factory=list)  # seconds, of each process
    costs: dict[str, float] = field(default_factory=dict)  # seconds that the slowest step of a workload took
    started: float = 0.0
    begun: float = 0.0  # when the step at work began
    end: float = math.inf  # when the step at work must have its answers
    ran_out: bool = False  # an answer did not come in time
    enough: int = 0  # seconds that a budget should have had
    references: set[str] = field(default_factory=set)  # files that results are compared with
    report: Report = field(init=False)

    def run(self, created: str) -> Smoke:
        """Do everything, in at most the budget."""
        options, self.started = self.options, self.clock()
        self._show("examining this machine and starting TensorFlow")
        self.report = self.doctor(options.budget * TO_EXAMINE)
        examined = round(self.clock() - self.started, 3)
        gpus, phase, late = gpus_of(self.report), import_phase(self.report), no_time_to_import(self.report, options)
        computed: list[SmokeCheck] = []
        if phase is not None and phase.outcome == "ok" and phase.seconds is not None:
            self.imports.append(phase.seconds)
            planned = steps(len(gpus or ()), options)
            why = too_old(self.report)
            computed = [check(*step, "not run", why=why) for step in planned] if why else self._compute(planned)
        why = "there is no GPU" if gpus is not None else late or "TensorFlow cannot be used"
        checks = (
            judge_doctor(self.report, late, examined),
            self._judge_import(late),
            self._judge_gpus(gpus),
            *(computed or (check(name, None, "not run", why=why) for name in FIRST)),
        )
        known = {"tensorflow": self.report.facts.tensorflow.version, "python": self.report.facts.python.version}
        return Smoke(
            schema=SCHEMA,
            tool=Tool(name="tfgpu", version=__version__),
            created=created,
            verdict=verdict_of(checks),
            budget_s=options.budget,
            seconds=round(self.clock() - self.started, 3),
            parameters={name: getattr(options, name) for name in ("require_gpus", "dtype", "min_tflops")},
            software={name: str(fact.value) for name, fact in known.items() if isinstance(fact, Known)},
            gpus=gpus or (),
            checks=checks,
            runs=tuple(self.runs),
            report=self.report,
        )

    @property
    def left(self) -> float:
        """Seconds of the budget that can still be used."""
        return self.options.budget - (self.clock() - self.started) - TO_REPORT

    def _show(self, label: str) -> None:
        self.progress(label, min((self.clock() - self.started) / self.options.budget, 1.0))

    def _ask(self, worker: Worker, timeout: float, **request: Any) -> dict[str, Any]:
        """Hand a request on, with no more time than the step has. Raises WorkerError: as the worker does."""
        left = max(self.end - self.clock(), 0.0)
        try:
            return worker.ask(min(timeout, left), **request)
        except WorkerError:
            if left >= timeout or self.clock() < self.end:
                raise
            self.ran_out = True
            took = f"no answer within {self.end - self.begun:.0f} s ({request['do']})"
            raise WorkerError(f"{took}: if it is only slow, try --budget {2 * self.options.budget:.0f}") from None

    # -------------------------------------------------------------------------------------------------------- steps

    def _compute(self, planned: Sequence[Step]) -> list[SmokeCheck]:
        """Take every step that fits into the budget, as long as TensorFlow starts."""
        checks, broken = list[SmokeCheck](), ""
        with scratch() as folder, Workers(lambda: Asked(self.start_worker(), self._ask), shared=True) as workers:
            for place, step in enumerate(planned):
                self._show(f"{step.workload} on {step.case.label}")
                if why := broken or self._too_long(planned[place:], workers):
                    checks.append(check(*step, "not run", why=why))
                elif why := self._not_started(step, workers):
                    broken = "TensorFlow did not start"
                    checks.append(check(*step, self._failed(), why=why, seconds=self.clock() - self.begun))
                else:
                    checks.append(self._computed(step, workers, folder))
        return checks

    def _failed(self) -> Status:
        """Return the status of a step that failed: an answer that did not come in time is none."""
        return "unknown" if self.ran_out else "failed"

    def _job(self, step: Step, folder: str) -> tuple[Job, dict[str, Scalar]]:
        """Return the job of a step, and what two results of it must share."""
        dtype = self.options.dtype
        if step.workload == "cnn":
            return CNN.job(CNN_TYPES[dtype], step.case), CNN.parameters()
        size = (GPU_SIZE if step.case.gpus else CPU_SIZE) // (2 if dtype == "float64" else 1)
        matpow = MatPow(dtypes=(dtype,), chosen=size, written=self.references)
        return matpow.job(step.case, dtype, size, folder), matpow.parameters()

    def _cost(self, workload: str) -> float:
        """Return the seconds that a step will take."""
        return self.costs[workload] * ROOM if workload in self.costs else FIRST[workload]

    def _too_long(self, todo: Sequence[Step], workers: Workers) -> str:
        """Set the time of the first of these steps; say that the budget has none, "" where it has."""
        start = (self.imports[0] if self.imports else START) * ROOM
        workload = todo[0].workload
        cost = self._cost(workload) + (0.0 if workers.alive else start)
        if cost <= self.left:
            self.begun, self.ran_out = self.clock(), False
            self.end = self.begun + (self.left if len(todo) == 1 else max(self.left * HALF, min(cost, self.left)))
            return ""
        if not self.enough:  # all that was left out for the same reason gets the same advice
            budget = self.options.budget - self.left + start + sum(self._cost(one.workload) for one in todo)
            self.enough = math.ceil(RESERVE * budget / 10) * 10
        return (
            f"{workload} needs about {cost:.1f} s, but only {max(self.left, 0):.1f} s of the budget of "
            f"{self.options.budget:g} s are left: use --budget {self.enough}"
        )

    def _not_started(self, step: Step, workers: Workers) -> str:
        """Start the process where there is none; say why that failed, or that GPUs are gone."""
        try:
            workers.take()
        except WorkerError as error:
            return str(error)
        listed, before = len(workers.found), len(gpus_of(self.report) or ())
        if listed >= len(step.case.sees or step.case.gpus):
            return ""
        workers.drop()
        return f"TensorFlow now lists {listed} of the {before} GPUs"

    def _computed(self, step: Step, workers: Workers, folder: str) -> SmokeCheck:
        """Measure and judge, in the process that is there."""
        ready, (job, parameters) = self.clock(), self._job(step, folder)
        (measured,) = measure([job], Setting(workers, RULE, keep=(job.key,), clock=self.clock))
        if not measured.failure:  # how long it hung tells nothing of the next one
            self.costs[step.workload] = max(self.clock() - ready, self.costs.get(step.workload, 0.0))
        run = with_peak(to_run(measured), self.report.facts, self.matrix)
        if "import" in run.cold_start_s:
            self.imports.append(run.cold_start_s["import"])
        self.runs.append(SmokeRun(workload=step.workload, parameters=parameters, run=run))
        why = self._wrong(step, run)
        status = self._failed() if why or self.ran_out else "ok"
        seconds = round(self.clock() - self.begun, 3)
        saw = self._found(step, run)
        return check(*step, status, saw=saw, why=why, seconds=seconds, throughput=run.throughput)

    def _wrong(self, step: Step, run: Run) -> str:
        """Say what is wrong with a run, or that a GPU alone is too slow; "" where nothing is."""
        if run.failure or run.verified is None or not run.verified.ok or run.throughput is None:
            return run.failure or "the result was not verified"
        least = self.options.min_tflops
        one_gpu = step.workload == "matpow" and len(run.devices) == 1 and run.devices[0].startswith("/GPU")
        return f"minimum {least:g} TFLOP/s" if least and one_gpu and run.throughput.value < least * 1e12 else ""

    def _found(self, step: Step, run: Run) -> str:
        """Return the speed of a run and how it was verified."""
        if run.throughput is None:
            return ""
        is_matpow = step.workload == "matpow"
        # of a small network, a large GPU needs a few per cent, which says nothing about the GPU
        share = f" ({run.percent_of_peak:.0f} % of peak)" if is_matpow and run.percent_of_peak is not None else ""
        network = "" if is_matpow else f"{CNN.model} "
        # cards before Ampere have no TF32, and compute in another type than was asked for
        instead = f", not {run.dtype}" if run.computed_in not in (None, run.dtype) else ""
        parts = [quantity(run.throughput.value, network + run.throughput.unit, run.throughput.ci95) + share]
        parts.append(f"verified in {run.computed_in or run.dtype}{instead}")
        if self.options.min_tflops is not None and is_matpow and run.devices[0].startswith("/CPU"):
            parts.append("--min-tflops is for GPUs")
        if throttled := {reason for gpu in run.gpu for reason in slowdowns(gpu)}:
            parts.append(f"throttled ({', '.join(sorted(throttled))})")
        return ", ".join(parts)

    # ------------------------------------------------------------------------------------------------------- checks

    def _judge_import(self, late: str | None) -> SmokeCheck:
        """Return how long the slowest import of all processes took, or why there was none."""
        if not self.imports:
            why = late or _why_no_import(self.report)
            return check("import", None, "not run" if late else "failed", why=why)
        seconds = max(self.imports)
        return check("import", None, "ok", saw=duration(seconds), seconds=round(seconds, 3))

    def _judge_gpus(self, gpus: tuple[str, ...] | None) -> SmokeCheck:
        """Hold how many GPUs TensorFlow lists against the number that is required."""
        if gpus is None:
            return check("GPUs", None, "unknown", why="TensorFlow did not list its devices")
        saw = ", ".join(f"{gpus.count(name)} × {name}" for name in dict.fromkeys(gpus)) or "TensorFlow lists no GPU"
        required = self.options.require_gpus
        if len(gpus) >= required:
            return check("GPUs", None, "ok", saw=saw)
        return check("GPUs", None, "failed", saw=saw, why=f"{required} required")


# ---------------------------------------------------------------------------------------------------------------------
# What the doctor's report says of this machine. Pure.


def check(name: str, case: Case | None, status: Status, **more: Any) -> SmokeCheck:
    """Return a line: of a step, or of the machine as a whole."""
    return SmokeCheck(name=name, on=case.label if case else "", status=status, **more)


def gpus_of(report: Report) -> tuple[str, ...] | None:
    """Return the GPUs that TensorFlow lists; None where it was not asked, or gave no answer."""
    devices = report.facts.tensorflow.devices
    if not isinstance(devices, Known):
        return None
    return tuple(device.device_name or device.name for device in devices.value if device.kind == "GPU")


def import_phase(report: Report) -> Phase | None:
    """Return how the import went in the doctor's process, the first of all."""
    return next((phase for phase in report.facts.tensorflow.phases if phase.name == "import"), None)


def no_time_to_import(report: Report, options: SmokeOptions) -> str | None:
    """Say why nothing was examined, where the import was still at work when its share of the budget was over.

    One that did nothing any more hangs, whatever the budget.
    """
    phase = import_phase(report)
    if phase is None or phase.outcome != "timeout" or phase.idle is not None:
        return None
    return (
        f"importing TensorFlow takes more than {phase.seconds or 0:.0f} s, its share of the budget of "
        f"{options.budget:g} s: use --budget {max(USUAL, 3 * options.budget):.0f}"
    )


def too_old(report: Report) -> str | None:
    """Say why nothing can be measured in this Python; None where it can."""
    version = value_or(report.facts.python.version, "")
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None or tuple(map(int, found.groups())) >= OLDEST:
        return None
    return f"measuring needs Python {OLDEST[0]}.{OLDEST[1]} or later in the environment under test, this is {version}"


def judge_doctor(report: Report, late: str | None, seconds: float) -> SmokeCheck:
    """Return the verdict of the doctor, who was told when no GPU is required.

    Args:
        late: why the import had no time; a budget that is too small is no error of TensorFlow's.
    """
    causes = [one for one in report.findings if one.root_cause]
    errors = [one for one in causes if one.severity is Severity.ERROR and not (late and one.id == IMPORT_HANG.id)]
    if errors:
        more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
        return check("doctor", None, "failed", why=f"{errors[0].title} ({errors[0].id}){more}", seconds=seconds)
    if late:
        return check("doctor", None, "not run", why=late, seconds=seconds)
    if report.verdict == "unknown":
        reasons = [item.reason for item in report.undetermined]
        return check("doctor", None, "unknown", why=[*reasons, "no further information"][0], seconds=seconds)
    warnings = [one for one in causes if one.severity is Severity.WARNING]
    saw = verdict_sentence(report)
    if warnings:
        saw += f": {warnings[0].title} ({warnings[0].id}): {warnings[0].cause.partition('; ')[0]}"
    return check("doctor", None, "ok", saw=saw, seconds=seconds)


def _why_no_import(report: Report) -> str:
    phase = import_phase(report)
    if phase is None or phase.outcome == "skipped":
        return "TensorFlow could not be started" + (f" ({phase.note})" if phase and phase.note else "")
    if phase.idle is not None:
        return f"it neither used the CPU nor read anything for {phase.idle:.0f} s"
    if phase.outcome == "timeout":
        return f"it did not finish within {phase.seconds or 0:.0f} s"
    return phase.exception or (f"killed by {phase.signal}" if phase.signal else "the process ended while importing")
