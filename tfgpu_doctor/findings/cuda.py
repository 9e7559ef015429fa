"""CUDA's libraries and cuDNN: missing, of another version, not on the loader path; and a cuDNN that cannot start."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tfgpu_doctor.facts.facts import CudnnFile, DamagedPackage, Message, Nvcc, Package, Packages, lists_gpu, value_or
from tfgpu_doctor.facts.report import Alternative, Fix, Severity
from tfgpu_doctor.facts.versions import at_least, dotted, major, minor
from tfgpu_doctor.findings import declaration, inputs, libraries, symptoms
from tfgpu_doctor.findings.declaration import Context, MessageLog, Problem, evidence, finding, message_evidence
from tfgpu_doctor.findings.inputs import Cards, Checks, Devices, Sonames, Toolkits, Variables
from tfgpu_doctor.findings.libraries import NO_GPU_SIDE, NOT_THE_DRIVER, ReportedCuda, ReportedCudnn, in_state
from tfgpu_doctor.findings.library_fixes import (
    CUDNN_9,
    PIP_FOLDERS,
    first_on_loader_path,
    growth,
    install_libraries,
    not_on_path,
    off_library_path,
    on_library_path,
    on_windows_path,
    tell_apart,
    without_bug,
)
from tfgpu_doctor.matrix.compatibility import dropped_by, forgets_folders, only_its_minor, takes_cudnn_7_0_alone
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.parsers.lines import any_case

# ----------------------------------------------------------------------------------------------------------------------
# Findings about the CUDA libraries that TensorFlow opens by name.


PIP_GUIDE = "https://www.tensorflow.org/install/pip"
OF_THE_SYSTEM = "TensorFlow uses the CUDA of the system"
WITHOUT_EXTRA = "pip installs TensorFlow without CUDA, unless the extra and-cuda is requested"


CUDA_VERSION = finding(
    "cuda.version-mismatch",
    layer="CUDA",
    title="CUDA is installed, but not the version that TensorFlow loads",
    cause="the version is part of the library names, so another CUDA version cannot replace it. " + NOT_THE_DRIVER,
    fixes=install_libraries,
    symptoms=(symptoms.CUDA_NOT_OPENED,),
    docs="https://www.tensorflow.org/install/source#gpu",
)


@CUDA_VERSION.sign()
def other_cuda(
    context: Context, gpu_release: Release, cuda_sonames: Sonames, toolkits: Toolkits = (), nvcc: Nvcc | None = None
) -> Problem | None:
    """Libraries or a toolkit of another CUDA major are installed, and none of the wanted."""
    wanting = in_state(cuda_sonames, "other version", "absent")
    kits = [kit for kit in toolkits if kit.version]
    others = [kit for kit in kits if major(kit.version) != major(gpu_release.cuda)]
    if not wanting or len(others) < len(kits) or not (others or in_state(wanting, "other version")):
        return None
    expected = f"CUDA {gpu_release.cuda}", libraries.needed_by(gpu_release)
    found = [evidence(f"CUDA {kit.version}", kit.source, *expected) for kit in others[:3]]
    if nvcc and not others:
        found.append(evidence(f"nvcc {nvcc.version}", nvcc.path))
    return Problem(
        title=_versions(gpu_release, gpu_release.cuda, [kit.version or "" for kit in others]),
        evidence=(*found, *libraries.missing_evidence(context, wanting, gpu_release)),
    )


@CUDA_VERSION.sign(unless=NO_GPU_SIDE)
def other_cuda_reported(
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
    if not (cuda.fails or cuda.dll or stated) or not cuda.installed or cuda.matching or cuda.wanted is None:
        return None
    installed = [version for version, _ in cuda.installed]
    title = _versions(gpu_release, cuda.wanted, installed)
    # where nothing fails, the version may be what nvidia-smi shows, or another machine's
    troubled = messages.troubled or messages.has("gpu-fails-said")
    return Problem(title=title, evidence=cuda.evidence, possible=not (cuda.fails or cuda.dll or troubled))


def _versions(release: Release | None, wanted: str | None, installed: list[str]) -> str:
    found = ", ".join(dict.fromkeys(map(minor, installed))) or "another version"
    name = f"TensorFlow {release.version}" if release else "this TensorFlow"
    return f"{name} loads CUDA {minor(wanted)}, but CUDA {found} is installed"


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


OTHER_CUSOLVER = "CUDA 11.0 has libcusolver.so.10, later versions have libcusolver.so.11"


@CUDA_VERSION.sign(unless=NO_GPU_SIDE)
def other_minor_reported(reported_cuda: ReportedCuda) -> Problem | None:
    """A library whose number changed between two minor versions of one CUDA cannot be opened, while the others can."""
    missing = {library.component: library.version for library, _ in reported_cuda.not_opened}
    alone = len(missing) == 1 and missing.get("cusolver") in ("10", "11")
    found = [library.cuda_version for library in reported_cuda.opened]
    later = any(at_least(version, "12") for version in found)  # all of 12 has libcusolver.so.11
    found += [version for version, _ in reported_cuda.installed if at_least(version, "11.1")]
    of_11 = any(at_least(version, "11") and not at_least(version, "12") for version in found)
    if "cusolver" not in missing or later or not (alone or of_11):
        return None
    return Problem(cause=f"{OTHER_CUSOLVER}: another minor version is installed", evidence=reported_cuda.evidence)


@CUDA_VERSION.sign(unless=NO_GPU_SIDE)
def pair_of_no_release(
    context: Context,
    messages: MessageLog,
    toolkits: Toolkits = (),
    cudnn_installed: tuple[CudnnFile, ...] = (),
    gpu_release: Release | None = None,
) -> Problem | None:
    """The cuDNN is not made for the CUDA beside it, so that no release loads both, whichever one it is."""
    kits, versions = ({*(one.version for one in found)} - {None} for found in (toolkits, cudnn_installed))
    if context.probed or gpu_release or not len(kits) == len(versions) == 1 or not messages.has("no-gpu-listed"):
        return None
    cuda, cudnn = (found.pop() or "" for found in (kits, versions))
    row = context.matrix.cudnn(cudnn)
    if row is None or major(cuda) in row.cuda_majors:
        return None
    rows = context.matrix.releases(platform="linux_x86_64")
    loaded = next((minor(one.cuda) for one in rows if minor(one.cudnn) == row.version), None)
    if loaded is None:
        return None
    of_cudnn = f"cuDNN {row.version} is for CUDA {' and '.join(row.cuda_majors)}"
    load = f"Load CUDA {loaded} with that cuDNN (on a cluster: its module), or the cuDNN of the release that runs"
    return Problem(
        possible=True,
        title=f"No TensorFlow loads CUDA {minor(cuda)} and cuDNN {row.version} together",
        cause=f"{of_cudnn}, and the releases that are compiled with it load CUDA {loaded}",
        evidence=(evidence(f"CUDA {cuda}, cuDNN {cudnn}", context.source("cudnn.installed")),),
        fixes=(Fix(load),),
    )


CUDA_MISSING = finding(
    "cuda.missing",
    layer="CUDA",
    title="The CUDA libraries are not installed",
    fixes=install_libraries,
    explained_by=("tf.install-damaged",),
    pointless_after=("cuda.version-mismatch",),
    symptoms=(symptoms.UNNAMED_DLL,),
    docs=PIP_GUIDE,
)


@CUDA_MISSING.sign()
def no_cuda_file(
    context: Context,
    gpu_release: Release,
    cuda_sonames: Sonames,
    packages: Packages = (),
    damaged: tuple[DamagedPackage, ...] = (),
) -> Problem | None:
    """No file of the wanted soname anywhere: a plain `pip install tensorflow`, or an incomplete extra."""
    wanting = in_state(cuda_sonames, "absent", "other version", "unloadable")
    cause = WITHOUT_EXTRA if gpu_release.extra else OF_THE_SYSTEM
    partly = len(wanting) < len(cuda_sonames)
    if partly or _of_nvidia(packages):
        cause = "only some of the CUDA libraries are installed"
    # the libraries, or what those that are there need
    missing = dict.fromkeys(libraries.needed_library(one) or one.soname for one in wanting)
    needing = libraries.names(one for one in wanting if libraries.needed_library(one))
    needs = f", which {needing} needs" if needing else ""
    return Problem(
        title=f"{', '.join(missing)} not installed{needs}" if partly and len(missing) <= 3 else None,
        cause=f"{cause}. {NOT_THE_DRIVER}",
        evidence=libraries.missing_evidence(context, wanting, gpu_release),
        # files that are missing from TensorFlow itself do not explain CUDA packages that were never installed
        never_consequence=not _of_nvidia(damaged),
    )


def _of_nvidia(packages: Iterable[Package | DamagedPackage]) -> bool:
    return any(one.name.startswith("nvidia-") for one in packages)


def _is_there(context: Context, messages: MessageLog, cuda: ReportedCuda, release: Release | None) -> bool:
    """Whether a text shows that CUDA is installed, or tells of an image that has it."""
    # the profiler's library alone is missed: the toolkit has it in a folder of its own
    only_cupti = {library.component for library, _ in cuda.not_opened} == {"cupti"}
    installed = cuda.installed or only_cupti or libraries.known_to_be_installed(messages, release)
    return bool(installed) or context.remedies.image_cuda() is not None


@CUDA_MISSING.sign(unless=("cuda.lib-path", *NO_GPU_SIDE))
def cuda_not_opened(
    context: Context, messages: MessageLog, reported_cuda: ReportedCuda, gpu_release: Release | None = None
) -> Problem | None:
    """Something of CUDA cannot be opened, and nothing shows that it is installed."""
    cuda, in_vain = reported_cuda, libraries.requested_in_vain(messages, reported_cuda, gpu_release)
    installed = _is_there(context, messages, cuda, gpu_release)
    if not cuda.fails or (installed and not in_vain):
        return None
    has_extra = (gpu_release and gpu_release.extra) or cuda.without_extra or cuda.extra_would_help
    misses = messages.has("no-gpu-listed", "gpu-libraries-not-opened")  # who misses a GPU, and not only reads a line
    certain = cuda.without_extra or in_vain
    return Problem(
        sure=cuda.without_extra or (cuda.extra_would_help and misses),
        title=None if certain else "The CUDA libraries are missing, or not on the loader path",
        cause=f"{WITHOUT_EXTRA if has_extra else OF_THE_SYSTEM}, and the text shows none. The message is the same for "
        f"libraries of another version, or not on the loader path. {NOT_THE_DRIVER}",
        evidence=cuda.evidence,
        fixes=(*install_libraries(context), tell_apart(context)),
    )


@CUDA_MISSING.sign(unless=("cuda.lib-path", *NO_GPU_SIDE))
def extra_that_there_is_not(
    context: Context, messages: MessageLog, gpu_release: Release | None = None, devices: Devices | None = None
) -> Problem | None:
    """pip ignored the extra that was asked for: a warning among its lines, and no CUDA."""
    lines = messages.all("no-such-extra")
    if not lines or (devices is not None and lists_gpu(devices)) or (gpu_release and gpu_release.extra):
        return None
    which = f"TensorFlow {gpu_release.version}" if gpu_release else "this TensorFlow"
    return Problem(
        title=f"CUDA was not installed: {which} has no extra and-cuda, which there is since 2.14",
        cause="pip only warns, and installs TensorFlow alone",
        evidence=message_evidence(*lines, most=1),
        fixes=install_libraries(context),
        sure=True,
    )


@CUDA_MISSING.sign(unless=("cuda.lib-path", *NO_GPU_SIDE))
def plain_pip_lists_no_gpu(messages: MessageLog, cards: Cards, reported_cuda: ReportedCuda, os: str) -> Problem | None:
    """TensorFlow lists no GPU on a Linux that has one, and pip installed it without the extra."""
    lines = messages.all("tensorflow-installed") or messages.all("no-gpu-listed")
    misses_one = os in ("linux", "wsl2") and cards and messages.has("no-gpu-listed")
    if not misses_one or not reported_cuda.newest_without_extra:
        return None
    return Problem(possible=True, cause=WITHOUT_EXTRA, evidence=message_evidence(*lines, most=1))


_SAME_PATH = Fix(
    "Print the loader path where it works, and set the same before the other program starts (an IDE: start it there, "
    "or set the variable in its run configuration; RStudio Server: rsession-ld-library-path in rserver.conf)",
    ("echo $LD_LIBRARY_PATH",),
)


_NOT_OPENED = ("library-not-opened", "loader-error")
_OF_CONDA, _ANY_FOLDER = "$CONDA_PREFIX/lib", "/folder/of/it"


def _named_folder(context: Context, toolkit: str = "") -> str:
    """The folder of the libraries that a text names, or that of the environment of conda in which it is; else empty."""
    folders = context.log.values("loader-folder", "folder")
    searched = ":".join(context.log.values("loader-path", "path")).split(":")
    from_conda = any(one.installer == "conda" for one in value_or(context.facts.python.packages, ()))
    if from_conda or (context.log.has("conda-environment") and not folders and not toolkit):
        return _OF_CONDA
    return next((one for one in reversed(folders) if one not in searched), "")


def _add_to_path(context: Context) -> tuple[Fix, ...]:
    """Let the loader find libraries that a text shows to be installed."""
    if context.remedies.os == "windows":
        ignored = "Python 3.8 and later, and conda's from 3.7.2, ignore PATH for the DLLs of extension modules: "
        folder = "python -c \"import os; os.add_dll_directory(os.environ['CUDA_PATH'] + r'\\bin')\""
        return (
            on_windows_path("CUDA's bin folder", "%CUDA_PATH%\\bin"),
            Fix(f"{ignored}install CUDA with conda, or name the folder in the program", (folder,)),
        )
    cuda: ReportedCuda | None = value_or(inputs.fetch("reported_cuda", context), None)
    missing = {name for name, _ in context.log.libraries(*_NOT_OPENED) if not name.startswith("libcuda.")}
    # before 11, a library's name tells the CUDA, and with it the folder; the link may be to another one
    is_exact = cuda is not None and "." in minor(cuda.wanted) and at_least(cuda.wanted, "11") is False
    toolkit = f"/usr/local/cuda-{minor(cuda.wanted)}/lib64" if cuda and cuda.not_opened and is_exact else ""
    folder = _named_folder(context, toolkit) or toolkit or _ANY_FOLDER
    conda = folder == _OF_CONDA
    named = " -o ".join(f"-name '{one}'" for one in sorted(missing)[:2] or ("libcudart.so*", "libcudnn.so*"))
    find = f"find / {named} 2>/dev/null"
    if context.log.has("started-elsewhere") and not conda:  # ldconfig(8)
        text = (
            "Find their folders, and name them to the loader for all programs: an IDE or a service reads no ~/.bashrc"
        )
        everywhere = f"echo {folder} | sudo tee /etc/ld.so.conf.d/cuda.conf && sudo ldconfig"
        return (Fix(text, (find, everywhere)),)
    text = "Find them, and add their folders to the loader path before Python starts"
    return (Fix(text, (find, first_on_loader_path(folder))),)


CUDA_PATH = finding(
    "cuda.lib-path",
    layer="CUDA",
    title="The CUDA libraries are installed, but the loader does not find them",
    fixes=_add_to_path,
    explained_by=("tf.install-damaged",),
    pointless_after=("tf.shadowed",),  # the library that would open them is not the one of that module
    symptoms=(symptoms.CUDA_NOT_OPENED, symptoms.UNNAMED_DLL),
    docs=PIP_GUIDE,
)
_CUPTI = "/usr/local/cuda/extras/CUPTI/lib64"  # where the toolkit has it (CUPTI documentation, "Usage")


@CUDA_PATH.sign()
def profiler_without_cupti(messages: MessageLog, os: str | None = None) -> Problem | None:
    """A step is profiled, and TensorFlow 1 dies without CUPTI, which a toolkit has in a folder of its own."""
    refused = messages.all("library-not-opened") if messages.has("trouble-said", "failure-said") else ()
    alone = (
        refused if all("cupti" in one.values.get("library", "") for one in refused) else ()
    )  # nothing else is missed
    text = "Add CUPTI's folder to the loader path before Python starts, or profile no step"
    add = Fix(text, (first_on_loader_path(_CUPTI),))
    return Problem(
        title="CUPTI, which the profiler needs, is not found",
        cause="the toolkit has it outside of the folder of the other libraries; without it the first traced step ends "
        "the process",
        evidence=message_evidence(*(messages.all("cupti-missing") or alone)),
        fixes=() if os == "windows" else (add,),
        sure=True,
    )


@CUDA_PATH.sign()
def cuda_not_on_path(
    context: Context, gpu_release: Release, cuda_sonames: Sonames, cudnn_sonames: Sonames = ()
) -> Problem | None:
    """The right files are not on the loader path, or come after one that cannot be loaded."""
    return not_on_path(context, cuda_sonames, gpu_release, NOT_THE_DRIVER, beside=in_state(cudnn_sonames, "off path"))


# https://www.tensorflow.org/install/pip of 2023: conda's cudatoolkit, pip's cuDNN, and the script that conda runs
_PIPS = '"$CONDA_PREFIX"/lib/python3*/site-packages/nvidia/*/lib'
_AT_ACTIVATION = Fix(
    "In the activated environment, have their folders put on the loader path whenever it is activated",
    (
        'mkdir -p "$CONDA_PREFIX"/etc/conda/activate.d',
        f"""echo 'export LD_LIBRARY_PATH="$CONDA_PREFIX/lib:$(ls -d {_PIPS} 2>/dev/null | paste -sd: -)"""
        """${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"' >> "$CONDA_PREFIX"/etc/conda/activate.d/env_vars.sh""",
        '. "$CONDA_PREFIX"/etc/conda/activate.d/env_vars.sh',
    ),
)


@CUDA_PATH.sign(unless=("cuda.version-mismatch", *NO_GPU_SIDE))
def conda_has_both(
    messages: MessageLog,
    os: str,
    reported_cuda: ReportedCuda,
    reported_cudnn: ReportedCudnn,
    cudnn_installed: tuple[CudnnFile, ...],
    variables: Variables | None = None,
) -> Problem | None:
    """Commands put both into conda's environment, whose folder the loader does not search by itself."""
    cudas = [one for one in reported_cuda.matching if "cudatoolkit" in one[1]]
    files = [(one.version or "", one.path) for one in cudnn_installed if one.source in ("conda", "pip")]
    on_path = messages.has("loader-path") or "LD_LIBRARY_PATH" in (variables or {})
    failed = (*reported_cudnn.unnamed, *messages.all("cudart-not-found"))
    if os == "windows" or on_path or not (failed and cudas and files and reported_cudnn.same_major):
        return None
    installed = (evidence(f"{name} {found[0]}", found[1]) for name, found in (("CUDA", cudas[0]), ("cuDNN", files[0])))
    return Problem(
        cause="conda puts its libraries into a folder that the loader does not search, and a new terminal forgets "
        "LD_LIBRARY_PATH",
        evidence=(*message_evidence(*failed, most=2), *installed),
        fixes=(_AT_ACTIVATION,),
    )


_FORGOTTEN = (
    *("gpu-libraries-not-opened", "no-gpu-registered", "library-not-opened", "loader-error"),
    *("cudart-not-found", "linux-driver-in-wsl"),  # the latter is what somebody thinks of
)


@CUDA_PATH.sign(unless=("cuda.version-mismatch", *NO_GPU_SIDE))
def extra_not_found_by_release(
    context: Context,
    messages: MessageLog,
    gpu_release: Release,
    packages: Packages = (),
    devices: Devices | None = None,
) -> Problem | None:
    """A release that is known not to find what its own extra installs, and no other reason for it."""
    bug = next(filter(forgets_folders, context.matrix.issues_for(gpu_release, extra=True)), None)
    failed, by_extra = messages.all("gpu-libraries-not-opened"), messages.all("asked-for-extra")
    wheels = any(re.fullmatch(r"nvidia-[a-z-]+-cu\d+", one.name) for one in packages)
    # a log that is there from its first line, and does not miss libcudart: CUDA is installed
    from_start = {"absl-init", "onednn", "cpu-features"} & {*messages.values("harmless", "what")}
    installed = by_extra or wheels or (from_start and not messages.has("cudart-not-found"))
    no_gpu = failed or (devices is not None and not lists_gpu(devices))
    named = [name for name, _ in messages.libraries("library-not-opened", "loader-error")]
    # with all of them forgotten, libcudart is, too, which TensorFlow takes for a missing driver
    alone = messages.speaks_only_of(*_FORGOTTEN) and all(name.startswith("libcusolver") for name in named)
    if bug is None or not installed or not no_gpu or not alone:
        return None
    return Problem(
        title=f"TensorFlow {gpu_release.version}: {bug.title}",
        cause=bug.symptom,
        evidence=message_evidence(*failed, *by_extra, most=2),
        fixes=(*without_bug(context, gpu_release, bug), PIP_FOLDERS),
        sure=bool(by_extra or wheels),
    )


@CUDA_PATH.sign(unless=("cuda.version-mismatch", *NO_GPU_SIDE))
def cuda_not_opened_though_installed(
    context: Context, messages: MessageLog, reported_cuda: ReportedCuda, gpu_release: Release | None = None
) -> Problem | None:
    """Something of CUDA cannot be opened, although the right version is installed."""
    cuda = reported_cuda
    if not cuda.fails or libraries.requested_in_vain(messages, cuda, gpu_release):
        return None
    if not cuda.matching and not libraries.known_to_be_installed(messages, gpu_release):
        return None
    by_pip = libraries.from_pip(messages, gpu_release, cuda)
    elsewhere = "by the extra and-cuda" if by_pip else "another program finds it"
    where = ", ".join(dict.fromkeys(where for _, where in cuda.matching)) or elsewhere
    there = next((version for version, _ in cuda.matching), cuda.wanted)
    name = f"CUDA {minor(there)}" if there else "CUDA"
    compare = () if cuda.matching or by_pip or context.remedies.os == "windows" else (_SAME_PATH,)
    return Problem(
        cause=f"{name} is installed ({where}), but not where the loader searches. {NOT_THE_DRIVER}",
        evidence=cuda.evidence,
        fixes=(PIP_FOLDERS,) if by_pip else (*compare, *_add_to_path(context)),
    )


# ----------------------------------------------------------------------------------------------------------------------
# The same questions about cuDNN.


_DISABLES = "TensorFlow disables all GPUs if cuDNN cannot be loaded"


def _same_minor(messages: MessageLog, release: Release | None = None) -> bool:
    """Whether a later minor version is refused, too: old releases compare "compatibility versions"."""
    own = release is not None and only_its_minor(release)
    return own or any("compatibility" in one.text for one in messages.all("cudnn-version-differs"))


def _that_serves(context: Context, needed: str) -> tuple[Fix, ...]:
    """Install a cuDNN that serves a TensorFlow compiled with `needed`; nothing where one is there."""
    reported = value_or(inputs.fetch("reported_cudnn", context), None)
    release = value_or(inputs.fetch("gpu_release", context), None)
    later = minor(needed) if _same_minor(context.log, release) else major(needed)
    there = [version for version, _ in reported.installed] if reported else []
    if any(version.startswith(later) and at_least(version, minor(needed)) for version in there):
        return ()
    gpus = [card.compute_capability for card in value_or(inputs.fetch("cards", context), ())]
    limit = dropped_by(context.matrix, needed, "12", gpus)  # which has no kernels for the GPU
    if major(needed) == "9":  # of pip, which PyTorch pins to another one
        package = f"nvidia-cudnn-cu12>={minor(needed)},<{limit or '10'}"
        text = f"Install cuDNN {minor(needed)} or later; in an environment without PyTorch, which requires its own"
        return context.remedies.installing(text, package)
    upto = f" before {limit}" if limit and major(limit) == major(needed) else ""
    of_cuda = f" for CUDA {minor(release.cuda)}" if release and release.cuda else ""
    text = f"Install cuDNN {needed}, or a later {later}.x{upto}{of_cuda}, in place of the one that is loaded"
    return (Fix(f"{text}: https://developer.nvidia.com/cudnn-archive"),)


def _wrong_first(context: Context) -> Fix:
    """How to find the cuDNN that is loaded in place of a right one; no root is needed."""
    loaded = next(map(dotted, context.log.values("cudnn-version-differs", "runtime")), None)
    text = (
        f"{f'cuDNN {loaded}' if loaded else 'The cuDNN that is loaded'} comes from a folder that is searched first "
        "(conda's or pip's cuDNN), or with a package that is imported first (PyTorch): find it and the right one, and "
        "put the folder of the right one first on the loader path (Windows: PATH)"
    )
    look = "ldconfig -p | grep libcudnn; echo $LD_LIBRARY_PATH", "find / -name 'libcudnn.so*' -ls 2>/dev/null"
    listed = context.remedies.filtered("python3 -m pip list", "cudnn", "torch")
    if context.remedies.os == "windows":
        return Fix(text, ("where.exe cudnn64_*.dll", listed))
    return Fix(text, (*look, listed, first_on_loader_path("/folder/of/it")))


_BESIDE = (
    "Install cuDNN {0} for the installed CUDA, beside what is there, and add its folder to the loader path (Windows: "
    "PATH); another major version does not serve, nor does a link to it: https://developer.nvidia.com/cudnn-archive"
)


def _absent(context: Context) -> str | None:
    """The major version of the cuDNN that the loader does not find, where nothing shows that one is loaded."""
    reported: ReportedCudnn | None = value_or(inputs.fetch("reported_cudnn", context), None)
    if reported is None or not reported.not_opened or context.log.has("cudnn-version-differs"):
        return None
    return major(reported.wanted) or None


def _right_first(context: Context) -> Fix:
    absent = _absent(context)
    return Fix(_BESIDE.format(absent)) if absent else _wrong_first(context)


def _with_its_cudnn(context: Context, release: Release | None) -> tuple[Fix, ...]:
    """The release and its libraries; where none is known, one for the cuDNN that is looked for, and for no other."""
    right, absent = install_libraries(context), _absent(context)
    if absent and release is None:
        return tuple(fix for fix in right if f"cuDNN {absent}" in fix.text)
    return right or context.remedies.beside_the_wheels("its TensorFlow takes its cuDNN")[:1]


def _one_version(context: Context) -> tuple[Fix, ...]:
    remedies, wrong = context.remedies, _right_first(context)
    compiled = next(map(dotted, context.log.values("cudnn-version-differs", "compiled")), None)
    release = value_or(inputs.fetch("gpu_release", context), None)
    if release and takes_cudnn_7_0_alone(release):  # that of Linux: the wheels of Windows name the major version alone
        row = context.matrix.tensorflow(release.version, "linux_x86_64", release.package)
        compiled = compiled or (row.cudnn if row else None)
    # neither pip nor an image brings it for the release that is there
    if compiled and not (context.probed or remedies.image or remedies.kept_release()):
        return (*_that_serves(context, compiled), wrong)
    right = _with_its_cudnn(context, release)
    return (*right, *(() if context.probed else (wrong,)))


CUDNN_VERSION = finding(
    "cudnn.version-mismatch",
    layer="cuDNN",
    title="cuDNN is installed, but not a version that TensorFlow can use",
    cause="within a major version, TensorFlow works with the cuDNN that it was compiled with, and with later ones",
    fixes=_one_version,
    explained_by=("tf.install-damaged",),
    symptoms=(symptoms.CUDNN_NOT_OPENED, symptoms.CUDNN_HANDLE),
    docs=libraries.CUDNN_GUIDE,
)


@CUDNN_VERSION.sign(conclusive=False)
def other_cudnn(
    context: Context,
    gpu_release: Release,
    cudnn_sonames: Sonames,
    cudnn_runtime: str | None = None,
    cudnn_installed: tuple[CudnnFile, ...] = (),
) -> Problem | None:
    """Another major version, or a minor version older than the one compiled with."""
    wanting = in_state(cudnn_sonames, "other version", "absent")
    on_disk = next(((file.version, file.path) for file in cudnn_installed if file.version), (None, ""))
    found, where = (cudnn_runtime, context.source("cudnn.runtime")) if cudnn_runtime else on_disk
    compiled = gpu_release.cudnn
    if found is None or compiled is None:
        return None
    same_major = major(found) == major(compiled)
    # a later minor version serves, another major one does not
    if same_major and (wanting or at_least(found, minor(compiled)) is not False):
        return None
    if not same_major and not wanting:
        return None
    needs = f"TensorFlow {gpu_release.version} needs {compiled} or a later {major(compiled)}.x"
    seen = evidence(f"cuDNN {found}", where, f"cuDNN {compiled}", libraries.needed_by(gpu_release))
    missing = libraries.missing_evidence(context, wanting, gpu_release)
    return Problem(title=f"cuDNN {found} is installed, but {needs}", evidence=(seen, *missing))


@CUDNN_VERSION.sign(unless=NO_GPU_SIDE)
def comparison_message(messages: MessageLog) -> Problem | None:
    """TensorFlow compares the version loaded with the one compiled with; cuDNN does so with those of its parts."""
    differs = messages.all("cudnn-version-differs")
    mixed = [m for m in messages.all("cudnn-status") if "VERSION_MISMATCH" in m.text]
    if not (differs or mixed):
        return None
    runtime, compiled = (next(iter(messages.values("cudnn-version-differs", n)), None) for n in ("runtime", "compiled"))
    known = runtime and compiled and compiled.strip(".")
    old_rule = "this TensorFlow works with the minor version of cuDNN alone that it was compiled with"
    return Problem(
        title=f"cuDNN {runtime} is loaded, but TensorFlow was compiled with {known}" if known else None,
        cause=old_rule if _same_minor(messages) else None,
        evidence=message_evidence(*differs, *mixed, *messages.all("no-dnn-library"), most=3),
    )


@CUDNN_VERSION.sign(unless=NO_GPU_SIDE)
def other_cudnn_reported(
    messages: MessageLog,
    reported_cudnn: ReportedCudnn,
    gpu_release: Release | None = None,
    devices: Devices | None = None,
) -> Problem | None:
    """cuDNN cannot be opened, or is refused when it is first used, and only one that does not serve is installed."""
    cudnn, compiled = reported_cudnn, gpu_release.cudnn if gpu_release else None
    no_gpu = gpu_release is not None and devices is not None and not lists_gpu(devices)
    fails = cudnn.not_opened or cudnn.unnamed or (no_gpu and messages.speaks_only_of(*declaration.OF_ANY_CRASH))
    installed = cudnn.installed if cudnn.only_other_major and fails else _older(messages, cudnn, compiled)
    need = _needed(cudnn, gpu_release)
    lines = message_evidence(*cudnn.not_opened, *messages.all("no-dnn-library"), most=3)
    versions = [evidence(f"cuDNN {version}", where, *need) for version, where in installed[:2]]
    return Problem(evidence=(*lines, *versions) if versions else ())


@CUDNN_VERSION.sign(unless=NO_GPU_SIDE)
def cudnn_of_image(
    context: Context, messages: MessageLog, reported_cudnn: ReportedCudnn, devices: Devices | None = None
) -> Problem | None:
    """The image holds another cuDNN than its TensorFlow opens, and no GPU is used."""
    fails = reported_cudnn.not_opened or reported_cudnn.unnamed or (devices is not None and not lists_gpu(devices))
    wrong = context.remedies.wrong_cudnn_of_image() if fails else None
    if wrong is None or "no" in messages.values("container-start", "gpus"):
        return None
    release, cudnn = wrong
    return Problem(
        title=f"The image has cuDNN {cudnn}, but its TensorFlow {release.version} needs cuDNN {release.cudnn}",
        evidence=message_evidence(*messages.all("image-named")[-1:]),
        fixes=(CUDNN_9, *context.remedies.beside_the_wheels("its cuDNN is the one that its TensorFlow opens")[:1]),
    )


def _needed(cudnn: ReportedCudnn, release: Release | None) -> tuple[str, str] | tuple[None, None]:
    """The cuDNN of the release, or the one that is looked for, which may be another program's."""
    compiled = release.cudnn if release else None
    if cudnn.wanted and major(cudnn.wanted) != major(compiled or cudnn.wanted):
        return f"cuDNN {cudnn.wanted}", "the file that is looked for"
    return (f"cuDNN {compiled}", libraries.needed_by(release)) if release and compiled else (None, None)


def _older(messages: MessageLog, cudnn: ReportedCudnn, compiled: str | None) -> libraries.Installed:
    """What is older than the cuDNN compiled with, and refused when it is first used."""
    if compiled is None or not messages.has("no-dnn-library", "cudnn-handle"):
        return ()
    return tuple(one for one in cudnn.same_major if at_least(one[0], minor(compiled)) is False)


CUDNN_MISSING = finding(
    "cudnn.missing",
    layer="cuDNN",
    title="cuDNN is not installed",
    cause=_DISABLES,
    fixes=install_libraries,  # of CUDA, too, so that missing CUDA explains it
    explained_by=("cuda.missing", "cuda.version-mismatch", "tf.install-damaged"),
    pointless_after=("cudnn.version-mismatch", "cudnn.dep-missing"),
    docs=libraries.CUDNN_GUIDE,
)


@CUDNN_MISSING.sign()
def no_cudnn_file(context: Context, gpu_release: Release, cudnn_sonames: Sonames) -> Problem | None:
    """No libcudnn of the wanted major version anywhere."""
    wanting = in_state(cudnn_sonames, "absent", "other version", "unloadable")
    return Problem(evidence=libraries.missing_evidence(context, wanting, gpu_release))


@CUDNN_MISSING.sign(unless=("cudnn.lib-path", "cuda.lib-path", *NO_GPU_SIDE))
def cudnn_not_opened(
    context: Context,
    messages: MessageLog,
    reported_cudnn: ReportedCudnn,
    gpu_release: Release | None = None,
    toolkits: Toolkits = (),
) -> Problem | None:
    """cuDNN cannot be opened, and nothing shows that it is installed."""
    wanted_cuda = gpu_release.cuda if gpu_release else None
    cuda = next((kit for kit in toolkits if libraries.serves(kit.version or "", wanted_cuda or "")), None)
    other_cuda = toolkits and cuda is None  # explains a library that is not named
    lines = (*reported_cudnn.not_opened, *(() if other_cuda else reported_cudnn.unnamed))
    if messages.stops_import and not messages.has("loader-error", "self-check"):
        return None
    beside = f". CUDA {cuda.version}, which is installed, does not contain cuDNN" if cuda else ""
    return Problem(
        title=f"cuDNN is {'' if reported_cudnn.not_opened else 'probably '}missing, or not on the loader path",
        cause=f"{_DISABLES}. The text does not show that it is installed{beside}",
        evidence=message_evidence(*lines, most=3),
        fixes=(*install_libraries(context), tell_apart(context)),
    )


def _find_cudnn(context: Context) -> tuple[Fix, ...]:
    """Let the loader find a cuDNN that a text shows to be installed."""
    if context.remedies.os != "windows":
        reported: ReportedCudnn | None = value_or(inputs.fetch("reported_cudnn", context), None)
        if reported and any("nvidia-cudnn" in where for _, where in reported.same_major):
            return (PIP_FOLDERS,)
        same = (_SAME_PATH,) if context.log.works_in_a_shell else ()
        add = first_on_loader_path(_named_folder(context) or _ANY_FOLDER)
        text = "Find it, and add its folder to the loader path before Python starts"
        return (*same, Fix(text, ("find / -name 'libcudnn*.so*' 2>/dev/null", add)))
    text = "Find it, copy all of its DLLs into CUDA's bin folder, which must be on PATH, and open a new console"
    return (Fix(text, ("where.exe /R C:\\ cudnn*64_*.dll", "where.exe cudart64_*.dll cublas64_*.dll")),)


CUDNN_PATH = finding(
    "cudnn.lib-path",
    layer="cuDNN",
    title="cuDNN is installed, but the loader does not find it",
    cause=_DISABLES,
    fixes=_find_cudnn,
    explained_by=("cuda.lib-path", "tf.install-damaged"),
    pointless_after=("tf.shadowed",),
    symptoms=(symptoms.CUDNN_NOT_OPENED, symptoms.UNNAMED_DLL),
    docs=libraries.CUDNN_GUIDE,
)


@CUDNN_PATH.sign()
def cudnn_not_on_path(context: Context, gpu_release: Release, cudnn_sonames: Sonames) -> Problem | None:
    """Neither installing CUDA nor adding its folder helps against what comes first."""
    return not_on_path(context, cudnn_sonames, gpu_release, _DISABLES, of_cudnn=True)


@CUDNN_PATH.sign(unless=("cudnn.version-mismatch", "cudnn.dep-missing", "cuda.lib-path", *NO_GPU_SIDE))
def cudnn_not_opened_though_installed(messages: MessageLog, reported_cudnn: ReportedCudnn) -> Problem | None:
    """cuDNN, or a part of it, cannot be opened although it is installed; or its parts miss each other."""
    named = messages.libraries("library-not-opened", "cudnn-part-missing", "loader-error")
    parts = [message for name, message in named if libraries.CUDNN_PART.search(name)]
    parts += [message for message in messages.all("cudnn-part-missing") if "Unable to load any" in message.text]
    usable = not reported_cudnn.only_other_major and not messages.has("image-without-cudnn")
    installed = reported_cudnn.installed if usable else ()
    main = [message for message in reported_cudnn.not_opened if message.kind != "self-check"]
    unnamed = reported_cudnn.unnamed_though_installed
    shown = (*(main if installed or libraries.is_said_to_work(messages) else ()), *parts, *unnamed)
    if not shown or (messages.stops_import and not messages.has("loader-error")):
        return None
    versions = (evidence(f"cuDNN {version}", where) for version, where in installed[:1])
    return Problem(
        cause="cuDNN is in a folder that the loader does not search, or its parts are not in the folder of the main "
        "library",
        evidence=(*message_evidence(*main, *parts, *unnamed), *versions),
        sure=bool(parts),
    )


# ----------------------------------------------------------------------------------------------------------------------
# Findings about a cuDNN that is found and cannot be used: a library that it needs, or its handle, is missing.


CUDNN_DEPENDENCY = finding(
    "cudnn.dep-missing",
    layer="cuDNN",
    title="cuDNN is installed, but a library that it needs is not",
    cause="the loader does not load a library if one that it needs cannot be loaded",
    fixes=install_libraries,
    explained_by=("cuda.missing", "cuda.version-mismatch", "tf.install-damaged"),
    docs=libraries.CUDNN_GUIDE,
)
_HELPERS = any_case(r"zlibwapi|libz\.so|libnvrtc|nvrtc64|libcublasLt|cublasLt64|libcublas\.so|libcuda\.so(?!\.)")
_FILE = re.compile(r"[\w./+-]+")
_NAMES_THE_REASON = re.compile(r"Error code (?:126|127|193)|NULL Error|undefined symbol")
_FIND_DEPENDENCIES = Fix(
    "Add the folder of the missing library to the loader path (nvrtc and cublas are parts of CUDA)",
    ("ldd $(find / -name 'libcudnn_cnn*.so*' 2>/dev/null | head -n 1) | grep 'not found'",),
)
_LINK_NVRTC = Fix(  # opened when it is needed, so that ldd does not show it
    "cuDNN 8 opens libnvrtc.so, a name without a version: find CUDA's file, make a link of that name beside it, and "
    "have the folder on the loader path; if there is none, pip's nvidia-cuda-nvrtc-cu11 or -cu12 contains it",
    ("find / -name 'libnvrtc.so*' 2>/dev/null",),
)
_LINK_LIBCUDA = Fix(  # https://github.com/facebookresearch/nougat/issues/105
    "cuDNN 8 opens libcuda.so, a name of the driver's library without a version: make a link of that name beside it",
    (
        "D=$(dirname \"$(ldconfig -p | grep 'libcuda.so.1 .*x86-64' | head -n 1 | sed 's/.*=> //')\")",
        'sudo ln -s libcuda.so.1 "$D/libcuda.so" && sudo ldconfig',
    ),
)
_ZLIB_ON_WINDOWS = (
    Fix("Put zlibwapi.dll, which cuDNN 8.3 to 8.9 need on Windows, and cuDNN's bin folder on PATH"),
    Alternative(
        "Install the versions that TensorFlow 2.10 was tested with, which do not need zlib",
        ("conda install -c conda-forge cudatoolkit=11.2 cudnn=8.1.0",),
    ),
)


@CUDNN_DEPENDENCY.sign(conclusive=False)
def dependency_not_found(context: Context, gpu_release: Release, cudnn_sonames: Sonames) -> Problem | None:
    """A DT_NEEDED entry of libcudnn or of its parts cannot be resolved."""
    unusable = [one for one in in_state(cudnn_sonames, "unloadable") if libraries.good_candidate(one) is None]
    files = [file for library in unusable for file in library.candidates if "not found" in (file.problem or "")]
    hiding = [file for file in files if libraries.hides_wheels(file)]
    return Problem(
        evidence=tuple(
            evidence(str(one.problem), one.path, "found", libraries.needed_by(gpu_release)) for one in files
        ),
        fixes=(*off_library_path(context, on_library_path(hiding)), *install_libraries(context)),
        never_consequence=bool(hiding),
    )


_CUBLAS = re.compile(r"libcublas(?:Lt)?\.so\.(\d+)$")


@CUDNN_DEPENDENCY.sign(unless=("cudnn.version-mismatch", *NO_GPU_SIDE))
def cudnn_for_a_later_cuda(messages: MessageLog, gpu_release: Release) -> Problem | None:
    """cuDNN asks for the cuBLAS of a later CUDA than the one of TensorFlow."""
    of = major(gpu_release.cuda) or ""
    named = ((_CUBLAS.search(name), message) for name, message in messages.libraries("cudnn-part-missing"))
    seen = {found[1]: message for found, message in named if found and at_least(of, found[1]) is False}
    if not seen:
        return None
    text = f"Install in its place cuDNN {gpu_release.cudnn} or a later {major(gpu_release.cudnn)}.x for CUDA {of}"
    apt = f"apt list -a libcudnn{major(gpu_release.cudnn)} 2>/dev/null | grep +cuda{of}"
    return Problem(
        title=f"The cuDNN that is found is for CUDA {max(seen)}, and TensorFlow {gpu_release.version} loads CUDA {of}",
        cause="cuDNN has a build for each CUDA, and loads the cuBLAS of its own",
        evidence=message_evidence(*seen.values()),
        fixes=(Fix(f"{text}; of apt's packages, this lists those", (apt,)),),
        sure=True,
    )


@CUDNN_DEPENDENCY.sign(unless=("cudnn.version-mismatch", *NO_GPU_SIDE))
def dependency_message(context: Context, messages: MessageLog, os: str | None = None) -> Problem | None:
    """A part of cuDNN does not load because of what it needs: zlib on Windows, nvrtc, cublasLt."""
    named = messages.libraries("cudnn-part-missing", "loader-error")
    lines = [message for name, message in named if _needs_another(name, message)]
    lines += [m for m in messages.all("cudnn-status") if "SUBLIBRARY_LOADING_FAILED" in m.text]
    windows = os == "windows" or any(".dll" in message.text.lower() for message in lines)
    asked = " ".join(message.text for message in lines)
    if re.search(r"libcuda\.so(?!\.)", asked):
        link = inputs.WSL_LIBRARIES_FIRST if os == "wsl2" else _LINK_LIBCUDA
        return Problem(evidence=message_evidence(*lines), fixes=(link,), sure=True)
    nvrtc = re.search(r"libnvrtc\.so(?!\.)", asked)
    first = _ZLIB_ON_WINDOWS if windows else (_LINK_NVRTC if nvrtc else _FIND_DEPENDENCIES,)
    return Problem(evidence=message_evidence(*lines), fixes=(*first, *install_libraries(context)))


def _needs_another(name: str, message: Message) -> bool:
    """Whether a line about a part of cuDNN gives another library, or the loader's number for one, as the reason."""
    if name == "libnvrtc.so" or (message.kind == "cudnn-part-missing" and _HELPERS.search(name)):
        return True  # only cuDNN 8 asks for nvrtc without its version
    files = (file for file in _FILE.findall(message.text) if "lib" in file and ".so" in file)
    reason = _NAMES_THE_REASON.search(message.text) or any(map(_HELPERS.search, files))
    return bool(libraries.CUDNN_PART.search(name) and reason)


def _free_memory(context: Context) -> tuple[Fix, ...]:
    doctor = Fix("If memory is free, check that CUDA and cuDNN are those of this release", (context.remedies.doctor(),))
    holders = Fix("See which processes use the GPU's memory, and end them", ("nvidia-smi",))
    if context.probed:
        return holders, growth(context)
    return growth(context), holders, doctor  # what cured most of those who told of their cure


CUDNN_INIT = finding(
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
    docs=libraries.CUDNN_GUIDE,
)
_STATUS = re.compile(r"NOT_INITIALIZED|INTERNAL_ERROR|EXECUTION_FAILED|ALLOC_FAILED")


@CUDNN_INIT.sign(unless=("cudnn.missing", "cudnn.lib-path"))
def no_handle_message(messages: MessageLog) -> Problem | None:
    """The handle cannot be created."""
    status = [message for message in messages.all("cudnn-status") if _STATUS.search(message.text)]
    if not (messages.has("cudnn-handle", "no-dnn-library") or status):
        return None
    lines = messages.all("cudnn-handle", "no-dnn-library", "cublas-handle", "cusolver-handle")
    full = messages.has("out-of-memory", "dst-not-initialized", "other-holder")  # a finding about memory says so itself
    return Problem(evidence=message_evidence(*lines, *status), severity=Severity.WARNING if full else None)


@CUDNN_INIT.sign(conclusive=False)
def no_handle(checks: Checks, messages: MessageLog | None = None) -> Problem | None:
    """The same in a computation of the examination; unknown where there was none."""
    return no_handle_message(messages) if checks and messages else None
