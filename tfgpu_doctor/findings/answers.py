"""Findings about questions whose answer is the same for everybody."""

from __future__ import annotations

from tfgpu_doctor.findings.commonness import nothing_fails
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, finding
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.plan.install_commands import list_gpus
from tfgpu_doctor.records.facts import TfDevice
from tfgpu_doctor.records.report import Fix, Severity


def _answer(
    context: Context, messages: MessageLog, devices: tuple[TfDevice, ...] | None, about: str, fixes: tuple[Fix, ...]
) -> Problem | None:
    """The declared answer, where somebody asks and nothing in the text fails."""
    found = next((one for one in messages.all("question") if one.values["about"] == about), None)
    if context.probed or found is None or not nothing_fails(messages, devices):
        return None
    return Problem(evidence=message_evidence(found), fixes=fixes)


TOOLKIT = finding(
    "cuda.toolkit-not-needed",
    layer="CUDA",
    severity=Severity.NOTE,
    answers=True,
    title="The CUDA toolkit is not needed beside CUDA libraries from pip or conda",
    cause="pip's tensorflow[and-cuda] and conda's cudatoolkit and cudnn bring the libraries that TensorFlow loads; of "
    "the system it needs the NVIDIA driver alone, and an installed toolkit may have any version",
    docs="https://www.tensorflow.org/install/pip",
)


@TOOLKIT.sign
def toolkit_asked(
    context: Context, messages: MessageLog, devices: tuple[TfDevice, ...] | None = None
) -> Problem | None:
    """Whether a toolkit has to be installed as well."""
    fixes = (
        Fix("Install no toolkit; see whether the driver is new enough for the CUDA that is used", ("nvidia-smi",)),
    )
    return _answer(context, messages, devices, "toolkit", fixes)


IN_USE = finding(
    "gpu.usage-unknown",
    layer="GPU",
    severity=Severity.NOTE,
    answers=True,
    title="How to see whether TensorFlow uses the GPU",
    cause='TensorFlow lists the GPU and logs "Created device ... GPU:0" when it uses it, "Could not load dynamic '
    'library" or "Skipping registering GPU devices" when it does not',
    docs="https://www.tensorflow.org/guide/gpu",
)


@IN_USE.sign
def usage_asked(
    context: Context,
    messages: MessageLog,
    devices: tuple[TfDevice, ...] | None = None,
    tensorflow_version: str | None = None,
) -> Problem | None:
    """How to tell whether the GPU is used; a log in which it is answers itself."""
    if messages.has("gpu-created"):
        return None
    fixes = (
        Fix(
            "List the GPUs that TensorFlow sees",
            (f'{context.remedies.python} -c "{list_gpus(tensorflow_version or "2.1")}"',),
        ),
        Fix(
            "Watch the GPU while the program runs: it is in the list of processes, and its memory in use",
            ("nvidia-smi",),
        ),
    )
    return _answer(context, messages, devices, "in-use", fixes)


FIRST_RUN = finding(
    "perf.first-run",
    layer="Compute",
    severity=Severity.NOTE,
    answers=True,
    title="The first run is slower than all others: TensorFlow prepares the GPU in it",
    cause="in the first run CUDA is initialised and cuDNN measures its algorithms for each shape; only a first run of "
    "many minutes shows a fault: a GPU that is newer than the build",
    docs="https://www.tensorflow.org/guide/profiler",
)


@FIRST_RUN.sign
def first_run_asked(
    context: Context, messages: MessageLog, devices: tuple[TfDevice, ...] | None = None
) -> Problem | None:
    """Why the first step takes longer."""
    fixes = (
        Fix("Run one step before you measure, and leave it out; keep shapes the same, so that it stays the only one"),
    )
    return _answer(context, messages, devices, "first-run", fixes)
