"""A report of tfgpu that somebody pasted as text: its findings are taken as they stand.

The text form keeps no facts to judge again, only what was found; the JSON form keeps all of them.
"""

from __future__ import annotations

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem
from tfgpu_doctor.findings.message_log import message_evidence
from tfgpu_doctor.records.facts import value_or
from tfgpu_doctor.records.report import Fix, Severity

_BETTER = Fix(
    text="The whole report says more: ask for it as JSON, and read it with tfgpu explain",
    commands=("tfgpu doctor --format json --output report.json",),
)


def problem(finding_id: str, context: Context) -> Problem | None:
    """What a pasted report of ours says of a finding; None where it does not name it, or there is no such report."""
    for line in value_or(context.facts.messages, ()):
        if line.kind == "own-finding" and line.values["id"] == finding_id:
            return Problem(
                title=line.values.get("title", line.text),
                cause="tfgpu found it on that machine, in the report that was pasted",
                evidence=message_evidence(line),
                fixes=(_BETTER,),
                severity=Severity(line.values["severity"]),
            )
    return None
