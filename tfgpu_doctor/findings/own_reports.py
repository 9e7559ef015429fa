"""A report of tfgpu that was pasted as text: its findings are taken over.

The report was made with all facts of its machine, and its text shows some of them: these are not judged again. A fix
is made anew of them, and stands only where the report advises it, too. So nothing of a pasted text is printed as advice
of ours, and no advice contradicts that of the report. The JSON form contains all facts.
"""

from __future__ import annotations

from collections.abc import Iterable

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Declaration, Problem
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.parsers.own_report import without_blanks
from tfgpu_doctor.records.facts import Message, value_or
from tfgpu_doctor.records.report import Fix, Severity

_AS_JSON = Fix(
    text="Get the complete report as JSON, and read it with tfgpu explain",
    commands=("tfgpu doctor --format json --output report.json",),
)


def is_there(context: Context) -> bool:
    """Whether the text has a report of ours."""
    return any(message.kind == "own-report" for message in value_or(context.facts.messages, ()))


def has_failures_beside(context: Context) -> bool:
    """Whether programs report a failure outside of that report."""
    messages = value_or(context.facts.messages, ())
    return MessageLog(tuple(one for one in messages if one.kind != "own-finding")).complains


def problem(declared: Declaration, shown: Iterable[Problem], context: Context) -> Problem | None:
    """A finding of a pasted report; None if the report does not name it, or if there is no such report.

    Args:
        shown: what the signs of the finding show in the facts that the text has, for their fixes.
    """
    for message in value_or(context.facts.messages, ()):
        if message.kind == "own-finding" and message.values["id"] == declared.id:
            return Problem(
                title=message.values.get("title", message.text),
                cause="tfgpu found it on the machine of the pasted report",
                evidence=message_evidence(message),
                fixes=_advised(declared, shown, message, context) or (_AS_JSON,),
                severity=Severity(message.values["severity"]),
            )
    return None


def _advised(declared: Declaration, shown: Iterable[Problem], message: Message, context: Context) -> tuple[Fix, ...]:
    """The fixes of these facts that the report has as well, in its order; none where its first is not among them."""
    made = [fix for one in shown for fix in one.fixes or ()]
    made += declared.fixes(context) if declared.fixes else ()
    advice = message.values.get("advice", "").lower()
    places = {advice.find(_as_printed(context.remedies.where_it_belongs(fix))): fix for fix in reversed(made)}
    return tuple(places[place] for place in sorted(places) if place >= 0) if 0 in places else ()


def _as_printed(fix: Fix) -> str:
    return without_blanks("".join((fix.text.removeprefix("Or "), *fix.commands))).lower()
