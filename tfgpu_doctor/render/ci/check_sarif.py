"""What `tfgpu check` found as SARIF 2.1.0, which code scanning of GitHub and editors show at the lines.

Source: OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0", and GitHub's "SARIF support for code
scanning", which needs a rule for each result, a location, and paths relative to the repository.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.records.checked import Checked
from tfgpu_doctor.records.fact import encode
from tfgpu_doctor.records.printable import utf8
from tfgpu_doctor.records.report import Finding
from tfgpu_doctor.render.ci.plain import line, lines_of, place_of

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render(checked: Checked) -> str:
    """The document."""
    report = checked.report
    shown = [(finding, place) for finding in report.findings if (place := place_of(finding))]
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
