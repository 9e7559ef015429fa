"""What a text that only asks would run into: a note beside the answer, since nothing has failed yet. Pure."""

from __future__ import annotations

from tfgpu_doctor.diagnosis.arranging import Found, as_note
from tfgpu_doctor.findings.commonness import nothing_fails
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.inputs import fetch
from tfgpu_doctor.records.facts import Known, value_or
from tfgpu_doctor.records.report import Severity


def only_asked(found: list[Found], context: Context) -> list[Found]:
    """The findings as notes, where somebody asks and tells of no trouble; the answer alone says what to install."""
    if not asks_only(context):
        return found
    return [one if one.finding.severity is Severity.NOTE else as_note(one, fixes=()) for one in found]


def asks_only(context: Context) -> bool:
    """Whether a text asks, and nothing fails in it."""
    messages = fetch("messages", context)
    if context.probed or not isinstance(messages, Known):
        return False
    question = messages.value.first("question")
    asks = question is not None and question.values["trouble"] != "yes"
    return asks and nothing_fails(messages.value, value_or(fetch("devices", context), None))
