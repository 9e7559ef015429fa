"""cuDNN: missing, of another version, not on the loader path, failing at run time."""

from __future__ import annotations

import re

from tfgpu_doctor.facts.facts import ComputeCheck, CudnnFile, Message, Phase, Soname, TfDevice, Toolkit, lists_gpu
from tfgpu_doctor.facts.report import Alternative, Fix, Severity
from tfgpu_doctor.facts.versions import at_least, major, minor
from tfgpu_doctor.findings import symptoms
from tfgpu_doctor.findings.declaration import (
    OF_ANY_CRASH,
    Context,
    MessageLog,
    Problem,
    evidence,
    finding,
    matching_errors,
    message_evidence,
)
from tfgpu_doctor.findings.libraries import (
    CUDNN_GUIDE,
    CUDNN_PART,
    NO_GPU_SIDE,
    ReportedCudnn,
    good_candidate,
    hides_wheels,
    in_state,
    is_said_to_work,
    missing_evidence,
    needed_by,
    serves,
)
from tfgpu_doctor.findings.library_fixes import (
    install_libraries,
    not_on_path,
    off_library_path,
    on_library_path,
    tell_apart,
)
from tfgpu_doctor.matrix.loader import Release

# ----------------------------------------------------------------------------------------------------------------------
# Findings about the file of cuDNN: missing, of another version, or not found by the loader.


_DISABLES = "TensorFlow disables all GPUs if cuDNN cannot be loaded"


def _one_version(context: Context) -> tuple[Fix, ...]:
    if context.probed:
        return install_libraries(context)
    look = "ldconfig -p | grep libcudnn; echo $LD_LIBRARY_PATH; python3 -m pip list | grep -i cudnn"
    first = Fix(text="List the cuDNN versions, and remove the wrong one from the loader path", commands=(look,))
    return (first, *install_libraries(context))


VERSION_MISMATCH = finding(
    "cudnn.version-mismatch",
    layer="cuDNN",
    title="cuDNN is installed, but not a version that TensorFlow can use",
    cause="within a major version, TensorFlow works with the cuDNN that it was compiled with, and with later ones",
    fixes=_one_version,
    explained_by=("tf.install-damaged",),
    symptoms=(symptoms.CUDNN_NOT_OPENED, symptoms.CUDNN_HANDLE),
    docs=CUDNN_GUIDE,
)


@VERSION_MISMATCH.sign(conclusive=False)
def installed_version(
    context: Context,
    gpu_release: Release,
    cudnn_sonames: tuple[Soname, ...],
    cudnn_runtime: str | None = None,
    cudnn_installed: tuple[CudnnFile, ...] | None = None,
) -> Problem | None:
    """Another major version, or a minor version older than the one compiled with."""
    wanting = in_state(cudnn_sonames, "other version", "absent")
    on_disk = next(((file.version, file.path) for file in cudnn_installed or () if file.version), (None, ""))
    found, where = (cudnn_runtime, context.source("cudnn.runtime")) if cudnn_runtime else on_disk
    if found is None or gpu_release.cudnn is None:
        return None
    same_major = major(found) == major(gpu_release.cudnn)
    too_old = not wanting and same_major and at_least(found, minor(gpu_release.cudnn)) is False
    if not (too_old or (wanting and not same_major)):
        return None
    return Problem(
        # a later minor version serves, another major one does not
        title=f"cuDNN {found} is installed, but TensorFlow {gpu_release.version} needs {gpu_release.cudnn} or a later "
        f"{major(gpu_release.cudnn)}.x",
        evidence=(
            evidence(f"cuDNN {found}", where, f"cuDNN {gpu_release.cudnn}", needed_by(gpu_release)),
            *missing_evidence(context, wanting, gpu_release),
        ),
    )


@VERSION_MISMATCH.sign(unless=NO_GPU_SIDE)
def comparison_message(messages: MessageLog) -> Problem | None:
    """TensorFlow compares the version loaded with the one compiled with; cuDNN does so with those of its parts."""
    differs = messages.all("cudnn-version-differs")
    mixed = [m for m in messages.all("cudnn-status") if "VERSION_MISMATCH" in m.text]
    if not (differs or mixed):
        return None
    runtime, compiled = (next(iter(messages.values("cudnn-version-differs", n)), None) for n in ("runtime", "compiled"))
    known = runtime and compiled and compiled.strip(".")
    return Problem(
        title=f"cuDNN {runtime} is loaded, but TensorFlow was compiled with {known}" if known else None,
        evidence=message_evidence(*differs, *mixed, *messages.all("no-dnn-library"), most=3),
    )


@VERSION_MISMATCH.sign(unless=NO_GPU_SIDE)
def other_major_reported(
    messages: MessageLog,
    reported_cudnn: ReportedCudnn,
    gpu_release: Release | None = None,
    devices: tuple[TfDevice, ...] | None = None,
) -> Problem | None:
    """cuDNN cannot be opened, and only another major version is installed."""
    cudnn = reported_cudnn
    no_gpu = devices is not None and not lists_gpu(devices)
    no_reason = gpu_release is not None and no_gpu and messages.speaks_only_of(*OF_ANY_CRASH)
    if not (cudnn.not_opened or cudnn.unnamed or no_reason) or not cudnn.only_other_major:
        return None
    return _installed_problem(cudnn, messages, gpu_release, cudnn.installed)


@VERSION_MISMATCH.sign(unless=NO_GPU_SIDE)
def older_minor_reported(messages: MessageLog, reported_cudnn: ReportedCudnn, gpu_release: Release) -> Problem | None:
    """A cuDNN that is older than the one compiled with is refused when it is first used."""
    floor = minor(gpu_release.cudnn)
    older = tuple(one for one in reported_cudnn.same_major if at_least(one[0], floor) is False)
    if not older or not messages.has("no-dnn-library", "cudnn-handle"):
        return None
    return _installed_problem(reported_cudnn, messages, gpu_release, older)


def _installed_problem(
    cudnn: ReportedCudnn, messages: MessageLog, release: Release | None, installed: tuple[tuple[str, str], ...]
) -> Problem:
    need = (f"cuDNN {release.cudnn}", needed_by(release)) if release and release.cudnn else (None, None)
    return Problem(
        evidence=(
            *message_evidence(*cudnn.not_opened, *messages.all("no-dnn-library"), most=3),
            *(evidence(f"cuDNN {version}", where, *need) for version, where in installed[:2]),
        )
    )


MISSING = finding(
    "cudnn.missing",
    layer="cuDNN",
    title="cuDNN is not installed",
    cause=_DISABLES,
    fixes=install_libraries,  # of CUDA, too, so that missing CUDA explains it
    explained_by=("cuda.missing", "cuda.version-mismatch", "tf.install-damaged"),
    pointless_after=("cudnn.version-mismatch", "cudnn.dep-missing"),
    docs=CUDNN_GUIDE,
)


@MISSING.sign()
def no_usable_file(context: Context, gpu_release: Release, cudnn_sonames: tuple[Soname, ...]) -> Problem | None:
    """No libcudnn of the wanted major version anywhere."""
    wanting = in_state(cudnn_sonames, "absent", "other version", "unloadable")
    return Problem(evidence=missing_evidence(context, wanting, gpu_release))


@MISSING.sign(unless=("cudnn.lib-path", "cuda.lib-path", *NO_GPU_SIDE))
def not_opened(
    context: Context,
    messages: MessageLog,
    reported_cudnn: ReportedCudnn,
    gpu_release: Release | None = None,
    toolkits: tuple[Toolkit, ...] | None = None,
) -> Problem | None:
    """cuDNN cannot be opened, and nothing shows that it is installed."""
    wanted_cuda = gpu_release.cuda if gpu_release else None
    cuda = next((kit for kit in toolkits or () if serves(kit.version or "", wanted_cuda or "")), None)
    other_cuda = toolkits and cuda is None  # explains a library that is not named
    lines = (*reported_cudnn.not_opened, *(() if other_cuda else reported_cudnn.unnamed))
    if not lines or (messages.stops_import and not messages.has("loader-error", "self-check")):
        return None
    beside = f". CUDA {cuda.version}, which is installed, does not contain cuDNN" if cuda else ""
    return Problem(
        title=f"cuDNN is {'' if reported_cudnn.not_opened else 'probably '}missing, or not on the loader path",
        cause=f"{_DISABLES}. The text does not show that it is installed{beside}",
        evidence=message_evidence(*lines, most=3),
        fixes=(*install_libraries(context), tell_apart(context)),
    )


LIB_PATH = finding(
    "cudnn.lib-path",
    layer="cuDNN",
    title="cuDNN is installed, but the loader does not find it",
    cause=_DISABLES,
    explained_by=("cuda.lib-path", "tf.install-damaged"),
    pointless_after=("tf.shadowed",),
    symptoms=(symptoms.CUDNN_NOT_OPENED, symptoms.UNNAMED_DLL),
    docs=CUDNN_GUIDE,
)


@LIB_PATH.sign()
def not_found_by_loader(context: Context, gpu_release: Release, cudnn_sonames: tuple[Soname, ...]) -> Problem | None:
    """Neither installing CUDA nor adding its folder helps against what comes first."""
    return not_on_path(context, cudnn_sonames, gpu_release, _DISABLES, of_cudnn=True)


@LIB_PATH.sign(unless=("cudnn.version-mismatch", "cudnn.dep-missing", "cuda.lib-path", *NO_GPU_SIDE))
def installed_but_not_opened(messages: MessageLog, reported_cudnn: ReportedCudnn) -> Problem | None:
    """cuDNN, or a part of it, cannot be opened although it is installed; or its parts miss each other."""
    named = messages.libraries("library-not-opened", "cudnn-part-missing", "loader-error")
    parts = [message for name, message in named if CUDNN_PART.search(name)]
    parts += [message for message in messages.all("cudnn-part-missing") if "Unable to load any" in message.text]
    installed = () if messages.has("image-without-cudnn") else reported_cudnn.installed
    somewhere = bool(installed) or is_said_to_work(messages)
    main = [message for message in reported_cudnn.not_opened if message.kind != "self-check"]
    if not ((main and somewhere) or parts) or (messages.stops_import and not messages.has("loader-error")):
        return None
    return Problem(
        cause="cuDNN is in a folder that the loader does not search, or its parts are not in the folder of the main "
        "library",
        evidence=(
            *message_evidence(*main, *parts),
            *(evidence(f"cuDNN {version}", where) for version, where in installed[:1]),
        ),
        fixes=(
            Fix(
                text="Find it, and add its folder to the loader path before Python starts",
                commands=("find / -name 'libcudnn*.so*' 2>/dev/null", "tfgpu doctor"),
            ),
        ),
    )


# ----------------------------------------------------------------------------------------------------------------------
# Findings about a cuDNN that is found and cannot be used: a library that it needs, or its handle, is missing.


DEP_MISSING = finding(
    "cudnn.dep-missing",
    layer="cuDNN",
    title="cuDNN is installed, but a library that it needs is not",
    cause="the loader does not load a library if one that it needs cannot be loaded",
    fixes=install_libraries,
    explained_by=("cuda.missing", "cuda.version-mismatch", "tf.install-damaged"),
    docs=CUDNN_GUIDE,
)
_HELPERS = re.compile(r"zlibwapi|libz\.so|libnvrtc|nvrtc64|libcublasLt|cublasLt64|libcublas\.so", re.IGNORECASE)
_FILE = re.compile(r"[\w./+-]+")
_NAMES_THE_REASON = re.compile(r"Error code (?:126|127|193)|NULL Error|undefined symbol")
_FIND_DEPENDENCIES = Fix(
    text="Add the folder of the missing library to the loader path (nvrtc and cublas are parts of CUDA)",
    commands=("ldd $(find / -name 'libcudnn_cnn*.so*' 2>/dev/null | head -n 1) | grep 'not found'",),
)
_ZLIB_ON_WINDOWS = (
    Fix(text="Put zlibwapi.dll, which cuDNN 8.3 to 8.9 need on Windows, and cuDNN's bin folder on PATH"),
    Alternative(
        text="Install the versions that TensorFlow 2.10 was tested with, which do not need zlib",
        commands=("conda install -c conda-forge cudatoolkit=11.2 cudnn=8.1.0",),
    ),
)


@DEP_MISSING.sign(conclusive=False)
def dependency_not_found(context: Context, gpu_release: Release, cudnn_sonames: tuple[Soname, ...]) -> Problem | None:
    """A DT_NEEDED entry of libcudnn or of its parts cannot be resolved."""
    unusable = [one for one in in_state(cudnn_sonames, "unloadable") if good_candidate(one) is None]
    files = [file for library in unusable for file in library.candidates if "not found" in (file.problem or "")]
    hiding = [file for file in files if hides_wheels(file)]
    return Problem(
        evidence=tuple(evidence(str(file.problem), file.path, "found", needed_by(gpu_release)) for file in files),
        fixes=(*off_library_path(context, on_library_path(hiding)), *install_libraries(context)),
        never_consequence=bool(hiding),
    )


@DEP_MISSING.sign(unless=("cudnn.version-mismatch", *NO_GPU_SIDE))
def dependency_message(context: Context, messages: MessageLog, os: str | None = None) -> Problem | None:
    """A part of cuDNN does not load because of what it needs: zlib on Windows, nvrtc, cublasLt."""
    named = messages.libraries("cudnn-part-missing", "loader-error")
    lines = [message for name, message in named if _needs_another(name, message)]
    lines += [m for m in messages.all("cudnn-status") if "SUBLIBRARY_LOADING_FAILED" in m.text]
    windows = os == "windows" or any(".dll" in message.text.lower() for message in lines)
    first = _ZLIB_ON_WINDOWS if windows else (_FIND_DEPENDENCIES,)
    return Problem(evidence=message_evidence(*lines), fixes=(*first, *install_libraries(context)))


def _needs_another(name: str, message: Message) -> bool:
    """Whether a line about a part of cuDNN gives another library, or the loader's number for one, as the reason."""
    if name == "libnvrtc.so" or (message.kind == "cudnn-part-missing" and _HELPERS.search(name)):
        return True  # only cuDNN 8 asks for nvrtc without its version
    reason = _NAMES_THE_REASON.search(message.text) or any(
        map(_HELPERS.search, (file for file in _FILE.findall(message.text) if "lib" in file and ".so" in file))
    )
    return bool(CUDNN_PART.search(name) and reason)


def _free_memory(context: Context) -> tuple[Fix, ...]:
    growth = f"{'set' if context.remedies.os == 'windows' else 'export'} TF_FORCE_GPU_ALLOW_GROWTH=true"
    doctor = Fix(
        text="If memory is free, check that CUDA and cuDNN are those of this release",
        commands=(context.remedies.doctor(),),
    )
    return (
        Fix(text="See which processes use the GPU's memory, and end them", commands=("nvidia-smi",)),
        Fix(text="Let TensorFlow allocate memory as needed", commands=(growth,)),
        *(() if context.probed else (doctor,)),
    )


INIT_FAILED = finding(
    "cudnn.init-failed",
    layer="cuDNN",
    title="cuDNN cannot be initialised",
    cause="the library is found, but its handle cannot be created. Usually the GPU has no memory left for it, because "
    "TensorFlow or another process has allocated it; otherwise cuDNN or CUDA is too old for the GPU",
    fixes=_free_memory,
    explained_by=(
        *("memory.*", "driver.*", "gpu.arch-*"),
        *("cuda.missing", "cuda.version-mismatch", "cuda.lib-path", "cudnn.lib-path"),
    ),
    pointless_after=("cudnn.version-mismatch", "cudnn.dep-missing"),
    docs=CUDNN_GUIDE,
)
_NO_HANDLE = re.compile(  # cuda_dnn.cc and dnn.cc
    r"[Cc]ould not create cudnn handle|CUDNN_STATUS_NOT_INITIALIZED|No DNN in stream executor|DNN library is not found"
)
_STATUS = re.compile(r"NOT_INITIALIZED|INTERNAL_ERROR|EXECUTION_FAILED|ALLOC_FAILED")


@INIT_FAILED.sign(conclusive=False)
def computation_failed(
    context: Context,
    checks: tuple[ComputeCheck, ...],
    phases: tuple[Phase, ...] | None = None,
    cudnn_runtime: str | None = None,
) -> Problem | None:
    """A computation of the examination ends because cudnnCreate fails."""
    errors = matching_errors(_NO_HANDLE, checks, phases or ())
    loaded = (evidence(f"cuDNN {cudnn_runtime}", context.source("cudnn.runtime")),) if cudnn_runtime else ()
    return Problem(evidence=(*errors, *loaded)) if errors else None


@INIT_FAILED.sign(unless=("cudnn.missing", "cudnn.lib-path"))
def handle_message(messages: MessageLog) -> Problem | None:
    """The handle cannot be created."""
    status = [message for message in messages.all("cudnn-status") if _STATUS.search(message.text)]
    if not (messages.has("cudnn-handle", "no-dnn-library") or status):
        return None
    lines = messages.all("cudnn-handle", "no-dnn-library", "cublas-handle", "cusolver-handle")
    full = messages.has("out-of-memory", "dst-not-initialized", "other-holder")  # a finding about memory says so itself
    return Problem(evidence=message_evidence(*lines, *status), severity=Severity.WARNING if full else None)
