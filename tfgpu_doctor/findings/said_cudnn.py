"""Rules over what a pasted text says of cuDNN."""

from __future__ import annotations

import re

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.cuda import install_libraries, needed_by
from tfgpu_doctor.findings.cudnn import GUIDE
from tfgpu_doctor.findings.declaration import Problem, evidence, rule
from tfgpu_doctor.findings.message_log import Said, heard
from tfgpu_doctor.findings.said_cuda import SILENCED_BY, which
from tfgpu_doctor.findings.said_libraries import fits
from tfgpu_doctor.matrix.library_names import Library, known_library
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.records.facts import CudnnFile, Message, Package, TfDevice, Toolkit
from tfgpu_doctor.records.report import Fix, Severity

_CUDA = ("cuda.missing", "cuda.version-mismatch", "cuda.lib-path")
_MAIN = re.compile(r"libcudnn\.so|cudnn64_", re.IGNORECASE)
_HELPERS = re.compile(r"zlibwapi|libz\.so|libnvrtc|nvrtc64|libcublasLt|cublasLt64|libcublas\.so", re.IGNORECASE)
_PART = re.compile(r"lib?cudnn_\w+|cudnn_\w+64", re.IGNORECASE)


def _lost(said: Said) -> list[tuple[Library, Message]]:
    """cuDNN's main library, where it could not be opened."""
    return [
        (library, message)
        for name, message in said.libraries("library-not-opened", "loader-error")
        if (library := known_library(name)) and library.component == "cudnn" and _MAIN.match(name)
    ]


def _unnamed(said: Said, release: Release | None) -> tuple[Message, ...]:
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


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


@rule(
    "cudnn.version-mismatch",
    Severity.ERROR,
    "cuDNN is installed, but of another version than TensorFlow needs",
    needs=("derived.told",),
    wants=("derived.gpu_release", "cudnn.installed", "python.packages", "tensorflow.devices"),
    requires=SILENCED_BY,
    docs=GUIDE,
)
def version_mismatch(
    context: Context,
    said: Said,
    release: Release | None,
    installed: tuple[CudnnFile, ...] | None,
    packages: tuple[Package, ...] | None,
    devices: tuple[TfDevice, ...] | None,
) -> Problem | None:
    """cuDNN says both versions itself; or one cannot be opened, or initialised, and another is stated."""
    told = said.all("cudnn-version-differs")
    versions = [m for m in said.all("cudnn-status") if "VERSION_MISMATCH" in m.text]
    lost = _lost(said)
    unnamed = _unnamed(said, release)
    there = _there(installed, packages)
    checked = said.all("self-check")
    wanted = next((library.version for library, _ in lost if library.version), None) or next(
        iter(said.values("self-check", "cudnn")), None
    )
    wanted = wanted or (release.cudnn if release else None)
    other = [one for one in there if wanted and _major(one[0]) != _major(wanted)]
    same = [one for one in there if wanted and _major(one[0]) == _major(wanted)]
    # a cuDNN that opens and is older than the one compiled against is refused when it is first used
    used = said.has("no-dnn-library", "cudnn-handle")
    low = [one for one in same if release and release.cudnn and used and _parts(one[0]) < _parts(release.cudnn)]
    quiet = (
        release is not None and not said.complains and devices is not None and not any(d.kind == "GPU" for d in devices)
    )
    mixed = said.all("cudnn-symbol")  # one part of cuDNN asks another for what that has not
    if not (told or versions or mixed or ((lost or checked or unnamed or quiet) and other and not same) or low):
        return None
    need = f"cuDNN {release.cudnn}" if release and release.cudnn else None
    seen = [*heard(*told, *versions, *mixed, *(m for _, m in lost), *said.all("no-dnn-library"), most=3)]
    seen += [
        evidence(f"cuDNN {version}", where, need, needed_by(release) if release else None)
        for version, where in [*other, *low][:2]
    ]
    compiled = next(iter(said.values("cudnn-version-differs", "compiled")), None)
    runtime = next(iter(said.values("cudnn-version-differs", "runtime")), None)
    title = (
        f"cuDNN {runtime} is loaded, TensorFlow was compiled with {compiled.strip('.')}"
        if compiled and runtime
        else None
    )
    fixes = (
        install_libraries(context, release)
        if release
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


@rule(
    "cudnn.dep-missing",
    Severity.ERROR,
    "cuDNN is there, but a library that it needs is not",
    needs=("derived.told",),
    wants=("host.os", "cudnn.installed"),
    requires=("cudnn.version-mismatch", *SILENCED_BY),
    docs=GUIDE,
)
def dep_missing(
    context: Context, said: Said, os: str | None, installed: tuple[CudnnFile, ...] | None
) -> Problem | None:
    """A part of cuDNN does not load because of what it needs: zlib on Windows, nvrtc, cublasLt."""
    seen = [
        message
        for name, message in said.libraries("cudnn-part-missing", "loader-error")
        if (message.kind == "cudnn-part-missing" and _HELPERS.search(name))
        or (_PART.search(name) and _why(message))
        or name == "libnvrtc.so"  # without a version: only cuDNN 8 asks for it so
    ]
    unversioned = [m for m in said.all("cudnn-part-missing") if _UNVERSIONED.search(m.text)]
    if unversioned:
        return _asks_for_libcuda(unversioned)
    seen += [m for m in said.all("cudnn-status") if "SUBLIBRARY_LOADING_FAILED" in m.text]
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
        evidence=heard(*seen),
        fixes=(*fixes, *context.remedies.reinstall_best("it brings its libraries along from pip")),
    )


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
        evidence=heard(*seen),
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


@rule(
    "cudnn.lib-path",
    Severity.ERROR,
    "cuDNN is installed, but the loader does not find it",
    needs=("derived.told",),
    wants=("derived.gpu_release", "cudnn.installed", "python.packages"),
    requires=("cudnn.version-mismatch", "cudnn.dep-missing", *SILENCED_BY),
    explained_by=("cuda.lib-path",),
    docs=GUIDE,
)
def lib_path(
    context: Context,
    said: Said,
    release: Release | None,
    installed: tuple[CudnnFile, ...] | None,
    packages: tuple[Package, ...] | None,
) -> Problem | None:
    """cuDNN, or a part of it, cannot be opened although it is stated; or its parts miss each other."""
    lost = [m for _, m in _lost(said)]
    parts = [
        m for n, m in said.libraries("library-not-opened", "cudnn-part-missing", "loader-error") if _PART.search(n)
    ]
    loading = [m for m in said.all("cudnn-part-missing") if "Unable to load any" in m.text]
    there = _there(installed, packages) if not said.has("image-without-cudnn") else []
    somewhere = bool(there) or said.has("started-elsewhere", "said-to-be-there")
    if not ((lost and somewhere) or parts or loading) or (said.stops_import and not said.has("loader-error")):
        return None
    return Problem(
        cause="cuDNN lies where the dynamic loader does not look, or its parts lie in another folder than "
        "the main library",
        evidence=(*heard(*lost, *parts, *loading), *(evidence(f"cuDNN {v}", where) for v, where in there[:1])),
        fixes=(
            Fix(
                text="See where it is, and put that folder on the loader's path before Python starts",
                commands=("find / -name 'libcudnn*.so*' 2>/dev/null", "tfgpu doctor"),
            ),
        ),
    )


@rule(
    "cudnn.missing",
    Severity.ERROR,
    "cuDNN is not installed",
    needs=("derived.told",),
    wants=("derived.gpu_release", "cudnn.installed", "python.packages", "cuda.toolkits"),
    requires=("cudnn.version-mismatch", "cudnn.dep-missing", "cudnn.lib-path", *SILENCED_BY),
    explained_by=("cuda.missing", "cuda.version-mismatch"),
    docs=GUIDE,
)
def missing(
    context: Context,
    said: Said,
    release: Release | None,
    installed: tuple[CudnnFile, ...] | None,
    packages: tuple[Package, ...] | None,
    toolkits: tuple[Toolkit, ...] | None,
) -> Problem | None:
    """cuDNN cannot be opened, and nothing says that it is installed."""
    lost = _lost(said)
    # a CUDA of another version explains a library that is not named
    other_cuda = bool(toolkits) and not any(
        fits((release and release.cuda) or "", kit.version or "") for kit in toolkits or ()
    )
    unnamed = () if other_cuda else _unnamed(said, release)
    seen = (*(m for _, m in lost), *said.all("self-check"), *unnamed)
    if not seen or (said.stops_import and not said.has("loader-error", "self-check")):
        return None
    fixes = (
        install_libraries(context, release)
        if release
        else context.remedies.reinstall_best("it brings cuDNN along from pip")
    )
    return Problem(
        cause="TensorFlow gives up every GPU when cuDNN cannot be opened; the text shows no cuDNN, so it is missing or "
        "off the loader's path",
        evidence=heard(*seen),
        fixes=(*fixes, which(context)),
    )


@rule(
    "cudnn.init-failed",
    Severity.ERROR,
    "cuDNN cannot be initialised",
    needs=("derived.said",),
    wants=("derived.gpu_release",),
    requires=("cudnn.missing", "cudnn.lib-path", "cudnn.dep-missing", "cudnn.version-mismatch"),
    explained_by=("memory.*", "gpu.arch-*", "driver.*", *_CUDA),
    docs=GUIDE,
)
def init_failed(context: Context, said: Said, release: Release | None) -> Problem | None:
    """The handle cannot be created although the versions match: usually no memory is left."""
    seen = said.all("cudnn-handle", "no-dnn-library", "cublas-handle", "cusolver-handle")
    status = [
        m
        for m in said.all("cudnn-status")
        if re.search(r"NOT_INITIALIZED|INTERNAL_ERROR|EXECUTION_FAILED|ALLOC_FAILED", m.text)
    ]
    if not (said.has("cudnn-handle", "no-dnn-library") or status):
        return None
    growth = "export TF_FORCE_GPU_ALLOW_GROWTH=true"
    full = said.has("out-of-memory", "dst-not-initialized", "other-holder")  # a finding about memory says so itself
    return Problem(
        severity=Severity.WARNING if full else None,
        cause="mostly no memory of the GPU is left for it: TensorFlow's own pre-allocation or another "
        "process holds it; "
        "else the cuDNN or CUDA is too old for the card",
        evidence=heard(*seen, *status),
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
