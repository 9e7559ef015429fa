"""CUDA's libraries: missing, of another version, not on the loader path."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tfgpu_doctor.facts.facts import DamagedPackage, Nvcc, Package, Soname, TfDevice, Toolkit, lists_gpu, value_or
from tfgpu_doctor.facts.report import Alternative, Fix
from tfgpu_doctor.facts.versions import at_least, major, minor
from tfgpu_doctor.findings import symptoms
from tfgpu_doctor.findings.declaration import Context, MessageLog, Problem, evidence, finding, message_evidence
from tfgpu_doctor.findings.libraries import (
    NO_GPU_SIDE,
    NOT_THE_DRIVER,
    ReportedCuda,
    ReportedCudnn,
    from_pip,
    in_state,
    known_to_be_installed,
    missing_evidence,
    names,
    needed_by,
    needed_library,
    requested_in_vain,
)
from tfgpu_doctor.findings.library_fixes import (
    PIP_FOLDERS,
    install_libraries,
    not_on_path,
    on_windows_path,
    tell_apart,
    without_bug,
)
from tfgpu_doctor.matrix.compatibility import forgets_folders
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.matrix.names import Library

# ----------------------------------------------------------------------------------------------------------------------
# Findings about the CUDA libraries that TensorFlow opens by name.


PIP_GUIDE = "https://www.tensorflow.org/install/pip"
BUILD_TABLE = "https://www.tensorflow.org/install/source#gpu"
OF_THE_SYSTEM = "TensorFlow uses the CUDA of the system"
WITHOUT_EXTRA = "pip installs TensorFlow without CUDA, unless the extra and-cuda is requested"


VERSION_MISMATCH = finding(
    "cuda.version-mismatch",
    layer="CUDA",
    title="CUDA is installed, but not the version that TensorFlow loads",
    cause="the version is part of the library names, so another CUDA version cannot replace it. " + NOT_THE_DRIVER,
    fixes=install_libraries,
    symptoms=(symptoms.CUDA_NOT_OPENED,),
    docs=BUILD_TABLE,
)


@VERSION_MISMATCH.sign()
def installed_version(
    context: Context,
    gpu_release: Release,
    cuda_sonames: tuple[Soname, ...],
    toolkits: tuple[Toolkit, ...] | None = None,
    nvcc: Nvcc | None = None,
) -> Problem | None:
    """Libraries or a toolkit of another CUDA major are installed, and none of the wanted."""
    wanting = in_state(cuda_sonames, "other version", "absent")
    kits = [kit for kit in toolkits or () if kit.version]
    others = [kit for kit in kits if major(kit.version) != major(gpu_release.cuda)]
    if not wanting or len(others) < len(kits) or not (others or in_state(wanting, "other version")):
        return None
    expected = f"CUDA {gpu_release.cuda}", needed_by(gpu_release)
    found = [evidence(f"CUDA {kit.version}", kit.source, *expected) for kit in others[:3]]
    if nvcc and not others:
        found.append(evidence(f"nvcc {nvcc.version}", nvcc.path))
    return Problem(
        title=_versions(gpu_release, gpu_release.cuda, [kit.version or "" for kit in others], "only "),
        evidence=(*found, *missing_evidence(context, wanting, gpu_release)),
    )


@VERSION_MISMATCH.sign(unless=NO_GPU_SIDE)
def other_version_reported(
    messages: MessageLog,
    reported_cuda: ReportedCuda,
    gpu_release: Release | None = None,
    reported_cudnn: ReportedCudnn | None = None,
) -> Problem | None:
    """Something of CUDA cannot be opened, and what is installed is of another version."""
    cuda = reported_cuda
    # a line says that cuDNN alone is missed, and that it is of another version says why
    of_cudnn = reported_cudnn is not None and reported_cudnn.not_opened and reported_cudnn.only_other_major
    stated = gpu_release and not of_cudnn and _only_cudnn_fails(messages, cuda)
    if not (cuda.fails or cuda.dll or stated):
        return None
    if not cuda.installed or cuda.matching or cuda.wanted is None:
        return None
    installed = [version for version, _ in cuda.installed]
    return Problem(title=_versions(gpu_release, cuda.wanted, installed), evidence=cuda.evidence)


def _versions(release: Release | None, wanted: str | None, installed: list[str], only: str = "") -> str:
    found = ", ".join(dict.fromkeys(map(minor, installed))) or "another version"
    name = f"TensorFlow {release.version}" if release else "this TensorFlow"
    return f"{name} loads CUDA {minor(wanted)}, but {only}CUDA {found} is installed"


def _only_cudnn_fails(messages: MessageLog, cuda: ReportedCuda) -> bool:
    """Whether nothing fails but cuDNN, so that two versions which somebody states and which differ are a reason."""
    of_cudnn = ("library-not-opened", "loader-error", "gpu-libraries-not-opened", "no-gpu-registered", "no-dnn-library")
    return (
        not messages.has("asked-for-extra", "slow")
        and "first-run" not in messages.values("question", "about")  # a GPU is used
        and not any(library.component == "cudart" for library in cuda.opened)  # then it loads what it was built for
        and messages.speaks_only_of(*of_cudnn)
        and all("cudnn" in name.lower() for name, _ in messages.libraries("library-not-opened", "loader-error"))
    )


@VERSION_MISMATCH.sign(unless=NO_GPU_SIDE)
def other_minor_reported(reported_cuda: ReportedCuda) -> Problem | None:
    """A library whose number changed between two minor versions of one CUDA cannot be opened, while the others can."""
    solver = next((library for library, _ in reported_cuda.not_opened if library.component == "cusolver"), None)
    if solver is None or not _is_of_other_minor(solver, reported_cuda):
        return None
    cause = "CUDA 11.0 has libcusolver.so.10, later versions have libcusolver.so.11: another minor version is installed"
    return Problem(cause=cause, evidence=reported_cuda.evidence)


def _is_of_other_minor(solver: Library, cuda: ReportedCuda) -> bool:
    alone = {library.component for library, _ in cuda.not_opened} == {"cusolver"} and solver.version in ("10", "11")
    of_11 = any(
        at_least(library.cuda_version, "11") and not at_least(library.cuda_version, "12") for library in cuda.opened
    )
    later = any(at_least(library.cuda_version, "12") for library in cuda.opened)  # all of 12 has libcusolver.so.11
    return not later and (alone or of_11 or any(at_least(version, "11.1") for version, _ in cuda.installed))


MISSING = finding(
    "cuda.missing",
    layer="CUDA",
    title="The CUDA libraries are not installed",
    fixes=install_libraries,
    explained_by=("tf.install-damaged",),
    pointless_after=("cuda.version-mismatch",),
    symptoms=(symptoms.UNNAMED_DLL,),
    docs=PIP_GUIDE,
)


@MISSING.sign()
def no_usable_file(
    context: Context,
    gpu_release: Release,
    cuda_sonames: tuple[Soname, ...],
    packages: tuple[Package, ...] | None = None,
    damaged: tuple[DamagedPackage, ...] | None = None,
) -> Problem | None:
    """No file of the wanted soname anywhere: a plain `pip install tensorflow`, or an incomplete extra."""
    wanting = in_state(cuda_sonames, "absent", "other version", "unloadable")
    if not wanting:
        return None
    partly = len(wanting) < len(cuda_sonames)
    cause = WITHOUT_EXTRA if gpu_release.extra else OF_THE_SYSTEM
    if partly or _of_nvidia(packages):
        cause = "only some of the CUDA libraries are installed"
    # the libraries, or what those that are there need
    missing = dict.fromkeys(needed_library(one) or one.soname for one in wanting)
    needing = names(one for one in wanting if needed_library(one))
    needs = f", which {needing} needs" if needing else ""
    return Problem(
        title=f"{', '.join(missing)} not installed{needs}" if partly and len(missing) <= 3 else None,
        cause=f"{cause}. {NOT_THE_DRIVER}",
        evidence=missing_evidence(context, wanting, gpu_release),
        # files that are missing from TensorFlow itself do not explain CUDA packages that were never installed
        never_consequence=not _of_nvidia(damaged),
    )


def _of_nvidia(packages: Iterable[Package | DamagedPackage] | None) -> bool:
    return any(one.name.startswith("nvidia-") for one in packages or ())


@MISSING.sign(unless=("cuda.lib-path", *NO_GPU_SIDE))
def not_opened(
    context: Context, messages: MessageLog, reported_cuda: ReportedCuda, gpu_release: Release | None = None
) -> Problem | None:
    """Something of CUDA cannot be opened, and nothing shows that it is installed."""
    cuda = reported_cuda
    # the profiler's library alone is missed: the toolkit has it in a folder of its own
    only_cupti = {library.component for library, _ in cuda.not_opened} == {"cupti"}
    installed = cuda.installed or only_cupti or known_to_be_installed(messages, gpu_release)
    if not cuda.fails or (installed and not requested_in_vain(messages, cuda, gpu_release)):
        return None
    has_extra = (gpu_release and gpu_release.extra) or cuda.without_extra or cuda.extra_would_help
    cause = WITHOUT_EXTRA if has_extra else OF_THE_SYSTEM
    certain = cuda.without_extra or requested_in_vain(messages, cuda, gpu_release)
    misses = messages.has("no-gpu-listed", "gpu-libraries-not-opened")  # who misses a GPU, and not only reads a line
    return Problem(
        sure=cuda.without_extra or (cuda.extra_would_help and misses),
        title=None if certain else "The CUDA libraries are missing, or not on the loader path",
        cause=f"{cause}, and the text shows none. The message is the same for libraries of another version, or not on "
        f"the loader path. {NOT_THE_DRIVER}",
        evidence=cuda.evidence,
        fixes=(*_install(context, cuda, gpu_release), tell_apart(context)),
    )


def _install(context: Context, cuda: ReportedCuda, release: Release | None) -> tuple[Fix, ...]:
    """Also for a release that is not known, by the CUDA that it wants."""
    install, wanted = install_libraries(context), minor(cuda.wanted)
    if release or not wanted:
        return install
    look = f"Look up the cuDNN that belongs to CUDA {wanted}; both must be installed"
    return (*install, Alternative(look, (f"tfgpu matrix tensorflow --cuda {wanted}",)))


# ----------------------------------------------------------------------------------------------------------------------
# The finding about CUDA libraries that are installed where the loader does not find them.


def _add_to_path(context: Context) -> tuple[Fix, ...]:
    if context.remedies.os == "windows":
        return _ON_WINDOWS
    conda = any(one.installer == "conda" for one in value_or(context.facts.python.packages, ()))
    folder = "$CONDA_PREFIX/lib" if conda else "/usr/local/cuda/lib64"
    find = "find / -name 'libcudart.so*' -o -name 'libcudnn.so*' 2>/dev/null"
    path = f"export LD_LIBRARY_PATH={folder}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
    return (
        Fix("Find them, and add their folders to the loader path before Python starts", (find, path)),
        Alternative("Let the doctor print the exact line for that environment", ("tfgpu doctor",)),
    )


_ON_WINDOWS = (
    on_windows_path("CUDA's bin folder", "%CUDA_PATH%\\bin"),
    Fix(
        text="Python 3.8 and later, and conda's from 3.7.2, ignore PATH for the DLLs of extension modules: install "
        "CUDA with conda, or name the folder in the program",
        commands=("python -c \"import os; os.add_dll_directory(os.environ['CUDA_PATH'] + r'\\bin')\"",),
    ),
)
LIB_PATH = finding(
    "cuda.lib-path",
    layer="CUDA",
    title="The CUDA libraries are installed, but the loader does not find them",
    fixes=_add_to_path,
    explained_by=("tf.install-damaged",),
    pointless_after=("tf.shadowed",),  # the library that would open them is not the one of that module
    symptoms=(symptoms.CUDA_NOT_OPENED, symptoms.UNNAMED_DLL),
    docs=PIP_GUIDE,
)


@LIB_PATH.sign()
def not_found_by_loader(
    context: Context,
    gpu_release: Release,
    cuda_sonames: tuple[Soname, ...],
    cudnn_sonames: tuple[Soname, ...] | None = None,
) -> Problem | None:
    """The right files are not on the loader path, or come after one that cannot be loaded."""
    beside = in_state(cudnn_sonames or (), "off path")
    return not_on_path(context, cuda_sonames, gpu_release, NOT_THE_DRIVER, beside=beside)


_FIRST_LINES = {"absl-init", "onednn", "cpu-features"}


@LIB_PATH.sign(unless=("cuda.version-mismatch", *NO_GPU_SIDE))
def extra_not_found_by_release(
    context: Context,
    messages: MessageLog,
    gpu_release: Release,
    packages: tuple[Package, ...] | None = None,
    devices: tuple[TfDevice, ...] | None = None,
) -> Problem | None:
    """A release that is known not to find what its own extra installs, and no other reason for it."""
    bug = next(filter(forgets_folders, context.matrix.issues_for(gpu_release, extra=True)), None)
    failed, by_extra = messages.all("gpu-libraries-not-opened"), messages.all("asked-for-extra")
    wheels = any(re.fullmatch(r"nvidia-[a-z-]+-cu\d+", one.name) for one in packages or ())
    # a log that is there from its first line, and does not miss libcudart: CUDA is installed
    from_start = not _FIRST_LINES.isdisjoint(messages.values("harmless", "what"))
    installed = by_extra or wheels or (from_start and not messages.has("cudart-not-found"))
    no_gpu = failed or (devices is not None and not lists_gpu(devices))
    named = [name for name, _ in messages.libraries("library-not-opened", "loader-error")]
    forgotten = ("gpu-libraries-not-opened", "no-gpu-registered", "library-not-opened", "loader-error")
    alone = messages.speaks_only_of(*forgotten) and all(name.startswith("libcusolver") for name in named)
    if bug is None or not installed or not no_gpu or not alone:
        return None
    return Problem(
        title=f"TensorFlow {gpu_release.version}: {bug.title}",
        cause=bug.symptom,
        evidence=message_evidence(*failed, *by_extra, most=2),
        fixes=(*without_bug(context, gpu_release, bug), PIP_FOLDERS),
    )


@LIB_PATH.sign(unless=("cuda.version-mismatch", *NO_GPU_SIDE))
def installed_but_not_opened(
    context: Context, messages: MessageLog, reported_cuda: ReportedCuda, gpu_release: Release | None = None
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
