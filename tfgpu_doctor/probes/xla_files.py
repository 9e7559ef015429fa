"""libdevice and ptxas, which XLA needs to compile for a GPU: where this TensorFlow looks, and what lies there.

The order is XLA's own: tsl/platform/cuda_root_path.cc (CandidateCudaRoots), compiler/xla/service/gpu/nvptx_helper.cc
(GetLibdeviceDir: the first root that has the folder nvvm/libdevice), stream_executor/cuda/subprocess_compilation.cc
(FindCudaExecutable: the preferred folder, PATH, then the roots; a ptxas whose version it refuses is passed over).
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tfgpu_doctor.files.reading import read_head
from tfgpu_doctor.plan.install_commands import COMPILER, XLA_LINE, XLA_READS_PACKAGES_SINCE
from tfgpu_doctor.probes import process
from tfgpu_doctor.probes.files import below
from tfgpu_doctor.probes.programs import folders
from tfgpu_doctor.records.facts import Fact, Known, Unknown, XlaFile
from tfgpu_doctor.records.versions import at_least

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


def examine(
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
            version = _version(program, environ) if started else None
            found.append(XlaFile(path=program, via=via, version=version))
    return Known(tuple(found), source)


def _version(program: str, environ: Mapping[str, str]) -> str | None:
    """ "Cuda compilation tools, release 12.5, V12.5.82" in the last lines of --version."""
    found = re.search(
        r"\bV(\d+\.\d+\.\d+)", process.run([program, "--version"], timeout=PTXAS_TIMEOUT, env=environ).stdout
    )
    return found[1] if found else None
