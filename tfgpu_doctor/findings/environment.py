"""Environment variables that change what TensorFlow, XLA or CUDA does: by their value, or as a program refuses it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Declaration, Problem, evidence, finding
from tfgpu_doctor.findings.environment_values import (
    Judgement,
    allocator,
    allow_growth,
    auto_jit,
    backend,
    log_level,
    memory_limit,
    thread_mode,
    threads,
    when,
    xla_flags,
)
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.findings.phases import import_fails
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.records.facts import Phase, Setting, XlaFile, value_or
from tfgpu_doctor.records.report import Fix, Severity
from tfgpu_doctor.records.versions import at_least

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


@DECLARED["env.keras-backend"].sign
def another_backend_printed(messages: MessageLog) -> Problem | None:
    """Keras prints on import which backend it uses."""
    lines = messages.all("other-backend")
    if not lines:
        return None
    return Problem(
        title=f"Keras runs on {lines[0].values['backend']}, not on TensorFlow",
        cause="KERAS_BACKEND or ~/.keras/keras.json selects it; the GPUs that TensorFlow lists do not matter to it",
        evidence=message_evidence(*lines),
        fixes=(Fix(text="Select TensorFlow before Python starts", commands=("export KERAS_BACKEND=tensorflow",)),),
    )


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
