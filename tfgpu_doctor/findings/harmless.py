"""Findings about log lines that need no action: for whoever pastes a text and asks what its lines mean."""

from __future__ import annotations

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, finding
from tfgpu_doctor.findings.message_log import MessageLog
from tfgpu_doctor.records.facts import Message
from tfgpu_doctor.records.report import Evidence, Severity

_SHOWN = 90  # characters
# kind → what it says, for people
MEANING = {
    "numa": "the firmware gives no NUMA node for the GPU; TensorFlow takes node 0",
    "cpu-features": "TensorFlow names instructions of this CPU that its build does not use everywhere",
    "onednn": "TensorFlow uses oneDNN on the CPU; results may differ in the last digits",
    "factory": "CUDA's plugins are registered twice while TensorFlow is imported; the second attempt is ignored",
    "absl-init": "TensorFlow writes to standard error before its logging is set up",
    "tensorrt-warning": "TensorRT is an optional extra; without it TF-TRT is off and nothing else changes",
    "driver-version-on-windows": "on Windows TensorFlow cannot read the driver's version, and does not need it",
    "graph-pass": "a graph optimisation was not applied",
    "interconnect": "how the devices are connected with each other",
    "end-of-data": "a dataset came to its end",
    "allocation-hint": "an allocation was refused and made otherwise; it costs speed at most",
    "host-allocation": "a large part of the machine's memory is allocated at once",
    "xla-ready": "XLA, TensorFlow's compiler, is ready",
    "autograph": "a function is run as it stands instead of as a graph",
    "profiler": "the profiler may not read the GPU's counters without permission",
    "deprecated": "a function will go away in a later release",
    "no-peer-access": "these GPUs cannot reach each other directly; TensorFlow copies through the host",
    "ptx-in-sequence": "the driver is older than the compiler, within one CUDA major: XLA compiles one "
    "kernel at a time",
    "ptx-by-driver": "on Windows the driver compiles what TensorFlow would give to ptxas elsewhere",
    "growth-by-variable": "TF_FORCE_GPU_ALLOW_GROWTH is set, and memory is taken as needed",
    "spills": "a kernel keeps some values in memory instead of registers; it costs speed at most",
    "tf32": "TensorFloat-32 is used for float32 matrix products",
    "weak-gpu-left-out": "a second, weaker GPU is left out on purpose",
    "timer": "a measurement of a kernel timed out; another one is taken",
    "plugin": "a device plugin was registered",
    "autotuning": "XLA tries and compiles kernels in the first steps, and says that one of them takes its time",
}
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
