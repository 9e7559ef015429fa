"""CUDA toolkits and the CUDA compiler, wherever they were installed, and conda's CUDA packages."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence

from tfgpu_doctor.facts.facts import Cuda, Cudnn, CudnnFile, Fact, Known, Nvcc, Soname, Toolkit, Unknown, XlaFile
from tfgpu_doctor.facts.versions import at_least
from tfgpu_doctor.matrix.compatibility import XLA_COMPILER, XLA_READS_PACKAGES_SINCE
from tfgpu_doctor.plan.install_commands import XLA_FILE
from tfgpu_doctor.probes import process, systems
from tfgpu_doctor.probes.driver_child import cuda_version
from tfgpu_doctor.probes.files import below, text_in
from tfgpu_doctor.probes.loader import Listing, below_once, places, split_library_path

# Set by installers, by hand, and by environment modules
VARIABLES = ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_DIR", "CUDATOOLKIT_HOME", "EBROOTCUDA", "EBROOTCUDACORE")
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
TIMEOUT = 5.0  # seconds; nvcc and ptxas need some milliseconds
TAIL = re.compile(r"(/extras/CUPTI/lib64|/lib|/lib64|[\\/]bin)$")  # of folders in PATH and LD_LIBRARY_PATH
# which version a toolkit is, by the files that it brings: nothing is started
HEADER_BYTES = 200_000  # cuda.h has a megabyte; the macro stands in its first tenth
VERSION_FILES = (
    ("version.json", r'"cuda"\s*:\s*\{[^{}]*"version"\s*:\s*"(\d+(?:\.\d+)+)"'),
    ("version.txt", r"CUDA Version (\d+(?:\.\d+)+)"),
    ("include/cuda.h", r"(?m)^\s*#\s*define\s+CUDA_VERSION\s+(\d{4,5})\b"),
    ("targets/*/include/cuda.h", r"(?m)^\s*#\s*define\s+CUDA_VERSION\s+(\d{4,5})\b"),
)
# libcudart.so.12.5.82; a shorter name is a soname (that of all 11.x is 11.0) and tells no version
LIBRARIES = ("lib64/libcudart.so.*", "lib/libcudart.so.*", "targets/*/lib/libcudart.so.*")


def examine(root: str = "/", environ: Mapping[str, str] | None = None, prefix: str | None = None) -> Cuda:
    """Look for CUDA below `root`; `prefix` is sys.prefix of the interpreter under test. Never raises."""
    environ = os.environ if environ is None else environ
    system = systems.other(root)
    root = system.root if system else root
    found = systems.find("nvcc", environ, root=root)
    nvcc = _without(root, found) if found else None
    seen: dict[str, Toolkit] = {}
    for path, via in _places(root, environ, prefix, nvcc):
        if not systems.paths().isabs(path):  # its compiler may be asked: no program of the current directory is started
            continue
        folder = below(root, path)
        real = os.path.realpath(folder)
        if real in seen or not any(glob.glob(os.path.join(glob.escape(folder), mark)) for mark in MARKS):
            continue
        version, source = toolkit_version(real)
        if version is None and (named := OF_WINDOWS.fullmatch(os.path.basename(real))):
            version = named[1]
        seen[real] = Toolkit(path=_without(root, real), version=version, source=_without(root, source), via=via)
    source = "CUDA_HOME and its like, PATH, LD_LIBRARY_PATH, /usr/local, /opt, /usr/lib, conda"
    return Cuda(toolkits=Known(tuple(seen.values()), source), nvcc=_nvcc(root, nvcc, environ))


def _places(root: str, environ: Mapping[str, str], prefix: str | None, nvcc: str | None) -> Iterator[tuple[str, str]]:
    """Yield (path, via) of what may be a toolkit; what the user chose comes first."""
    yield from ((environ[name].rstrip("/\\"), name) for name in VARIABLES if environ.get(name))
    system = systems.other()
    if system:
        yield from system.toolkit_places(environ)
    if nvcc:
        yield _without(root, os.path.dirname(os.path.dirname(os.path.realpath(below(root, nvcc))))), "PATH"
    yield from _named_in_paths(environ)
    start = "" if root == "/" else glob.escape(root.rstrip("/"))
    for pattern, via in FOLDERS if system is None else ():
        yield from ((_without(root, path), via) for path in sorted(glob.glob(start + pattern)))
    for folder in dict.fromkeys(filter(None, (prefix, environ.get("CONDA_PREFIX")))):
        if os.path.isdir(below(root, f"{folder}/conda-meta")):
            yield folder, "conda"


def _named_in_paths(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name in ("PATH", "LD_LIBRARY_PATH"):
        folders = (one.rstrip("/\\") for one in environ.get(name, "").split(systems.paths().pathsep))
        yield from ((TAIL.sub("", one), name) for one in folders if "cuda" in one.lower() and TAIL.search(one))


def _without(root: str, path: str) -> str:
    """Undo :func:`below`."""
    for start in (root, os.path.realpath(root)) if root != "/" else ():
        if path.startswith(start.rstrip("/") + "/"):
            inside = path[len(start.rstrip("/")) :]
            return inside[1:].replace("/", "\\") if inside[2:3] == ":" else inside
    return path


def _nvcc(root: str, path: str | None, environ: Mapping[str, str]) -> Fact[Nvcc]:
    if path is None:
        return Unknown("nvcc is not on PATH")
    asked, version = f"{path} --version", _program_version(below(root, path), environ)
    return Known(Nvcc(path, version), asked) if version else Unknown(f"{asked} tells no version")


def _program_version(program: str, environ: Mapping[str, str]) -> str | None:
    """ "Cuda compilation tools, release 12.5, V12.5.82" in the last lines of --version of nvcc and ptxas."""
    output = process.run([program, "--version"], timeout=TIMEOUT, env=environ).stdout
    found = re.search(r"\bV(\d+\.\d+\.\d+)", output) or re.search(r"release (\d+\.\d+)", output)
    return found[1] if found else None


def toolkit_version(path: str) -> tuple[str | None, str]:
    """Return (version, the file it was read from) of the toolkit in `path`; (None, path) when nothing tells."""
    for pattern, expression in (*VERSION_FILES, *((name, r"\.so\.(\d+\.\d+\.\d+)$") for name in LIBRARIES)):
        for file in sorted(glob.glob(os.path.join(glob.escape(path), pattern))):
            # what tells it: the name of the library behind a link, or the begin of a file
            text = os.path.realpath(file) if pattern in LIBRARIES else text_in("/", file)[:HEADER_BYTES]
            if found := re.search(expression, text):
                return found[1] if "." in found[1] else cuda_version(int(found[1])), file
    return None, path


# -------------------------------------------------------------------------------------------------------------- cudnn

HEADERS = ("cudnn_version.h", "cudnn.h")  # before cuDNN 8 the version stood in cudnn.h
LIBRARY = re.compile(r"libcudnn\.so\.\d+(\.\d+)*|cudnn64_\d+\.dll")
_MACRO = re.compile(r"^\s*#\s*define\s+CUDNN_(MAJOR|MINOR|PATCHLEVEL)\s+(\d+)", re.MULTILINE)


def examine_cudnn(
    opened: tuple[Soname, ...],
    *,
    site_packages: Sequence[str],
    toolkits: Sequence[Toolkit],
    environ: Mapping[str, str],
    root: str = "/",
) -> Cudnn:
    """Find every cuDNN once; those of the libraries that TensorFlow opens come first. Never raises."""
    listing = Listing(root, site_packages)
    paths = [
        path
        for soname in opened
        if LIBRARY.fullmatch(soname.soname)
        for path in (soname.winner, *(one.path for one in soname.candidates), *soname.other_versions)
        if path
    ]
    beyond = (folder for folder, _ in places(site_packages, toolkits, environ, root))
    for folder in (*split_library_path(environ), *beyond):
        paths += [os.path.join(folder, name) for name in listing.names(folder) if LIBRARY.fullmatch(name)]
    found: dict[str, CudnnFile] = {}
    for path in paths:
        real = os.path.realpath(below_once(root, path))
        if real not in found and os.path.isfile(real):
            version, source = _cudnn_version(path, listing, root)
            found[real] = CudnnFile(path=path, version=version, source=source)
    return Cudnn(
        installed=Known(tuple(found.values()), "the loader's places, pip wheels, toolkits and conda"),
        runtime=Unknown("cuDNN was not loaded"),
    )


def _cudnn_version(path: str, listing: Listing, root: str) -> tuple[str | None, str]:
    """From the file name behind the link, the wheel that owns the file, or the header beside its folder."""
    if named := listing.named_version(path):
        return named, "file name"
    if packaged := listing.wheel_version(path):
        return packaged, "pip package"
    beside = os.path.join(os.path.dirname(os.path.dirname(path)), "include")
    for header in (os.path.join(beside, name) for name in HEADERS):
        parts = dict(_MACRO.findall(text_in("/", below_once(root, header))))
        if len(parts) == 3:
            return ".".join(parts[name] for name in ("MAJOR", "MINOR", "PATCHLEVEL")), header
    return None, "neither its name nor a package nor a header tells"


# ---------------------------------------------------------------------------------------------------------- xla files
#
# The order is XLA's own: tsl/platform/cuda_root_path.cc (CandidateCudaRoots), compiler/xla/service/gpu/nvptx_helper.cc
# (GetLibdeviceDir: the first root that has the folder nvvm/libdevice), stream_executor/cuda/subprocess_compilation.cc
# (FindCudaExecutable: the preferred folder, PATH, then the roots; a ptxas whose version it refuses is passed over).

HEADER = "include/third_party/gpus/cuda/cuda_config.h"
DATA_DIR = "--xla_gpu_cuda_data_dir="
PTXAS_ASKED = 4  # versions that are asked for; what lies behind them is not in use


def examine_xla_files(
    tensorflow_dir: str | None,
    version: str | None,
    environ: Mapping[str, str],
    *,
    root: str = "/",
) -> dict[str, Fact[tuple[XlaFile, ...]]]:
    """Look for both, and return fields of Cuda; never raises.

    `version` is the release of the TensorFlow in `tensorflow_dir`, `root` where /usr/local and /opt are looked for.
    """
    if tensorflow_dir is None:
        reason = Unknown("there is no TensorFlow whose XLA could look for them")
        return {"xla_roots": reason, "libdevice": reason, "ptxas": reason}
    roots = tuple(dict.fromkeys(_roots(tensorflow_dir, version, environ, root)))
    source = f"where XLA of {tensorflow_dir} looks"
    folders = tuple(XlaFile(path=path, via=via, problem=_why_no_toolkit(path)) for path, via in roots)
    return {
        "xla_roots": Known(folders, source),
        "libdevice": Known(tuple(_libdevice((*roots, (os.getcwd(), "current folder")))), source),
        "ptxas": Known(tuple(_ptxas(roots, environ)), source),
    }


def _roots(
    tensorflow_dir: str, version: str | None, environ: Mapping[str, str], root: str
) -> Iterator[tuple[str, str]]:
    """The folders that XLA takes for CUDA, in its order, and why."""
    site = os.path.dirname(tensorflow_dir)
    compiler = os.path.join(site, *XLA_COMPILER.split("/"))
    given = re.findall(rf"{DATA_DIR}[\"']?([^\s\"']+)", environ.get("XLA_FLAGS", ""))
    named, line = given[-1] if given else None, os.path.join(site, XLA_FILE)
    if named is None and "XLA_FLAGS" not in environ and os.path.exists(line):  # the line that tfgpu advises
        found = re.search(rf'{DATA_DIR}([^"]+)"', text_in("/", line))
        named = found[1] if found else compiler if os.path.isdir(compiler) else None
    if named:
        yield named, "XLA_FLAGS"
    header = text_in("/", os.path.join(tensorflow_dir, HEADER))  # a build without CUDA has none
    if built := re.search(r'#define TF_CUDA_TOOLKIT_PATH "([^"]+)"', header):
        yield built[1], "the build's toolkit"
    yield below(root, "/usr/local/cuda"), "/usr/local"
    if at_least(version, XLA_READS_PACKAGES_SINCE) is not False:  # of an unknown release as of today's
        yield below(root, "/opt/cuda"), "/opt"
        yield compiler, "pip wheel"
        yield os.path.join(tensorflow_dir, "cuda"), "TensorFlow's own"
        yield os.path.normpath(os.path.join(tensorflow_dir, *[os.pardir] * 4)), "conda"


def _why_no_toolkit(folder: str) -> str | None:
    """Why XLA finds nothing in a folder that it takes for CUDA; None where it finds something."""
    if not os.path.isdir(folder):
        return "no such folder"
    parts = (os.path.join("nvvm", "libdevice"), os.path.join("bin", "ptxas"))
    return None if any(os.path.exists(os.path.join(folder, part)) for part in parts) else f"no {' and no '.join(parts)}"


def _libdevice(roots: tuple[tuple[str, str], ...]) -> Iterator[XlaFile]:
    """XLA takes the first root with the folder, even when the file is not in it; the current folder comes last."""
    for path, via in roots:
        folder = os.path.join(path, "nvvm", "libdevice")
        file = os.path.join(folder, "libdevice.10.bc")
        if os.path.isdir(folder):
            yield XlaFile(path=file, via=via, problem=None if os.path.isfile(file) else "no libdevice.10.bc in it")
        elif via == "current folder" and os.path.isfile(os.path.join(path, "libdevice.10.bc")):
            yield XlaFile(path=os.path.join(path, "libdevice.10.bc"), via=via)


def _ptxas(roots: tuple[tuple[str, str], ...], environ: Mapping[str, str]) -> Iterator[XlaFile]:
    named = [(os.path.join(path, "bin"), via) for path, via in roots]
    preferred = [pair for pair in named if pair[1] == "XLA_FLAGS"]
    on_path = [(folder, "PATH") for folder in systems.folders(environ)]
    found: dict[str, str] = {}
    for folder, via in (*preferred, *on_path, *named):
        program = os.path.join(folder, "ptxas")
        if os.path.isfile(program) and os.access(program, os.X_OK):
            found.setdefault(program, via)
    for number, (program, via) in enumerate(found.items()):
        is_asked = os.path.isabs(program) and number < PTXAS_ASKED  # nothing of the current directory is
        yield XlaFile(path=program, via=via, version=_program_version(program, environ) if is_asked else None)
