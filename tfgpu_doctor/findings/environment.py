"""Environment variables, and what else of the environment changes TensorFlow."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from tfgpu_doctor.findings.declaration import (
    Context,
    Declaration,
    MessageLog,
    Problem,
    evidence,
    finding,
    import_fails,
    message_evidence,
)
from tfgpu_doctor.findings.inputs import Card
from tfgpu_doctor.findings.library_fixes import off_library_path, on_library_path
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.records.facts import (
    Candidate,
    Gpu,
    Package,
    Phase,
    Setting,
    ShadowedModule,
    Soname,
    XlaFile,
    value_or,
)
from tfgpu_doctor.records.report import Fix, Severity
from tfgpu_doctor.records.versions import at_least, minor

# ----------------------------------------------------------------------------------------------------------------------
# What the values of environment variables change, and how grave that is; None where a value changes nothing.


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


# ----------------------------------------------------------------------------------------------------------------------
# Environment variables that change what TensorFlow, XLA or CUDA does: by their value, or as a program refuses it.


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

_UNSET = "Unset it, unless you set it on purpose"


@dataclass(frozen=True)
class Refusal:
    """What a program prints when it refuses the value, or acts on it."""

    kind: str  # of the message
    severity: Severity
    title: str
    cause: str
    fix: str = _UNSET
    command: str = ""  # instead of unsetting it


@dataclass(frozen=True)
class Variable:
    """One variable, and what its values do."""

    id: str
    name: str
    judge: Callable[[str], Judgement | None]  # of the stripped value; None where it changes nothing
    docs: str
    title: str = ""
    expected: str = "unset, unless you set it on purpose"
    refusals: tuple[Refusal, ...] = ()
    of_keras: bool = False  # where tf.keras cannot be imported, its value is the reason


WARNING, NOTE, ERROR = Severity.WARNING, Severity.NOTE, Severity.ERROR
_SLOWER = "slower kernels with reproducible results; operations without such a kernel raise an error"
VARIABLES = (
    Variable(
        "env.allow-growth",
        "TF_FORCE_GPU_ALLOW_GROWTH",
        allow_growth,
        ALLOCATOR,
        expected="true or false",
        refusals=(
            Refusal(
                "growth-not-parsed",
                WARNING,
                "TensorFlow ignores the value of TF_FORCE_GPU_ALLOW_GROWTH",
                'it understands only "true" and "false" in lower case; the program\'s own setting decides',
                "Write it in lower case",
                "export TF_FORCE_GPU_ALLOW_GROWTH=true",
            ),
            Refusal(
                "growth-by-variable",
                NOTE,
                "TF_FORCE_GPU_ALLOW_GROWTH overrides the program",
                "the variable decides how memory is allocated, whatever the program sets",
                "Unset it to let the program decide",
            ),
        ),
    ),
    Variable(
        "env.tf-gpu-allocator",
        "TF_GPU_ALLOCATOR",
        allocator,
        GPU_GUIDE,
        refusals=(
            Refusal(
                "allocator-refused",
                ERROR,
                "TensorFlow cannot use the allocator that TF_GPU_ALLOCATOR names",
                "cuda_malloc_async is the only other allocator; it needs a driver and a GPU that support memory pools",
                "Unset it to use TensorFlow's own allocator",
            ),
        ),
    ),
    Variable("env.memory-limit", "TF_PER_DEVICE_MEMORY_LIMIT_MB", memory_limit, STREAM_EXECUTOR),
    Variable(
        "env.unified-memory",
        "TF_FORCE_UNIFIED_MEMORY",
        when(True, WARNING, "a job may exceed the GPU's memory, and then pages to the host at the speed of PCIe"),
        STREAM_EXECUTOR,
    ),
    Variable(
        "env.gpu-thread-mode",
        "TF_GPU_THREAD_MODE",
        thread_mode,
        GPU_DEVICE,
        expected="gpu_private, gpu_shared, global",
        refusals=(
            Refusal(
                "thread-mode-invalid",
                ERROR,
                "TensorFlow does not know the value of TF_GPU_THREAD_MODE",
                "TensorFlow creates no GPU device with a mode that it does not know",
                "Unset it, or set it to global, gpu_private or gpu_shared",
            ),
        ),
    ),
    Variable("env.deterministic-ops", "TF_DETERMINISTIC_OPS", when(True, WARNING, _SLOWER), DETERMINISM),
    Variable(
        "env.cudnn-deterministic",
        "TF_CUDNN_DETERMINISTIC",
        when(True, WARNING, "slower convolutions with reproducible results"),
        DETERMINISM,
    ),
    Variable(
        "env.cudnn-autotune",
        "TF_CUDNN_USE_AUTOTUNE",
        when(False, WARNING, "TensorFlow does not measure cuDNN's algorithms, and may use a slow one"),
        USE_CUDNN,
    ),
    Variable("env.xla-flags", "XLA_FLAGS", xla_flags, XLA_GUIDE, title="XLA_FLAGS is set"),
    Variable(
        "env.xla-auto-jit", "TF_XLA_FLAGS", auto_jit, XLA_GUIDE, title="TF_XLA_FLAGS turns on XLA auto-clustering"
    ),
    Variable(
        "env.cpp-min-log-level",
        "TF_CPP_MIN_LOG_LEVEL",
        log_level,
        LOGGING,
        title="TF_CPP_MIN_LOG_LEVEL hides TensorFlow's warnings",
        expected="0, to see them",
    ),
    Variable(
        "env.keras-backend",
        "KERAS_BACKEND",
        backend,
        KERAS_3,
        title="Keras does not run on TensorFlow",
        expected="tensorflow",
        of_keras=True,
    ),
    Variable(
        "env.cuda-launch-blocking",
        "CUDA_LAUNCH_BLOCKING",
        when(True, WARNING, "each launch waits until its kernel has ended: meant for debugging, and slow"),
        CUDA_VARIABLES,
        title="CUDA_LAUNCH_BLOCKING makes every kernel launch synchronous",
    ),
    Variable(
        "env.cuda-cache-disable",
        "CUDA_CACHE_DISABLE",
        when(True, WARNING, "the driver does not keep what it compiles from PTX, so that each start compiles it again"),
        CUDA_VARIABLES,
        title="CUDA_CACHE_DISABLE turns off the cache of compiled kernels",
        expected="0",
    ),
    Variable(
        "env.cuda-force-ptx-jit",
        "CUDA_FORCE_PTX_JIT",
        when(True, WARNING, "the driver ignores the machine code in the libraries; those without PTX fail"),
        CUDA_VARIABLES,
        title="CUDA_FORCE_PTX_JIT compiles every kernel from PTX",
    ),
    Variable(
        "env.cuda-disable-ptx-jit",
        "CUDA_DISABLE_PTX_JIT",
        when(True, NOTE, "a GPU newer than the build cannot run it at all"),
        CUDA_VARIABLES,
        title="CUDA_DISABLE_PTX_JIT forbids the driver to compile PTX",
        refusals=(
            Refusal(
                "jit-forbidden",
                ERROR,
                "CUDA_DISABLE_PTX_JIT leaves this GPU without kernels",
                "the build holds no machine code for this GPU, and the driver may not compile its PTX",
                "Unset it",
            ),
        ),
    ),
    Variable(
        "env.mps",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
        threads,
        MPS,
        title="MPS limits this process to a part of the GPU",
    ),
)


def _declare(variable: Variable) -> Declaration:
    declared = finding(
        variable.id,
        layer="Python",
        severity=Severity.WARNING,
        title=variable.title or f"{variable.name} changes what TensorFlow does",
        docs=variable.docs,
    )

    @declared.sign(conclusive=False)  # what the program prints about the value counts as well
    def value_changes_something(
        context: Context, variables: dict[str, str], phases: tuple[Phase, ...] | None = None
    ) -> Problem | None:
        judgement = variable.judge(variables[variable.name].strip()) if variable.name in variables else None
        if judgement is None:
            return None
        found = f"{variable.name}={variables[variable.name]}"
        return Problem(
            cause=judgement[1],
            evidence=(evidence(found, context.source("variables"), variable.expected),),
            fixes=(Fix(text=_UNSET, commands=(context.remedies.unset(variable.name),)),),
            severity=ERROR if variable.of_keras and import_fails(phases) else judgement[0],
        )

    for refusal in variable.refusals:
        declared.sign(_refused(variable.name, refusal))
    return declared


def _refused(name: str, refusal: Refusal) -> Callable[[Context, MessageLog], Problem | None]:
    def printed(context: Context, messages: MessageLog) -> Problem | None:
        harmless = (m for m in messages.all("harmless") if m.values["what"] == refusal.kind)
        lines = (*messages.all(refusal.kind), *harmless)
        if not lines:
            return None
        return Problem(
            title=refusal.title,
            cause=refusal.cause,
            evidence=message_evidence(*lines),
            fixes=(Fix(text=refusal.fix, commands=(refusal.command or context.remedies.unset(name),)),),
            severity=refusal.severity,
        )

    return printed


DECLARED = {variable.id: _declare(variable) for variable in VARIABLES}


@DECLARED["env.keras-backend"].sign(conclusive=False)
def another_backend_in_file(
    context: Context, startup_settings: tuple[Setting, ...], release: Release, phases: tuple[Phase, ...] | None = None
) -> Problem | None:
    """Keras 3 takes its backend from keras.json, where no variable names one; tf.keras is Keras 3 from 2.16 on."""
    written = next((one for one in startup_settings if one.file.endswith(".json")), None)
    judgement = backend(written.value) if written and at_least(release.version, "2.16") else None
    if written is None or judgement is None:
        return None
    quote = context.remedies.quote
    change = "sed -i " + quote(f's/"backend" *: *"{written.value}"/"backend": "tensorflow"/')
    edit = f"{'notepad' if context.remedies.os == 'windows' else change} {quote(written.file)}"
    return Problem(
        title=f"Keras runs on {written.value}, not on TensorFlow",
        cause=f"{judgement[1]}; {written.file} selects it",
        evidence=(evidence(f'"backend": "{written.value}"', f"{written.file} line {written.line}", "tensorflow"),),
        fixes=(Fix(text="Select TensorFlow in that file", commands=(edit,)),),
        severity=ERROR if import_fails(phases) else judgement[0],
    )


@DECLARED["env.xla-flags"].sign
def flag_refused(context: Context, messages: MessageLog) -> Problem | None:
    """An unknown flag ends the process; a value that cannot be read is ignored."""
    lines = messages.all("xla-flags-refused")
    if not lines:
        return None
    fatal = any("Unknown flag" in line.text for line in lines)
    both = ("XLA_FLAGS", "TF_XLA_FLAGS")
    names = [name for name in both if name in value_or(context.facts.variables, {})] or both
    return Problem(
        title="XLA does not know a flag in XLA_FLAGS or TF_XLA_FLAGS" if fatal else None,
        severity=Severity.ERROR if fatal else Severity.WARNING,
        cause="each release has its own flags, and XLA_FLAGS and TF_XLA_FLAGS take different ones; an unknown flag "
        "ends the process",
        evidence=message_evidence(*lines),
        fixes=(
            Fix(
                text="Remove it where it is set: shell profile, notebook, or os.environ in the program",
                commands=(context.remedies.unset(*names),),
            ),
        ),
    )


@DECLARED["env.xla-flags"].sign(conclusive=False)
def data_dir_is_no_toolkit(context: Context, xla_roots: tuple[XlaFile, ...]) -> Problem | None:
    """--xla_gpu_cuda_data_dir names a folder in which XLA finds nothing."""
    named = next((root for root in xla_roots if root.via == "XLA_FLAGS" and root.problem), None)
    if named is None:
        return None
    return Problem(
        title="--xla_gpu_cuda_data_dir in XLA_FLAGS names no CUDA toolkit",
        severity=Severity.WARNING,
        cause="XLA searches this folder first for libdevice and ptxas, and finds neither there",
        evidence=(evidence(named.path, "XLA_FLAGS", "a folder with nvvm/libdevice and bin/ptxas", named.problem),),
        fixes=(Fix(text="Unset it, or name the folder of a toolkit", commands=(context.remedies.unset("XLA_FLAGS"),)),),
    )


# ----------------------------------------------------------------------------------------------------------------------
# Environment variables whose effect depends on the machine: its GPUs, libraries and packages.


UNSET = "Unset it, unless you set it on purpose"
AMPERE = (8, 0)  # the first compute capability with TF32
_SLOWER_TRANSPORTS = {
    "NCCL_P2P_DISABLE": "GPUs exchange data through the host's memory instead of NVLink or PCIe peer access",
    "NCCL_SHM_DISABLE": "GPUs without peer access exchange data through the network stack",
    "NCCL_IB_DISABLE": "machines exchange data over TCP instead of InfiniBand",
}


LD_LIBRARY_PATH = finding(
    "env.ld-library-path",
    layer="Python",
    severity=Severity.WARNING,
    title="LD_LIBRARY_PATH puts another CUDA library before the one of the wheels",
    docs="https://man7.org/linux/man-pages/man8/ld.so.8.html",
)


def _of_a_wheel(candidate: Candidate) -> bool:
    by_runpath = candidate.via in ("RUNPATH", "RPATH", "pip wheel")
    return by_runpath and candidate.problem is None and "/nvidia/" in candidate.path


def _before_a_wheel(library: Soname) -> tuple[Candidate, Candidate] | None:
    """The file on LD_LIBRARY_PATH that is loaded instead of a wheel's of another version."""
    winner = next((file for file in library.candidates if file.path == library.winner), None)
    wheel = next((file for file in library.candidates if _of_a_wheel(file)), None)
    if winner is None or wheel is None or winner.via != "LD_LIBRARY_PATH":
        return None
    differ = winner.version and wheel.version and winner.version != wheel.version
    return (winner, wheel) if differ else None


@LD_LIBRARY_PATH.sign
def ld_library_path(context: Context, sonames: tuple[Soname, ...]) -> Problem | None:
    """A folder on LD_LIBRARY_PATH comes before a wheel's file of another version."""
    pairs = [(library, *pair) for library in sonames if (pair := _before_a_wheel(library))]
    if not pairs:
        return None
    return Problem(
        cause="the loader searches LD_LIBRARY_PATH before the RUNPATH that leads to the wheels",
        evidence=tuple(
            evidence(f"{library.soname} {winner.version}", winner.path, wheel.version, wheel.path)
            for library, winner, wheel in pairs
        ),
        fixes=off_library_path(context, on_library_path(winner for _, winner, _ in pairs)),
    )


PYTHONPATH = finding(
    "env.pythonpath",
    layer="Python",
    severity=Severity.WARNING,
    title="PYTHONPATH leads to the packages of another Python",
    cause="Python searches PYTHONPATH before the packages of its own environment; compiled modules of another Python "
    "version cannot be loaded",
    docs="https://docs.python.org/3/using/cmdline.html#envvar-PYTHONPATH",
)
_PACKAGES_OF = re.compile(r"[\\/]python(\d\.\d+)[\\/](?:site|dist)-packages[\\/]?$", re.IGNORECASE)


@PYTHONPATH.sign
def packages_of_another_python(
    context: Context, variables: dict[str, str], python_version: str, phases: tuple[Phase, ...] | None = None
) -> Problem | None:
    """A folder of PYTHONPATH belongs to an interpreter of another minor version."""
    separator = ";" if context.remedies.os == "windows" else ":"
    folders = variables.get("PYTHONPATH", "").split(separator)
    others = [folder for folder in folders if (of := _PACKAGES_OF.search(folder)) and of[1] != minor(python_version)]
    if not others:
        return None
    fails = import_fails(phases)
    return Problem(
        evidence=tuple(
            evidence(
                folder, "PYTHONPATH", f"folders of Python {minor(python_version)}", context.source("python.version")
            )
            for folder in others
        ),
        fixes=_off_pythonpath(context, variables, others),
        severity=Severity.ERROR if fails else None,
        rank_first=fails,
    )


def _off_pythonpath(context: Context, variables: dict[str, str], folders: Collection[str]) -> tuple[Fix, ...]:
    command = context.remedies.without_folders("PYTHONPATH", variables.get("PYTHONPATH", ""), folders)
    return (Fix(text="Remove these folders from PYTHONPATH", commands=(command,) if command else ()),)


@PYTHONPATH.sign
def other_packages_first(
    context: Context, variables: dict[str, str], modules_in_the_way: tuple[ShadowedModule, ...]
) -> Problem | None:
    """A folder of PYTHONPATH has a module that TensorFlow cannot use, and that the environment has, too."""
    found = [one for one in modules_in_the_way if one.via == "PYTHONPATH"]
    if not found:
        return None
    theirs = {re.sub(r"[\\/][^\\/]+$", "", one.path) for one in found}
    first = found[0]
    return Problem(
        title=f"PYTHONPATH puts {first.module} {first.version or 'of another folder'} before {first.package} "
        f"{first.package_version} of this environment",
        cause="Python searches PYTHONPATH before the packages of its own environment, and pip changes only the latter",
        evidence=tuple(
            evidence(f"{one.module} {one.version or ''}".strip(), one.path, f"{one.package} {one.package_version}")
            for one in found
        ),
        fixes=_off_pythonpath(context, variables, theirs),
        severity=Severity.ERROR,
        rank_first=True,
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
    context: Context,
    variables: dict[str, str],
    release: Release,
    packages: tuple[Package, ...] | None = None,
    phases: tuple[Phase, ...] | None = None,
) -> Problem | None:
    """TF_USE_LEGACY_KERAS sends tf.keras to the package tf-keras, from 2.16 on; without that package it fails."""
    value = variables.get("TF_USE_LEGACY_KERAS")
    if value not in ("1", "true", "True") or not at_least(release.version, "2.16"):
        return None
    missing = packages is not None and not any(package.name == "tf-keras" for package in packages)
    seen = [evidence(f"TF_USE_LEGACY_KERAS={value}", context.source("variables"))]
    if missing:
        seen.append(evidence("no tf-keras", context.source("python.packages"), "tf-keras of the same minor version"))
        package = f"tf-keras~={minor(release.version)}.0"
        fixes = context.remedies.installing("Install it", package)
    else:
        fixes = (Fix(text="Unset it to use Keras 3", commands=(context.remedies.unset("TF_USE_LEGACY_KERAS"),)),)
    return Problem(
        title="tf.keras fails: TF_USE_LEGACY_KERAS asks for Keras 2, which is not installed" if missing else None,
        cause="tf.keras is taken from the package tf-keras instead of Keras 3",
        evidence=tuple(seen),
        fixes=fixes,
        severity=Severity.NOTE if not missing else Severity.ERROR if import_fails(phases) else Severity.WARNING,
    )


TF32_OVERRIDE = finding(
    "env.tf32-override",
    layer="Python",
    severity=Severity.WARNING,
    title="NVIDIA_TF32_OVERRIDE turns off TF32 for every program",
    docs="https://docs.nvidia.com/cuda/cublas/index.html",
)


@TF32_OVERRIDE.sign
def tf32_override(context: Context, variables: dict[str, str], cards: tuple[Card, ...] | None = None) -> Problem | None:
    """NVIDIA_TF32_OVERRIDE=0 matters on Ampere and newer only."""
    value = variables.get("NVIDIA_TF32_OVERRIDE")
    if value != "0" or (cards and all(card.version < AMPERE for card in cards)):
        return None
    return Problem(
        cause="float32 products and convolutions run without tensor cores, several times slower than with TF32",
        evidence=(evidence("NVIDIA_TF32_OVERRIDE=0", context.source("variables"), "unset"),),
        fixes=(
            Fix(text=UNSET, commands=(context.remedies.unset("NVIDIA_TF32_OVERRIDE"),)),
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
        cause="CUDA numbers GPUs from the fastest on, nvidia-smi by PCI bus: the same number can mean another GPU",
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
    title="An NCCL variable disables a fast transport between GPUs",
    docs="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
)


@ENV_NCCL.sign
def nccl(
    context: Context,
    variables: dict[str, str],
    gpu_count: int | None = None,
) -> Problem | None:
    """NCCL_*_DISABLE is set on a machine with several GPUs."""
    slow = {name: why for name, why in _SLOWER_TRANSPORTS.items() if variables.get(name, "").lower() in ("1", "true")}
    if not slow or (gpu_count or 0) < 2:
        return None
    where = context.source("variables")
    return Problem(
        cause="; ".join(slow.values()),
        evidence=tuple(evidence(f"{name}={variables[name]}", where, "unset") for name in slow),
        fixes=(Fix(text=UNSET, commands=(context.remedies.unset(*slow),)),),
    )
