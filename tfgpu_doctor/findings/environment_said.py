"""Rules over environment variables that TensorFlow and CUDA speak of when they refuse them, or act on them.

What the environment holds is judged in rules/environment.py; here a log is all there is.
"""

from __future__ import annotations

from collections.abc import Callable

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, rule
from tfgpu_doctor.findings.environment import ALLOCATOR, GPU_DEVICE, GPU_GUIDE
from tfgpu_doctor.findings.message_log import Said, heard
from tfgpu_doctor.records.facts import Message
from tfgpu_doctor.records.report import Fix, Severity

_CUDA_VARIABLES = "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#cuda-environment-variables"


def _grown(said: Said) -> tuple[Message, ...]:
    return tuple(m for m in said.all("harmless") if m.values["what"] == "growth-by-variable")


def _refusal(
    finding_id: str,
    severity: Severity,
    title: str,
    cause: str,
    fix: tuple[str, str],
    docs: str,
    seen: Callable[[Said], tuple[Message, ...]],
) -> None:
    """Register one variable that a log speaks of."""

    @rule(finding_id, severity, title, needs=("derived.told",), docs=docs)
    def refused(context: Context, said: Said) -> Problem | None:
        messages = seen(said)
        if not messages:
            return None
        text, command = fix
        return Problem(cause=cause, evidence=heard(*messages), fixes=(Fix(text=text, commands=(command,)),))

    refused.__doc__ = f"{title}."


_refusal(
    "env.allow-growth",
    Severity.WARNING,
    "TF_FORCE_GPU_ALLOW_GROWTH is not understood",
    'only "true" and "false" in lower case are understood; any other value is passed over, and memory is taken as the '
    "program says",
    ("Write it so", "export TF_FORCE_GPU_ALLOW_GROWTH=true"),
    ALLOCATOR,
    lambda said: said.all("growth-not-parsed"),
)
_refusal(
    "env.allow-growth",
    Severity.NOTE,
    "TF_FORCE_GPU_ALLOW_GROWTH overrides the program",
    "the environment decides how memory is taken, whatever the program sets",
    ("Unset it to leave the choice to the program", "unset TF_FORCE_GPU_ALLOW_GROWTH"),
    ALLOCATOR,
    _grown,
)
_refusal(
    "env.gpu-thread-mode",
    Severity.ERROR,
    "TensorFlow does not know the value of TF_GPU_THREAD_MODE",
    "with a mode that it does not know, TensorFlow creates no GPU device",
    ("Unset it, or set it to global, gpu_private or gpu_shared", "unset TF_GPU_THREAD_MODE"),
    GPU_DEVICE,
    lambda said: said.all("thread-mode-invalid"),
)
_refusal(
    "env.tf-gpu-allocator",
    Severity.ERROR,
    "TensorFlow cannot use the allocator that TF_GPU_ALLOCATOR names",
    "cuda_malloc_async is the only other allocator, and needs a driver and a card that share memory pools",
    ("Go back to TensorFlow's own", "unset TF_GPU_ALLOCATOR"),
    GPU_GUIDE,
    lambda said: said.all("allocator-refused"),
)
_refusal(
    "env.cuda-disable-ptx-jit",
    Severity.ERROR,
    "CUDA is forbidden to compile for this card",
    "CUDA_DISABLE_PTX_JIT=1 leaves a card for which the build holds no machine code without any",
    ("Unset it", "unset CUDA_DISABLE_PTX_JIT"),
    _CUDA_VARIABLES,
    lambda said: said.all("jit-forbidden"),
)
