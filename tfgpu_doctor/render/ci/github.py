"""GitHub Actions: a workflow command for each thing that was found, which becomes an annotation of the run.

Each stands on one line, its text escaped as the runner undoes it (actions/toolkit, packages/core/src/command.ts), so
that nothing from outside can begin a line, end a property or be a command of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from tfgpu_doctor.records.report import EXIT_UNKNOWN, FailOn, Report, Severity, exit_code
from tfgpu_doctor.records.wording import problem_counts, verdict_sentence
from tfgpu_doctor.render.ci.plain import line, lines_of

Level = Literal["error", "warning", "notice"]

LEVELS: dict[Severity, Level] = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
_LONGEST = 4000  # characters of a message
_LONGEST_TITLE = 200


class Annotation(NamedTuple):
    """One message of a run."""

    level: Level
    title: str
    lines: tuple[str, ...]
    place: tuple[str, int] | None = None  # a file and a line of it


def commands(annotations: Iterable[Annotation]) -> str:
    """The workflow commands, one a line."""
    return "".join(
        f"::{annotation.level} {_where(annotation)}title={_property(annotation.title)}::{_message(annotation)}\n"
        for annotation in annotations
    )


def _where(annotation: Annotation) -> str:
    if annotation.place is None:
        return ""
    path, number = annotation.place
    return f"file={_property(path)},line={number},"


def _message(annotation: Annotation) -> str:
    text = "\n".join(map(line, annotation.lines))
    return escape(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…")


def escape(text: str) -> str:
    """A message as the runner reads it back."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    short = line(text)
    short = short if len(short) <= _LONGEST_TITLE else short[: _LONGEST_TITLE - 1] + "…"
    return escape(short).replace(":", "%3A").replace(",", "%2C")


def render(report: Report, fail_on: FailOn = "error") -> str:
    """The annotations of a diagnosis, and a last line with the verdict."""
    verdict = f"tfgpu doctor: {report.verdict}: {verdict_sentence(report)}{problem_counts(report)}\n"
    return commands(of_report(report, fail_on)) + verdict


def of_report(report: Report, fail_on: FailOn = "error") -> Iterator[Annotation]:
    """One for each root cause, the gravest first; one more where there is no verdict."""
    titles = {finding.id: finding.title for finding in report.findings}
    order = list(LEVELS)
    for finding in sorted(report.findings, key=lambda finding: order.index(finding.severity)):
        if finding.root_cause:
            name = f"{finding.title} ({finding.id})"
            yield Annotation(LEVELS[finding.severity], name, tuple(lines_of(finding, titles)))
    if report.verdict == "unknown":
        reasons = dict.fromkeys(item.reason for item in report.undetermined)
        level: Level = "error" if exit_code(report, fail_on) == EXIT_UNKNOWN else "warning"
        yield Annotation(
            level, f"tfgpu doctor {verdict_sentence(report)}", tuple(reasons) or ("nothing more is known",)
        )
