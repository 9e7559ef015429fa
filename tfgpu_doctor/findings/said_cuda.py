"""Rules over what a pasted text says of CUDA's libraries.

"Could not load dynamic library" and "Could not find cuda drivers" look the same for a library that is missing, of
another version, or off the loader's path. The versions that somebody states, the packages that are listed and the
libraries that did open tell them apart; where nothing is said, "missing" is likeliest, and the finding says what to
run.
"""

from __future__ import annotations

import re

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.cuda import BUILD_TABLE, NOT_THE_DRIVER, PIP_GUIDE, install_libraries
from tfgpu_doctor.findings.declaration import Problem, rule
from tfgpu_doctor.findings.message_log import Said, heard
from tfgpu_doctor.findings.said_libraries import Cuda, at_least, gather
from tfgpu_doctor.matrix.compatibility import minor
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.records.facts import Package, TfDevice, Toolkit
from tfgpu_doctor.records.report import Fix, Severity

_OF_CUDNN = ("library-not-opened", "loader-error", "gpu-libraries-not-opened", "no-gpu-registered", "no-dnn-library")
NEEDS = ("derived.told",)
WANTS = ("derived.gpu_release", "cuda.toolkits", "python.packages", "tensorflow.devices", "variables")
SILENCED_BY = ("gpu.none", "tf.cpu-build", "tf.windows-native", "tf.not-installed")


def _works(devices: tuple[TfDevice, ...] | None, said: Said) -> bool:
    return any(device.kind == "GPU" for device in devices or ()) or said.has("gpu-created")


def _not_asked(said: Said, cuda: Cuda) -> bool:
    """The import failed for another reason; that libcudart is not there besides is no news."""
    fatal = any(m.kind == "loader-error" and not said.has("library-not-opened") for _, m in cuda.lost)
    return said.stops_import and not fatal


@rule(
    "cuda.version-mismatch",
    Severity.ERROR,
    "CUDA is installed, but of another version than TensorFlow loads",
    needs=NEEDS,
    wants=WANTS,
    requires=SILENCED_BY,
    docs=BUILD_TABLE,
)
def version_mismatch(
    context: Context,
    said: Said,
    release: Release | None,
    toolkits: tuple[Toolkit, ...] | None,
    packages: tuple[Package, ...] | None,
    devices: tuple[TfDevice, ...] | None,
    variables: dict[str, str] | None,
) -> Problem | None:
    """Something of CUDA cannot be opened, and what is there is of another version."""
    cuda = gather(said, release, toolkits, packages, variables)
    linked = _linked(said, release)
    if _works(devices, said) or (_not_asked(said, cuda) and not linked):
        return None
    moved = _moved_within_major(cuda)
    # somebody states two versions that do not go together, and no program says more than that cuDNN is missing
    quiet = (
        not cuda.fails
        and release is not None
        and not said.has("asked-for-extra")
        and not any(library.component == "cudart" for library in cuda.opened)  # then it loads what it was built for
        and said.speaks_only_of(*_OF_CUDNN)
        and all("cudnn" in name.lower() for name, _ in said.libraries("library-not-opened", "loader-error"))
    )
    if not (cuda.fails or quiet or linked) or (not moved and (not cuda.there or cuda.fitting or cuda.wanted is None)):
        return None
    found = ", ".join(dict.fromkeys(minor(version) for version, _ in cuda.there)) or "another minor version"
    name = f"TensorFlow {release.version}" if release else "this TensorFlow"
    return Problem(
        title=f"{name} loads CUDA {minor(cuda.wanted)}, but CUDA {found} is installed"
        if cuda.wanted and not moved
        else None,
        cause=moved
        or f"the names of the libraries carry their version, so another CUDA cannot stand in. {NOT_THE_DRIVER}",
        evidence=(*heard(*said.all("dll-load-failed"), most=1), *cuda.evidence) if linked else cuda.evidence,
        fixes=_fixes(context, release, cuda),
    )


def _linked(said: Said, release: Release | None) -> bool:
    """Windows misses a DLL without naming it, and this wheel is linked to CUDA's; from 2.1 on they are opened later."""
    if release is None or not release.gpu or at_least(release.version, "2.1"):
        return False
    others = ("msvc-missing", "illegal-instruction", "cpu-instructions-missing", "numpy-abi", "protobuf-abi")
    return any("routine failed" not in m.text for m in said.all("dll-load-failed")) and not said.has(*others)


def _moved_within_major(cuda: Cuda) -> str | None:
    """A library whose number changed between two minor versions of one CUDA, while the others open."""
    lost = {library.component: library for library, _ in cuda.lost}
    majors = {library.cuda_major for library in cuda.opened if library.cuda_major}
    if "cudart" in lost and any(library.component in ("cublas", "cufft") for library in cuda.opened):
        wanted = lost["cudart"]
        if wanted.cuda_major in majors and int(wanted.cuda_major or 0) < 11:
            return (
                f"the other libraries of CUDA {wanted.cuda_major} open, only {wanted.name} carries its minor version: "
                "another minor is installed"
            )
    only_solver = set(lost) == {"cusolver"} and lost["cusolver"].version in ("10", "11")
    newer = any(at_least(version, "11.1") for version, _ in cuda.there)
    if "cusolver" in lost and ("11" in majors or newer or only_solver):
        return "CUDA 11.0 has libcusolver.so.10, 11.1 and later have libcusolver.so.11: another minor is installed"
    return None


@rule(
    "cuda.lib-path",
    Severity.ERROR,
    "The CUDA libraries are installed, but the loader does not find them",
    needs=NEEDS,
    wants=WANTS,
    requires=(*SILENCED_BY, "cuda.version-mismatch"),
    docs=PIP_GUIDE,
)
def lib_path(
    context: Context,
    said: Said,
    release: Release | None,
    toolkits: tuple[Toolkit, ...] | None,
    packages: tuple[Package, ...] | None,
    devices: tuple[TfDevice, ...] | None,
    variables: dict[str, str] | None,
) -> Problem | None:
    """Something of CUDA cannot be opened, although the right version is there."""
    cuda = gather(said, release, toolkits, packages, variables)
    broken = [m for _, m in cuda.lost if re.search(r"too short|invalid ELF|wrong ELF", m.text)]
    if (
        _works(devices, said)
        or _not_asked(said, cuda)
        or not (cuda.fails or _known_to_be_lost(said, release, devices))
        or not (cuda.fitting or broken or cuda.only_cupti or _told_to_be_there(said, release))
    ):
        return None
    if _relied_on_missing_extra(said, release) and not _from_conda(cuda):
        return None
    if cuda.only_cupti:
        return Problem(
            cause="CUDA's profiler library CUPTI comes with the toolkit, in extras/CUPTI/lib64, where the loader does "
            "not look; everything else of CUDA was opened before",
            evidence=cuda.evidence,
            fixes=_CUPTI_PATH if context.remedies.os != "windows" else _path_fixes(context),
        )
    from_pip = not cuda.fitting and _from_pip(said, release)
    have = ", ".join(dict.fromkeys(where for _, where in cuda.fitting)) or (
        "the extra and-cuda brought it" if from_pip else "where another program finds it"
    )
    name = f"CUDA {minor(cuda.wanted)}" if cuda.wanted else "CUDA"
    silent = () if cuda.evidence else heard(*said.all("asked-for-extra"))
    return Problem(
        cause="a library is there and damaged: copied wrongly, or a text file in place of a link"
        if broken
        else f"{name} is there ({have}), but not where the dynamic loader looks. {NOT_THE_DRIVER}",
        evidence=(*cuda.evidence, *silent),
        fixes=(*((_PIP_FOLDERS,) if from_pip else ()), *_path_fixes(context)),
    )


@rule(
    "cuda.missing",
    Severity.ERROR,
    "The CUDA libraries are not installed",
    needs=NEEDS,
    wants=WANTS,
    requires=(*SILENCED_BY, "cuda.version-mismatch", "cuda.lib-path"),
    docs=PIP_GUIDE,
)
def missing(
    context: Context,
    said: Said,
    release: Release | None,
    toolkits: tuple[Toolkit, ...] | None,
    packages: tuple[Package, ...] | None,
    devices: tuple[TfDevice, ...] | None,
    variables: dict[str, str] | None,
) -> Problem | None:
    """Something of CUDA cannot be opened, and nothing says that it is installed."""
    cuda = gather(said, release, toolkits, packages, variables)
    if _works(devices, said) or _not_asked(said, cuda) or not cuda.fails:
        return None
    in_vain = _relied_on_missing_extra(said, release) and not _from_conda(cuda)
    if (cuda.there or cuda.only_cupti or _told_to_be_there(said, release)) and not in_vain:
        return None
    without_extra = release is not None and release.extra is not None
    cause = (
        "pip installs TensorFlow without CUDA unless the extra and-cuda is asked for"
        if without_extra
        else "TensorFlow takes CUDA from the system"
    )
    return Problem(
        cause=f"{cause}, and the text shows none: missing is likeliest, off the loader's path or of another version "
        f"looks the same. {NOT_THE_DRIVER}",
        evidence=cuda.evidence,
        fixes=(*_fixes(context, release, cuda), which(context)),
    )


def _told_to_be_there(said: Said, release: Release | None) -> bool:
    """pip installed it, or the program runs where the shell's settings do not reach it, or macOS drops the path."""
    return _from_pip(said, release) or said.has("started-elsewhere", "restricted-program") or _seen_there(said)


def _known_to_be_lost(said: Said, release: Release | None, devices: tuple[TfDevice, ...] | None) -> bool:
    """No GPU, not a word why, and a release that is known not to find what its own extra brings."""
    if release is None or said.complains or devices is None or not said.has("asked-for-extra"):
        return False
    return any(issue.condition.extra and "runpath" in issue.id for issue in release.known_issues)


def _seen_there(said: Said) -> bool:
    return any("what" not in message.values for message in said.all("said-to-be-there"))


def _from_pip(said: Said, release: Release | None) -> bool:
    """Whether the extra and-cuda was asked for, of a release that has it as far as is known."""
    return said.has("asked-for-extra") and (release is None or release.extra is not None)


def _relied_on_missing_extra(said: Said, release: Release | None) -> bool:
    """tensorflow[and-cuda] was asked for, of a release that has no such extra: pip warns and installs no CUDA."""
    return said.has("no-such-extra") or (said.has("asked-for-extra") and release is not None and not release.extra)


def _from_conda(cuda: Cuda) -> bool:
    """Whether conda brought a CUDA that would serve; a version that somebody fills in is no proof of one."""
    return any("cudatoolkit" in where or "cuda-" in where for _, where in cuda.fitting)


def which(context: Context) -> Fix:
    """What tells missing, another version and off the path apart."""
    if context.remedies.os == "windows":
        return Fix(
            text="To decide, see which of them are on this machine", commands=("where cudart64_*.dll cudnn64_*.dll",)
        )
    return Fix(
        text="To decide between missing, another version and off the path, run one of these on that machine",
        commands=(
            "tfgpu doctor",
            "ldconfig -p | grep -E 'libcudart|libcudnn'; find / -name 'libcudart.so*' -o -name "
            "'libcudnn.so*' 2>/dev/null",
        ),
    )


def _fixes(context: Context, release: Release | None, cuda: Cuda) -> tuple[Fix, ...]:
    if release is not None:
        return install_libraries(context, release)
    wanted = f"CUDA {minor(cuda.wanted)}" if cuda.wanted else "the CUDA that this TensorFlow was built for"
    return (
        Fix(
            text=f"Install {wanted} with its cuDNN beside this TensorFlow",
            commands=(f"tfgpu matrix tensorflow --cuda {minor(cuda.wanted)}",) if cuda.wanted else (),
        ),
        *context.remedies.reinstall_best("it brings its CUDA libraries along from pip"),
    )


# nvidia is a namespace package: a folder of folders, each with a lib of its own
_PIP_FOLDERS = Fix(
    text="Put the folders of pip's nvidia packages on the loader's path before Python starts",
    commands=(
        "export LD_LIBRARY_PATH=$(python3 -c 'import glob, nvidia; "
        'print(":".join(glob.glob(list(nvidia.__path__)[0] + "/*/lib")))\')${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}',
    ),
)
_CUPTI_PATH = (
    Fix(
        text="Put CUPTI's folder on the loader's path before Python starts",
        commands=("export LD_LIBRARY_PATH=/usr/local/cuda/extras/CUPTI/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}",),
    ),
)


def _path_fixes(context: Context) -> tuple[Fix, ...]:
    if context.remedies.os == "windows":
        return (
            Fix(
                text="Put CUDA's bin folder on PATH, and start a new console",
                commands=('setx PATH "%PATH%;%CUDA_PATH%\\bin"',),
            ),
            Fix(
                text="Conda's Pythons from 3.7.2 and any Python from 3.8 ignore PATH for DLLs of extensions: "
                "install CUDA with conda, or name the folder in the program",
                commands=("python -c \"import os; os.add_dll_directory(os.environ['CUDA_PATH'] + r'\\bin')\"",),
            ),
        )
    return (
        Fix(
            text="See where they are, and put those folders on the loader's path before Python starts",
            commands=(
                "find / -name 'libcudart.so*' -o -name 'libcudnn.so*' 2>/dev/null",
                "export LD_LIBRARY_PATH=/usr/local/cuda/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}",
            ),
        ),
        Fix(text="Or let the doctor print the exact line for that environment", commands=("tfgpu doctor",)),
    )
