"""A smoke test as JUnit XML: a test case for each check. Red where the exit code is not 0, and only there."""

from __future__ import annotations

from tfgpu_doctor.render.ci.junit import Case, Suite, xml
from tfgpu_doctor.render.smoke_words import WORDS, findings_behind, outcome, title
from tfgpu_doctor.smoke.records import Smoke, SmokeCheck


def render(smoke: Smoke) -> str:
    """The document."""
    return xml("tfgpu smoke", smoke.created, [Suite("tfgpu smoke", tuple(_case(one, smoke) for one in smoke.checks))])


def _case(check: SmokeCheck, smoke: Smoke) -> Case:
    case = Case(title(check), "tfgpu.smoke", seconds=check.seconds, details=tuple(findings_behind(check, smoke)))
    if check.status == "ok":
        return case._replace(details=(outcome(check), *case.details))
    if check.status == "failed":
        return case._replace(outcome="failure", kind="failed", message=outcome(check))
    # beside a failure, what could not be run for it is no second problem
    is_problem = check.status == "unknown" or smoke.verdict != "failed"
    kind = WORDS[check.status]
    return case._replace(outcome="error" if is_problem else "skipped", kind=kind, message=outcome(check))
