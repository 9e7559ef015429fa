"""A report of tfgpu that was pasted as text: its findings are taken over.

The text contains no facts that could be judged again; the JSON form contains all of them.
"""

from __future__ import annotations

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem
from tfgpu_doctor.findings.message_log import message_evidence
from tfgpu_doctor.records.facts import value_or
from tfgpu_doctor.records.report import Fix, Severity

_AS_JSON = Fix(
    text="Get the complete report as JSON, and read it with tfgpu explain",
    commands=("tfgpu doctor --format json --output report.json",),
)


def problem(finding_id: str, context: Context) -> Problem | None:
    """A finding of a pasted report; None if the report does not name it, or if there is no such report."""
    for message in value_or(context.facts.messages, ()):
        if message.kind == "own-finding" and message.values["id"] == finding_id:
            return Problem(
                title=message.values.get("title", message.text),
                cause="tfgpu found it on the machine of the pasted report",
                evidence=message_evidence(message),
                fixes=(_AS_JSON,),
                severity=Severity(message.values["severity"]),
            )
    return None
