"""CUDA toolkits and the CUDA compiler, wherever they were installed, and conda's CUDA packages."""

from __future__ import annotations

import glob
import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tfgpu_doctor.files.reading import read_head
from tfgpu_doctor.plan.install_commands import COMPILER, XLA_LINE, XLA_READS_PACKAGES_SINCE
from tfgpu_doctor.probes import process, programs
from tfgpu_doctor.probes.files import below, read_text
from tfgpu_doctor.probes.loader import Listing, below_once, conda_prefixes, places, site_of
from tfgpu_doctor.probes.programs import folders
from tfgpu_doctor.probes.systems import here
from tfgpu_doctor.records.facts import (
    Cuda,
    Cudnn,
    CudnnFile,
    Fact,
    Known,
    Loader,
    Nvcc,
    Toolkit,
    Unknown,
    XlaFile,
    value_or,
)
from tfgpu_doctor.records.versions import at_least

# Set by installers, by hand, and by environment modules (Lmod, EasyBuild, Spack, Cray).
VARIABLES = (
    *("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_DIR", "CUDA_INSTALL_PATH", "CUDA_TOOLKIT_ROOT_DIR"),
    *("CUDATOOLKIT_HOME", "CRAY_CUDATOOLKIT_DIR", "EBROOTCUDA", "EBROOTCUDACORE"),
)
# /usr/lib/cuda and /usr/lib/nvidia-cuda-toolkit are Debian's nvidia-cuda-toolkit, /opt/cuda is Arch's.
FOLDERS = (
    ("/usr/local/cuda*", "/usr/local"),
    ("/opt/cuda*", "/opt"),
    ("/usr/lib/cuda", "/usr/lib"),
    ("/usr/lib/nvidia-cuda-toolkit", "/usr/lib"),
    ("/opt/nvidia/hpc_sdk/Linux_*/*/cuda/[0-9]*", "HPC SDK"),
)
# nvcc.profile lies beside the real compiler; nvcc alone may be a wrapper script in /usr/local/bin.
MARKS = (
    "version.json",
    "version.txt",
    "bin/nvcc.profile",
    "include/cuda.h",
    "lib64/libcudart.so*",
    "lib/libcudart.so.*",
    "bin/cudart64_*.dll",
)
OF_WINDOWS = re.compile(r"v(\d+\.\d+)")  # the folder of NVIDIA's installer
NVCC_TIMEOUT = 5.0  # seconds; it needs some milliseconds


def examine(root: str = "/", environ: Mapping[str, str] | None = None, prefix: str | None = None) -> Cuda:
    """Look for CUDA below `root`; `prefix` is sys.prefix of the interpreter under test. Never raises."""
    environ = os.environ if environ is None else environ
    system = here.other(root)
    root = system.root if system else root
    return Cuda(
        toolkits=_toolkits(root, environ, prefix),
        nvcc=_nvcc(root, environ),
    )


def _toolkits(root: str, environ: Mapping[str, str], prefix: str | None) -> Fact[tuple[Toolkit, ...]]:
    seen: dict[str, Toolkit] = {}
    for path, via in _places(root, environ, prefix):
        if not here.paths().isabs(path):  # its compiler may be asked: no program of the current directory is started
            continue
        folder = below(root, path)
        real = os.path.realpath(folder)
        if real in seen or not any(glob.glob(os.path.join(glob.escape(folder), mark)) for mark in MARKS):
            continue
        version, source = toolkit_version(real)
        if version is None and (named := OF_WINDOWS.fullmatch(os.path.basename(real))):
            version = named[1]
        seen[real] = Toolkit(path=_without(root, real), version=version, source=_without(root, source), via=via)
    return Known(
        tuple(seen.values()), "CUDA_HOME and its like, PATH, LD_LIBRARY_PATH, /usr/local, /opt, /usr/lib, conda"
    )


def _places(root: str, environ: Mapping[str, str], prefix: str | None) -> Iterator[tuple[str, str]]:
    """Yield (path, via) of what may be a toolkit; what the user chose comes first."""
    for name in VARIABLES:
        if environ.get(name):
            yield environ[name].rstrip("/\\"), name
    if system := here.other():
        yield from system.toolkit_places(environ)
    if nvcc := _which(root, environ):
        yield _without(root, os.path.dirname(os.path.dirname(os.path.realpath(below(root, nvcc))))), "PATH"
    yield from _named_in_paths(environ)
    for pattern, via in FOLDERS if system is None else ():
        for path in sorted(glob.glob(_glob_below(root, pattern))):
            yield _without(root, path), via
    for folder in dict.fromkeys(filter(None, (prefix, environ.get("CONDA_PREFIX")))):
        if os.path.isdir(below(root, f"{folder}/conda-meta")):
            yield folder, "conda"


def _named_in_paths(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    tails = ("/bin", "/lib64", "/lib", "/extras/CUPTI/lib64", "\\bin")
    for name in ("PATH", "LD_LIBRARY_PATH"):
        for entry in environ.get(name, "").split(here.paths().pathsep):
            folder = entry.rstrip("/\\")
            if "cuda" in entry.lower():
                yield from ((folder.removesuffix(tail), name) for tail in tails if folder.endswith(tail))


def _glob_below(root: str, pattern: str) -> str:
    return pattern if root == "/" else glob.escape(root.rstrip("/")) + pattern


def _without(root: str, path: str) -> str:
    """Undo :func:`below`."""
    if root == "/":
        return path
    for start in (root, os.path.realpath(root)):
        if path.startswith(start.rstrip("/") + "/"):
            inside = path[len(start.rstrip("/")) :]
            return inside[1:].replace("/", "\\") if inside[2:3] == ":" else inside
    return path


def _which(root: str, environ: Mapping[str, str]) -> str | None:
    """The nvcc that the shell would start, without the fake root."""
    found = programs.find("nvcc", environ, root=root)
    return _without(root, found) if found else None


def _nvcc(root: str, environ: Mapping[str, str]) -> Fact[Nvcc]:
    """The compiler and its version: from the toolkit's version.json, else from the compiler itself."""
    path = _which(root, environ)
    if path is None:
        return Unknown(programs.missing("nvcc", environ))
    program = below(root, path)
    version = nvcc_version(os.path.realpath(program))
    if version:
        return Known(Nvcc(path=path, version=version[0]), _without(root, version[1]))
    done = process.run([program, "--version"], timeout=NVCC_TIMEOUT)
    found = re.search(r"\bV(\d+\.\d+\.\d+)", done.stdout) or re.search(r"release (\d+\.\d+)", done.stdout)
    if found:
        return Known(Nvcc(path=path, version=found[1]), f"{path} --version")
    how = done.error or (
        f"no answer in {NVCC_TIMEOUT:g} s"
        if done.timed_out
        else f"exit code {done.returncode}, no version in its output"
    )
    return Unknown(f"{path} --version: {how}")


# ------------------------------------------------------------------------------------------------------- cuda version
#
# Which version a CUDA toolkit is, from the files that it brings; nothing is started unless none tells.

HEADER_BYTES = 200_000  # cuda.h has a megabyte; the macro stands in its first tenth


def toolkit_version(path: str) -> tuple[str | None, str]:
    """Return (version, the file it was read from) of the toolkit in `path`; (None, path) when nothing tells."""
    steps: tuple[tuple[str, Callable[[str], str | None]], ...] = (
        ("version.json", _from_json),
        ("version.txt", _from_text),
        ("include/cuda.h", _from_header),
        ("targets/*/include/cuda.h", _from_header),
        ("include/cuda_runtime_api.h", _from_header),
        ("lib64/libcudart.so.*", _from_library),
        ("lib/libcudart.so.*", _from_library),
        ("targets/*/lib/libcudart.so.*", _from_library),
        ("bin/nvcc", _from_compiler),
    )
    for pattern, tell in steps:
        # the longest name first: libcudart.so.12.5.82 tells more than libcudart.so.12
        for file in sorted(glob.glob(os.path.join(glob.escape(path), pattern)), key=len, reverse=True):
            if version := tell(file):
                return version, file
    return None, path


def nvcc_version(program: str) -> tuple[str, str] | None:
    """Return (version, file) of the nvcc at the resolved path `program` from the version.json beside its bin folder."""
    file = os.path.join(os.path.dirname(os.path.dirname(program)), "version.json")
    version = _component(file, "cuda_nvcc")
    return (version, file) if version and os.path.basename(os.path.dirname(program)) == "bin" else None


def _component(file: str, name: str) -> str | None:
    try:
        entry = json.loads(_text(file))[name]["version"]
    except (ValueError, KeyError, TypeError, RecursionError):  # an empty file, or of another shape
        return None
    return entry if isinstance(entry, str) else None


def _text(file: str) -> str:
    try:
        return read_head(file, HEADER_BYTES).decode("utf-8", "replace")
    except OSError:  # the next file may tell
        return ""


def _from_json(file: str) -> str | None:
    return _component(file, "cuda")


def _from_text(file: str) -> str | None:
    match = re.search(r"CUDA Version (\d+(?:\.\d+)+)", _text(file))
    return match[1] if match else None


def _from_header(file: str) -> str | None:
    match = re.search(r"^\s*#\s*define\s+CUDA(?:RT)?_VERSION\s+(\d{1,9})\b", _text(file), re.MULTILINE)
    return f"{int(match[1]) // 1000}.{int(match[1]) % 1000 // 10}" if match else None


def _from_library(file: str) -> str | None:
    """libcudart.so.12.5.82; a shorter name is a soname (that of all 11.x is 11.0) and tells no version."""
    match = re.search(r"\.so\.(\d+\.\d+\.\d+)$", os.path.realpath(file))
    return match[1] if match else None


def _from_compiler(file: str) -> str | None:
    if not os.path.isabs(file):  # nothing of the current directory is started
        return None
    match = re.search(r"\bV(\d+\.\d+\.\d+)", process.run([file, "--version"], timeout=5.0).stdout)
    return match[1] if match else None


# -------------------------------------------------------------------------------------------------------------- cudnn
#
# cuDNN on disk: libraries, headers, and the version that each tells.

HEADERS = ("cudnn_version.h", "cudnn.h")  # before cuDNN 8 the version stood in cudnn.h
SYSTEM_INCLUDES = (
    "/usr/include",
    "/usr/include/x86_64-linux-gnu",
    "/usr/include/aarch64-linux-gnu",
    "/usr/local/include",
)
LIBRARY = re.compile(r"libcudnn\.so\.\d+(\.\d+)*|cudnn64_\d+\.dll")
_MACRO = re.compile(r"^\s*#\s*define\s+CUDNN_(MAJOR|MINOR|PATCHLEVEL)\s+(\d+)", re.MULTILINE)


def examine_cudnn(
    loader: Loader,
    *,
    site_packages: Sequence[str],
    toolkits: Sequence[Toolkit],
    environ: Mapping[str, str],
    root: str = "/",
) -> Cudnn:
    """Find every cuDNN; `loader` tells those that TensorFlow could load, the usual places the others. Never raises."""
    libraries = tuple(_libraries(loader, site_packages, toolkits, environ, root))
    headers = tuple(_headers(site_packages, toolkits, environ, root))
    header: Fact[CudnnFile] = (
        Known(headers[0], headers[0].path)
        if headers
        else Unknown("no cudnn_version.h in the include folders of the system, the toolkits, conda or the wheels")
    )
    return Cudnn(
        installed=Known(libraries, "the loader's places, pip wheels, toolkits and conda"),
        header=header,
        runtime=Unknown("cuDNN was not loaded"),
    )


def _libraries(
    loader: Loader, site_packages: Sequence[str], toolkits: Sequence[Toolkit], environ: Mapping[str, str], root: str
) -> Iterator[CudnnFile]:
    """Every libcudnn once, the loader's choice first."""
    listing = Listing(root)
    paths = [
        path
        for soname in value_or(loader.sonames, ())
        if LIBRARY.fullmatch(soname.soname)
        for path in (soname.winner, *(one.path for one in soname.candidates), *soname.other_versions)
        if path
    ]
    beyond = places(site_packages, toolkits, conda_prefixes(site_packages, environ), root)
    for folder in (*value_or(loader.search_path, ()), *(place.folder for place in beyond)):
        paths += [os.path.join(folder, name) for name in listing.names(folder) if LIBRARY.fullmatch(name)]
    seen = set()
    for path in paths:
        real = os.path.realpath(below_once(root, path))
        if real not in seen and os.path.isfile(real):
            seen.add(real)
            version, source = _cudnn_version(path, listing, site_packages, root)
            yield CudnnFile(path=path, version=version, source=source)


def _cudnn_version(path: str, listing: Listing, site_packages: Sequence[str], root: str) -> tuple[str | None, str]:
    """From the file name behind the link, the wheel that owns the file, or the header beside its folder."""
    if named := listing.version(path):
        return named, "file name"
    site = site_of(path, site_packages)
    if site and (packaged := listing.wheel_version(path, site)):
        return packaged, "pip package"
    beside = os.path.join(os.path.dirname(os.path.dirname(path)), "include")
    for name in HEADERS:
        if version := _header_version(os.path.join(beside, name), root):
            return version, os.path.join(beside, name)
    return None, "neither its name nor a package nor a header tells"


def _headers(
    site_packages: Sequence[str], toolkits: Sequence[Toolkit], environ: Mapping[str, str], root: str
) -> Iterator[CudnnFile]:
    own = [environ[name] for name in ("CUDNN_PATH", "CUDNN_HOME", "CUDNN_ROOT") if environ.get(name)]
    bases = [*own, *(kit.path for kit in toolkits), *conda_prefixes(site_packages, environ)]
    includes = [
        *(os.path.join(site, "nvidia", "cudnn", "include") for site in site_packages),
        *(os.path.join(base, "include") for base in bases),
        *SYSTEM_INCLUDES,
    ]
    for folder in dict.fromkeys(includes):
        for name in HEADERS:
            path = os.path.join(folder, name)
            if version := _header_version(path, root):
                yield CudnnFile(path=path, version=version, source="header")


def _header_version(path: str, root: str) -> str | None:
    try:
        text = read_text("/", below_once(root, path))
    except OSError:  # most of the places have none
        return None
    parts = dict(_MACRO.findall(text))
    names = ("MAJOR", "MINOR", "PATCHLEVEL")
    return ".".join(parts[name] for name in names) if all(name in parts for name in names) else None


# ---------------------------------------------------------------------------------------------------------- xla files
#
# libdevice and ptxas, which XLA needs to compile for a GPU: where this TensorFlow looks, and what lies there.
#
# The order is XLA's own: tsl/platform/cuda_root_path.cc (CandidateCudaRoots), compiler/xla/service/gpu/nvptx_helper.cc
# (GetLibdeviceDir: the first root that has the folder nvvm/libdevice), stream_executor/cuda/subprocess_compilation.cc
# (FindCudaExecutable: the preferred folder, PATH, then the roots; a ptxas whose version it refuses is passed over).

HEADER = "include/third_party/gpus/cuda/cuda_config.h"
DATA_DIR = "--xla_gpu_cuda_data_dir="
_NAMED = re.compile(r'--xla_gpu_cuda_data_dir=([^"]+)"')  # in a line of Python
PTXAS_TIMEOUT = 5.0  # seconds; it needs some milliseconds
PTXAS_ASKED = 4  # versions that are asked for; what lies behind them is not in use


@dataclass(frozen=True)
class XlaFiles:
    """The answers, as they stand in `Cuda`."""

    xla_roots: Fact[tuple[XlaFile, ...]]
    libdevice: Fact[tuple[XlaFile, ...]]
    ptxas: Fact[tuple[XlaFile, ...]]


def examine_xla_files(
    tensorflow_dir: str | None,
    version: str | None,
    environ: Mapping[str, str],
    *,
    cwd: str | None = None,
    root: str = "/",
) -> XlaFiles:
    """Look for both; `version` is the release of the TensorFlow in `tensorflow_dir`. Never raises.

    `root` is where /usr/local and /opt are looked for.
    """
    if tensorflow_dir is None:
        reason = Unknown("there is no TensorFlow whose XLA could look for them")
        return XlaFiles(xla_roots=reason, libdevice=reason, ptxas=reason)
    here = os.getcwd() if cwd is None else cwd
    roots = tuple(dict.fromkeys(_roots(tensorflow_dir, version, environ, root)))
    source = f"where XLA of {tensorflow_dir} looks"
    return XlaFiles(
        xla_roots=Known(
            tuple(XlaFile(path=path, via=via, problem=_why_no_toolkit(path)) for path, via in roots), source
        ),
        libdevice=Known(tuple(_libdevice((*roots, (here, "current folder")))), source),
        ptxas=_ptxas(roots, environ, source),
    )


def data_dir(environ: Mapping[str, str]) -> str | None:
    """The folder that XLA_FLAGS names; the last one counts."""
    try:
        words = shlex.split(environ.get("XLA_FLAGS", ""))
    except ValueError:  # an open quote
        words = environ.get("XLA_FLAGS", "").split()
    named = [word.removeprefix(DATA_DIR) for word in words if word.startswith(DATA_DIR)]
    return named[-1] if named and named[-1] else None


def _roots(
    tensorflow_dir: str, version: str | None, environ: Mapping[str, str], root: str
) -> Iterator[tuple[str, str]]:
    """The folders that XLA takes for CUDA, in its order, and why."""
    site = os.path.dirname(tensorflow_dir)
    if named := data_dir(environ) or _set_at_start(site, environ):
        yield named, "XLA_FLAGS"
    if built := _toolkit_of_the_build(tensorflow_dir):
        yield built, "the build's toolkit"
    yield below(root, "/usr/local/cuda"), "/usr/local"
    if at_least(version, XLA_READS_PACKAGES_SINCE) is not False:  # of an unknown release as of today's
        yield below(root, "/opt/cuda"), "/opt"
        yield os.path.join(site, *COMPILER.split("/")), "pip wheel"
        yield os.path.join(tensorflow_dir, "cuda"), "TensorFlow's own"
        yield os.path.normpath(os.path.join(tensorflow_dir, *[os.pardir] * 4)), "conda"


def _set_at_start(site: str, environ: Mapping[str, str]) -> str | None:
    """The folder that XLA_FLAGS names once Python has started in an environment with the line that tfgpu advises."""
    try:
        line = read_head(os.path.join(site, XLA_LINE.file), 4096).decode("utf-8", "replace")
    except OSError:
        return None
    named = _NAMED.search(line)
    folder = named[1] if named else os.path.join(site, *COMPILER.split("/"))
    return folder if "XLA_FLAGS" not in environ and (named or os.path.isdir(folder)) else None


def _why_no_toolkit(folder: str) -> str | None:
    """Why XLA finds nothing in a folder that it takes for CUDA; None where it finds something."""
    if not os.path.isdir(folder):
        return "no such folder"
    parts = (os.path.join("nvvm", "libdevice"), os.path.join("bin", "ptxas"))
    return None if any(os.path.exists(os.path.join(folder, part)) for part in parts) else f"no {' and no '.join(parts)}"


def _toolkit_of_the_build(tensorflow_dir: str) -> str | None:
    try:
        header = read_head(os.path.join(tensorflow_dir, HEADER), 20_000).decode("utf-8", "replace")
    except OSError:  # a build without CUDA has no such header
        return None
    found = re.search(r'#define TF_CUDA_TOOLKIT_PATH "([^"]+)"', header)
    return found[1] if found else None


def _libdevice(roots: tuple[tuple[str, str], ...]) -> Iterator[XlaFile]:
    """XLA takes the first root with the folder, even when the file is not in it; the current folder comes last."""
    for path, via in roots:
        folder = os.path.join(path, "nvvm", "libdevice")
        if os.path.isdir(folder):
            file = os.path.join(folder, "libdevice.10.bc")
            yield XlaFile(path=file, via=via, problem=None if os.path.isfile(file) else "no libdevice.10.bc in it")
        elif via == "current folder" and os.path.isfile(os.path.join(path, "libdevice.10.bc")):
            yield XlaFile(path=os.path.join(path, "libdevice.10.bc"), via=via)


def _ptxas(roots: tuple[tuple[str, str], ...], environ: Mapping[str, str], source: str) -> Fact[tuple[XlaFile, ...]]:
    named = [(os.path.join(path, "bin"), via) for path, via in roots]
    preferred = [pair for pair in named if pair[1] == "XLA_FLAGS"]
    on_path = [(folder, "PATH") for folder in folders(environ)]
    found: list[XlaFile] = []
    for folder, via in dict.fromkeys((*preferred, *on_path, *named)):
        program = os.path.join(folder, "ptxas")
        if os.path.isfile(program) and os.access(program, os.X_OK) and not any(one.path == program for one in found):
            started = os.path.isabs(program) and len(found) < PTXAS_ASKED  # nothing of the current directory is
            version = _program_version(program, environ) if started else None
            found.append(XlaFile(path=program, via=via, version=version))
    return Known(tuple(found), source)


def _program_version(program: str, environ: Mapping[str, str]) -> str | None:
    """ "Cuda compilation tools, release 12.5, V12.5.82" in the last lines of --version."""
    found = re.search(
        r"\bV(\d+\.\d+\.\d+)", process.run([program, "--version"], timeout=PTXAS_TIMEOUT, env=environ).stdout
    )
    return found[1] if found else None
