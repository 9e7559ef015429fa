"""CUDA toolkits and the CUDA compiler, wherever they were installed, and conda's CUDA packages."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping

from tfgpu_doctor.probes import process, programs
from tfgpu_doctor.probes.cuda_version import nvcc_version, toolkit_version
from tfgpu_doctor.probes.files import below, why
from tfgpu_doctor.probes.systems import here
from tfgpu_doctor.records.facts import Cuda, Fact, Known, Nvcc, Package, Toolkit, Unknown

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
CONDA_NAME = re.compile(
    r"(cuda|cudnn|cudatoolkit|tensorflow|libcu|libnv|nvidia|nccl|tensorrt|_tflow)[\w.-]*|numpy|keras"
)


def examine(root: str = "/", environ: Mapping[str, str] | None = None, prefix: str | None = None) -> Cuda:
    """Look for CUDA below `root`; `prefix` is sys.prefix of the interpreter under test. Never raises."""
    environ = os.environ if environ is None else environ
    system = here.other(root)
    root = system.root if system else root
    return Cuda(
        toolkits=_toolkits(root, environ, prefix),
        nvcc=_nvcc(root, environ),
        conda_packages=_conda_packages(root, environ, prefix),
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


def _conda_packages(root: str, environ: Mapping[str, str], prefix: str | None) -> Fact[tuple[Package, ...]]:
    """conda-meta/NAME-VERSION-BUILD.json; the names tell enough, the files are large."""
    folder = prefix or environ.get("CONDA_PREFIX")
    if not folder:
        return Unknown("the prefix of the interpreter under test is not known")
    meta = f"{folder.rstrip('/')}/conda-meta"
    try:
        names = sorted(os.listdir(below(root, meta)))
    except FileNotFoundError:
        return Known((), f"no {meta}: not a conda environment")
    except OSError as error:
        return Unknown(why(error, meta))
    parts = [name.removesuffix(".json").rsplit("-", 2) for name in names if name.endswith(".json")]
    packages = tuple(
        Package(name=part[0], version=part[1], location=meta, installer="conda")
        for part in parts
        if len(part) == 3 and CONDA_NAME.fullmatch(part[0])
    )
    return Known(packages, meta)
