"""Findings about cuda."""

from __future__ import annotations

import re

from tfgpu_doctor.findings import symptoms
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.libraries import fix_path, in_state, names, needed_by, seen_missing, seen_off_path
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.findings.reported_libraries import Cuda, at_least, gather
from tfgpu_doctor.matrix.compatibility import known_capabilities
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.records.facts import Nvcc, Package, Soname, TfDevice, Toolkit, value_or
from tfgpu_doctor.records.report import Fix, Severity
from tfgpu_doctor.records.versions import minor

PIP_GUIDE = "https://www.tensorflow.org/install/pip"


BUILD_TABLE = "https://www.tensorflow.org/install/source#gpu"


NOT_THE_DRIVER = 'The log line "Could not find cuda drivers" is about these libraries, not about the driver'


def install_libraries(context: Context, release: Release) -> tuple[Fix, ...]:
    """Install the CUDA libraries of the installed TensorFlow; another release where it has no such extra."""
    python = value_or(context.facts.python.version, None)
    cards = known_capabilities(context.facts)
    issues = context.matrix.issues_for(release, python=python, compute_capabilities=cards, extra=True)
    broken = any(issue.severity == "error" and issue.affects == "run" for issue in issues)
    if release.extra and not broken:
        text = f"Install the CUDA libraries that belong to TensorFlow {release.version}, from pip"
        return (Fix(text=text, commands=context.remedies.install_tensorflow(release)),)
    best = context.remedies.reinstall_best("it brings its CUDA libraries along from pip")
    if release.extra:
        return best
    text = f"Or keep {release.version} in an environment of its own with CUDA {release.cuda} and cuDNN {release.cudnn}"
    return (*best, *context.remedies.with_cuda_beside(release, text))


def _major(version: str | None) -> str:
    return (version or "").split(".")[0]


_OF_CUDNN = ("library-not-opened", "loader-error", "gpu-libraries-not-opened", "no-gpu-registered", "no-dnn-library")


NEEDS = ("derived.told",)


WANTS = ("derived.gpu_release", "cuda.toolkits", "python.packages", "tensorflow.devices", "variables")


SILENCED_BY = ("gpu.none", "tf.cpu-build", "tf.windows-native", "tf.not-installed")


def _works(devices: tuple[TfDevice, ...] | None, said: MessageLog) -> bool:
    return any(device.kind == "GPU" for device in devices or ()) or said.has("gpu-created")


def _not_asked(said: MessageLog, cuda: Cuda) -> bool:
    """The import failed for another reason; that libcudart is not there besides is no news."""
    fatal = any(m.kind == "loader-error" and not said.has("library-not-opened") for _, m in cuda.lost)
    return said.stops_import and not fatal


def _linked(said: MessageLog, release: Release | None) -> bool:
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


def _told_to_be_there(said: MessageLog, release: Release | None) -> bool:
    """pip installed it, or the program runs where the shell's settings do not reach it, or macOS drops the path."""
    return _from_pip(said, release) or said.has("started-elsewhere", "restricted-program") or _seen_there(said)


def _known_to_be_lost(said: MessageLog, release: Release | None, devices: tuple[TfDevice, ...] | None) -> bool:
    """No GPU, not a word why, and a release that is known not to find what its own extra brings."""
    if release is None or said.complains or devices is None or not said.has("asked-for-extra"):
        return False
    return any(issue.condition.extra and "runpath" in issue.id for issue in release.known_issues)


def _seen_there(said: MessageLog) -> bool:
    return any("what" not in message.values for message in said.all("said-to-be-there"))


def _from_pip(said: MessageLog, release: Release | None) -> bool:
    """Whether the extra and-cuda was asked for, of a release that has it as far as is known."""
    return said.has("asked-for-extra") and (release is None or release.extra is not None)


def _relied_on_missing_extra(said: MessageLog, release: Release | None) -> bool:
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


VERSION_MISMATCH = finding(
    "cuda.version-mismatch",
    layer="CUDA",
    severity=Severity.ERROR,
    title="CUDA is installed, but of another version than TensorFlow loads",
    symptoms=(symptoms.CUDA_NOT_OPENED,),
    docs="https://www.tensorflow.org/install/source#gpu",
)


@VERSION_MISMATCH.sign
def version_mismatch(
    context: Context,
    gpu_release: Release,
    cuda_sonames: tuple[Soname, ...],
    toolkits: tuple[Toolkit, ...] | None = None,
    nvcc: Nvcc | None = None,
) -> Problem | None:
    """Sonames of another CUDA major lie around, or a toolkit of one, and none of the wanted."""
    wanting = in_state(cuda_sonames, "other version", "absent")
    others = [kit for kit in toolkits or () if kit.version and _major(kit.version) != _major(gpu_release.cuda)]
    same = [kit for kit in toolkits or () if kit.version and _major(kit.version) == _major(gpu_release.cuda)]
    if not wanting or same or not (in_state(wanting, "other version") or others):
        return None
    seen = [
        evidence(f"CUDA {kit.version}", kit.source, f"CUDA {gpu_release.cuda}", needed_by(gpu_release))
        for kit in others[:3]
    ]
    if nvcc and not others:
        seen.append(evidence(f"nvcc {nvcc.version}", nvcc.path))
    seen += seen_missing(context, wanting, needed_by(gpu_release))
    found = ", ".join(dict.fromkeys(minor(kit.version) for kit in others)) or "another version"
    wanted = f"TensorFlow {gpu_release.version} loads CUDA {minor(gpu_release.cuda)}"
    return Problem(
        title=f"{wanted}, but only CUDA {found} is installed",
        cause=f"the names of the libraries carry their version, so another CUDA cannot stand in. {NOT_THE_DRIVER}",
        evidence=tuple(seen),
        fixes=install_libraries(context, gpu_release),
    )


@VERSION_MISMATCH.sign(unless=("gpu.none", "tf.cpu-build", "tf.windows-native", "tf.not-installed"))
def version_mismatch_reported(
    context: Context,
    messages: MessageLog,
    gpu_release: Release | None = None,
    toolkits: tuple[Toolkit, ...] | None = None,
    packages: tuple[Package, ...] | None = None,
    devices: tuple[TfDevice, ...] | None = None,
    variables: dict[str, str] | None = None,
) -> Problem | None:
    """Something of CUDA cannot be opened, and what is there is of another version."""
    cuda = gather(messages, gpu_release, toolkits, packages, variables)
    linked = _linked(messages, gpu_release)
    if _works(devices, messages) or (_not_asked(messages, cuda) and not linked):
        return None
    moved = _moved_within_major(cuda)
    # somebody states two versions that do not go together, and no program says more than that cuDNN is missing
    quiet = (
        not cuda.fails
        and gpu_release is not None
        and not messages.has("asked-for-extra")
        and not any(library.component == "cudart" for library in cuda.opened)  # then it loads what it was built for
        and messages.speaks_only_of(*_OF_CUDNN)
        and all("cudnn" in name.lower() for name, _ in messages.libraries("library-not-opened", "loader-error"))
    )
    if not (cuda.fails or quiet or linked) or (not moved and (not cuda.there or cuda.fitting or cuda.wanted is None)):
        return None
    found = ", ".join(dict.fromkeys(minor(version) for version, _ in cuda.there)) or "another minor version"
    name = f"TensorFlow {gpu_release.version}" if gpu_release else "this TensorFlow"
    return Problem(
        title=f"{name} loads CUDA {minor(cuda.wanted)}, but CUDA {found} is installed"
        if cuda.wanted and not moved
        else None,
        cause=moved
        or f"the names of the libraries carry their version, so another CUDA cannot stand in. {NOT_THE_DRIVER}",
        evidence=(*message_evidence(*messages.all("dll-load-failed"), most=1), *cuda.evidence)
        if linked
        else cuda.evidence,
        fixes=_fixes(context, gpu_release, cuda),
    )


MISSING = finding(
    "cuda.missing",
    layer="CUDA",
    severity=Severity.ERROR,
    title="The CUDA libraries are not installed",
    pointless_after=("cuda.version-mismatch",),
    symptoms=(
        symptoms.NO_REASON,
        symptoms.UNNAMED_DLL,
    ),
    docs="https://www.tensorflow.org/install/pip",
)


@MISSING.sign
def missing(
    context: Context,
    gpu_release: Release,
    cuda_sonames: tuple[Soname, ...],
    packages: tuple[Package, ...] | None = None,
) -> Problem | None:
    """No file of the wanted soname anywhere: a plain `pip install tensorflow`, or an incomplete extra."""
    wanting = in_state(cuda_sonames, "absent", "other version", "unloadable")
    if not wanting:
        return None
    partly = len(wanting) < len(cuda_sonames)
    wheels = [p.name for p in packages or () if p.name.startswith("nvidia-")]
    cause = (
        "only some of the CUDA libraries are installed"
        if partly or wheels
        else "pip installs TensorFlow without CUDA unless the extra and-cuda is asked for"
        if gpu_release.extra
        else f"TensorFlow {gpu_release.version} takes CUDA {minor(gpu_release.cuda)} from the system, which has none"
    )
    title = f"{names(wanting)} missing" if partly and len(wanting) <= 3 else None
    return Problem(
        title=title,
        cause=f"{cause}. {NOT_THE_DRIVER}",
        evidence=seen_missing(context, wanting, needed_by(gpu_release)),
        fixes=install_libraries(context, gpu_release),
    )


@MISSING.sign(unless=("gpu.none", "tf.cpu-build", "tf.windows-native", "tf.not-installed", "cuda.lib-path"))
def missing_reported(
    context: Context,
    messages: MessageLog,
    gpu_release: Release | None = None,
    toolkits: tuple[Toolkit, ...] | None = None,
    packages: tuple[Package, ...] | None = None,
    devices: tuple[TfDevice, ...] | None = None,
    variables: dict[str, str] | None = None,
) -> Problem | None:
    """Something of CUDA cannot be opened, and nothing says that it is installed."""
    cuda = gather(messages, gpu_release, toolkits, packages, variables)
    if _works(devices, messages) or _not_asked(messages, cuda) or not cuda.fails:
        return None
    in_vain = _relied_on_missing_extra(messages, gpu_release) and not _from_conda(cuda)
    if (cuda.there or cuda.only_cupti or _told_to_be_there(messages, gpu_release)) and not in_vain:
        return None
    without_extra = gpu_release is not None and gpu_release.extra is not None
    cause = (
        "pip installs TensorFlow without CUDA unless the extra and-cuda is asked for"
        if without_extra
        else "TensorFlow takes CUDA from the system"
    )
    return Problem(
        cause=f"{cause}, and the text shows none: missing is likeliest, off the loader's path or of another version "
        f"looks the same. {NOT_THE_DRIVER}",
        evidence=cuda.evidence,
        fixes=(*_fixes(context, gpu_release, cuda), which(context)),
    )


LIB_PATH = finding(
    "cuda.lib-path",
    layer="CUDA",
    severity=Severity.ERROR,
    title="The CUDA libraries are installed, but the loader does not find them",
    symptoms=(
        symptoms.CUDA_NOT_OPENED,
        symptoms.UNNAMED_DLL,
    ),
    docs="https://www.tensorflow.org/install/pip",
)


@LIB_PATH.sign
def lib_path(
    context: Context,
    gpu_release: Release,
    cuda_sonames: tuple[Soname, ...],
    cudnn_sonames: tuple[Soname, ...] | None = None,
) -> Problem | None:
    """The right files exist off LD_LIBRARY_PATH, RUNPATH and ldconfig, or behind a broken file."""
    lost = in_state(cuda_sonames, "off path")
    if not lost:
        return None
    few = f"{names(lost)} installed, but not found by the loader" if len(lost) <= 2 else None
    return Problem(
        title=few,
        cause=f"{names(lost)}: present, but not where the dynamic loader looks. {NOT_THE_DRIVER}",
        evidence=seen_off_path(context, lost, needed_by(gpu_release)),
        fixes=fix_path(context, (*lost, *in_state(cudnn_sonames or (), "off path"))),  # one line for both
    )


@LIB_PATH.sign(unless=("gpu.none", "tf.cpu-build", "tf.windows-native", "tf.not-installed", "cuda.version-mismatch"))
def lib_path_reported(
    context: Context,
    messages: MessageLog,
    gpu_release: Release | None = None,
    toolkits: tuple[Toolkit, ...] | None = None,
    packages: tuple[Package, ...] | None = None,
    devices: tuple[TfDevice, ...] | None = None,
    variables: dict[str, str] | None = None,
) -> Problem | None:
    """Something of CUDA cannot be opened, although the right version is there."""
    cuda = gather(messages, gpu_release, toolkits, packages, variables)
    broken = [m for _, m in cuda.lost if re.search(r"too short|invalid ELF|wrong ELF", m.text)]
    if (
        _works(devices, messages)
        or _not_asked(messages, cuda)
        or not (cuda.fails or _known_to_be_lost(messages, gpu_release, devices))
        or not (cuda.fitting or broken or cuda.only_cupti or _told_to_be_there(messages, gpu_release))
    ):
        return None
    if _relied_on_missing_extra(messages, gpu_release) and not _from_conda(cuda):
        return None
    if cuda.only_cupti:
        return Problem(
            cause="CUDA's profiler library CUPTI comes with the toolkit, in extras/CUPTI/lib64, where the loader does "
            "not look; everything else of CUDA was opened before",
            evidence=cuda.evidence,
            fixes=_CUPTI_PATH if context.remedies.os != "windows" else _path_fixes(context),
        )
    from_pip = not cuda.fitting and _from_pip(messages, gpu_release)
    have = ", ".join(dict.fromkeys(where for _, where in cuda.fitting)) or (
        "the extra and-cuda brought it" if from_pip else "where another program finds it"
    )
    name = f"CUDA {minor(cuda.wanted)}" if cuda.wanted else "CUDA"
    silent = () if cuda.evidence else message_evidence(*messages.all("asked-for-extra"))
    return Problem(
        cause="a library is there and damaged: copied wrongly, or a text file in place of a link"
        if broken
        else f"{name} is there ({have}), but not where the dynamic loader looks. {NOT_THE_DRIVER}",
        evidence=(*cuda.evidence, *silent),
        fixes=(*((_PIP_FOLDERS,) if from_pip else ()), *_path_fixes(context)),
    )
