"""What the values of environment variables change, and how grave that is; None where a value changes nothing."""

from __future__ import annotations

from collections.abc import Callable

from tfgpu_doctor.records.report import Severity

Judgement = tuple[Severity, str]  # how grave a value is, and what it changes


def truth(value: str) -> bool | None:
    """A boolean as TensorFlow reads it (ReadBoolFromEnvVar): 0, 1, true, false; None for anything else."""
    return {"1": True, "true": True, "0": False, "false": False}.get(value.lower())


def when(wanted: bool, severity: Severity, cause: str) -> Callable[[str], Judgement | None]:
    """Judge a variable that is read as a boolean."""
    return lambda value: (severity, cause) if truth(value) is wanted else None


def allow_growth(value: str) -> Judgement | None:
    """Only the words true and false are understood (GetAllowGrowthValue)."""
    if value == "true":
        more = "memory is allocated as needed and never released, so that it can fragment; other jobs can use the rest"
        return Severity.NOTE, f"{more}. It overrides set_memory_growth in the program"
    if value == "false":
        return Severity.NOTE, "nearly all memory is taken at the start, even where the program sets memory growth"
    return Severity.WARNING, 'TensorFlow understands only "true" and "false" in lower case, and ignores this value'


def thread_mode(value: str) -> Judgement | None:
    """A word that is not one of three keeps TensorFlow from creating the device (BaseGPUDevice::Init)."""
    if value.lower() == "global" or not value:
        return None
    if value.lower() in ("gpu_private", "gpu_shared"):
        return Severity.NOTE, "kernels are launched from separate threads, TF_GPU_THREAD_COUNT of them (default 2)"
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
    return Severity.WARNING, f"Keras 3 computes with {value}, and does not use the GPUs that TensorFlow lists"


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
    return (Severity.NOTE, "another allocator than TensorFlow's own is requested") if value else None
