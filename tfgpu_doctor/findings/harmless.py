"""Findings about harmless."""

from __future__ import annotations

from tfgpu_doctor.findings.declaration import Problem, finding
from tfgpu_doctor.findings.message_log import MessageLog
from tfgpu_doctor.parsers.messages.harmless import MEANING
from tfgpu_doctor.records.facts import Message
from tfgpu_doctor.records.report import Evidence, Severity

_SHOWN = 90  # characters


_TENSORRT = "tensorrt-warning"


def _named(messages: list[Message]) -> tuple[Evidence, ...]:
    """One line for each thing that is said, however often."""
    kinds: dict[str, Message] = {}
    for message in messages:
        kinds.setdefault(message.values["what"], message)
    return tuple(Evidence(_brief(m.text), f"line {m.line}", f"nothing: {MEANING[what]}") for what, m in kinds.items())


def _brief(text: str) -> str:
    """The sentence without the time and the file before it, long enough to find it again."""
    text = text.split("] ", 1)[-1]
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN].rstrip()} ..."


# lines that TensorFlow logs with an E
_LOGGED_AS_ERRORS = ("factory",)


MISSING_BENIGN = finding(
    "tensorrt.missing-benign",
    layer="TensorFlow",
    severity=Severity.NOTE,
    title="TensorRT is not installed, and not needed",
    docs="https://docs.nvidia.com/deeplearning/frameworks/tf-trt-user-guide/index.html",
)


@MISSING_BENIGN.sign
def tensorrt(messages: MessageLog) -> Problem | None:
    """TF-TRT is optional."""
    seen = [m for m in messages.all("harmless") if m.values["what"] == _TENSORRT]
    if not seen:
        return None
    return Problem(
        cause="only programs that convert models with TF-TRT need it; GPUs are used without",
        evidence=_named(seen),
    )


LOG = finding(
    "benign.log",
    layer="TensorFlow",
    severity=Severity.NOTE,
    title="Harmless log lines",
    docs="https://www.tensorflow.org/install/errors",
)


@LOG.sign
def benign(messages: MessageLog) -> Problem | None:
    """Lines that need no action."""
    seen = [m for m in messages.all("harmless") if m.values["what"] != _TENSORRT]
    if not seen and not messages.complains and (created := messages.first("gpu-created")):
        works = Evidence(_brief(created.text), f"line {created.line}", "this: TensorFlow created the device")
        return Problem(title="No line of this text shows a failure", cause="a GPU is in use", evidence=(works,))
    if not seen:
        return None
    return Problem(
        cause="TensorFlow prints these on machines that work; TF_CPP_MIN_LOG_LEVEL=1 hides most of them",
        evidence=_named(seen),
        rank_first=any(m.values["what"] in _LOGGED_AS_ERRORS for m in seen),  # what frightens people is named first
    )
