"""What `tfgpu check` found as JUnit XML: a suite for each environment, a test case for each finding on its lines.

Red where the exit code is not 0, and only there.
"""

from __future__ import annotations

from tfgpu_doctor.records.checked import Checked
from tfgpu_doctor.records.report import EXIT_UNKNOWN, FailOn, Finding, Report, exit_code, fails
from tfgpu_doctor.records.wording import problem_counts
from tfgpu_doctor.render.check_words import meaning
from tfgpu_doctor.render.ci.junit import Case, Suite, xml
from tfgpu_doctor.render.ci.plain import lines_of, place_of


def render(checked: Checked, fail_on: FailOn = "error") -> str:
    """The document."""
    report, files = checked.report, dict.fromkeys(one.path for one in checked.files)
    places = {id(finding): (place_of(finding) or ("", 0))[0] for finding in report.findings}
    found = [Suite(file, _cases(file, report, places, fail_on)) for file in files]
    others = tuple(_found(one, "tfgpu.check", fail_on) for one in report.findings if places[id(one)] not in files)
    return xml("tfgpu check", report.created, [Suite("Verdict", (_verdict(report, fail_on), *others)), *found])


def _cases(file: str, report: Report, places: dict[int, str], fail_on: FailOn) -> tuple[Case, ...]:
    here = tuple(_found(one, file, fail_on) for one in report.findings if places[id(one)] == file)
    return here or (Case("no problems found", file),)


def _found(finding: Finding, file: str, fail_on: FailOn) -> Case:
    lines = tuple(lines_of(finding, {}))
    if fails(finding, fail_on):
        return Case(finding.id, file, "failure", finding.severity.value, finding.title, lines)
    return Case(finding.id, file, details=(f"{finding.severity.value}: {finding.title}", *lines))


def _verdict(report: Report, fail_on: FailOn) -> Case:
    text = f"{report.verdict}: {meaning(report)}{problem_counts(report)}"
    case = Case("a verdict could be reached", "tfgpu.check", details=(text,))
    if exit_code(report, fail_on) != EXIT_UNKNOWN:
        return case
    reasons = tuple(dict.fromkeys(item.reason for item in report.undetermined))
    return case._replace(outcome="error", kind="could not determine", message=meaning(report), details=reasons)
