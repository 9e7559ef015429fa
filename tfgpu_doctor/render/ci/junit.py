"""JUnit XML for Jenkins, GitLab and whoever else reads it: a test case for each check.

Both readers accept what stands here, which is less than either allows: Jenkins' xunit plugin by its junit-10.xsd,
GitLab by lib/gitlab/ci/parsers/test/junit.rb. The latter shows the text of an element and not its attributes where both
are there, takes `type` for a type of Rails where it is one ("integer", "file"), and `[[ATTACHMENT|path]]` in a text for
a file to publish.

Red where the exit code is not 0, and only there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple
from xml.etree import ElementTree

from tfgpu_doctor.diagnosis.selection import chosen
from tfgpu_doctor.findings import pages
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.findings.declaration import matches
from tfgpu_doctor.records.printable import escape_xml
from tfgpu_doctor.records.report import EXIT_OK, EXIT_UNKNOWN, FailOn, Finding, Report, exit_code, fails
from tfgpu_doctor.records.wording import verdict_sentence
from tfgpu_doctor.render.ci.plain import line, lines_of

Outcome = Literal["passed", "failure", "error", "skipped"]

_ATTACHMENT = re.compile(r"\[\[(?=ATTACHMENT)")
_LONGEST = 100_000  # characters of one text


class Case(NamedTuple):
    """A check."""

    name: str
    classname: str
    outcome: Outcome = "passed"
    kind: str = ""  # of what went wrong, in a word or two
    message: str = ""
    details: tuple[str, ...] = ()  # lines; where the check passed, they are what it printed
    seconds: float | None = None


class Suite(NamedTuple):
    """Checks that belong together."""

    name: str
    cases: tuple[Case, ...]


def xml(name: str, created: str, suites: Iterable[Suite]) -> str:
    """The document; empty suites are left out."""
    shown = [suite for suite in suites if suite.cases]
    every = [case for suite in shown for case in suite.cases]
    root = ElementTree.Element("testsuites", {"name": line(name), **_counts(every), "time": _time(every)})
    for suite in shown:
        attributes = {"name": line(suite.name), **_counts(suite.cases), "skipped": _count(suite.cases, "skipped")}
        attributes.update(time=_time(suite.cases), timestamp=line(created).rstrip("Z"))
        element = ElementTree.SubElement(root, "testsuite", attributes)
        for case in suite.cases:
            _case(case, element)
    ElementTree.indent(root)
    document = escape_xml(ElementTree.tostring(root, encoding="unicode"))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{document}\n'


def _counts(cases: Sequence[Case]) -> dict[str, str]:
    counted = {"failures": _count(cases, "failure"), "errors": _count(cases, "error")}
    return {"tests": str(len(cases)), **counted}


def _count(cases: Sequence[Case], outcome: Outcome) -> str:
    return str(sum(case.outcome == outcome for case in cases))


def _time(cases: Sequence[Case]) -> str:
    return f"{sum(case.seconds or 0.0 for case in cases):.3f}"


def _case(case: Case, suite: ElementTree.Element) -> None:
    time = {} if case.seconds is None else {"time": f"{case.seconds:.3f}"}
    element = ElementTree.SubElement(
        suite, "testcase", {"classname": line(case.classname), "name": line(case.name), **time}
    )
    if case.outcome == "passed":
        if case.details:
            ElementTree.SubElement(element, "system-out").text = _text(case.details)
        return
    about = {"type": case.kind, "message": _harmless(line(case.message))}
    ElementTree.SubElement(element, case.outcome, about).text = _text((case.message, *case.details))


def _text(lines: Iterable[str]) -> str:
    return _harmless("\n".join(map(line, lines)))[:_LONGEST]


def _harmless(text: str) -> str:
    return _ATTACHMENT.sub("[ [", text)


def render(report: Report, fail_on: FailOn = "error", only: tuple[str, ...] = (), skip: tuple[str, ...] = ()) -> str:
    """The diagnosis; `only` and `skip` are the checks that were asked for, where not all were."""
    return xml(f"tfgpu {_command(report)}", report.created, _suites(report, fail_on, chosen(only, skip)))


def _command(report: Report) -> str:
    """The command that makes such a report: a pasted text is explained."""
    return "explain" if report.source == "text" else "doctor"


def _suites(report: Report, fail_on: FailOn, checked: Iterable[str] | None) -> tuple[Suite, ...]:
    """One suite for each layer, and one for the verdict. A pasted text is no check of what it does not tell."""
    wanted = {finding.id for finding in report.findings} | {finding.id for finding in report.undetermined}
    if report.source != "text":
        wanted |= set(pages.all_ids() if checked is None else checked)
    layers = tuple(
        Suite(
            title, tuple(_check(page.id, layer, report, fail_on) for page in pages.pages_of(layer) if page.id in wanted)
        )
        for layer, title in pages.LAYERS.items()
    )
    return (Suite("Verdict", (_verdict(report, fail_on),)), *layers)


def _verdict(report: Report, fail_on: FailOn) -> Case:
    """Whether there is an answer; that the answer is bad, the checks say."""
    case = Case(
        "a verdict could be reached",
        f"tfgpu.{_command(report)}",
        details=(f"{report.verdict}: {verdict_sentence(report)}",),
    )
    code = exit_code(report, fail_on)
    if report.verdict != "unknown" or code not in (EXIT_OK, EXIT_UNKNOWN):
        return case
    reasons = tuple(dict.fromkeys(item.reason for item in report.undetermined))
    outcome: Outcome = "error" if code == EXIT_UNKNOWN else "skipped"
    return case._replace(outcome=outcome, kind="could not determine", message=verdict_sentence(report), details=reasons)


def _check(finding_id: str, layer: str, report: Report, fail_on: FailOn) -> Case:
    case = Case(finding_id, f"tfgpu.{_command(report)}.{layer}")
    finding = next((finding for finding in report.findings if finding.id == finding_id), None)
    if finding is not None:
        return _found(case, finding, report, fail_on)
    reason = next((item.reason for item in report.undetermined if item.id == finding_id), None)
    if reason is not None:
        return case._replace(outcome="skipped", kind="could not determine", message=f"could not determine: {reason}")
    settled = _settled_by(finding_id, report)
    if settled:
        return case._replace(outcome="skipped", kind="not judged apart", message=f"not judged apart from {settled}")
    return case


def _found(case: Case, finding: Finding, report: Report, fail_on: FailOn) -> Case:
    titles = {finding.id: finding.title for finding in report.findings}
    lines = tuple(lines_of(finding, titles))
    if not finding.root_cause:
        above = next((cause.id for cause in report.findings if finding.id in cause.consequences), "another finding")
        message = f"follows from {above}: {finding.title}"
        return case._replace(outcome="skipped", kind="consequence", message=message, details=lines)
    if fails(finding, fail_on):
        return case._replace(outcome="failure", kind=finding.severity.value, message=finding.title, details=lines)
    return case._replace(details=(f"{finding.severity.value}: {finding.title}", *lines))


def _settled_by(finding_id: str, report: Report) -> str | None:
    """The finding beside which this check says nothing of its own: it was not made, or would be a consequence."""
    declared = DECLARATIONS.get(finding_id)
    for found in report.findings:
        if declared and matches(found.id, (*declared.pointless_after, *declared.explained_by)):
            return found.id
    return None
