"""Environment variables that change what TensorFlow does: one finding each, most of them rows of a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, rule
from tfgpu_doctor.records.report import Fix, Severity

# the sources of the sentences below
CUDA_VARIABLES = "https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html"
ALLOCATOR = (
    "https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/common_runtime/gpu/gpu_bfc_allocator.cc"
)
GPU_DEVICE = "https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/common_runtime/gpu/gpu_device.cc"
STREAM_EXECUTOR = "https://github.com/openxla/xla/tree/main/xla/stream_executor"
USE_CUDNN = (
    "https://github.com/tensorflow/tensorflow/blob/22a71154e0d61730dd75ec2cf7c5cc108c9f80e5"
    "/tensorflow/core/util/use_cudnn.cc"
)
GPU_GUIDE = "https://www.tensorflow.org/guide/gpu"
DETERMINISM = "https://github.com/NVIDIA/framework-reproducibility/blob/master/doc/d9m/tensorflow.md"
XLA_GUIDE = "https://www.tensorflow.org/xla"
KERAS_3 = "https://keras.io/getting_started/"
MPS = "https://docs.nvidia.com/deploy/mps/index.html"
LOGGING = "https://github.com/openxla/xla/blob/main/xla/tsl/platform/default/logging.cc"

Judgement = tuple[Severity, str]  # how grave a value is, and what it changes


@dataclass(frozen=True)
class Switch:
    """One variable, and what its values do."""

    id: str
    name: str
    title: str
    judge: Callable[[str], Judgement | None]  # of the stripped value; None where it changes nothing
    docs: str
    instead: str | None = None  # what it should be; without one, unset


def truth(value: str) -> bool | None:
    """A boolean as TensorFlow reads it (ReadBoolFromEnvVar): 0, 1, true, false; None for anything else."""
    return {"1": True, "true": True, "0": False, "false": False}.get(value.lower())


def when(wanted: bool, severity: Severity, cause: str) -> Callable[[str], Judgement | None]:
    """Judge a variable that is read as a boolean."""
    return lambda value: (severity, cause) if truth(value) is wanted else None


def allow_growth(value: str) -> Judgement | None:
    """Only the words true and false are understood (GetAllowGrowthValue)."""
    if value == "true":
        more = "memory is taken as needed and never given back, so that it can fragment; other jobs can use the rest"
        return Severity.NOTE, f"{more}. It overrides set_memory_growth in the program"
    if value == "false":
        return Severity.NOTE, "nearly all memory is taken at the start, even where the program sets memory growth"
    return Severity.WARNING, 'TensorFlow understands only "true" and "false" in lower case, and ignores this value'


def thread_mode(value: str) -> Judgement | None:
    """A word that is not one of three keeps TensorFlow from creating the device (BaseGPUDevice::Init)."""
    if value.lower() == "global" or not value:
        return None
    if value.lower() in ("gpu_private", "gpu_shared"):
        return Severity.NOTE, "kernels are launched from threads of their own, TF_GPU_THREAD_COUNT of them (2)"
    return Severity.ERROR, "TensorFlow refuses to create any GPU with it: Invalid gpu_thread_mode"


_SLOW_FLAGS = {
    "--xla_dump_to": "every compiled program is written to disk",
    "--xla_gpu_autotune_level=0": "XLA does not measure which kernels are fast",
    "--xla_gpu_deterministic_ops=true": "slower, reproducible kernels",
    "--xla_gpu_force_compilation_parallelism=1": "kernels are compiled one after another",
}


def xla_flags(value: str) -> Judgement | None:
    """Options of XLA: some slow it down, and an unknown one ends the process."""
    flags = [flag for flag in value.split() if not flag.startswith("--xla_gpu_cuda_data_dir=")]  # only a place
    slow = [why for flag in flags for start, why in _SLOW_FLAGS.items() if flag.startswith(start)]
    if slow:
        return Severity.WARNING, "; ".join(slow)
    ends = "XLA takes these options from it, and ends the process when it does not know one"
    return (Severity.NOTE, ends) if flags else None


def auto_jit(value: str) -> Judgement | None:
    """Auto-clustering compiles what nobody asked to have compiled."""
    if not any(flag.startswith("--tf_xla_auto_jit=") and not flag.endswith("=0") for flag in value.split()):
        return None
    return Severity.NOTE, "parts of every graph are compiled by XLA: slow first steps, and libdevice and ptxas needed"


def log_level(value: str) -> Judgement | None:
    """0 shows all, 1 hides INFO, 2 WARNING as well, 3 ERROR as well."""
    if not value.isdecimal() or int(value) < 2:
        return None
    hidden = "warnings" if int(value) == 2 else "warnings and errors"
    return Severity.NOTE, f"{hidden} are hidden, among them the lines that say why a GPU is not used"


def backend(value: str) -> Judgement | None:
    """Keras 3 can run on another framework."""
    if value.lower() in ("tensorflow", ""):
        return None
    return Severity.WARNING, f"Keras 3 computes with {value}, so that what TensorFlow sees of the GPU does not matter"


def threads(value: str) -> Judgement | None:
    """Below 100 per cent, a client of MPS gets only that share of the multiprocessors."""
    try:
        share = float(value)
    except ValueError:
        return None
    return (Severity.WARNING, f"MPS gives this process {value} % of the multiprocessors") if 0 < share < 100 else None


def memory_limit(value: str) -> Judgement | None:
    """Megabytes that TensorFlow takes of each GPU."""
    if not value.isdecimal() or int(value) == 0:
        return None
    return Severity.NOTE, f"TensorFlow takes at most {value} MB of each GPU, however much is free"


def allocator(value: str) -> Judgement | None:
    """Another allocator than TensorFlow's own."""
    if value == "cuda_malloc_async":
        return (
            Severity.NOTE,
            "CUDA's own pool replaces TensorFlow's allocator; it needs a driver for CUDA 11.2 or newer",
        )
    return (Severity.NOTE, "another allocator than TensorFlow's own is asked for") if value else None


_SLOWER = "slower kernels whose results repeat, and an error from operations that have none"
SWITCHES = (
    Switch("env.allow-growth", "TF_FORCE_GPU_ALLOW_GROWTH", "", allow_growth, ALLOCATOR, "true or false"),
    Switch("env.tf-gpu-allocator", "TF_GPU_ALLOCATOR", "", allocator, GPU_GUIDE),
    Switch("env.memory-limit", "TF_PER_DEVICE_MEMORY_LIMIT_MB", "", memory_limit, STREAM_EXECUTOR),
    Switch(
        "env.unified-memory",
        "TF_FORCE_UNIFIED_MEMORY",
        "",
        when(
            True, Severity.WARNING, "a job may exceed the GPU's memory, and is then paged to the host at PCIe's speed"
        ),
        STREAM_EXECUTOR,
    ),
    Switch("env.gpu-thread-mode", "TF_GPU_THREAD_MODE", "", thread_mode, GPU_DEVICE, "gpu_private, gpu_shared, global"),
    Switch("env.deterministic-ops", "TF_DETERMINISTIC_OPS", "", when(True, Severity.WARNING, _SLOWER), DETERMINISM),
    Switch(
        "env.cudnn-deterministic",
        "TF_CUDNN_DETERMINISTIC",
        "",
        when(True, Severity.WARNING, "slower convolutions whose results repeat"),
        DETERMINISM,
    ),
    Switch(
        "env.cudnn-autotune",
        "TF_CUDNN_USE_AUTOTUNE",
        "",
        when(False, Severity.WARNING, "cuDNN's algorithms are not measured, and a slow one may be taken"),
        USE_CUDNN,
    ),
    Switch("env.xla-flags", "XLA_FLAGS", "XLA is given options by the environment", xla_flags, XLA_GUIDE),
    Switch("env.xla-auto-jit", "TF_XLA_FLAGS", "XLA compiles without being asked", auto_jit, XLA_GUIDE),
    Switch(
        "env.cpp-min-log-level",
        "TF_CPP_MIN_LOG_LEVEL",
        "TensorFlow's warnings are hidden",
        log_level,
        LOGGING,
        "0, to see them",
    ),
    Switch("env.keras-backend", "KERAS_BACKEND", "Keras does not run on TensorFlow", backend, KERAS_3, "tensorflow"),
    Switch(
        "env.cuda-launch-blocking",
        "CUDA_LAUNCH_BLOCKING",
        "Every kernel is waited for",
        when(True, Severity.WARNING, "every launch waits for its kernel: meant for debugging, and slow"),
        CUDA_VARIABLES,
    ),
    Switch(
        "env.cuda-cache-disable",
        "CUDA_CACHE_DISABLE",
        "Compiled kernels are forgotten",
        when(True, Severity.WARNING, "what the driver compiles from PTX is not kept, so that each start compiles anew"),
        CUDA_VARIABLES,
        "0",
    ),
    Switch(
        "env.cuda-force-ptx-jit",
        "CUDA_FORCE_PTX_JIT",
        "Every kernel is compiled anew",
        when(True, Severity.WARNING, "the driver ignores the machine code in the libraries; those without PTX fail"),
        CUDA_VARIABLES,
    ),
    Switch(
        "env.cuda-disable-ptx-jit",
        "CUDA_DISABLE_PTX_JIT",
        "The driver may not compile PTX",
        when(True, Severity.NOTE, "a GPU newer than the build cannot run it at all"),
        CUDA_VARIABLES,
    ),
    Switch("env.mps", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "MPS limits this process", threads, MPS),
)


def unset(context: Context, name: str) -> str:
    """The command that takes a variable away in the user's shell."""
    return f"set {name}=" if context.remedies.os == "windows" else f"unset {name}"


def _register(switch: Switch) -> None:
    @rule(
        switch.id,
        Severity.WARNING,
        switch.title or f"{switch.name} changes what TensorFlow does",
        needs=("variables",),
        docs=switch.docs,
    )
    def decide(context: Context, variables: dict[str, str]) -> Problem | None:
        """The variable is set to a value that changes something."""
        if (value := variables.get(switch.name)) is None:
            return None
        judgement = switch.judge(value.strip())
        if judgement is None:
            return None
        severity, cause = judgement
        need = switch.instead or "unset, unless it is meant"
        return Problem(
            cause=cause,
            evidence=(evidence(f"{switch.name}={value}", context.source("variables"), need),),
            fixes=(Fix(text="Take it away where it is not meant", commands=(unset(context, switch.name),)),),
            severity=severity,
        )


for _switch in SWITCHES:
    _register(_switch)
