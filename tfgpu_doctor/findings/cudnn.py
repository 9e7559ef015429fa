"""Findings about cudnn."""

from __future__ import annotations

import re

from tfgpu_doctor.findings import symptoms
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.cuda import install_libraries, which
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.libraries import (
    fix_path,
    good_candidate,
    in_state,
    needed_by,
    seen_missing,
    seen_off_path,
)
from tfgpu_doctor.findings.memory import _NO_CUDNN, _said
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.findings.reported_libraries import fits
from tfgpu_doctor.matrix.library_names import Library, known_library
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.records.facts import ComputeCheck, CudnnFile, Message, Package, Phase, Soname, TfDevice, Toolkit
from tfgpu_doctor.records.report import Fix, Severity

GUIDE = "https://docs.nvidia.com/deeplearning/cudnn/latest/"


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())


_CUDA = ("cuda.missing", "cuda.version-mismatch", "cuda.lib-path")


_MAIN = re.compile(r"libcudnn\.so|cudnn64_", re.IGNORECASE)


_HELPERS = re.compile(r"zlibwapi|libz\.so|libnvrtc|nvrtc64|libcublasLt|cublasLt64|libcublas\.so", re.IGNORECASE)


_PART = re.compile(r"lib?cudnn_\w+|cudnn_\w+64", re.IGNORECASE)


def _lost(said: MessageLog) -> list[tuple[Library, Message]]:
    """cuDNN's main library, where it could not be opened."""
    return [
        (library, message)
        for name, message in said.libraries("library-not-opened", "loader-error")
        if (library := known_library(name)) and library.component == "cudnn" and _MAIN.match(name)
    ]


def _unnamed(said: MessageLog, release: Release | None) -> tuple[Message, ...]:
    """From 2.12 on TensorFlow does not name what it misses; when libcudart is not it, cuDNN mostly is."""
    if said.has("asked-for-extra"):
        return ()  # then all of them came from pip, and are missed together
    modern = release is not None and not re.match(r"1\.|2\.(?:\d|10|11)\.", release.version)
    silent = (modern or said.has("log-era")) and not said.has("cudart-not-found", "library-not-opened", "loader-error")
    return said.all("gpu-libraries-not-opened") if silent else ()


def _there(installed: tuple[CudnnFile, ...] | None, packages: tuple[Package, ...] | None) -> list[tuple[str, str]]:
    files = [(file.version, file.path) for file in installed or () if file.version]
    listed = [(p.version, f"{p.name} {p.version}") for p in packages or () if re.match(r"(?:nvidia-)?cudnn", p.name)]
    return files + listed


def _major(version: str | None) -> str:
    return (version or "").split(".")[0]


def _reported_parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def _why(message: Message) -> bool:
    """Whether the message names another library, or gives the loader's number for one that is missing."""
    text = message.text
    if re.search(r"Error code (?:126|127|193)|NULL Error|undefined symbol", text):
        return True
    named = re.findall(r"[\w./-]*lib[\w.+-]+\.so[.\d]*", text)
    return any(_HELPERS.search(name) for name in named)


def _asks_for_libcuda(seen: list[Message]) -> Problem:
    return Problem(
        title="cuDNN asks for libcuda.so, of which only libcuda.so.1 is there",
        cause="a part of cuDNN 8 opens the driver's library by its name without a number, a link that the driver's "
        "package for developers brings; TensorFlow itself opens libcuda.so.1",
        evidence=message_evidence(*seen),
        fixes=(
            Fix(
                text="Make the link beside the driver's library",
                commands=(
                    "ldconfig -p | grep 'libcuda\\.so'",
                    "sudo ln -s libcuda.so.1 /usr/lib/x86_64-linux-gnu/libcuda.so && sudo ldconfig",
                ),
            ),
        ),
    )


_UNVERSIONED = re.compile(r"\blibcuda\.so: cannot open shared object file")


VERSION_MISMATCH = finding(
    "cudnn.version-mismatch",
    layer="cuDNN",
    severity=Severity.ERROR,
    title="cuDNN is installed, but of another version than TensorFlow needs",
    symptoms=(
        symptoms.CUDNN_NOT_OPENED,
        symptoms.CUDNN_HANDLE,
    ),
    docs="https://docs.nvidia.com/deeplearning/cudnn/latest/",
)


@VERSION_MISMATCH.sign(conclusive=False)
def version_mismatch(
    context: Context,
    gpu_release: Release,
    cudnn_sonames: tuple[Soname, ...],
    cudnn_runtime: str | None = None,
    cudnn_installed: tuple[CudnnFile, ...] | None = None,
) -> Problem | None:
    """Another major, or a minor older than compiled with ("Loaded runtime CuDNN library X but ...")."""
    wanting = in_state(cudnn_sonames, "other version", "absent")
    known = [file for file in cudnn_installed or () if file.version]
    found = cudnn_runtime or next((file.version for file in known), None)
    where = context.source("cudnn.runtime") if cudnn_runtime else next((file.path for file in known), "")
    if found is None or gpu_release.cudnn is None:
        return None
    other_major = bool(wanting) and _parts(found)[:1] != _parts(gpu_release.cudnn)[:1]
    too_old = (
        not wanting and _parts(found)[:1] == _parts(gpu_release.cudnn)[:1] and _parts(found) < _parts(gpu_release.cudnn)
    )
    if not (other_major or too_old):
        return None
    return Problem(
        title=f"cuDNN {found} is installed, TensorFlow {gpu_release.version} needs {gpu_release.cudnn} or newer",
        cause="cuDNN is compatible within a major version, from the minor that TensorFlow was compiled with upwards",
        evidence=(
            evidence(f"cuDNN {found}", where, f"cuDNN {gpu_release.cudnn}", needed_by(gpu_release)),
            *seen_missing(context, wanting, needed_by(gpu_release)),
        ),
        fixes=install_libraries(context, gpu_release),
    )


@VERSION_MISMATCH.sign(unless=("gpu.none", "tf.cpu-build", "tf.windows-native", "tf.not-installed"))
def version_mismatch_reported(
    context: Context,
    messages: MessageLog,
    gpu_release: Release | None = None,
    cudnn_installed: tuple[CudnnFile, ...] | None = None,
    packages: tuple[Package, ...] | None = None,
    devices: tuple[TfDevice, ...] | None = None,
) -> Problem | None:
    """cuDNN says both versions itself; or one cannot be opened, or initialised, and another is stated."""
    told = messages.all("cudnn-version-differs")
    versions = [m for m in messages.all("cudnn-status") if "VERSION_MISMATCH" in m.text]
    lost = _lost(messages)
    unnamed = _unnamed(messages, gpu_release)
    there = _there(cudnn_installed, packages)
    checked = messages.all("self-check")
    wanted = next((library.version for library, _ in lost if library.version), None) or next(
        iter(messages.values("self-check", "cudnn")), None
    )
    wanted = wanted or (gpu_release.cudnn if gpu_release else None)
    other = [one for one in there if wanted and _major(one[0]) != _major(wanted)]
    same = [one for one in there if wanted and _major(one[0]) == _major(wanted)]
    # a cuDNN that opens and is older than the one compiled against is refused when it is first used
    used = messages.has("no-dnn-library", "cudnn-handle")
    low = [
        one
        for one in same
        if gpu_release and gpu_release.cudnn and used and _reported_parts(one[0]) < _reported_parts(gpu_release.cudnn)
    ]
    quiet = (
        gpu_release is not None
        and not messages.complains
        and devices is not None
        and not any(d.kind == "GPU" for d in devices)
    )
    mixed = messages.all("cudnn-symbol")  # one part of cuDNN asks another for what that has not
    if not (told or versions or mixed or ((lost or checked or unnamed or quiet) and other and not same) or low):
        return None
    need = f"cuDNN {gpu_release.cudnn}" if gpu_release and gpu_release.cudnn else None
    seen = [*message_evidence(*told, *versions, *mixed, *(m for _, m in lost), *messages.all("no-dnn-library"), most=3)]
    seen += [
        evidence(f"cuDNN {version}", where, need, needed_by(gpu_release) if gpu_release else None)
        for version, where in [*other, *low][:2]
    ]
    compiled = next(iter(messages.values("cudnn-version-differs", "compiled")), None)
    runtime = next(iter(messages.values("cudnn-version-differs", "runtime")), None)
    title = (
        f"cuDNN {runtime} is loaded, TensorFlow was compiled with {compiled.strip('.')}"
        if compiled and runtime
        else None
    )
    fixes = (
        install_libraries(context, gpu_release)
        if gpu_release
        else context.remedies.reinstall_best("it brings its cuDNN along from pip")
    )
    first = Fix(
        text="See which cuDNN is found first, and take the other one off the loader's path",
        commands=("ldconfig -p | grep libcudnn; echo $LD_LIBRARY_PATH; python3 -m pip list | grep -i cudnn",),
    )
    return Problem(
        title=title or ("Parts of two cuDNN releases are mixed" if mixed and not told else None),
        cause="cuDNN is compatible within a major version, from the minor that TensorFlow was compiled with upwards",
        evidence=tuple(seen),
        fixes=(first, *fixes),
    )


MISSING = finding(
    "cudnn.missing",
    layer="cuDNN",
    severity=Severity.ERROR,
    title="cuDNN is not installed",
    explained_by=("cuda.missing", "cuda.version-mismatch"),
    pointless_after=("cudnn.version-mismatch", "cudnn.dep-missing"),
    docs="https://docs.nvidia.com/deeplearning/cudnn/latest/",
)


@MISSING.sign
def missing(context: Context, gpu_release: Release, cudnn_sonames: tuple[Soname, ...]) -> Problem | None:
    """No libcudnn of the wanted major anywhere. One fix installs CUDA and cuDNN, so missing CUDA explains it."""
    wanting = in_state(cudnn_sonames, "absent", "other version", "unloadable")
    if not wanting:
        return None
    return Problem(
        cause="TensorFlow gives up every GPU when cuDNN cannot be opened",
        evidence=seen_missing(context, wanting, needed_by(gpu_release)),
        fixes=install_libraries(context, gpu_release),
    )


@MISSING.sign(unless=("cudnn.lib-path", "gpu.none", "tf.cpu-build", "tf.windows-native", "tf.not-installed"))
def missing_reported(
    context: Context,
    messages: MessageLog,
    gpu_release: Release | None = None,
    toolkits: tuple[Toolkit, ...] | None = None,
) -> Problem | None:
    """cuDNN cannot be opened, and nothing says that it is installed."""
    lost = _lost(messages)
    # a CUDA of another version explains a library that is not named
    other_cuda = bool(toolkits) and not any(
        fits((gpu_release and gpu_release.cuda) or "", kit.version or "") for kit in toolkits or ()
    )
    unnamed = () if other_cuda else _unnamed(messages, gpu_release)
    seen = (*(m for _, m in lost), *messages.all("self-check"), *unnamed)
    if not seen or (messages.stops_import and not messages.has("loader-error", "self-check")):
        return None
    fixes = (
        install_libraries(context, gpu_release)
        if gpu_release
        else context.remedies.reinstall_best("it brings cuDNN along from pip")
    )
    return Problem(
        cause="TensorFlow gives up every GPU when cuDNN cannot be opened; the text shows no cuDNN, so it is missing or "
        "off the loader's path",
        evidence=message_evidence(*seen),
        fixes=(*fixes, which(context)),
    )


LIB_PATH = finding(
    "cudnn.lib-path",
    layer="cuDNN",
    severity=Severity.ERROR,
    title="cuDNN is installed, but the loader does not find it",
    explained_by=("cuda.lib-path",),
    symptoms=(
        symptoms.CUDNN_NOT_OPENED,
        symptoms.UNNAMED_DLL,
    ),
    docs="https://docs.nvidia.com/deeplearning/cudnn/latest/",
)


@LIB_PATH.sign
def lib_path(context: Context, gpu_release: Release, cudnn_sonames: tuple[Soname, ...]) -> Problem | None:
    """The right file exists off the loader's path, or behind a broken one."""
    lost = in_state(cudnn_sonames, "off path")
    if not lost:
        return None
    shadowed = any(one.reachable and one.problem for library in lost for one in library.candidates)
    return Problem(
        cause="TensorFlow gives up every GPU when cuDNN cannot be opened",
        evidence=seen_off_path(context, lost, needed_by(gpu_release)),
        fixes=fix_path(context, lost),
        never_consequence=shadowed,  # putting CUDA on the path would not help against a file that comes first
    )


@LIB_PATH.sign(
    unless=(
        "cudnn.version-mismatch",
        "cudnn.dep-missing",
        "gpu.none",
        "tf.cpu-build",
        "tf.windows-native",
        "tf.not-installed",
    )
)
def lib_path_reported(
    messages: MessageLog,
    cudnn_installed: tuple[CudnnFile, ...] | None = None,
    packages: tuple[Package, ...] | None = None,
) -> Problem | None:
    """cuDNN, or a part of it, cannot be opened although it is stated; or its parts miss each other."""
    lost = [m for _, m in _lost(messages)]
    parts = [
        m for n, m in messages.libraries("library-not-opened", "cudnn-part-missing", "loader-error") if _PART.search(n)
    ]
    loading = [m for m in messages.all("cudnn-part-missing") if "Unable to load any" in m.text]
    there = _there(cudnn_installed, packages) if not messages.has("image-without-cudnn") else []
    somewhere = bool(there) or messages.has("started-elsewhere", "said-to-be-there")
    if not ((lost and somewhere) or parts or loading) or (messages.stops_import and not messages.has("loader-error")):
        return None
    return Problem(
        cause="cuDNN lies where the dynamic loader does not look, or its parts lie in another folder than "
        "the main library",
        evidence=(
            *message_evidence(*lost, *parts, *loading),
            *(evidence(f"cuDNN {v}", where) for v, where in there[:1]),
        ),
        fixes=(
            Fix(
                text="See where it is, and put that folder on the loader's path before Python starts",
                commands=("find / -name 'libcudnn*.so*' 2>/dev/null", "tfgpu doctor"),
            ),
        ),
    )


DEP_MISSING = finding(
    "cudnn.dep-missing",
    layer="cuDNN",
    severity=Severity.ERROR,
    title="cuDNN is there, but a library that it needs is not",
    explained_by=("cuda.missing", "cuda.version-mismatch"),
    docs="https://docs.nvidia.com/deeplearning/cudnn/latest/",
)


@DEP_MISSING.sign(conclusive=False)
def dep_missing(context: Context, gpu_release: Release, cudnn_sonames: tuple[Soname, ...]) -> Problem | None:
    """A DT_NEEDED entry of libcudnn or of its parts cannot be resolved."""
    hurt = [
        candidate
        for library in cudnn_sonames
        if not library.winner and good_candidate(library) is None
        for candidate in library.candidates
        if "not found" in (candidate.problem or "")
    ]
    if not hurt:
        return None
    return Problem(
        cause="the loader refuses a library whose own needs are not met",
        evidence=tuple(evidence(str(one.problem), one.path, "found", needed_by(gpu_release)) for one in hurt),
        fixes=(
            *install_libraries(context, gpu_release),
            Fix(text="See all of them", commands=(f"ldd {context.remedies.quote(hurt[0].path)}",)),
        ),
    )


@DEP_MISSING.sign(
    unless=("cudnn.version-mismatch", "gpu.none", "tf.cpu-build", "tf.windows-native", "tf.not-installed")
)
def dep_missing_reported(context: Context, messages: MessageLog, os: str | None = None) -> Problem | None:
    """A part of cuDNN does not load because of what it needs: zlib on Windows, nvrtc, cublasLt."""
    seen = [
        message
        for name, message in messages.libraries("cudnn-part-missing", "loader-error")
        if (message.kind == "cudnn-part-missing" and _HELPERS.search(name))
        or (_PART.search(name) and _why(message))
        or name == "libnvrtc.so"  # without a version: only cuDNN 8 asks for it so
    ]
    unversioned = [m for m in messages.all("cudnn-part-missing") if _UNVERSIONED.search(m.text)]
    if unversioned:
        return _asks_for_libcuda(unversioned)
    seen += [m for m in messages.all("cudnn-status") if "SUBLIBRARY_LOADING_FAILED" in m.text]
    if not seen:
        return None
    windows = os == "windows" or any(".dll" in message.text.lower() for message in seen)
    fixes: tuple[Fix, ...] = (
        Fix(
            text="Put the missing library's folder on the loader's path (nvrtc and cublas come with CUDA)",
            commands=("ldd $(find / -name 'libcudnn_cnn*.so*' 2>/dev/null | head -n 1) | grep 'not found'",),
        ),
    )
    if windows:
        fixes = (
            Fix(text="Put zlibwapi.dll, which cuDNN 8.3 to 8.9 needs on Windows, and cuDNN's bin folder on PATH"),
            Fix(
                text="Or take the pair that TensorFlow 2.10 was tested with, which needs no zlib",
                commands=("conda install -c conda-forge cudatoolkit=11.2 cudnn=8.1.0",),
            ),
        )
    return Problem(
        cause="the loader refuses a library whose own needs are not met",
        evidence=message_evidence(*seen),
        fixes=(*fixes, *context.remedies.reinstall_best("it brings its libraries along from pip")),
    )


INIT_FAILED = finding(
    "cudnn.init-failed",
    layer="cuDNN",
    severity=Severity.ERROR,
    title="cuDNN cannot be initialised",
    explained_by=(
        "memory.taken",
        "memory.oom",
        "cudnn.lib-path",
        "driver.*",
        "memory.*",
        "gpu.arch-*",
        "cuda.missing",
        "cuda.version-mismatch",
        "cuda.lib-path",
    ),
    pointless_after=("cudnn.version-mismatch", "cudnn.dep-missing"),
    docs="https://docs.nvidia.com/deeplearning/cudnn/latest/",
)


@INIT_FAILED.sign(conclusive=False)
def cudnn_init_failed(
    context: Context,
    checks: tuple[ComputeCheck, ...],
    phases: tuple[Phase, ...] | None = None,
    cudnn_runtime: str | None = None,
) -> Problem | None:
    """cudnnCreate fails although the library is found: no memory left, the driver, or files of several versions."""
    seen = _said(_NO_CUDNN, checks, phases or ())
    if not seen:
        return None
    loaded = (evidence(f"cuDNN {cudnn_runtime}", context.source("cudnn.runtime")),) if cudnn_runtime else ()
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


@INIT_FAILED.sign(unless=("cudnn.missing", "cudnn.lib-path"))
def init_failed(context: Context, messages: MessageLog) -> Problem | None:
    """The handle cannot be created although the versions match: usually no memory is left."""
    seen = messages.all("cudnn-handle", "no-dnn-library", "cublas-handle", "cusolver-handle")
    status = [
        m
        for m in messages.all("cudnn-status")
        if re.search(r"NOT_INITIALIZED|INTERNAL_ERROR|EXECUTION_FAILED|ALLOC_FAILED", m.text)
    ]
    if not (messages.has("cudnn-handle", "no-dnn-library") or status):
        return None
    growth = "export TF_FORCE_GPU_ALLOW_GROWTH=true"
    full = messages.has("out-of-memory", "dst-not-initialized", "other-holder")  # a finding about memory says so itself
    return Problem(
        severity=Severity.WARNING if full else None,
        cause="mostly no memory of the GPU is left for it: TensorFlow's own pre-allocation or another "
        "process holds it; "
        "else the cuDNN or CUDA is too old for the card",
        evidence=message_evidence(*seen, *status),
        fixes=(
            Fix(text="See who holds the memory", commands=("nvidia-smi",)),
            Fix(
                text="Let TensorFlow allocate as needed",
                commands=("set TF_FORCE_GPU_ALLOW_GROWTH=true" if context.remedies.os == "windows" else growth,),
            ),
            Fix(
                text="If memory is free, see whether CUDA and cuDNN are those of this release",
                commands=("tfgpu doctor",),
            ),
        ),
    )
