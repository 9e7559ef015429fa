"""A report of tfgpu that somebody pasted as text: its findings are taken as they stand.

The text form keeps no facts to judge again, only what was found; the JSON form keeps all of them.
"""

from __future__ import annotations

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import RULES, Problem, rule
from tfgpu_doctor.findings.message_log import Said, heard
from tfgpu_doctor.records.facts import Message
from tfgpu_doctor.records.report import Fix, Severity

_BETTER = Fix(
    text="The whole report says more: ask for it as JSON, and read it with tfgpu explain",
    commands=("tfgpu doctor --format json --output report.json",),
)


def _register(finding_id: str, severity: Severity, docs: str, explained_by: tuple[str, ...]) -> None:
    """Take over one finding; `explained_by` is that of the rule that found it."""

    @rule(
        finding_id,
        severity,
        "Found by tfgpu",
        needs=("derived.told",),
        explained_by=explained_by,
        docs=docs,
    )
    def found(context: Context, said: Said) -> Problem | None:
        line = next((m for m in said.all("own-finding") if m.values["id"] == finding_id), None)
        if line is None:
            return None
        return Problem(
            title=_title(line),
            cause="tfgpu found it on that machine, in the report that was pasted",
            evidence=heard(line),
            fixes=(_BETTER,),
            severity=Severity(line.values["severity"]),
        )

    found.__doc__ = f"tfgpu's own report names {finding_id}."


def _title(line: Message) -> str:
    return line.values.get("title", line.text)


def register() -> None:
    """Add a rule for every finding that is in the table by now."""
    for one in {one.id: one for one in reversed(RULES)}.values():
        _register(one.id, one.severity, one.docs, one.explained_by)
