"""From the doctor's report and the runs to a status and a sentence for each check. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from tfgpu_doctor.bench.speeds import slowdowns
from tfgpu_doctor.findings.imports import IMPORT_HANG
from tfgpu_doctor.records.facts import Known, Phase, value_or
from tfgpu_doctor.records.report import Finding, Report, Severity, verdict_sentence
from tfgpu_doctor.records.units import quantity
from tfgpu_doctor.records.units import seconds as duration
from tfgpu_doctor.smoke import plan
from tfgpu_doctor.smoke.plan import SmokeOptions, Step
from tfgpu_doctor.smoke.records import WORST_FIRST, SmokeCheck, SmokeRun, Status

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


def gpus_of(report: Report) -> tuple[str, ...] | None:
    """The GPUs that TensorFlow lists; None where it was not asked, or gave no answer."""
    devices = report.facts.tensorflow.devices
    if not isinstance(devices, Known):
        return None
    return tuple(device.device_name or device.name for device in devices.value if device.kind == "GPU")


def import_seconds(report: Report) -> float | None:
    """How long the import took in the doctor's process, the first of all; None where it did not end well."""
    phase = _import_phase(report)
    return phase.seconds if phase is not None and phase.outcome == "ok" else None


def no_time_to_import(report: Report, options: SmokeOptions) -> str | None:
    """Why nothing was examined, where the import was still at work when its share of the budget was over.

    One that did nothing any more hangs, whatever the budget.
    """
    phase = _import_phase(report)
    if phase is None or phase.outcome != "timeout" or phase.idle is not None:
        return None
    return (
        f"importing TensorFlow takes more than {phase.seconds or 0:.0f} s, its share of the budget of "
        f"{options.budget:g} s: use --budget {plan.more_than(options.budget):.0f}"
    )


def _import_phase(report: Report) -> Phase | None:
    return next((phase for phase in report.facts.tensorflow.phases if phase.name == "import"), None)


def too_old(report: Report) -> str | None:
    """Why nothing can be measured in this Python; None where it can."""
    version = value_or(report.facts.python.version, "")
    parts = version.split(".")
    if len(parts) < 2 or not all(part.isdecimal() for part in parts[:2]):
        return None
    if (int(parts[0]), int(parts[1])) >= OLDEST:
        return None
    return f"measuring needs Python {OLDEST[0]}.{OLDEST[1]} or later in the environment under test, this is {version}"


def judge_doctor(report: Report, options: SmokeOptions, seconds: float) -> SmokeCheck:
    """The verdict of the doctor, who was told when no GPU is required."""
    late = no_time_to_import(report, options)
    errors = list(_errors(report, late=late is not None))
    check = SmokeCheck(name="doctor", on="", status="ok", saw=_sentence(report), seconds=seconds, passed=1, ran=1)
    if late and not errors:
        return _with(check, status="not run", saw="", why=late, passed=0, ran=0)
    if errors:
        more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
        return _with(check, status="failed", saw="", why=f"{errors[0].title} ({errors[0].id}){more}", passed=0)
    if report.verdict == "unknown":
        reason = next((item.reason for item in report.undetermined), "no further information")
        return _with(check, status="unknown", saw="", why=reason, passed=0, ran=0)
    return check


def _sentence(report: Report) -> str:
    """What the verdict means; where something is wrong all the same, what and why."""
    warning = next((one for one in report.findings if one.severity is Severity.WARNING and one.root_cause), None)
    if warning is None:
        return verdict_sentence(report)
    return f"{verdict_sentence(report)}: {warning.title} ({warning.id}): {warning.cause.partition('; ')[0]}"


def _errors(report: Report, *, late: bool) -> Iterator[Finding]:
    """The errors that count; an import for which the budget is too small is none of TensorFlow's."""
    for one in report.findings:
        if one.severity is Severity.ERROR and one.root_cause and not (late and one.id == IMPORT_HANG.id):
            yield one


def judge_import(report: Report, seconds: Sequence[float], options: SmokeOptions) -> SmokeCheck:
    """The slowest import of all processes, in `seconds`, against the limit where one was given."""
    check = SmokeCheck(name="import", on="", status="ok", passed=1, ran=1)
    if not seconds and (late := no_time_to_import(report, options)):
        return _with(check, status="not run", why=late, passed=0, ran=0)
    if not seconds:
        return _with(check, status="failed", why=_why_no_import(report), passed=0)
    check = _with(check, saw=duration(max(seconds)), seconds=round(max(seconds), 3))
    if options.max_import is not None and max(seconds) > options.max_import:
        return _with(check, status="failed", why=f"limit {options.max_import:g} s", passed=0)
    return check


def _why_no_import(report: Report) -> str:
    phase = _import_phase(report)
    if phase is None or phase.outcome == "skipped":
        return "TensorFlow could not be started" + (f" ({phase.note})" if phase and phase.note else "")
    if phase.outcome == "timeout":
        return f"it did not finish within {phase.seconds or 0:.0f} s"
    return phase.exception or (f"killed by {phase.signal}" if phase.signal else "the process ended while importing")


def judge_gpus(gpus: tuple[str, ...] | None, options: SmokeOptions) -> SmokeCheck:
    """How many GPUs TensorFlow lists, against the number that is required."""
    check = SmokeCheck(name="GPUs", on="", status="ok", passed=1, ran=1)
    required = f"{options.require_gpus} {'is' if options.require_gpus == 1 else 'are'} required"
    if gpus is None:
        return _with(check, status="unknown", why="TensorFlow did not list its devices", passed=0, ran=0)
    check = _with(check, saw=", ".join(_counted(gpus)) or "TensorFlow lists no GPU")
    if len(gpus) < options.require_gpus:
        return _with(check, status="failed", why=required, passed=0)
    return check


def _counted(names: Iterable[str]) -> list[str]:
    listed = list(names)
    return [f"{listed.count(name)} × {name}" for name in dict.fromkeys(listed)]


def _with(check: SmokeCheck, **changes: object) -> SmokeCheck:
    return msgspec.structs.replace(check, **changes)


def judge_run(step: Step, measured: SmokeRun, options: SmokeOptions, seconds: float) -> Outcome:
    """Judge a run that came to an end: wrong, too slow, or well."""
    run, least = measured.run, options.min_tflops
    why = ""
    if run.failure or run.verified is None or not run.verified.ok or run.throughput is None:
        why = run.failure or "the result was not verified"
    elif least is not None and step.workload == "matpow" and len(run.devices) == 1 and not run.virtual:
        too_slow = run.devices[0].startswith("/GPU") and run.throughput.value < least * 1e12
        why = f"minimum {least:g} TFLOP/s" if too_slow else ""
    return Outcome(step, measured.round, "failed" if why else "ok", why, measured, seconds)


def worst(outcomes: Sequence[Outcome], options: SmokeOptions) -> SmokeCheck:
    """One line for the rounds of one step: the worst of them, and how many ended well."""
    shown = min(outcomes, key=lambda outcome: (WORST_FIRST.index(outcome.status), _speed(outcome)))
    run = shown.run.run if shown.run else None
    return SmokeCheck(
        name=shown.step.workload,
        on=shown.step.on,
        status=shown.status,
        saw=_found(shown, options),
        why=shown.why,
        seconds=round(sum(outcome.seconds for outcome in outcomes), 3),
        passed=sum(outcome.status == "ok" for outcome in outcomes),
        ran=sum(outcome.status in ("ok", "failed") for outcome in outcomes),
        rounds=options.rounds,
        throughput=run.throughput if run and not run.virtual else None,
    )


def _speed(outcome: Outcome) -> float:
    throughput = outcome.run.run.throughput if outcome.run else None
    return throughput.value if throughput else 0.0


def _found(outcome: Outcome, options: SmokeOptions) -> str:
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
    if options.min_tflops is not None and is_matpow and run.devices[0].startswith("/CPU"):
        parts.append("--min-tflops is for GPUs")
    if throttled := {reason for gpu in run.gpu for reason in slowdowns(gpu) if gpu.device in run.devices}:
        parts.append(f"throttled ({', '.join(sorted(throttled))})")
    return ", ".join(parts)


def software_of(report: Report) -> dict[str, str]:
    """The versions under test, where they are known."""
    known = {"tensorflow": report.facts.tensorflow.version, "python": report.facts.python.version}
    return {name: value_or(fact, "") for name, fact in known.items() if isinstance(fact, Known)}
