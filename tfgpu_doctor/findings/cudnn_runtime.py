"""Findings about a cuDNN that is found and cannot be used: a library that it needs, or its handle, is missing."""

from __future__ import annotations

import re

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.libraries import (
    CUDNN_GUIDE,
    CUDNN_PART,
    NO_GPU_SIDE,
    good_candidate,
    hides_wheels,
    in_state,
    needed_by,
)
from tfgpu_doctor.findings.library_fixes import install_libraries, off_library_path, on_library_path
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.findings.phases import matching_errors
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.records.facts import ComputeCheck, Message, Phase, Soname, value_or
from tfgpu_doctor.records.report import Alternative, Fix, Severity

# ---------------------------------------------------------------------------------------- cudnn.dep-missing

DEP_MISSING = finding(
    "cudnn.dep-missing",
    layer="cuDNN",
    severity=Severity.ERROR,
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
# cuDNN 8 opens libnvrtc.so by this name, which ldd does not see; packages of pip and conda have no such file
_NVRTC = "nvidia-cuda-nvrtc-cu11"
_NVRTC_LINK = (
    'cd "$(dirname "$(find / -name \'libnvrtc.so.1*\' 2>/dev/null | head -n 1)")"'
    ' && ln -s "$(ls libnvrtc.so.1* | head -n 1)" libnvrtc.so'
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
    if not files:
        return None
    hiding = [file for file in files if hides_wheels(file)]
    ldd = Fix(text="List everything that it needs", commands=(f"ldd {context.remedies.quote(files[0].path)}",))
    return Problem(
        evidence=tuple(evidence(str(file.problem), file.path, "found", needed_by(gpu_release)) for file in files),
        fixes=(*off_library_path(context, on_library_path(hiding)), *install_libraries(context), ldd),
        never_consequence=bool(hiding),
    )


@DEP_MISSING.sign(unless=("cudnn.version-mismatch", *NO_GPU_SIDE))
def dependency_message(context: Context, messages: MessageLog, os: str | None = None) -> Problem | None:
    """A part of cuDNN does not load because of what it needs: zlib on Windows, nvrtc, cublasLt."""
    named = messages.libraries("cudnn-part-missing", "loader-error")
    lines = [message for name, message in named if _needs_another(name, message)]
    lines += [m for m in messages.all("cudnn-status") if "SUBLIBRARY_LOADING_FAILED" in m.text]
    if not lines:
        return None
    windows = os == "windows" or any(".dll" in message.text.lower() for message in lines)
    nvrtc = any("libnvrtc.so:" in message.text for message in lines)
    first = _ZLIB_ON_WINDOWS if windows else (_link_nvrtc(context) if nvrtc else _FIND_DEPENDENCIES,)
    return Problem(evidence=message_evidence(*lines), fixes=(*first, *install_libraries(context)))


def _link_nvrtc(context: Context) -> Fix:
    """The name without a number; where cuDNN came from pip without the compiler, that first."""
    listed = {one.name for one in value_or(context.facts.python.packages, ())}
    lacks = "nvidia-cudnn-cu11" in listed and _NVRTC not in listed
    text = "Create the link libnvrtc.so beside the file with a version number, in a folder that the loader searches"
    return Fix(text=text, commands=(*(context.remedies.pip_install(_NVRTC) if lacks else ()), _NVRTC_LINK))


def _needs_another(name: str, message: Message) -> bool:
    """Whether a line about a part of cuDNN gives another library, or the loader's number for one, as the reason."""
    if name == "libnvrtc.so" or (message.kind == "cudnn-part-missing" and _HELPERS.search(name)):
        return True  # only cuDNN 8 asks for nvrtc without its version
    reason = _NAMES_THE_REASON.search(message.text) or any(
        map(_HELPERS.search, (file for file in _FILE.findall(message.text) if "lib" in file and ".so" in file))
    )
    return bool(CUDNN_PART.search(name) and reason)


# ---------------------------------------------------------------------------------------- cudnn.init-failed


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
    severity=Severity.ERROR,
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
