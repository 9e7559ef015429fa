"""A smoke test for machines and pages: JUnit XML, GitHub's workflow commands, Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.records.report import Severity
from tfgpu_doctor.render.ci import github as commands
from tfgpu_doctor.render.ci.junit import Case, Suite, xml
from tfgpu_doctor.render.ci.plain import line, lines_of
from tfgpu_doctor.render.markdown.report import LONGEST, escape, folded, table
from tfgpu_doctor.render.markdown.report import render as report_page
from tfgpu_doctor.render.terminal.smoke import WORDS, machine, name_of, told, verdict
from tfgpu_doctor.smoke.records import Smoke, SmokeCheck

_MARKS = {"ok": "✓", "failed": "✗", "not run": "–", "unknown": "?"}


# ---------------------------------------------------------------------------------------------- JUnit


def junit_xml(smoke: Smoke) -> str:
    """A test case for each check. Red where the exit code is not 0, and only there."""
    return xml("tfgpu smoke", smoke.created, [Suite("tfgpu smoke", tuple(_case(one, smoke) for one in smoke.checks))])


def _case(check: SmokeCheck, smoke: Smoke) -> Case:
    case = Case(name_of(check), "tfgpu.smoke", seconds=check.seconds, details=tuple(_details(check, smoke)))
    if check.status == "ok":
        return case._replace(details=(told(check), *case.details))
    if check.status == "failed":
        return case._replace(outcome="failure", kind="failed", message=told(check))
    # beside a failure, what could not be run for it is no second problem
    is_problem = check.status == "unknown" or smoke.verdict != "failed"
    return case._replace(outcome="error" if is_problem else "skipped", kind=WORDS[check.status], message=told(check))


def _details(check: SmokeCheck, smoke: Smoke) -> Iterator[str]:
    """For the doctor's line, the findings that count."""
    if check.name != "doctor" or check.status == "ok":
        return
    titles = {one.id: one.title for one in smoke.report.findings}
    for finding in smoke.report.findings:
        if finding.root_cause and finding.severity is Severity.ERROR:
            yield f"{finding.title} ({finding.id})"
            yield from lines_of(finding, titles)


# ---------------------------------------------------------------------------------------------- GitHub


def github(smoke: Smoke) -> str:
    """An annotation for each check that is not ok, every check on a line, and the verdict."""
    text = commands.commands(_annotations(smoke))
    for check in smoke.checks:
        # no line begins with a colon, and none holds the runner's older form of commands
        ok = "ok: " if check.status == "ok" else ""
        text += f"{check.name}: " + line(f"{check.on + ': ' if check.on else ''}{ok}{told(check)}").replace("##", "# #")
        text += "\n"
    return text + f"tfgpu smoke: {verdict(smoke)}\n"


def _annotations(smoke: Smoke) -> Iterator[commands.Annotation]:
    for check in smoke.checks:
        if check.status == "ok":
            continue
        level: commands.Level = "warning" if check.status == "not run" and smoke.verdict == "failed" else "error"
        title = f"tfgpu smoke: {name_of(check)}: {WORDS[check.status]}"
        yield commands.Annotation(level, title, (told(check), *_details(check, smoke)))


# ---------------------------------------------------------------------------------------------- Markdown


def markdown(smoke: Smoke) -> str:
    """A table of the checks, and the doctor's report folded under it."""
    head = f"**{_MARKS[smoke.verdict]} tfgpu smoke {escape(verdict(smoke))}**"
    tool = f"tfgpu smoke {smoke.tool.version}, {machine(smoke)}, {smoke.created}"
    rows = ((_MARKS[check.status], name_of(check), told(check)) for check in smoke.checks)
    page = "\n\n".join([head, f"<sub>{escape(tool)}</sub>", table(("", "Check", "Found"), rows)])
    report = folded("tfgpu doctor", report_page(smoke.report))
    return f"{page}\n\n{report}\n" if len(page) + len(report) < LONGEST else f"{page}\n"
