"""What a report's verdict means, in one sentence: for every renderer, and for what judges reports (smoke)."""

from __future__ import annotations

from tfgpu_doctor.records.facts import Known, lists_gpu, value_or
from tfgpu_doctor.records.report import Report, Severity
from tfgpu_doctor.records.units import count

_MEANING = {
    "ok": "TensorFlow can use the GPU",
    "degraded": "TensorFlow uses the GPU, but with problems",
    "broken": "TensorFlow cannot use the GPU",
    "unknown": "could not determine whether TensorFlow can use the GPU",
}
_ON_CPU = {  # reports that are no worse, because no GPU was required
    "ok": "TensorFlow runs on the CPU; no GPU is required",
    "degraded": "TensorFlow runs on the CPU, but with problems; no GPU is required",
}
_MEANING_OF_TEXT = {
    "ok": "according to this text TensorFlow uses the GPU",
    "degraded": "according to this text TensorFlow works, but with problems",
    "broken": "this text shows a problem",
    "unknown": "this text shows nothing that explains a failure",
}
_NOT_SHOWN = "the text does not show whether TensorFlow uses a GPU"


def verdict_sentence(report: Report) -> str:
    """What the verdict means."""
    if report.source == "text":
        return f"{_meaning_of_text(report)}{_left_out(report)}"
    started = isinstance(report.facts.tensorflow.devices, Known)
    if report.verdict == "ok" and not started:
        return "everything that TensorFlow needs is in place (it was not started)"
    if report.verdict in ("ok", "degraded") and not lists_gpu(value_or(report.facts.tensorflow.devices, None)):
        return _ON_CPU[report.verdict]
    return _MEANING[report.verdict]


def _meaning_of_text(report: Report) -> str:
    if report.verdict != "unknown" or not report.findings:
        return _MEANING_OF_TEXT[report.verdict]
    grave = [finding for finding in report.findings if finding.severity is not Severity.NOTE]
    if is_answered(report):
        return "this text shows no failure; its question is answered"
    if not grave:
        return f"only harmless lines; {_NOT_SHOWN}"
    if all(finding.possible for finding in grave):
        return f"this text leaves {count(len(grave), 'possible cause')} open"
    return _NOT_SHOWN


def is_answered(report: Report) -> bool:
    """Whether a text only asks, and there is an answer."""
    found = report.findings
    return all(one.severity is Severity.NOTE for one in found) and any(one.answers for one in found)


def _left_out(report: Report) -> str:
    """What of a text was not examined; empty where everything was."""
    cut = next((message for message in value_or(report.facts.messages, ()) if message.kind == "text-cut"), None)
    return f"; {cut.values.get('lines', 'some')} lines were too long to be examined as a whole" if cut else ""


def problem_counts(report: Report) -> str:
    """How many problems and warnings: " (2 problems, 1 warning)"; empty without any."""
    causes = [finding for finding in report.findings if finding.root_cause and not finding.possible]
    errors = sum(finding.severity is Severity.ERROR for finding in causes)
    warnings = sum(finding.severity is Severity.WARNING for finding in causes)
    counts = [count(number, word) for number, word in ((errors, "problem"), (warnings, "warning")) if number]
    return f" ({', '.join(counts)})" if counts else ""
