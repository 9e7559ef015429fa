"""Findings about environment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import DECLARATIONS, Declaration, Problem, evidence, finding
from tfgpu_doctor.findings.derived import Card
from tfgpu_doctor.findings.memory import how_many
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.records.facts import Candidate, Gpu, Message, Package, Soname, TfDevice, value_or
from tfgpu_doctor.records.report import Evidence, Fix, Severity

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


def _register(switch: Switch) -> Declaration:
    declared = finding(
        switch.id,
        layer="Python",
        severity=Severity.WARNING,
        title=switch.title or f"{switch.name} changes what TensorFlow does",
        docs=switch.docs,
    )

    @declared.sign(conclusive=False)  # TensorFlow's own words about the value count as well
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

    return declared


SWITCHED = {switch.id: _register(switch) for switch in SWITCHES}


LD_SO = "https://man7.org/linux/man-pages/man8/ld.so.8.html"


KERAS_2 = "https://keras.io/getting_started/"


TF32 = "https://docs.nvidia.com/cuda/cublas/index.html"


NCCL = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"


AMPERE = (8, 0)  # the first compute capability with TF32


_SLOWER_TRANSPORTS = {
    "NCCL_P2P_DISABLE": "GPUs exchange data through the host's memory instead of NVLink or PCIe peer access",
    "NCCL_SHM_DISABLE": "GPUs without peer access exchange data through the network stack",
    "NCCL_IB_DISABLE": "machines exchange data over TCP instead of InfiniBand",
}


def _of_a_wheel(candidate: Candidate) -> bool:
    return (
        candidate.via in ("RUNPATH", "RPATH", "pip wheel")
        and candidate.problem is None
        and ("/nvidia/" in candidate.path)
    )


def _since(version: str, first: str) -> bool:
    try:
        return Version(version) >= Version(first)
    except InvalidVersion:
        return True


_CUDA_VARIABLES = "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#cuda-environment-variables"


def _grown(said: MessageLog) -> tuple[Message, ...]:
    return tuple(m for m in said.all("harmless") if m.values["what"] == "growth-by-variable")


def _refusal(
    finding_id: str,
    severity: Severity,
    title: str,
    cause: str,
    fix: tuple[str, str],
    docs: str,
    seen: Callable[[MessageLog], tuple[Message, ...]],
) -> None:
    """Register one variable that a log speaks of."""

    @DECLARATIONS[finding_id].sign
    def refused(messages: MessageLog) -> Problem | None:
        shown = seen(messages)
        if not shown:
            return None
        text, command = fix
        return Problem(
            cause=cause,
            evidence=message_evidence(*shown),
            fixes=(Fix(text=text, commands=(command,)),),
            title=title,
            severity=severity,
        )

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


LD_LIBRARY_PATH = finding(
    "env.ld-library-path",
    layer="Python",
    severity=Severity.WARNING,
    title="LD_LIBRARY_PATH puts another CUDA library before the one of the wheels",
    docs="https://man7.org/linux/man-pages/man8/ld.so.8.html",
)


@LD_LIBRARY_PATH.sign
def ld_library_path(context: Context, variables: dict[str, str], sonames: tuple[Soname, ...]) -> Problem | None:
    """A folder on LD_LIBRARY_PATH wins over a wheel's file of another version."""
    seen: list[Evidence] = []
    folders: list[str] = []
    for library in sonames:
        winner = next((one for one in library.candidates if one.path == library.winner), None)
        wheel = next((one for one in library.candidates if _of_a_wheel(one)), None)
        if winner is None or wheel is None or winner.via != "LD_LIBRARY_PATH" or winner.version == wheel.version:
            continue
        if not (winner.version and wheel.version):
            continue
        folders.append(winner.path.rsplit("/", 1)[0])
        seen.append(evidence(f"{library.soname} {winner.version}", winner.path, wheel.version, wheel.path))
    if not seen:
        return None
    path = variables.get("LD_LIBRARY_PATH", "")
    kept = ":".join(part for part in path.split(":") if part and part.rstrip("/") not in folders)
    command = f"export LD_LIBRARY_PATH={context.remedies.quote(kept)}" if kept else "unset LD_LIBRARY_PATH"
    return Problem(
        cause="the loader searches LD_LIBRARY_PATH before the RUNPATH that leads to the wheels",
        evidence=tuple(seen),
        fixes=(Fix(text="Take these folders off it", commands=(command,)),),
    )


LEGACY_KERAS = finding(
    "env.legacy-keras",
    layer="Python",
    severity=Severity.NOTE,
    title="tf.keras is Keras 2",
    docs="https://keras.io/getting_started/",
)


@LEGACY_KERAS.sign
def legacy_keras(
    context: Context, variables: dict[str, str], release: Release, packages: tuple[Package, ...] | None = None
) -> Problem | None:
    """TF_USE_LEGACY_KERAS sends tf.keras to the package tf-keras, from 2.16 on; without that package it fails."""
    value = variables.get("TF_USE_LEGACY_KERAS")
    if value not in ("1", "true", "True") or not _since(release.version, "2.16"):
        return None
    missing = packages is not None and not any(package.name == "tf-keras" for package in packages)
    seen = [evidence(f"TF_USE_LEGACY_KERAS={value}", context.source("variables"))]
    if missing:
        seen.append(evidence("no tf-keras", context.source("python.packages"), "tf-keras of the same minor version"))
        minor = ".".join(release.version.split(".")[:2])
        fix = Fix(text="Install it", commands=context.remedies.pip_install(f"tf-keras~={minor}.0"))
    else:
        fix = Fix(text="For Keras 3, take it away", commands=(unset(context, "TF_USE_LEGACY_KERAS"),))
    return Problem(
        title="tf.keras fails: Keras 2 is asked for, and not installed" if missing else None,
        cause="tf.keras is taken from the package tf-keras instead of Keras 3",
        evidence=tuple(seen),
        fixes=(fix,),
        severity=Severity.WARNING if missing else Severity.NOTE,
    )


TF32_OVERRIDE = finding(
    "env.tf32-override",
    layer="Python",
    severity=Severity.WARNING,
    title="TF32 is switched off for every program",
    docs="https://docs.nvidia.com/cuda/cublas/index.html",
)


@TF32_OVERRIDE.sign
def tf32_override(context: Context, variables: dict[str, str], cards: tuple[Card, ...] | None = None) -> Problem | None:
    """NVIDIA_TF32_OVERRIDE=0 matters on Ampere and newer only."""
    value = variables.get("NVIDIA_TF32_OVERRIDE")
    if value != "0" or (cards and all(card.version < AMPERE for card in cards)):
        return None
    return Problem(
        cause="float32 products and convolutions run without tensor cores, several times slower, whatever is asked for",
        evidence=(evidence("NVIDIA_TF32_OVERRIDE=0", context.source("variables"), "unset, unless it is meant"),),
        fixes=(
            Fix(text="Take it away where it is not meant", commands=(unset(context, "NVIDIA_TF32_OVERRIDE"),)),
            Fix(text="In one program: tf.config.experimental.enable_tensor_float_32_execution(False)"),
        ),
    )


CUDA_DEVICE_ORDER = finding(
    "env.cuda-device-order",
    layer="Python",
    severity=Severity.WARNING,
    title="CUDA numbers the GPUs differently from nvidia-smi",
    docs="https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html",
)


@CUDA_DEVICE_ORDER.sign
def device_order(context: Context, variables: dict[str, str], gpus: tuple[Gpu, ...]) -> Problem | None:
    """Unless CUDA_DEVICE_ORDER is PCI_BUS_ID, the fastest GPU is number 0; that differs with unlike GPUs only."""
    chosen = variables.get("CUDA_VISIBLE_DEVICES", "")
    names = {value_or(gpu.name, "") for gpu in gpus}
    by_number = any(part.strip().isdecimal() for part in chosen.split(","))
    if not by_number or len(names) < 2 or variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        return None
    order = ", ".join(f"{gpu.index}: {value_or(gpu.name, 'unknown')}" for gpu in gpus)
    return Problem(
        cause="CUDA counts from the fastest GPU on, nvidia-smi along the PCI bus: the number may mean another card",
        evidence=(
            evidence(f"CUDA_VISIBLE_DEVICES={chosen}", context.source("variables"), "CUDA_DEVICE_ORDER=PCI_BUS_ID"),
            evidence(order, context.source("gpus")),
        ),
        fixes=(Fix(text="Number them as nvidia-smi does", commands=("export CUDA_DEVICE_ORDER=PCI_BUS_ID",)),),
    )


ENV_NCCL = finding(
    "env.nccl",
    layer="Python",
    severity=Severity.WARNING,
    title="A variable keeps NCCL from the fast way between GPUs",
    docs="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
)


@ENV_NCCL.sign
def nccl(
    context: Context,
    variables: dict[str, str],
    gpus: tuple[Gpu, ...] | None = None,
    devices: tuple[TfDevice, ...] | None = None,
) -> Problem | None:
    """NCCL_*_DISABLE is set on a machine with several GPUs."""
    slow = {name: why for name, why in _SLOWER_TRANSPORTS.items() if truth(variables.get(name, "")) is True}
    if not slow or how_many(gpus, devices) < 2:
        return None
    where = context.source("variables")
    return Problem(
        cause="; ".join(slow.values()),
        evidence=tuple(evidence(f"{name}={variables[name]}", where, "unset, unless it is meant") for name in slow),
        fixes=(Fix(text="Take it away where it is not meant", commands=tuple(unset(context, name) for name in slow)),),
    )


KERAS_BACKEND = DECLARATIONS["env.keras-backend"]


@KERAS_BACKEND.sign
def another_backend(messages: MessageLog) -> Problem | None:
    """Keras says on import which framework it computes with."""
    seen = messages.all("other-backend")
    if not seen:
        return None
    name = seen[0].values["backend"]
    return Problem(
        title=f"Keras computes with {name}, not with TensorFlow",
        cause="KERAS_BACKEND or ~/.keras/keras.json names it, so that what TensorFlow sees of the GPU does not matter",
        evidence=message_evidence(*seen),
        fixes=(Fix(text="Name TensorFlow, before Python starts", commands=("export KERAS_BACKEND=tensorflow",)),),
    )


XLA_FLAGS = DECLARATIONS["env.xla-flags"]


@XLA_FLAGS.sign
def flags_refused(context: Context, messages: MessageLog) -> Problem | None:
    """An unknown flag ends the process; a value that cannot be read is passed over."""
    seen = messages.all("xla-flags-refused")
    if not seen:
        return None
    fatal = any("Unknown flag" in m.text for m in seen)
    clear = "set XLA_FLAGS= & set TF_XLA_FLAGS=" if context.remedies.os == "windows" else "unset XLA_FLAGS TF_XLA_FLAGS"
    return Problem(
        severity=Severity.ERROR if fatal else Severity.WARNING,
        cause="flags come and go with releases, and XLA_FLAGS and TF_XLA_FLAGS each know their own; an unknown one "
        "ends the process",
        evidence=message_evidence(*seen),
        fixes=(
            Fix(
                text="Take it out where it is set: shell profile, notebook, or os.environ in the program",
                commands=(clear,),
            ),
        ),
    )
