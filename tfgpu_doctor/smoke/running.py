"""Run a smoke test: the doctor, then every step in turn, in one shared process, within the budget.

A step that no longer fits is not run, and reported as that. A round is a fresh process, so that a card, a driver or an
import that fails now and then has its chance to.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import msgspec

from tfgpu_doctor import __version__
from tfgpu_doctor.bench.devices import Case, Job, Scalar
from tfgpu_doctor.bench.plans.base import scratch
from tfgpu_doctor.bench.plans.matpow import MatPow
from tfgpu_doctor.bench.plans.training import Cnn
from tfgpu_doctor.bench.results import Run
from tfgpu_doctor.bench.runner.process import Asked, Clock, Worker, WorkerError, Workers
from tfgpu_doctor.bench.runner.runner import measure, to_run
from tfgpu_doctor.bench.speeds import slowdowns, with_peak
from tfgpu_doctor.bench.statistics import StoppingRule
from tfgpu_doctor.facts.facts import Known, Phase, value_or
from tfgpu_doctor.facts.report import Report, Severity, Tool, verdict_sentence
from tfgpu_doctor.facts.units import quantity
from tfgpu_doctor.facts.units import seconds as duration
from tfgpu_doctor.findings.imports import IMPORT_HANG
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.smoke.records import SCHEMA, WORST_FIRST, Smoke, SmokeCheck, SmokeRun, Status, verdict_of

# Enough samples for a figure of two digits, in little time: a gate tells broken from sound, not 2 % from 3 %.
RULE = StoppingRule(min_samples=10, min_seconds=0.2, precision=0.05, deadline=2.0)
# Seconds that the first step of its kind is expected to take at least (measured with TensorFlow 2.21 on two CPU cores:
# matpow 1.3 s, cnn 3 s); what it really took is expected of the next one.
FIRST = {"matpow": 2.0, "cnn": 4.0}
SPREADS = {"matpow": "rows", "cnn": "MirroredStrategy"}  # how the work of each is spread over several devices
ROOM = 1.25  # of the seconds that the slowest of its kind took
START = 5.0  # seconds from a process's start to TensorFlow's answer, where the doctor could not tell
TO_EXAMINE = 0.6  # share of the budget that the doctor may take: a slower import leaves no room for a second one
TO_REPORT = 1.0  # seconds kept for killing what hangs and for the report
USUAL = 60.0  # seconds of a budget that is not given
HALF = 0.5  # share of what is left that one step may take while others wait: one card that hangs must not hide the rest
OLDEST = (3, 8)  # Python that the worker of the benchmarks runs in

# Rows of the matrices. A GPU needs about 4096 to come near its peak (2.5 TFLOP a sample: 40 ms at 60 TFLOP/s); two CPU
# cores need 0.1 s for 1024. float64 has half the rows: GPUs that are made for graphics do 1/64 of float32 in it.
GPU_SIZE, CPU_SIZE = 4096, 1024
BATCH = 64  # images on each device
VIRTUAL_MIB = 1536  # of a logical GPU, which serves all workloads: the first of them sets it
# The type of a training beside that of a product; nobody trains in float64.
CNN_TYPES = {
    "float32": "float32",
    "tf32": "tf32",
    "float64": "float32",
    "float16": "mixed_float16",
    "bfloat16": "mixed_bfloat16",
}
_DOING = {
    "hello": "while starting TensorFlow",
    "prepare": "while setting up the devices",
    "sample": "while computing",
    "verify": "while verifying the result",
    "reference": "while computing the reference result",
}


@dataclass(frozen=True)
class SmokeOptions:
    """What the user asked for."""

    budget: float = USUAL  # seconds for everything
    require_gpus: int = 1  # 0: the CPU will do where there is no GPU
    dtype: str = "float32"
    min_tflops: float | None = None  # of each GPU alone
    max_import: float | None = None  # seconds
    rounds: int = 1
    virtual: int | None = None


class Step(NamedTuple):
    """One check that computes: a workload on some devices."""

    workload: str
    case: Case


def steps(gpus: int, options: SmokeOptions) -> tuple[Step, ...]:
    """Return every workload on each GPU alone and on all together; on the CPU where there is none and none is required.

    Args:
        gpus: how many TensorFlow lists.
        options: none are planned where GPUs are required and there is none.
    """
    if not gpus and options.require_gpus:
        return ()
    kind, everywhere = ("GPU" if gpus else "CPU"), tuple(range(gpus))
    cases = [Case(f"GPU {index}", (f"/GPU:{index}",), everywhere) for index in everywhere]
    cases = cases or [Case("CPU", ("/CPU:0",), ())]
    if gpus > 1:
        cases.append(Case(f"{gpus} GPUs", tuple(f"/GPU:{index}" for index in everywhere), everywhere))
    virtual = []
    if options.virtual:
        names = tuple(f"/{kind}:{index}" for index in range(options.virtual))
        virtual = [Case(f"{options.virtual} virtual {kind}s", names, (0,) if gpus else (), virtual=True)]
    # one workload everywhere before the next: in a small budget, every card should get its turn; logical devices last,
    # since they need a process of their own
    return tuple(
        Step(workload, replace(case, spread=SPREADS[workload]) if len(case.devices) > 1 else case)
        for group in (cases, virtual)
        for workload in FIRST
        for case in group
    )


@dataclass(frozen=True)
class Outcome:
    """How one step of one round ended."""

    step: Step
    status: Status
    why: str = ""
    run: SmokeRun | None = None
    seconds: float = 0.0


@dataclass
class Smoking:
    """One smoke test. The clock is of seconds; `doctor` gets the seconds that it may take."""

    options: SmokeOptions
    doctor: Callable[[float], Report]
    start_worker: Callable[[], Worker]
    matrix: Matrix
    progress: Callable[[str, float], object] = lambda *_: None
    clock: Clock = time.monotonic
    outcomes: list[Outcome] = field(default_factory=list)
    imports: list[float] = field(default_factory=list)  # seconds, of each process
    start: float = START
    costs: dict[str, float] = field(default_factory=dict)  # seconds that the slowest step of a workload took
    started: float = 0.0
    begun: float = 0.0  # when the step at work began
    end: float = math.inf  # when the step at work must have its answers
    ran_out: bool = False  # an answer did not come in time
    enough: float = 0.0  # seconds that a budget should have had
    todo: tuple[Step, ...] = ()
    references: set[str] = field(default_factory=set)  # files that results are compared with
    report: Report = field(init=False)

    def run(self, created: str) -> Smoke:
        """Do everything, in at most the budget."""
        self.started = self.clock()
        self._show("examining this machine and starting TensorFlow")
        self.report = self.doctor(self.options.budget * TO_EXAMINE)
        examined = self.clock() - self.started
        gpus = gpus_of(self.report)
        phase = import_phase(self.report)
        if phase is not None and phase.outcome == "ok" and phase.seconds is not None:
            self.imports.append(phase.seconds)
            self.start = phase.seconds
            planned = steps(len(gpus or ()), self.options)
            if why := too_old(self.report):
                self.outcomes += [Outcome(step, "not run", why) for step in planned]
            else:
                self._measure(planned)
        checks = self._checks(gpus, examined)
        options = self.options
        known = {"tensorflow": self.report.facts.tensorflow.version, "python": self.report.facts.python.version}
        return Smoke(
            schema=SCHEMA,
            tool=Tool(name="tfgpu", version=__version__),
            created=created,
            verdict=verdict_of(checks),
            budget_s=options.budget,
            seconds=round(self.clock() - self.started, 3),
            parameters={
                "require_gpus": options.require_gpus,
                "dtype": options.dtype,
                "min_tflops": options.min_tflops,
                "max_import_s": options.max_import,
                "rounds": options.rounds,
                "virtual_gpus": options.virtual,
            },
            software={name: str(fact.value) for name, fact in known.items() if isinstance(fact, Known)},
            gpus=gpus or (),
            checks=checks,
            runs=tuple(outcome.run for outcome in self.outcomes if outcome.run is not None),
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
            doing = _DOING.get(request["do"], request["do"])
            raise WorkerError(f"no answer within {self.end - self.begun:.0f} s, {doing}") from None

    # -------------------------------------------------------------------------------------------------------- steps

    def _measure(self, planned: tuple[Step, ...]) -> None:
        self.todo = planned * self.options.rounds
        with scratch() as folder:
            for number in range(1, self.options.rounds + 1):
                with Workers(lambda: Asked(self.start_worker(), self._ask), shared=True) as workers:
                    self._round(planned, number, workers, folder)

    def _round(self, planned: tuple[Step, ...], number: int, workers: Workers, folder: str) -> None:
        broken, virtual = "", False  # why no further step is tried; what the process was set up for
        for step in planned:
            if step.case.virtual != virtual:  # a process can be set up for one of the two
                workers.drop()
                virtual = step.case.virtual
            self._show(f"{step.workload} on {step.case.label}")
            outcome = Outcome(step, "not run", broken) if broken else self._fits(step, workers)
            if outcome is None and (outcome := self._started(step, workers)):
                broken = "TensorFlow did not start in this round"
            self.outcomes.append(outcome or self._computed(step, number, workers, folder))
            self.todo = self.todo[1:]

    def _job(self, step: Step, folder: str) -> tuple[Job, dict[str, Scalar]]:
        """Return the job of a step, and what two results of it must share."""
        dtype = self.options.dtype
        if step.workload == "cnn":  # its figures beside the steps take longer than all the rest
            cnn = Cnn(batch=BATCH)
            job, parameters = replace(cnn.job(CNN_TYPES[dtype], step.case), figures=False), cnn.parameters()
        else:
            size = (GPU_SIZE if step.case.gpus else CPU_SIZE) // (2 if dtype == "float64" else 1)
            matpow = MatPow(dtypes=(dtype,), chosen=size, written=self.references)
            job, parameters = matpow.job(step.case, dtype, size, folder), matpow.parameters()
        return replace(job, virtual_memory_mib=VIRTUAL_MIB), parameters

    def _cost(self, workload: str) -> float:
        """Return the seconds that a step will take."""
        return self.costs[workload] * ROOM if workload in self.costs else FIRST[workload]

    def _fits(self, step: Step, workers: Workers) -> Outcome | None:
        """Set the time of a step; an outcome where the budget has none."""
        cost = self._cost(step.workload) + (0.0 if workers.alive else self.start * ROOM)
        if cost <= self.left:
            self.begun, self.ran_out = self.clock(), False
            last = len(self.todo) == 1
            self.end = self.begun + (self.left if last else max(self.left * HALF, min(cost, self.left)))
            return None
        if not self.enough:  # once: all that was left out for the same reason gets the same advice
            budget = self.options.budget - self.left + self.options.rounds * self.start * ROOM
            self.enough = -(-(budget + sum(self._cost(one.workload) for one in self.todo)) // 10) * 10.0
        why = (
            f"{step.workload} needs about {cost:.1f} s, but only {max(self.left, 0):.1f} s of the budget of "
            f"{self.options.budget:g} s are left: use --budget {self.enough:.0f}"
        )
        return Outcome(step, "not run", why)

    def _started(self, step: Step, workers: Workers) -> Outcome | None:
        """Start the process where there is none; an outcome where that fails, or GPUs are gone."""
        try:
            workers.take()
            if len(workers.found) < len(step.case.gpus):
                listed, before = len(workers.found), len(gpus_of(self.report) or ())
                raise WorkerError(f"TensorFlow now lists {listed} of the {before} GPUs")
        except WorkerError as error:
            workers.drop()
            status: Status = "unknown" if self.ran_out else "failed"
            return Outcome(step, status, str(error), seconds=self.clock() - self.begun)
        return None

    def _computed(self, step: Step, number: int, workers: Workers, folder: str) -> Outcome:
        """Measure and judge, in the process that is there."""
        ready, (job, parameters) = self.clock(), self._job(step, folder)
        (measured,) = measure([job], workers, rule=RULE, keep=(job.key,), clock=self.clock)
        if not measured.failure:  # how long it hung tells nothing of the next one
            self.costs[step.workload] = max(self.clock() - ready, self.costs.get(step.workload, 0.0))
        run = to_run(measured, RULE)
        own = tuple(gpu for gpu in run.gpu if gpu.device in run.devices)  # others took no part
        throttled = run.throttled_samples if any(map(slowdowns, own)) else ()
        run = msgspec.structs.replace(run, gpu=own, throttled_samples=throttled)
        run = with_peak(run, self.report.facts, self.matrix)
        if "import" in run.cold_start_s:
            self.imports.append(run.cold_start_s["import"])
        kept = SmokeRun(workload=step.workload, round=number, parameters=parameters, run=run)
        why = self._wrong(step, run)
        status: Status = "unknown" if self.ran_out else "failed" if why else "ok"
        return Outcome(step, status, why, kept, self.clock() - self.begun)

    def _wrong(self, step: Step, run: Run) -> str:
        """Say what is wrong with a run, or that a GPU alone is too slow; "" where nothing is."""
        if run.failure or run.verified is None or not run.verified.ok or run.throughput is None:
            return run.failure or "the result was not verified"
        least = self.options.min_tflops
        one_gpu = step.workload == "matpow" and len(run.devices) == 1 and run.devices[0].startswith("/GPU")
        if least is not None and one_gpu and not run.virtual and run.throughput.value < least * 1e12:
            return f"minimum {least:g} TFLOP/s"
        return ""

    # ------------------------------------------------------------------------------------------------------- checks

    def _checks(self, gpus: tuple[str, ...] | None, examined: float) -> tuple[SmokeCheck, ...]:
        late = no_time_to_import(self.report, self.options)
        checks = [
            judge_doctor(self.report, late, round(examined, 3)),
            self._judge_import(late),
            self._judge_gpus(gpus),
        ]
        by_step: dict[Step, list[Outcome]] = {}
        for outcome in self.outcomes:
            by_step.setdefault(outcome.step, []).append(outcome)
        checks += [self._worst(step, rounds) for step, rounds in by_step.items()]
        if not by_step:
            why = "there is no GPU" if gpus is not None else late or "TensorFlow cannot be used"
            checks += [SmokeCheck(name=name, on="", status="not run", why=why) for name in FIRST]
        return tuple(checks)

    def _judge_import(self, late: str | None) -> SmokeCheck:
        """Hold the slowest import of all processes against the limit where one was given."""
        if not self.imports and late:
            return SmokeCheck(name="import", on="", status="not run", why=late)
        if not self.imports:
            return SmokeCheck(name="import", on="", status="failed", why=_why_no_import(self.report), ran=1)
        slowest, limit = max(self.imports), self.options.max_import
        slow = limit is not None and slowest > limit
        return SmokeCheck(
            name="import",
            on="",
            status="failed" if slow else "ok",
            saw=duration(slowest),
            why=f"limit {limit:g} s" if slow else "",
            seconds=round(slowest, 3),
            passed=int(not slow),
            ran=1,
        )

    def _judge_gpus(self, gpus: tuple[str, ...] | None) -> SmokeCheck:
        """Hold how many GPUs TensorFlow lists against the number that is required."""
        if gpus is None:
            return SmokeCheck(name="GPUs", on="", status="unknown", why="TensorFlow did not list its devices")
        required, few = self.options.require_gpus, len(gpus) < self.options.require_gpus
        return SmokeCheck(
            name="GPUs",
            on="",
            status="failed" if few else "ok",
            saw=", ".join(f"{gpus.count(name)} × {name}" for name in dict.fromkeys(gpus)) or "TensorFlow lists no GPU",
            why=f"{required} {'is' if required == 1 else 'are'} required" if few else "",
            passed=int(not few),
            ran=1,
        )

    def _worst(self, step: Step, outcomes: Sequence[Outcome]) -> SmokeCheck:
        """Return one line for the rounds of one step: the worst of them, and how many ended well."""

        def rank(outcome: Outcome) -> tuple[int, float]:
            throughput = outcome.run.run.throughput if outcome.run else None
            return WORST_FIRST.index(outcome.status), throughput.value if throughput else 0.0

        shown = min(outcomes, key=rank)
        run = shown.run.run if shown.run else None
        return SmokeCheck(
            name=step.workload,
            on=step.case.label,
            status=shown.status,
            saw=self._found(shown),
            why=shown.why,
            seconds=round(sum(outcome.seconds for outcome in outcomes), 3),
            passed=sum(outcome.status == "ok" for outcome in outcomes),
            ran=sum(outcome.status in ("ok", "failed") for outcome in outcomes),
            rounds=self.options.rounds,
            throughput=run.throughput if run and not run.virtual else None,
        )

    def _found(self, outcome: Outcome) -> str:
        run = outcome.run.run if outcome.run else None
        if run is None or run.throughput is None:
            return ""
        is_matpow = outcome.step.workload == "matpow"
        # cards before Ampere have no TF32, and compute in another type than was asked for
        instead = f", not {run.dtype}" if run.computed_in not in (None, run.dtype) else ""
        parts = [f"verified in {run.computed_in or run.dtype}{instead}"]
        if run.virtual:
            parts.append("virtual devices have no speed")
        else:
            # of a small network, a large GPU needs a few per cent, which says nothing about the GPU
            share = f" ({run.percent_of_peak:.0f} % of peak)" if is_matpow and run.percent_of_peak is not None else ""
            parts.insert(0, quantity(run.throughput.value, run.throughput.unit, run.throughput.ci95) + share)
        if self.options.min_tflops is not None and is_matpow and run.devices[0].startswith("/CPU"):
            parts.append("--min-tflops is for GPUs")
        if throttled := {reason for gpu in run.gpu for reason in slowdowns(gpu)}:
            parts.append(f"throttled ({', '.join(sorted(throttled))})")
        return ", ".join(parts)


# ---------------------------------------------------------------------------------------------------------------------
# What the doctor's report says of this machine. Pure.


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
    parts = version.split(".")[:2]
    if len(parts) < 2 or not all(part.isdecimal() for part in parts) or tuple(map(int, parts)) >= OLDEST:
        return None
    return f"measuring needs Python {OLDEST[0]}.{OLDEST[1]} or later in the environment under test, this is {version}"


def judge_doctor(report: Report, late: str | None, seconds: float) -> SmokeCheck:
    """Return the verdict of the doctor, who was told when no GPU is required.

    Args:
        late: why the import had no time; a budget that is too small is no error of TensorFlow's.
    """
    causes = [one for one in report.findings if one.root_cause]
    errors = [one for one in causes if one.severity is Severity.ERROR and not (late and one.id == IMPORT_HANG.id)]
    check = SmokeCheck(name="doctor", on="", status="failed", seconds=seconds)
    if errors:
        more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
        return msgspec.structs.replace(check, why=f"{errors[0].title} ({errors[0].id}){more}", ran=1)
    if late:
        return msgspec.structs.replace(check, status="not run", why=late)
    if report.verdict == "unknown":
        reasons = [item.reason for item in report.undetermined]
        return msgspec.structs.replace(check, status="unknown", why=[*reasons, "no further information"][0])
    warnings = [one for one in causes if one.severity is Severity.WARNING]
    saw = verdict_sentence(report)
    if warnings:
        saw += f": {warnings[0].title} ({warnings[0].id}): {warnings[0].cause.partition('; ')[0]}"
    return msgspec.structs.replace(check, status="ok", saw=saw, passed=1, ran=1)


def _why_no_import(report: Report) -> str:
    phase = import_phase(report)
    if phase is None or phase.outcome == "skipped":
        return "TensorFlow could not be started" + (f" ({phase.note})" if phase and phase.note else "")
    if phase.outcome == "timeout":
        return f"it did not finish within {phase.seconds or 0:.0f} s"
    return phase.exception or (f"killed by {phase.signal}" if phase.signal else "the process ended while importing")
