"""Leave findings out of a report, or keep only some. Pure.

Everything is diagnosed first: a cause that is left out takes its consequences with it, so that skipping `gpu.none` on a
machine without a GPU does not turn "TensorFlow lists no GPU" into a riddle.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tfgpu_doctor.diagnosis.reports import verdict
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.findings.declaration import matches
from tfgpu_doctor.findings.gpu import FEWER_THAN_REQUIRED
from tfgpu_doctor.records.fact import encode
from tfgpu_doctor.records.facts import Record
from tfgpu_doctor.records.report import Finding, Report
from tfgpu_doctor.records.similar import did_you_mean


class SelectionError(ValueError):
    """No check has that id; the message names those that are near."""


SCHEMA = "tfgpu.checks/1"
REQUIRED = FEWER_THAN_REQUIRED.id  # the check that --require-gpus asks for


class Check(Record, frozen=True):
    """A check as the list of them shows it."""

    id: str
    layer: str
    severity: str
    title: str


class CheckList(Record, frozen=True):
    """The list as JSON."""

    schema: str
    checks: tuple[Check, ...]


def checks() -> tuple[Check, ...]:
    """Every id once, in alphabetical order, with the severity and the title that it has as a rule."""
    return tuple(Check(one.id, one.layer, one.severity.value, one.title) for _, one in sorted(DECLARATIONS.items()))


def checks_json() -> bytes:
    """The list as JSON."""
    return encode(CheckList(SCHEMA, checks()))


def verify(patterns: tuple[str, ...]) -> None:
    """Make sure that every pattern ("gpu.none", "env.*") means some check.

    Raises SelectionError: one means none.
    """
    known = [one.id for one in checks()]
    for pattern in patterns:
        if not any(matches(one, (pattern,)) for one in known):
            group = f"{pattern.rstrip('.')}.*"
            if any(matches(one, (group,)) for one in known):
                raise SelectionError(f"no finding has the id {pattern!r}. For all of that group: {group}")
            hint = did_you_mean(pattern, known) or " tfgpu doctor --list-checks shows all."
            raise SelectionError(f"no finding has the id {pattern!r}.{hint}")


def chosen(only: tuple[str, ...], skip: tuple[str, ...]) -> tuple[str, ...]:
    """The ids of the checks that match `only` (all, when it is empty) and not `skip`."""
    return tuple(one.id for one in checks() if (not only or matches(one.id, only)) and not matches(one.id, skip))


def restrict(
    report: Report, only: tuple[str, ...], skip: tuple[str, ...], *, require_gpus: int | None = None
) -> Report:
    """Keep the findings that match `only` (all, when it is empty) and not `skip`.

    With `require_gpus`, the number that the report was made with, it is a problem of its own that GPUs are missing: it
    stays without its cause, and must be skipped by name.
    """
    if not only and not skip:
        return report
    ids = set(chosen(only, skip))
    gone = {one for finding in report.findings if finding.id not in ids for one in finding.consequences}
    gone -= set() if require_gpus is None else {REQUIRED}
    kept = [one for one in report.findings if one.id in ids and (one.root_cause or one.id not in gone)]
    findings = tuple(_alone(kept))
    return msgspec.structs.replace(
        report,
        findings=findings,
        undetermined=tuple(one for one in report.undetermined if one.id in ids),
        verdict=verdict(findings, report.facts, report.source, require_gpus),
    )


def _alone(findings: list[Finding]) -> Iterator[Finding]:
    """The findings without consequences that are not among them; what none of them explains is a root cause."""
    ids = {one.id for one in findings}
    explained = {one for finding in findings for one in finding.consequences}
    for one in findings:
        consequences = tuple(other for other in one.consequences if other in ids)
        is_root = one.root_cause or one.id not in explained
        yield msgspec.structs.replace(one, consequences=consequences, root_cause=is_root)
