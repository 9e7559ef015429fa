"""From what the doctor and the runs say to a status and a sentence for each check. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec

from tfgpu_doctor.bench.comparing.comparison import JUDGED
from tfgpu_doctor.bench.comparing.records import RunChange
from tfgpu_doctor.bench.results import Run
from tfgpu_doctor.findings.declaration import matches
from tfgpu_doctor.records.facts import Known, value_or
from tfgpu_doctor.records.report import Report, Severity
from tfgpu_doctor.records.units import quantity
from tfgpu_doctor.records.units import seconds as duration
from tfgpu_doctor.records.wording import verdict_sentence
from tfgpu_doctor.smoke.baseline import Baseline
from tfgpu_doctor.smoke.plan import Asked, Step
from tfgpu_doctor.smoke.records import WORST_FIRST, SmokeCheck, SmokeRun, Status

# Findings that say why TensorFlow has no GPU: no fault of a machine of which none is required.
ABOUT_GPUS = (
    *("gpu.*", "driver.*", "container.*", "wsl.*", "cuda.*", "cudnn.*", "xla.*", "memory.*", "nccl.*", "p2p.*"),
    *("tf.cpu-build", "tf.windows-native"),
)
OLDEST = (3, 8)  # Python that the worker of the benchmarks runs in


@dataclass(frozen=True)
class Outcome:
    """How one step of one round ended."""

    step: Step
    round: int
    status: Status
    why: str = ""
    run: SmokeRun | None = None
    seconds: float = 0.0
    compared: RunChange | str | None = None


# ------------------------------------------------------------------------------------------- the doctor's part


def gpus_of(report: Report) -> tuple[str, ...] | None:
    """The GPUs that TensorFlow lists; None where it was not asked, or gave no answer."""
    devices = report.facts.tensorflow.devices
    if not isinstance(devices, Known):
        return None
    return tuple(one.device_name or one.name for one in devices.value if one.kind == "GPU")


def import_seconds(report: Report) -> float | None:
    """How long the import took in the doctor's process, the first of all; None where it did not end well."""
    phase = next((one for one in report.facts.tensorflow.phases if one.name == "import"), None)
    return phase.seconds if phase is not None and phase.outcome == "ok" else None


def too_old(report: Report) -> str | None:
    """Why nothing can be measured in this Python; None where it can."""
    version = value_or(report.facts.python.version, "")
    parts = version.split(".")
    if len(parts) < 2 or not all(part.isdecimal() for part in parts[:2]):
        return None
    if (int(parts[0]), int(parts[1])) >= OLDEST:
        return None
    return f"measuring needs Python {OLDEST[0]}.{OLDEST[1]} or later in the environment under test, this is {version}"


def judge_doctor(report: Report, asked: Asked, seconds: float) -> SmokeCheck:
    """The verdict; where no GPU is required and TensorFlow lists none, what it says about GPUs does not count."""
    errors = [one for one in report.findings if one.severity is Severity.ERROR and one.root_cause]
    on_cpu = asked.require_gpus == 0 and gpus_of(report) == ()
    if on_cpu:
        errors = [one for one in errors if not matches(one.id, ABOUT_GPUS)]
    check = SmokeCheck(
        name="doctor", on="", status="ok", saw=verdict_sentence(report), seconds=seconds, passed=1, ran=1
    )
    if on_cpu and not errors:
        return _with(check, saw="TensorFlow runs on the CPU; no GPU is required")
    if errors:
        more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
        return _with(check, status="failed", saw="", why=f"{errors[0].title} ({errors[0].id}){more}", passed=0)
    if report.verdict == "unknown":
        reason = next((one.reason for one in report.undetermined), "nothing more is known")
        return _with(check, status="unknown", saw="", why=reason, passed=0, ran=0)
    return check


def judge_import(report: Report, seconds: Sequence[float], asked: Asked) -> SmokeCheck:
    """The slowest import of all processes, in `seconds`, against the limit where one was given."""
    check = SmokeCheck(name="import", on="", status="ok", passed=1, ran=1)
    if not seconds:
        return _with(check, status="failed", why=_why_no_import(report), passed=0)
    check = _with(check, saw=duration(max(seconds)), seconds=round(max(seconds), 3))
    if asked.max_import is not None and max(seconds) > asked.max_import:
        return _with(check, status="failed", why=f"at most {asked.max_import:g} s were asked for", passed=0)
    return check


def _why_no_import(report: Report) -> str:
    phase = next((one for one in report.facts.tensorflow.phases if one.name == "import"), None)
    if phase is None or phase.outcome == "skipped":
        return "TensorFlow could not be started"
    if phase.outcome == "timeout":
        return f"it did not end within {phase.seconds or 0:.0f} s"
    return phase.exception or (f"killed by {phase.signal}" if phase.signal else "the process ended while importing")


def judge_gpus(gpus: tuple[str, ...] | None, asked: Asked) -> SmokeCheck:
    """How many GPUs TensorFlow lists, against the number that is required."""
    check = SmokeCheck(name="GPUs", on="", status="ok", passed=1, ran=1)
    required = f"{asked.require_gpus} {'is' if asked.require_gpus == 1 else 'are'} required"
    if gpus is None:
        return _with(check, status="unknown", why="TensorFlow did not list its devices", passed=0, ran=0)
    check = _with(check, saw=", ".join(_counted(gpus)) or "TensorFlow lists none")
    if len(gpus) < asked.require_gpus:
        return _with(check, status="failed", why=required, passed=0)
    return check


def _counted(names: Iterable[str]) -> list[str]:
    listed = list(names)
    return [f"{listed.count(name)} × {name}" for name in dict.fromkeys(listed)]


def _with(check: SmokeCheck, **changes: object) -> SmokeCheck:
    return msgspec.structs.replace(check, **changes)


# ------------------------------------------------------------------------------------------- what was computed


def judge_run(
    step: Step, measured: SmokeRun, asked: Asked, seconds: float, compared: RunChange | str | None
) -> Outcome:
    """A run that came to an end: wrong, too slow, or well."""
    outcome = Outcome(step, measured.round, "ok", "", measured, seconds, compared)
    return outcome if (why := _why_not(step, measured.run, asked, compared)) is None else _failed(outcome, why)


def _failed(outcome: Outcome, why: str) -> Outcome:
    return replace(outcome, status="failed", why=why)


def _why_not(step: Step, run: Run, asked: Asked, compared: RunChange | str | None) -> str | None:
    if run.failure or run.verified is None or not run.verified.ok or run.throughput is None:
        return run.failure or "the result was not verified"
    alone = len(run.devices) == 1 and run.devices[0].startswith("/GPU") and not run.virtual
    least = asked.min_tflops
    if least is not None and step.workload == "matpow" and alone and run.throughput.value < least * 1e12:
        return f"at least {least:g} TFLOP/s were asked for"
    if isinstance(compared, RunChange) and compared.verdict == "slower" and compared.ratio:
        return f"{compared.ratio.value:.2f} times the time of the baseline, at most {asked.factor:g} is allowed"
    return None


def worst(outcomes: Sequence[Outcome], asked: Asked) -> SmokeCheck:
    """One line for the rounds of one step: the worst of them, and how many ended well."""
    shown = min(outcomes, key=lambda one: (WORST_FIRST.index(one.status), _speed(one)))
    run = shown.run.run if shown.run else None
    return SmokeCheck(
        name=shown.step.workload,
        on=shown.step.on,
        status=shown.status,
        saw=_saw(shown, asked),
        why=shown.why,
        seconds=round(sum(one.seconds for one in outcomes), 3),
        passed=sum(one.status == "ok" for one in outcomes),
        ran=sum(one.status in ("ok", "failed") for one in outcomes),
        rounds=asked.rounds,
        throughput=run.throughput if run and not run.virtual else None,
    )


def _speed(outcome: Outcome) -> float:
    throughput = outcome.run.run.throughput if outcome.run else None
    return throughput.value if throughput else 0.0


def _saw(outcome: Outcome, asked: Asked) -> str:
    run = outcome.run.run if outcome.run else None
    if run is None or run.throughput is None:
        return ""
    speed = quantity(run.throughput.value, run.throughput.unit, run.throughput.ci95)
    share = f" ({run.percent_of_peak:.0f} % of peak)" if run.percent_of_peak is not None else ""
    said = [] if run.virtual else [speed + share]
    said.append(f"verified in {run.computed_in or run.dtype}{_instead(run)}")
    if run.virtual:
        said.append("virtual devices have no speed")
    if isinstance(outcome.compared, RunChange) and outcome.compared.ratio and outcome.compared.verdict != "slower":
        said.append(f"{outcome.compared.ratio.value:.2f} times the time of the baseline")
    if asked.min_tflops is not None and outcome.step.workload == "matpow" and run.devices[0].startswith("/CPU"):
        said.append("--min-tflops is for GPUs")
    throttled = {reason for gpu in run.gpu for reason in gpu.throttled if gpu.device in run.devices}
    if throttled:
        said.append(f"throttled ({', '.join(sorted(throttled))})")
    return ", ".join(said)


def _instead(run: Run) -> str:
    """Where another type was computed in than asked for: cards before Ampere have no TF32."""
    return f", not {run.dtype}" if run.computed_in not in (None, run.dtype) else ""


def judge_baseline(outcomes: Sequence[Outcome], baseline: Baseline, asked: Asked) -> SmokeCheck:
    """Whether everything that has a speed could be compared; that a run is slower stands in its own line."""
    ratios: list[float] = []
    reasons: list[str] = []
    for one in outcomes:
        if isinstance(one.compared, RunChange) and one.compared.verdict in JUDGED and one.compared.ratio:
            ratios.append(one.compared.ratio.value)
        elif isinstance(one.compared, RunChange):
            reasons.append(f"{one.compared.verdict}: {', '.join(one.compared.reasons)}")
        elif isinstance(one.compared, str):
            reasons.append(one.compared)
    check = SmokeCheck(name="baseline", on="", status="ok", passed=1, ran=1)
    if reasons:
        why = f"{baseline.name}: {'; '.join(dict.fromkeys(reasons))}"
        return _with(check, status="unknown", why=why, passed=0, ran=0)
    if not ratios:
        why = f"nothing was measured that could be compared with {baseline.name}"
        return _with(check, status="not run", why=why, passed=0, ran=0)
    of = f", which holds {baseline.only} alone" if baseline.only else ""
    runs = "1 run" if len(ratios) == 1 else f"{len(ratios)} runs"
    return _with(check, saw=f"{runs} compared, at most {max(ratios):.2f} times the time in {baseline.name}{of}")


def software_of(report: Report) -> dict[str, str]:
    """The versions under test, where they are known."""
    known = {"tensorflow": report.facts.tensorflow.version, "python": report.facts.python.version}
    return {name: value_or(fact, "") for name, fact in known.items() if isinstance(fact, Known)}
