"""Facts → a report: diagnosed, judged as a whole, dated."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Literal

from tfgpu_doctor import __version__
from tfgpu_doctor.diagnosis.engine import diagnose
from tfgpu_doctor.findings.derived import OPTIONAL_COMPONENTS
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.records.facts import Facts, Known, lists_gpu, value_or
from tfgpu_doctor.records.report import SCHEMA, Finding, Report, Severity, Tool, Verdict, judge


def works(facts: Facts, require_gpus: int | None = None) -> bool | None:
    """Whether a GPU was seen to compute under TensorFlow, or, when it was not started, everything it needs is in place.

    Where no GPU is required, the CPU will do. None: could not be determined.
    """
    devices = facts.tensorflow.devices
    if isinstance(devices, Known):
        return require_gpus == 0 or lists_gpu(devices.value)
    skipped = {phase.name for phase in facts.tensorflow.phases if phase.outcome == "skipped"}
    if "import" not in skipped:
        return None
    if require_gpus == 0:
        return True if isinstance(facts.tensorflow.version, Known) else None
    sonames = value_or(facts.loader.sonames, ())
    in_place = bool(value_or(facts.gpus, ())) and isinstance(facts.driver.version, Known) and bool(sonames)
    needed = [name for name in sonames if name.component not in OPTIONAL_COMPONENTS]
    return True if in_place and all(name.winner for name in needed) else None


def verdict(findings: tuple[Finding, ...], facts: Facts, source: str, require_gpus: int | None = None) -> Verdict:
    """The verdict of a report; a text that leaves causes open, and shows none, does not tell whether all is well."""
    grave = [one for one in findings if one.severity is not Severity.NOTE]
    only_possible = source == "text" and bool(grave) and all(one.possible for one in grave)
    return judge(findings, works=None if only_possible else works(facts, require_gpus))


def now() -> str:
    """The time as reports have it: "2026-11-21T06:36:00Z"."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def make_report(
    facts: Facts,
    matrix: Matrix,
    *,
    source: Literal["live", "report", "text"],
    timings: dict[str, float],
    require_gpus: int | None = None,
    for_any_machine: bool = False,
) -> Report:
    """Diagnose `facts` and put everything into a report, dated now; the options are those of `diagnose`."""
    diagnosis = diagnose(facts, matrix, require_gpus=require_gpus, for_any_machine=for_any_machine)
    return Report(
        schema=SCHEMA,
        tool=Tool(name="tfgpu", version=__version__),
        matrix=matrix.info,
        created=now(),
        source=source,
        verdict=verdict(diagnosis.findings, facts, source, require_gpus),
        facts=facts,
        timings=timings,
        findings=diagnosis.findings,
        undetermined=diagnosis.undetermined,
    )
