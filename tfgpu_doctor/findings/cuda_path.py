"""The finding about CUDA libraries that are installed where the loader does not find them."""

from __future__ import annotations

import re

from tfgpu_doctor.findings import symptoms
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.libraries import (
    NO_GPU_SIDE,
    NOT_THE_DRIVER,
    first_fails,
    hidden,
    in_state,
    names,
    off_path_evidence,
)
from tfgpu_doctor.findings.library_fixes import PIP_FOLDERS, fix_path, without_bug
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.findings.reported_libraries import (
    ReportedCuda,
    from_pip,
    known_to_be_installed,
    pip_libraries,
    requested_in_vain,
)
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.plan.library_links import forgets_folders
from tfgpu_doctor.records.facts import Package, Soname, TfDevice, lists_gpu, value_or
from tfgpu_doctor.records.report import Alternative, Fix, Severity
from tfgpu_doctor.records.versions import minor

PIP_GUIDE = "https://www.tensorflow.org/install/pip"


def _add_to_path(context: Context) -> tuple[Fix, ...]:
    if context.remedies.os == "windows":
        return _ON_WINDOWS
    conda = any(one.installer == "conda" for one in value_or(context.facts.python.packages, ()))
    folder = "$CONDA_PREFIX/lib" if conda else "/usr/local/cuda/lib64"
    return (
        Fix(
            text="Find them, and add their folders to the loader path before Python starts",
            commands=(
                "find / -name 'libcudart.so*' -o -name 'libcudnn.so*' 2>/dev/null",
                f"export LD_LIBRARY_PATH={folder}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}",
            ),
        ),
        Alternative(text="Let the doctor print the exact line for that environment", commands=("tfgpu doctor",)),
    )


_ON_WINDOWS = (
    Fix(
        text="Add CUDA's bin folder to PATH before Python starts: for this console with the command, for all others in "
        "Windows' settings, Environment variables",
        commands=('set "PATH=%CUDA_PATH%\\bin;%PATH%"',),
    ),
    Fix(
        text="Python 3.8 and later, and conda's from 3.7.2, ignore PATH for the DLLs of extension modules: install "
        "CUDA with conda, or name the folder in the program",
        commands=("python -c \"import os; os.add_dll_directory(os.environ['CUDA_PATH'] + r'\\bin')\"",),
    ),
)
LIB_PATH = finding(
    "cuda.lib-path",
    layer="CUDA",
    severity=Severity.ERROR,
    title="The CUDA libraries are installed, but the loader does not find them",
    fixes=_add_to_path,
    explained_by=("tf.install-damaged",),
    pointless_after=("tf.shadowed",),  # the library that would open them is not the one of that module
    symptoms=(symptoms.CUDA_NOT_OPENED, symptoms.UNNAMED_DLL),
    docs=PIP_GUIDE,
)


@LIB_PATH.sign
def not_found_by_loader(
    context: Context,
    gpu_release: Release,
    cuda_sonames: tuple[Soname, ...],
    cudnn_sonames: tuple[Soname, ...] | None = None,
) -> Problem | None:
    """The right files are not on the loader path, or come after one that cannot be loaded."""
    libraries = (*in_state(cuda_sonames, "off path"), *hidden(cuda_sonames))
    if not libraries:
        return None
    title: str | None
    if failing := first_fails(libraries):
        title = f"The {failing[0].soname} that the loader finds first cannot be loaded"
        cause = "the loader stops at the first file of that name, although it is damaged"
    else:
        title = f"{names(libraries)} installed, but not found by the loader" if len(libraries) <= 2 else None
        cause = f"the loader does not search the folders of {names(libraries)}"
    return Problem(
        title=title,
        cause=f"{cause}. {NOT_THE_DRIVER}",
        evidence=off_path_evidence(libraries, gpu_release),
        # one line for both
        fixes=fix_path(context, (*libraries, *in_state(cudnn_sonames or (), "off path")), gpu_release),
    )


@LIB_PATH.sign(unless=("cuda.version-mismatch", *NO_GPU_SIDE))
def damaged_file_reported(reported_cuda: ReportedCuda) -> Problem | None:
    """The loader refuses a file of the right name."""
    refused = re.compile(r"too short|invalid ELF|wrong ELF")
    if not any(refused.search(message.text) for _, message in reported_cuda.not_opened):
        return None
    cause = "a library is installed but damaged: copied incompletely, or a text file in place of a link"
    return Problem(cause=cause, evidence=reported_cuda.evidence)


_UNNAMED = ("gpu-libraries-not-opened", "no-gpu-registered")
_FIRST_LINES = {"absl-init", "onednn", "cpu-features"}


def _finds_runtime(messages: MessageLog) -> bool:
    """Whether a log that is there from its first line does not miss libcudart: CUDA is installed."""
    return not (messages.has("cudart-not-found") or _FIRST_LINES.isdisjoint(messages.values("harmless", "what")))


def _speaks_only_of_forgotten(messages: MessageLog) -> bool:
    """Whether all that fails is a library that is not named, or one of those whose folders are forgotten."""
    named = {name for name, _ in messages.libraries("library-not-opened", "loader-error")}
    if not all(name.startswith("libcusolver") for name in named):
        return False
    return messages.speaks_only_of(*_UNNAMED, "library-not-opened", "loader-error")


@LIB_PATH.sign(unless=("cuda.version-mismatch", *NO_GPU_SIDE))
def extra_not_found_by_release(
    context: Context,
    messages: MessageLog,
    gpu_release: Release,
    packages: tuple[Package, ...] | None = None,
    devices: tuple[TfDevice, ...] | None = None,
) -> Problem | None:
    """A release that is known not to find what its own extra installs, and no other reason for it."""
    known = context.matrix.issues_for(gpu_release, extra=True)
    bug = next(filter(forgets_folders, known), None)
    wheels = pip_libraries(packages or ())
    no_gpu = devices is not None and not lists_gpu(devices)
    failed = messages.all("gpu-libraries-not-opened")
    by_extra = messages.all("asked-for-extra")
    found = by_extra or wheels or _finds_runtime(messages)
    if bug is None or not found or not (failed or no_gpu) or not _speaks_only_of_forgotten(messages):
        return None
    listed = (evidence(f"{one.name} {one.version}", one.location or "installed packages") for one in wheels[:2])
    return Problem(
        title=f"TensorFlow {gpu_release.version}: {bug.title}",
        cause=bug.symptom,
        evidence=(*message_evidence(*failed, *by_extra, most=2), *listed),
        fixes=(*without_bug(context, gpu_release, bug), PIP_FOLDERS),
    )


@LIB_PATH.sign(unless=("cuda.version-mismatch", *NO_GPU_SIDE))
def installed_but_not_opened(
    context: Context,
    messages: MessageLog,
    reported_cuda: ReportedCuda,
    gpu_release: Release | None = None,
) -> Problem | None:
    """Something of CUDA cannot be opened, although the right version is installed."""
    cuda = reported_cuda
    if not cuda.fails or requested_in_vain(messages, cuda, gpu_release):
        return None
    if not cuda.matching and not known_to_be_installed(messages, gpu_release):
        return None
    by_pip = not cuda.matching and from_pip(messages, gpu_release)
    where = ", ".join(dict.fromkeys(where for _, where in cuda.matching)) or (
        "by the extra and-cuda" if by_pip else "another program finds it"
    )
    name = f"CUDA {minor(cuda.wanted)}" if cuda.wanted else "CUDA"
    return Problem(
        cause=f"{name} is installed ({where}), but not where the loader searches. {NOT_THE_DRIVER}",
        evidence=cuda.evidence,
        fixes=(*((PIP_FOLDERS,) if by_pip else ()), *_add_to_path(context)),
    )
