"""Environment variables, and what else of the environment changes TensorFlow."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from tfgpu_doctor.facts.facts import Candidate, Gpus, Packages, Phases, Setting, ShadowedModule, Soname, value_or
from tfgpu_doctor.facts.report import Evidence, Fix, Severity
from tfgpu_doctor.facts.versions import at_least, minor
from tfgpu_doctor.findings.declaration import (
    Context,
    Decision,
    Declaration,
    MessageLog,
    Problem,
    evidence,
    finding,
    message_evidence,
)
from tfgpu_doctor.findings.inputs import Cards, Sonames, Variables, XlaFiles
from tfgpu_doctor.findings.library_fixes import off_library_path, on_library_path
from tfgpu_doctor.findings.phases import import_fails
from tfgpu_doctor.findings.requirements import KERAS_2_VALUES, KERAS_3
from tfgpu_doctor.matrix.loader import Release

# Variables that change what TensorFlow, XLA or CUDA does, whatever the machine: by their value, or as a program refuses
# it. TensorFlow reads a boolean as 0, 1, true or false (ReadBoolFromEnvVar).
_CUDA = "https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html"
_TENSORFLOW = "https://github.com/tensorflow/tensorflow/blob"
_ALLOCATOR = f"{_TENSORFLOW}/master/tensorflow/core/common_runtime/gpu/gpu_bfc_allocator.cc"
_GPU_DEVICE = f"{_TENSORFLOW}/master/tensorflow/core/common_runtime/gpu/gpu_device.cc"
_USE_CUDNN = f"{_TENSORFLOW}/22a71154e0d61730dd75ec2cf7c5cc108c9f80e5/tensorflow/core/util/use_cudnn.cc"
_STREAM_EXECUTOR = "https://github.com/openxla/xla/tree/main/xla/stream_executor"
_LOGGING = "https://github.com/openxla/xla/blob/main/xla/tsl/platform/default/logging.cc"
_DETERMINISM = "https://github.com/NVIDIA/framework-reproducibility/blob/master/doc/d9m/tensorflow.md"
_GPU, _XLA = "https://www.tensorflow.org/guide/gpu", "https://www.tensorflow.org/xla"
_KERAS_3 = "https://keras.io/getting_started/"
_LD_SO, _PYTHON = "https://man7.org/linux/man-pages/man8/ld.so.8.html", "https://docs.python.org/3/using/cmdline.html"
_NCCL = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"
_CUBLAS, _MPS = "https://docs.nvidia.com/cuda/cublas/index.html", "https://docs.nvidia.com/deploy/mps/index.html"

WARNING, NOTE, ERROR = Severity.WARNING, Severity.NOTE, Severity.ERROR
UNSET = "Unset it, unless you set it on purpose"
ON, OFF, ANY = "(?i)1|true", "(?i)0|false", ".+"
AMPERE = (8, 0)  # the first compute capability with TF32
_SHARE = r"(?![0.]*$)\d{1,2}(?:\.\d+)?"  # percent
_AUTO_JIT = r".*--tf_xla_auto_jit=(?!0(?:\s|$)).*"
_XLA_OPTION = r"(?:.*\s)?(?!--xla_gpu_cuda_data_dir=)\S.*"
_SLOW_XLA = r".*--xla_(?:dump_to|gpu_(?:autotune_level=0|deterministic_ops=true|force_compilation_parallelism=1)).*"

# id, variable, title, docs
_CHANGES = "{} changes what TensorFlow does"
_FINDINGS = (
    ("env.allow-growth", "TF_FORCE_GPU_ALLOW_GROWTH", _CHANGES, _ALLOCATOR),
    ("env.tf-gpu-allocator", "TF_GPU_ALLOCATOR", _CHANGES, _GPU),
    ("env.memory-limit", "TF_PER_DEVICE_MEMORY_LIMIT_MB", _CHANGES, _STREAM_EXECUTOR),
    ("env.unified-memory", "TF_FORCE_UNIFIED_MEMORY", _CHANGES, _STREAM_EXECUTOR),
    ("env.gpu-thread-mode", "TF_GPU_THREAD_MODE", _CHANGES, _GPU_DEVICE),
    ("env.deterministic-ops", "TF_DETERMINISTIC_OPS", _CHANGES, _DETERMINISM),
    ("env.cudnn-deterministic", "TF_CUDNN_DETERMINISTIC", _CHANGES, _DETERMINISM),
    ("env.cudnn-autotune", "TF_CUDNN_USE_AUTOTUNE", _CHANGES, _USE_CUDNN),
    ("env.xla-flags", "XLA_FLAGS", "{} is set", _XLA),
    ("env.xla-auto-jit", "TF_XLA_FLAGS", "{} turns on XLA auto-clustering", _XLA),
    ("env.cpp-min-log-level", "TF_CPP_MIN_LOG_LEVEL", "{} hides TensorFlow's warnings", _LOGGING),
    ("env.keras-backend", "KERAS_BACKEND", "Keras does not run on TensorFlow", _KERAS_3),
    ("env.cuda-launch-blocking", "CUDA_LAUNCH_BLOCKING", "{} makes every kernel launch synchronous", _CUDA),
    ("env.cuda-cache-disable", "CUDA_CACHE_DISABLE", "{} turns off the cache of compiled kernels", _CUDA),
    ("env.cuda-force-ptx-jit", "CUDA_FORCE_PTX_JIT", "{} compiles every kernel from PTX", _CUDA),
    ("env.cuda-disable-ptx-jit", "CUDA_DISABLE_PTX_JIT", "{} forbids the driver to compile PTX", _CUDA),
    ("env.mps", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "MPS limits this process to a part of the GPU", _MPS),
    ("env.tf32-override", "NVIDIA_TF32_OVERRIDE", "{} turns off TF32 for every program", _CUBLAS),
    # with signs of their own, below
    ("env.ld-library-path", "LD_LIBRARY_PATH", "{} puts another CUDA library before the one of the wheels", _LD_SO),
    ("env.pythonpath", "PYTHONPATH", "{} leads to the packages of another Python", f"{_PYTHON}#envvar-PYTHONPATH"),
    ("env.cuda-device-order", "CUDA_DEVICE_ORDER", "CUDA numbers the GPUs differently from nvidia-smi", _CUDA),
    ("env.nccl", "NCCL_P2P_DISABLE", "An NCCL variable disables a fast transport between GPUs", _NCCL),
)
# finding, pattern of the whole value, how grave that is (None: it changes nothing), what it does; the first row counts
_VALUES: tuple[tuple[str, str, Severity | None, str], ...] = (
    ("env.allow-growth", "true", NOTE, "memory is allocated as needed and never released, whatever the program sets"),
    ("env.allow-growth", "false", NOTE, "nearly all memory is taken at the start, whatever the program sets"),
    ("env.allow-growth", ".*", WARNING, 'TensorFlow ignores it: it understands only "true" and "false" in lower case'),
    ("env.tf-gpu-allocator", "cuda_malloc_async", NOTE, "CUDA's own pool is used; it needs a driver for CUDA 11.2"),
    ("env.tf-gpu-allocator", ANY, NOTE, "another allocator than TensorFlow's own is requested"),
    ("env.memory-limit", r"0*[1-9]\d*", NOTE, "TensorFlow takes at most so many MB of each GPU, however much is free"),
    ("env.unified-memory", ON, WARNING, "a job may exceed the GPU's memory, and then pages to the host, over PCIe"),
    ("env.gpu-thread-mode", "(?i)global", None, ""),
    ("env.gpu-thread-mode", "(?i)gpu_private|gpu_shared", NOTE, "kernels are launched from separate threads"),
    ("env.gpu-thread-mode", ANY, ERROR, "TensorFlow refuses to create any GPU with a value that it does not know"),
    ("env.deterministic-ops", ON, WARNING, "slower, reproducible kernels; operations without one raise an error"),
    ("env.cudnn-deterministic", ON, WARNING, "slower convolutions with reproducible results"),
    ("env.cudnn-autotune", OFF, WARNING, "TensorFlow does not measure cuDNN's algorithms, and may use a slow one"),
    ("env.xla-flags", _SLOW_XLA, WARNING, "XLA is slower: programs are dumped, kernels not measured, or serial"),
    ("env.xla-flags", _XLA_OPTION, NOTE, "XLA ends the process when it does not know an option"),
    ("env.xla-auto-jit", _AUTO_JIT, NOTE, "XLA compiles parts of every graph: slow first steps"),
    ("env.cpp-min-log-level", "[2-9]", NOTE, "hidden are also the warnings that say why a GPU is not used"),
    ("env.keras-backend", "(?i)tensorflow", None, ""),
    ("env.keras-backend", ANY, WARNING, "Keras 3 uses another framework, and not the GPUs that TensorFlow lists"),
    ("env.cuda-launch-blocking", ON, WARNING, "each launch waits for the end of its kernel: for debugging, and slow"),
    ("env.cuda-cache-disable", ON, WARNING, "the driver compiles from PTX again at each start, and keeps nothing"),
    ("env.cuda-force-ptx-jit", ON, WARNING, "the driver ignores machine code in libraries; those without PTX fail"),
    ("env.cuda-disable-ptx-jit", ON, NOTE, "a GPU newer than the build cannot run it at all"),
    ("env.mps", _SHARE, WARNING, "MPS gives this process only that share of the multiprocessors"),
    ("env.tf32-override", "0", WARNING, "float32 products are several times slower than with TF32's tensor cores"),
)
_EXPECTED = {  # else: unset
    "TF_FORCE_GPU_ALLOW_GROWTH": "true or false",
    "TF_GPU_THREAD_MODE": "gpu_private, gpu_shared, global",
    "TF_CPP_MIN_LOG_LEVEL": "0, to see them",
    "KERAS_BACKEND": "tensorflow",
}
# finding, message of a program that refuses the value or acts on it, how grave that is, and what it means
_REFUSALS = (
    ("env.allow-growth", "growth-not-parsed", WARNING, "TensorFlow ignores the value of TF_FORCE_GPU_ALLOW_GROWTH"),
    ("env.allow-growth", "growth-by-variable", NOTE, "TF_FORCE_GPU_ALLOW_GROWTH overrides the program"),
    ("env.tf-gpu-allocator", "allocator-refused", ERROR, "TensorFlow cannot use the allocator of TF_GPU_ALLOCATOR"),
    ("env.gpu-thread-mode", "thread-mode-invalid", ERROR, "TensorFlow does not know the value of TF_GPU_THREAD_MODE"),
    ("env.xla-flags", "xla-flags-refused", ERROR, "XLA does not know a flag in XLA_FLAGS or TF_XLA_FLAGS"),
    ("env.cuda-disable-ptx-jit", "jit-forbidden", ERROR, "CUDA_DISABLE_PTX_JIT leaves this GPU without kernels"),
)
_CAUSES = {
    ERROR: "the program ends, or uses no GPU, with a value that this release or this GPU does not allow",
    WARNING: 'TensorFlow understands only "true" and "false" in lower case; the program\'s own setting decides',
    NOTE: "the variable decides, whatever the program sets",
}


def _about(finding_id: str, name: str, title: str, docs: str, severity: Severity = WARNING) -> Declaration:
    """Declare what is found of a variable, by its value or by what a program prints about it."""
    declared = finding(finding_id, layer="Python", severity=severity, title=title.format(name), docs=docs)
    values = [row[1:] for row in _VALUES if row[0] == finding_id]
    refusals = [row[1:] for row in _REFUSALS if row[0] == finding_id]

    def value_changes_something(context: Context, variables: Variables) -> Problem | None:
        value = variables.get(name)
        matching = (row for row in values if value is not None and re.fullmatch(row[0], value.strip(), re.DOTALL))
        _, severity, cause = next(matching, ("", None, ""))
        seen = evidence(f"{name}={value}", context.source("variables"), _EXPECTED.get(name, "unset"))
        fix = Fix(UNSET, (context.remedies.unset(name),))
        return Problem(cause=cause, evidence=(seen,), fixes=(fix,), severity=severity) if severity else None

    def another_backend(context: Context, variables: Variables, phases: Phases = ()) -> Problem | None:
        problem = value_changes_something(context, variables)
        return replace(problem, severity=ERROR) if problem and import_fails(phases) else problem

    def without_tf32(context: Context, variables: Variables, cards: Cards = ()) -> Problem | None:
        has_tf32 = not cards or any(card.version >= AMPERE for card in cards)
        return value_changes_something(context, variables) if has_tf32 else None

    def printed(context: Context, messages: MessageLog) -> Problem | None:
        for kind, severity, title in refusals:
            harmless = (m for m in messages.all("harmless") if m.values["what"] == kind)
            if lines := (*messages.all(kind), *harmless):
                names = ("XLA_FLAGS", "TF_XLA_FLAGS") if name == "XLA_FLAGS" else (name,)
                where = "Unset it where it is set: shell profile, notebook, or os.environ in the program"
                ends = kind == "xla-flags-refused"  # the process, whatever else is printed before
                if any("in TF_XLA_FLAGS" in one.text for one in lines):
                    where += "; XLA's own flags (--xla_force_host_platform_device_count) belong into XLA_FLAGS"
                fix = Fix(where, (context.remedies.unset(*names),))
                seen = message_evidence(*lines)
                one = Problem(title=title, cause=_CAUSES[severity], evidence=seen, fixes=(fix,), severity=severity)
                return replace(one, sure=ends, rank_first=ends)
        return None

    with_more: dict[str, Decision] = {"KERAS_BACKEND": another_backend, "NVIDIA_TF32_OVERRIDE": without_tf32}
    if values:  # what the program prints about the value counts, too
        declared.sign(conclusive=False)(with_more.get(name, value_changes_something))
    if refusals:
        declared.sign()(printed)
    return declared


DECLARED = {row[0]: _about(*row) for row in _FINDINGS}
LEGACY_KERAS = _about("env.legacy-keras", "TF_USE_LEGACY_KERAS", "tf.keras is Keras 2", _KERAS_3, NOTE)


@DECLARED["env.keras-backend"].sign(conclusive=False)
def another_backend_in_file(
    context: Context, startup_settings: tuple[Setting, ...], release: Release, phases: Phases = ()
) -> Problem | None:
    """Keras 3 takes its backend from keras.json, where no variable names one; tf.keras is Keras 3 from 2.16 on."""
    written = next((one for one in startup_settings if one.file.endswith(".json")), None)
    if written is None or written.value == "tensorflow" or not at_least(release.version, KERAS_3):
        return None
    quote = context.remedies.quote
    change = "sed -i " + quote(f's/"backend" *: *"{written.value}"/"backend": "tensorflow"/')
    edit = f"{'notepad' if context.remedies.os == 'windows' else change} {quote(written.file)}"
    return Problem(
        title=f"Keras runs on {written.value}, not on TensorFlow",
        cause=f"Keras 3 does not use the GPUs that TensorFlow lists; {written.file} selects {written.value}",
        evidence=(evidence(f'"backend": "{written.value}"', f"{written.file} line {written.line}", "tensorflow"),),
        fixes=(Fix("Select TensorFlow in that file", (edit,)),),
        severity=ERROR if import_fails(phases) else WARNING,
    )


@DECLARED["env.xla-flags"].sign(conclusive=False)
def data_dir_is_no_toolkit(context: Context, xla_roots: XlaFiles) -> Problem | None:
    """--xla_gpu_cuda_data_dir names a folder in which XLA finds nothing."""
    named = next((root for root in xla_roots if root.via == "XLA_FLAGS" and root.problem), None)
    if named is None:
        return None
    return Problem(
        title="--xla_gpu_cuda_data_dir in XLA_FLAGS names no CUDA toolkit",
        cause="XLA searches this folder first for libdevice and ptxas, and finds neither there",
        evidence=(evidence(named.path, "XLA_FLAGS", "a folder with nvvm/libdevice and bin/ptxas", named.problem),),
        fixes=(Fix("Unset it, or name the folder of a toolkit", (context.remedies.unset("XLA_FLAGS"),)),),
    )


_SLOWER_TRANSPORTS = {
    "NCCL_P2P_DISABLE": "GPUs exchange data through the host's memory instead of NVLink or PCIe peer access",
    "NCCL_SHM_DISABLE": "GPUs without peer access exchange data through the network stack",
    "NCCL_IB_DISABLE": "machines exchange data over TCP instead of InfiniBand",
}


@DECLARED["env.ld-library-path"].sign(conclusive=False)
def ld_library_path(context: Context, sonames: Sonames) -> Problem | None:
    """A folder on LD_LIBRARY_PATH comes before a wheel's file of another version."""
    pairs = [(library, *pair) for library in sonames if (pair := _before_a_wheel(library))]
    return Problem(
        cause="the loader searches LD_LIBRARY_PATH before the RUNPATH that leads to the wheels",
        evidence=tuple(
            evidence(f"{library.soname} {winner.version}", winner.path, wheel.version, wheel.path)
            for library, winner, wheel in pairs
        ),
        fixes=off_library_path(context, on_library_path(winner for _, winner, _ in pairs)),
    )


def _before_a_wheel(library: Soname) -> tuple[Candidate, Candidate] | None:
    """The file on LD_LIBRARY_PATH that is loaded instead of a wheel's of another version."""
    winner = next((file for file in library.candidates if file.path == library.winner), None)
    good = (file for file in library.candidates if file.via != "LD_LIBRARY_PATH" and file.problem is None)
    wheel = next((file for file in good if "/nvidia/" in file.path), None)
    if winner is None or wheel is None or winner.via != "LD_LIBRARY_PATH":
        return None
    return (winner, wheel) if winner.version and wheel.version and winner.version != wheel.version else None


_PACKAGES_OF = re.compile(r"[\\/]python(\d\.\d+)[\\/](?:site|dist)-packages[\\/]?$", re.IGNORECASE)


@DECLARED["env.pythonpath"].sign()
def packages_of_another_python(
    context: Context, variables: Variables, python_version: str, phases: Phases = ()
) -> Problem | None:
    """A folder of PYTHONPATH belongs to an interpreter of another minor version."""
    folders = variables.get("PYTHONPATH", "").split(";" if context.remedies.os == "windows" else ":")
    others = [folder for folder in folders if (of := _PACKAGES_OF.search(folder)) and of[1] != minor(python_version)]
    need = f"folders of Python {minor(python_version)}"
    seen = [evidence(folder, "PYTHONPATH", need, context.source("python.version")) for folder in others]
    return _leads_elsewhere(context, variables, others, seen, fails=import_fails(phases))


def _leads_elsewhere(
    context: Context, variables: Variables, folders: Collection[str], seen: list[Evidence], *, fails: bool
) -> Problem:
    """PYTHONPATH leads to folders that belong to another environment."""
    command = context.remedies.without_folders("PYTHONPATH", variables.get("PYTHONPATH", ""), folders)
    return Problem(
        cause="Python searches PYTHONPATH before the packages of its own environment, and pip changes only the latter",
        evidence=tuple(seen),
        fixes=(Fix("Remove these folders from PYTHONPATH", (command,) if command else ()),),
        severity=ERROR if fails else None,
        rank_first=fails,
    )


@DECLARED["env.pythonpath"].sign()
def other_packages_first(
    context: Context, variables: Variables, modules_in_the_way: tuple[ShadowedModule, ...]
) -> Problem | None:
    """A folder of PYTHONPATH has a module that TensorFlow cannot use, and that the environment has, too."""
    found = [one for one in modules_in_the_way if one.via == "PYTHONPATH"]
    folders = {re.sub(r"[\\/][^\\/]+$", "", one.path) for one in found}
    seen = [
        evidence(f"{one.module} {one.version or ''}".strip(), one.path, f"{one.package} {one.package_version}")
        for one in found
    ]
    title = f"PYTHONPATH puts {seen[0].saw} before {seen[0].need} of this environment" if seen else None
    return replace(_leads_elsewhere(context, variables, folders, seen, fails=True), title=title)


@LEGACY_KERAS.sign()
def legacy_keras(
    context: Context, variables: Variables, release: Release, packages: Packages | None = None, phases: Phases = ()
) -> Problem | None:
    """TF_USE_LEGACY_KERAS sends tf.keras to the package tf-keras, from 2.16 on; without that package it fails."""
    value = variables.get("TF_USE_LEGACY_KERAS")
    if value not in KERAS_2_VALUES or not at_least(release.version, KERAS_3):
        return None
    seen = evidence(f"TF_USE_LEGACY_KERAS={value}", context.source("variables"))
    cause = "tf.keras is taken from the package tf-keras instead of Keras 3"
    if packages is None or any(package.name == "tf-keras" for package in packages):
        unset = Fix("Unset it to use Keras 3", (context.remedies.unset("TF_USE_LEGACY_KERAS"),))
        return Problem(cause=cause, evidence=(seen,), fixes=(unset,))
    missing = evidence("no tf-keras", context.source("python.packages"), "tf-keras of the same minor version")
    return Problem(
        title="tf.keras fails: TF_USE_LEGACY_KERAS asks for Keras 2, which is not installed",
        cause=cause,
        evidence=(seen, missing),
        fixes=context.remedies.installing("Install it", f"tf-keras~={minor(release.version)}.0"),
        severity=ERROR if import_fails(phases) else WARNING,
    )


@DECLARED["env.cuda-device-order"].sign()
def device_order(context: Context, variables: Variables, gpus: Gpus) -> Problem | None:
    """Unless CUDA_DEVICE_ORDER is PCI_BUS_ID, the fastest GPU is number 0; that differs with unlike GPUs only."""
    chosen = variables.get("CUDA_VISIBLE_DEVICES", "")
    names = {value_or(gpu.name, "") for gpu in gpus}
    by_number = any(part.strip().isdecimal() for part in chosen.split(","))
    if not by_number or len(names) < 2 or variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        return None
    return Problem(
        cause="CUDA numbers GPUs from the fastest on, nvidia-smi by PCI bus: the same number can mean another GPU",
        evidence=(
            evidence(f"CUDA_VISIBLE_DEVICES={chosen}", context.source("variables"), "CUDA_DEVICE_ORDER=PCI_BUS_ID"),
        ),
        fixes=(Fix("Number them as nvidia-smi does", ("export CUDA_DEVICE_ORDER=PCI_BUS_ID",)),),
    )


@DECLARED["env.nccl"].sign()
def nccl(context: Context, variables: Variables, gpu_count: int | None = None) -> Problem | None:
    """NCCL_*_DISABLE is set on a machine with several GPUs."""
    slow = {name: why for name, why in _SLOWER_TRANSPORTS.items() if variables.get(name, "").lower() in ("1", "true")}
    if not slow or (gpu_count or 0) < 2:
        return None
    return Problem(
        cause="; ".join(slow.values()),
        evidence=tuple(evidence(f"{name}={variables[name]}", context.source("variables"), "unset") for name in slow),
        fixes=(Fix(UNSET, (context.remedies.unset(*slow),)),),
    )
