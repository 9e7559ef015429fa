"""Rules about computations that failed on a GPU that TensorFlow lists: no memory left, cuDNN that cannot begin."""

from __future__ import annotations

import re

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, rule
from tfgpu_doctor.records.facts import ComputeCheck, Gpu, Known, Phase
from tfgpu_doctor.records.report import Evidence, Fix, Severity

# bfc_allocator.cc, gpu_device.cc and CUDA's own name; "Dst tensor" is what a copy to a full card says
_NO_MEMORY = re.compile(
    r"ResourceExhaustedError|RESOURCE_EXHAUSTED|OOM when allocating|Dst tensor is not initialized"
    r"|CUDA_ERROR_OUT_OF_MEMORY|failed to allocate \S+ .*from device"
)
# cuda_dnn.cc and dnn.cc
_NO_CUDNN = re.compile(
    r"[Cc]ould not create cudnn handle|CUDNN_STATUS_NOT_INITIALIZED|No DNN in stream executor|DNN library is not found"
)


def _said(
    pattern: re.Pattern[str], checks: tuple[ComputeCheck, ...] | None, phases: tuple[Phase, ...]
) -> tuple[Evidence, ...]:
    """The errors of the computations, and the last words of a phase that died, that match."""
    seen = [(c.error, f"{c.kind} on {c.device}") for c in checks or () if c.error and pattern.search(c.error)]
    for phase in phases:
        lines = (*([phase.exception] if phase.exception else ()), *phase.log_tail)
        seen += [(line, f"phase {phase.name}") for line in lines if pattern.search(line)][:2]
    return tuple(evidence(text[:300], where) for text, where in seen)


@rule(
    "memory.oom",
    Severity.ERROR,
    "The GPU has no memory left for a small computation",
    needs=("tensorflow.checks",),
    wants=("tensorflow.phases", "gpus"),
    explained_by=("memory.taken",),
    docs="https://www.tensorflow.org/guide/gpu#limiting_gpu_memory_growth",
)
def oom(
    context: Context,
    checks: tuple[ComputeCheck, ...],
    phases: tuple[Phase, ...] | None,
    gpus: tuple[Gpu, ...] | None,
) -> Problem | None:
    """A matrix product of some hundred kilobytes got no memory."""
    seen = _said(_NO_MEMORY, checks, phases or ())
    if not seen:
        return None
    free = [
        evidence(f"GPU {gpu.index}: {gpu.memory_free.value // 2**20} MiB free", gpu.memory_free.source)
        for gpu in gpus or ()
        if isinstance(gpu.memory_free, Known)
    ]
    return Problem(
        cause="the examination needs a few hundred MiB, most of it for CUDA itself: something else holds the memory",
        evidence=(*seen, *free),
        fixes=(
            Fix(text="See who holds it", commands=("nvidia-smi",)),
            Fix(
                text="Let programs that share a card take only what they need",
                commands=("export TF_FORCE_GPU_ALLOW_GROWTH=true",),
            ),
        ),
    )


@rule(
    "cudnn.init-failed",
    Severity.ERROR,
    "cuDNN cannot be initialised",
    needs=("tensorflow.checks",),
    wants=("tensorflow.phases", "cudnn.runtime"),
    requires=("cudnn.version-mismatch", "cudnn.dep-missing"),
    explained_by=("memory.taken", "memory.oom", "cudnn.lib-path", "driver.*"),
    docs="https://docs.nvidia.com/deeplearning/cudnn/latest/",
)
def cudnn_init_failed(
    context: Context, checks: tuple[ComputeCheck, ...], phases: tuple[Phase, ...] | None, version: str | None
) -> Problem | None:
    """cudnnCreate fails although the library is found: no memory left, the driver, or files of several versions."""
    seen = _said(_NO_CUDNN, checks, phases or ())
    if not seen:
        return None
    loaded = (evidence(f"cuDNN {version}", context.source("cudnn.runtime")),) if version else ()
    return Problem(
        cause="the library is found, and its handle cannot be created: mostly because the GPU has no memory left",
        evidence=(*seen, *loaded),
        fixes=(
            Fix(text="See what is free, and end what holds the rest", commands=("nvidia-smi",)),
            Fix(
                text="Leave cuDNN some memory",
                commands=("export TF_FORCE_GPU_ALLOW_GROWTH=true",),
            ),
        ),
    )
