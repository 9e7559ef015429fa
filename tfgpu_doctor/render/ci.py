"""Formats that CI systems read: JUnit XML, GitHub's workflow commands, SARIF. Red where the exit code is not 0 only.

JUnit XML: what stands here is less than either reader allows: Jenkins' xunit plugin by its junit-10.xsd, GitLab by
lib/gitlab/ci/parsers/test/junit.rb. The latter shows the text of an element and not its attributes where both are
there, takes `type` for a type of Rails where it is one ("integer", "file"), and `[[ATTACHMENT|path]]` in a text for a
file to publish.

GitHub: a workflow command for each thing that was found, which becomes an annotation of the run. Each stands on one
line, its text escaped as the runner undoes it (actions/toolkit, packages/core/src/command.ts), so that nothing from
outside can begin a line, end a property or be a command of its own.

SARIF: OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0", and GitHub's "SARIF support for code
scanning", which needs a rule for each result, a location, and paths relative to the repository.
"""

from __future__ import annotations

import os.path
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

from tfgpu_doctor.facts.facts import encode
from tfgpu_doctor.facts.printable import clean, cut, escape_xml, utf8
from tfgpu_doctor.facts.report import Checked, Finding
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.render.outline import LABEL_WIDTH, block
from tfgpu_doctor.render.shapes import Case, Checks, Level

_LONGEST = 2000  # characters of one line


def lines_of(finding: Finding, titles: Mapping[str, str]) -> Iterator[str]:
    """Evidence, cause, consequences, fixes and their commands; `titles` has those of the consequences."""
    outline = block(finding, titles)
    for one in outline.lines:
        source = f" ← {one.source}" if one.source else ""
        about = f" ({one.id})" if one.id else ""
        yield line(f"{one.label:{LABEL_WIDTH}} {one.text}{source}{about}")
        for command in one.whole_commands:
            yield line(" " * (LABEL_WIDTH + 3) + command)
    if outline.docs:
        yield line(f"{'see':{LABEL_WIDTH}} {outline.docs}")


def place_of(finding: Finding, folder: str = "") -> tuple[str, int] | None:
    """The file and the line that a finding of `tfgpu check` is about; `folder` is where the files lie."""
    place = next((item.place for item in finding.evidence if item.place), None)
    return (os.path.normpath(os.path.join(folder, place[0])), place[1]) if place and folder else place


def line(text: str) -> str:
    """One line of text from outside: control characters made visible, cut off where nobody reads on."""
    cleaned = clean(text)
    return cleaned if len(cleaned) <= _LONGEST + LABEL_WIDTH + 3 else cleaned[: _LONGEST - 1] + "…"


# ---------------------------------------------------------------------------------------------------------------- JUnit


_ATTACHMENT = re.compile(r"\[\[(?=ATTACHMENT)")
_LONGEST_XML = 100_000  # characters of one text


def junit(checks: Checks) -> str:
    """JUnit XML: a test case for each check; empty suites are left out."""
    shown = [suite for suite in checks.suites if suite.cases]
    totals = _totals(checks.name, [case for suite in shown for case in suite.cases])
    del totals["skipped"]
    root = ElementTree.Element("testsuites", totals)
    for suite in shown:
        attributes = {**_totals(suite.name, suite.cases), "timestamp": _timestamp(checks.created)}
        element = ElementTree.SubElement(root, "testsuite", attributes)
        for case in suite.cases:
            _xml_case(case, element)
    ElementTree.indent(root)
    document = escape_xml(ElementTree.tostring(root, encoding="unicode"))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{document}\n'


def _totals(name: str, cases: Sequence[Case]) -> dict[str, str]:
    count = Counter(case.outcome for case in cases)
    counts = {"failures": count["failure"], "errors": count["error"], "skipped": count["skipped"]}
    numbers = {key: str(value) for key, value in {"tests": len(cases), **counts}.items()}
    return {"name": line(name), **numbers, "time": f"{sum(case.seconds or 0.0 for case in cases):.3f}"}


def _timestamp(created: str) -> str:
    """The time as readers want it; a saved file may have something else there."""
    try:
        return datetime.fromisoformat(created.replace("Z", "+00:00")).strftime("%Y-%m-%dT%H:%M:%S")
    except ValueError:
        return "1970-01-01T00:00:00"


def _xml_case(case: Case, suite: ElementTree.Element) -> None:
    time = {} if case.seconds is None else {"time": f"{case.seconds:.3f}"}
    element = ElementTree.SubElement(
        suite, "testcase", {"classname": line(case.classname), "name": line(case.name), **time}
    )
    if case.outcome == "passed":
        if case.details:
            ElementTree.SubElement(element, "system-out").text = _xml_text(case.details)
        return
    about = {"type": case.kind, "message": _harmless(line(case.message))}
    ElementTree.SubElement(element, case.outcome, about).text = _xml_text((case.message, *case.details))


def _xml_text(lines: Iterable[str]) -> str:
    return _harmless("\n".join(map(line, lines)))[:_LONGEST_XML]


def _harmless(text: str) -> str:
    return _ATTACHMENT.sub("[ [", text)


# --------------------------------------------------------------------------------------------------------------- GitHub


_ORDER: tuple[Level, ...] = ("error", "warning", "notice")
_LONGEST_MESSAGE = 4000  # characters of a message
_LONGEST_TITLE = 200


def github(checks: Checks) -> str:
    """Return workflow commands: the annotations, the gravest first, then what is printed to the log."""
    text = ""
    for one in sorted(checks.annotations, key=lambda one: _ORDER.index(one.level)):
        message = "\n".join(map(line, one.lines))
        where = f"file={_property(one.place[0])},line={one.place[1]}," if one.place else ""
        text += f"::{one.level} {where}title={_property(one.title)}::{escape(cut(message, _LONGEST_MESSAGE))}\n"
    # none of our lines begins with a colon, and none may hold the runner's older form of commands
    return text + "".join(line(one).replace("##", "# #") + "\n" for one in checks.log)


def escape(text: str) -> str:
    """A message as the runner reads it back."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return escape(cut(line(text), _LONGEST_TITLE)).replace(":", "%3A").replace(",", "%2C")


# ---------------------------------------------------------------------------------------------------------------- SARIF


_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(checked: Checked, folder: str = "") -> str:
    """SARIF 2.1.0; `folder` is where the files lie in the repository."""
    report = checked.report
    shown = [(finding, place) for finding in report.findings if (place := place_of(finding, folder))]
    rules = list(dict.fromkeys(finding.id for finding, _ in shown))
    driver = {
        "name": report.tool.name,
        "version": report.tool.version,
        "rules": [_rule(one) for one in rules],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True, "endTimeUtc": report.created}],
        "results": [_result(finding, place, rules.index(finding.id)) for finding, place in shown],
    }
    return encode({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}).decode()


def _rule(finding_id: str) -> dict[str, Any]:
    declared = DECLARATIONS[finding_id]
    rule: dict[str, Any] = {
        "id": finding_id,
        "shortDescription": {"text": declared.title},
        "fullDescription": {"text": f"{declared.title}: {declared.cause}"},
        "defaultConfiguration": {"level": declared.severity.value},
    }
    return rule | ({"helpUri": declared.docs} if declared.docs else {})


def _result(finding: Finding, place: tuple[str, int], rule: int) -> dict[str, Any]:
    path, number = place
    location = {
        "artifactLocation": {"uri": quote(utf8(path.replace("\\", "/")))},
        "region": {"startLine": number},
    }
    return {
        "ruleId": finding.id,
        "ruleIndex": rule,
        "level": finding.severity.value,
        "message": {"text": "\n".join([line(finding.title), *lines_of(finding, {})])},
        "locations": [{"physicalLocation": location}],
    }
