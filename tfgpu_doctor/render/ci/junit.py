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
from datetime import datetime
from xml.etree import ElementTree

from tfgpu_doctor.records.printable import escape_xml
from tfgpu_doctor.render.ci.plain import line
from tfgpu_doctor.render.shapes import Case, Checks, Outcome, Suite

_ATTACHMENT = re.compile(r"\[\[(?=ATTACHMENT)")
_LONGEST = 100_000  # characters of one text


def render(checks: Checks) -> str:
    """The document."""
    return xml(checks.name, checks.created, checks.suites)


def xml(name: str, created: str, suites: Iterable[Suite]) -> str:
    """The document; empty suites are left out."""
    shown = [suite for suite in suites if suite.cases]
    every = [case for suite in shown for case in suite.cases]
    root = ElementTree.Element("testsuites", {"name": line(name), **_counts(every), "time": _time(every)})
    for suite in shown:
        attributes = {"name": line(suite.name), **_counts(suite.cases), "skipped": _count(suite.cases, "skipped")}
        attributes.update(time=_time(suite.cases), timestamp=_timestamp(created))
        element = ElementTree.SubElement(root, "testsuite", attributes)
        for case in suite.cases:
            _case(case, element)
    ElementTree.indent(root)
    document = escape_xml(ElementTree.tostring(root, encoding="unicode"))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{document}\n'


def _timestamp(created: str) -> str:
    """The time as readers want it; a saved file may have something else there."""
    try:
        return datetime.fromisoformat(created.replace("Z", "+00:00")).strftime("%Y-%m-%dT%H:%M:%S")
    except ValueError:
        return "1970-01-01T00:00:00"


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
