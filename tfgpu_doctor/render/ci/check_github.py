"""What `tfgpu check` found in a GitHub job: an annotation at the line of each finding, and the verdict."""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.records.checked import Checked
from tfgpu_doctor.records.report import EXIT_UNKNOWN, FailOn, Report, exit_code
from tfgpu_doctor.records.wording import problem_counts
from tfgpu_doctor.render.check_words import meaning
from tfgpu_doctor.render.ci.github import LEVELS, Annotation, Level, commands
from tfgpu_doctor.render.ci.plain import lines_of, place_of


def render(checked: Checked, fail_on: FailOn = "error") -> str:
    """The lines that the runner reads."""
    report = checked.report
    verdict = f"tfgpu check: {report.verdict}: {meaning(report)}{problem_counts(report)}\n"
    return commands(_annotations(report, fail_on)) + verdict


def _annotations(report: Report, fail_on: FailOn) -> Iterator[Annotation]:
    for finding in report.findings:
        name = f"{finding.title} ({finding.id})"
        yield Annotation(LEVELS[finding.severity], name, tuple(lines_of(finding, {})), place_of(finding))
    if report.verdict == "unknown":
        level: Level = "error" if exit_code(report, fail_on) == EXIT_UNKNOWN else "warning"
        reasons = tuple(dict.fromkeys(item.reason for item in report.undetermined))
        yield Annotation(level, f"tfgpu check: {meaning(report)}", reasons or ("nothing more is known",))
