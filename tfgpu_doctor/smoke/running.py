"""Run a smoke test: the doctor, then every step in turn, in one shared process, within the budget.

A step that no longer fits is not run, and reported as that. A round is a fresh process, so that a card, a driver or an
import that fails now and then has its chance to.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from tfgpu_doctor import __version__
from tfgpu_doctor.bench.results import Run
from tfgpu_doctor.bench.runner.process import Clock, Limit, OneProcess, Worker, WorkerError
from tfgpu_doctor.bench.runner.runner import measure, to_run
from tfgpu_doctor.bench.speeds import revised, with_peak
from tfgpu_doctor.bench.statistics import StoppingRule
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.records.report import Report, Tool
from tfgpu_doctor.smoke import judging, plan
from tfgpu_doctor.smoke.judging import Outcome
from tfgpu_doctor.smoke.plan import Costs, Jobs, SmokeOptions, Step
from tfgpu_doctor.smoke.records import SCHEMA, Smoke, SmokeCheck, SmokeRun, Status, verdict_of

# Enough samples for a figure of two digits, in little time: a gate tells broken from sound, not 2 % from 3 %.
RULE = StoppingRule(min_samples=10, min_seconds=0.2, precision=0.05, deadline=2.0)


def _no_progress(*_: object) -> None:
    """Nobody watches."""


@dataclass
class _Round:
    """One time through all the steps."""

    number: int
    process: OneProcess
    limit: Limit
    jobs: Jobs
    broken: str = ""  # why no further step is tried


@dataclass
class Smoking:
    """One smoke test. The clock is of seconds; `doctor` gets the seconds that it may take."""

    options: SmokeOptions
    doctor: Callable[[float], Report]
    start_worker: Callable[[], Worker]
    matrix: Matrix
    progress: Callable[[str, float], object] = _no_progress
    clock: Clock = time.monotonic
    outcomes: list[Outcome] = field(default_factory=list)
    imports: list[float] = field(default_factory=list)
    costs: Costs = field(default_factory=Costs)
    started: float = 0.0
    created: str = ""
    enough: float = 0.0  # seconds that a budget should have had
    todo: tuple[Step, ...] = ()
    report: Report = field(init=False)
    gpus: tuple[str, ...] = ()

    def run(self, created: str) -> Smoke:
        """Everything, in at most the budget."""
        self.started, self.created = self.clock(), created
        self._progress("examining this machine and starting TensorFlow")
        self.report = self.doctor(self.options.budget * plan.TO_EXAMINE)
        examined = self.clock() - self.started
        self.gpus = judging.gpus_of(self.report) or ()
        if (seconds := judging.import_seconds(self.report)) is not None:
            self.imports.append(seconds)
            self.costs.start = seconds
            steps = plan.steps(len(self.gpus), self.options)
            if why := judging.too_old(self.report):
                self.outcomes += [Outcome(step, 1, "not run", why) for step in steps]
            else:
                self._measure(steps)
        return self._smoke(self._checks(examined))

    @property
    def left(self) -> float:
        """Seconds of the budget that can still be used."""
        return self.options.budget - (self.clock() - self.started) - plan.TO_REPORT

    def _progress(self, label: str) -> None:
        self.progress(label, min((self.clock() - self.started) / self.options.budget, 1.0))

    def _measure(self, steps: tuple[Step, ...]) -> None:
        self.todo = steps * self.options.rounds
        with Jobs(self.options.dtype) as jobs:
            for number in range(1, self.options.rounds + 1):
                limit = Limit(self.clock)
                process = OneProcess(self.start_worker, limit)
                with process:
                    self._round(steps, _Round(number, process, limit, jobs))

    def _round(self, steps: tuple[Step, ...], here: _Round) -> None:
        virtual = False
        for step in steps:
            if step.case.virtual != virtual:  # a process can be set up for one of the two
                here.process.drop()
                virtual = step.case.virtual
            self._progress(f"{step.workload} on {step.on}")
            self.outcomes.append(self._one(step, here))
            self.todo = self.todo[1:]

    def _one(self, step: Step, here: _Round) -> Outcome:
        """One step, where it still fits."""
        if here.broken:
            return Outcome(step, here.number, "not run", here.broken)
        cost = self.costs.of(step.workload, starts=not here.process.alive)
        if cost > self.left:
            return Outcome(step, here.number, "not run", self._no_room(step.workload, cost))
        last = len(self.todo) == 1
        here.limit.set(self.left if last else max(self.left * plan.HALF, min(cost, self.left)))
        begun = self.clock()
        try:
            here.process.take()
            if len(here.process.found) < len(step.case.gpus):
                raise WorkerError(f"TensorFlow now lists {len(here.process.found)} of the {len(self.gpus)} GPUs")
        except WorkerError as error:
            here.process.drop()
            here.broken = "TensorFlow did not start in this round"
            status: Status = "unknown" if here.limit.ran_out else "failed"
            return Outcome(step, here.number, status, str(error), seconds=self.clock() - begun)
        return self._computed(step, here, begun)

    def _computed(self, step: Step, here: _Round, begun: float) -> Outcome:
        """Measure and judge, in the process that is there."""
        job = here.jobs.of(step)
        ready = self.clock()
        key = (step.case.label, job.dtype_on(step.case))
        (measured,) = measure([(step.case, job)], here.process, rule=RULE, keep=(key,), clock=self.clock)
        if not measured.failure:  # how long it hung tells nothing of the next one
            self.costs.learn(step.workload, self.clock() - ready)
        result = with_peak(_of_its_devices(to_run(measured, RULE)), self.report.facts, self.matrix)
        self.imports += [result.cold_start_s["import"]] if "import" in result.cold_start_s else []
        run = SmokeRun(workload=step.workload, round=here.number, parameters=here.jobs.parameters(step), run=result)
        seconds = self.clock() - begun
        if here.limit.ran_out:
            return Outcome(step, here.number, "unknown", result.failure or "", run, seconds)
        return judging.judge_run(step, run, self.options, seconds)

    def _no_room(self, workload: str, cost: float) -> str:
        if not self.enough:  # once: all that was left out for the same reason gets the same advice
            spent = self.options.budget - self.left
            self.enough = self.costs.of_all(self.todo, self.options.rounds, spent)
        return plan.no_room(workload, cost, self.left, self.options.budget, self.enough)

    def _checks(self, examined: float) -> tuple[SmokeCheck, ...]:
        gpus = judging.gpus_of(self.report)
        checks = [
            judging.judge_doctor(self.report, self.options, round(examined, 3)),
            judging.judge_import(self.report, self.imports, self.options),
            judging.judge_gpus(gpus, self.options),
        ]
        by_step: dict[Step, list[Outcome]] = {}
        for outcome in self.outcomes:
            by_step.setdefault(outcome.step, []).append(outcome)
        checks += [judging.worst(rounds, self.options) for rounds in by_step.values()]
        if not by_step:
            unusable = judging.no_time_to_import(self.report, self.options) or "TensorFlow cannot be used"
            why = unusable if gpus is None else "there is no GPU"
            checks += [SmokeCheck(name=name, on="", status="not run", why=why) for name in plan.FIRST]
        return tuple(checks)

    def _smoke(self, checks: tuple[SmokeCheck, ...]) -> Smoke:
        options = self.options
        return Smoke(
            schema=SCHEMA,
            tool=Tool(name="tfgpu", version=__version__),
            created=self.created,
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
            software=judging.software_of(self.report),
            gpus=judging.gpus_of(self.report) or (),
            checks=checks,
            runs=tuple(outcome.run for outcome in self.outcomes if outcome.run is not None),
            report=self.report,
        )


def _of_its_devices(run: Run) -> Run:
    """Without the telemetry of GPUs that took no part."""
    own = tuple(gpu for gpu in run.gpu if gpu.device in run.devices)
    return revised(msgspec.structs.replace(run, gpu=own, throttled_samples=run.throttled_samples if own else ()))
