"""Findings about log lines that need no action: for whoever pastes a text and asks what its lines mean."""

from __future__ import annotations

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, finding
from tfgpu_doctor.findings.message_log import MessageLog
from tfgpu_doctor.parsers.messages.harmless import MEANING
from tfgpu_doctor.records.facts import Message
from tfgpu_doctor.records.report import Evidence, Severity

_SHOWN = 90  # characters
_TENSORRT = "tensorrt-warning"
_LOGGED_AS_ERRORS = ("factory",)  # TensorFlow logs these lines with an E


def _brief(text: str) -> str:
    """The sentence without the time and the file before it, long enough to find it again."""
    text = text.split("] ", 1)[-1]
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN].rstrip()} ..."


def _meanings(messages: list[Message]) -> tuple[Evidence, ...]:
    """A line of evidence for each kind of message, however often it was printed."""
    kinds: dict[str, Message] = {}
    for message in messages:
        kinds.setdefault(message.values["what"], message)
    return tuple(Evidence(_brief(m.text), f"line {m.line}", f"nothing: {MEANING[what]}") for what, m in kinds.items())


MISSING_BENIGN = finding(
    "tensorrt.missing-benign",
    layer="TensorFlow",
    severity=Severity.NOTE,
    title="TensorRT is not installed, and not needed",
    docs="https://docs.nvidia.com/deeplearning/frameworks/tf-trt-user-guide/index.html",
    cause="only programs that convert models with TF-TRT need it; TensorFlow uses GPUs without it",
)


@MISSING_BENIGN.sign
def tensorrt_warning(context: Context, messages: MessageLog) -> Problem | None:
    """TF-TRT is optional."""
    found = [m for m in messages.all("harmless") if m.values["what"] == _TENSORRT]
    return Problem(evidence=_meanings(found)) if found and not context.probed else None


LOG = finding(
    "benign.log",
    layer="TensorFlow",
    severity=Severity.NOTE,
    title="Harmless log lines",
    docs="https://www.tensorflow.org/install/errors",
    cause="TensorFlow prints these on machines that work; TF_CPP_MIN_LOG_LEVEL=1 hides most of them",
)


@LOG.sign
def harmless_lines(context: Context, messages: MessageLog) -> Problem | None:
    """Lines that need no action, or a text without any failure."""
    if context.probed:
        return None
    found = [m for m in messages.all("harmless") if m.values["what"] != _TENSORRT]
    if found:  # first what looks like an error
        return Problem(evidence=_meanings(found), rank_first=any(m.values["what"] in _LOGGED_AS_ERRORS for m in found))
    if (created := messages.first("gpu-created")) and not messages.complains:
        works = Evidence(_brief(created.text), f"line {created.line}", "this: TensorFlow created the device")
        return Problem(title="No line of this text shows a failure", cause="a GPU is in use", evidence=(works,))
    return None
