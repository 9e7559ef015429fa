"""Notes about lines that frighten people and mean nothing."""

from __future__ import annotations

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, rule
from tfgpu_doctor.findings.message_log import Said
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


@rule(
    "benign.log",
    Severity.NOTE,
    "Harmless log lines",
    needs=("derived.told",),
    docs="https://www.tensorflow.org/install/errors",
)
def benign(context: Context, said: Said) -> Problem | None:
    """Lines that need no action."""
    seen = [m for m in said.all("harmless") if m.values["what"] != _TENSORRT]
    if not seen and not said.complains and (created := said.first("gpu-created")):
        works = Evidence(_brief(created.text), f"line {created.line}", "this: TensorFlow created the device")
        return Problem(title="No line of this text shows a failure", cause="a GPU is in use", evidence=(works,))
    if not seen:
        return None
    return Problem(
        cause="TensorFlow prints these on machines that work; TF_CPP_MIN_LOG_LEVEL=1 hides most of them",
        evidence=_named(seen),
        ahead=any(m.values["what"] in _LOGGED_AS_ERRORS for m in seen),  # what frightens people is named first
    )


# lines that TensorFlow logs with an E
_LOGGED_AS_ERRORS = ("factory",)


@rule(
    "tensorrt.missing-benign",
    Severity.NOTE,
    "TensorRT is not installed, and not needed",
    needs=("derived.told",),
    docs="https://docs.nvidia.com/deeplearning/frameworks/tf-trt-user-guide/index.html",
)
def tensorrt(context: Context, said: Said) -> Problem | None:
    """TF-TRT is optional."""
    seen = [m for m in said.all("harmless") if m.values["what"] == _TENSORRT]
    if not seen:
        return None
    return Problem(
        cause="only programs that convert models with TF-TRT need it; GPUs are used without",
        evidence=_named(seen),
    )
