"""Interpreters that may have been meant instead: the activated environment's, Jupyter's kernels, that of pip on PATH.

Nothing is started; an environment is known by its files: pyvenv.cfg, conda-meta, lib/python3.*/site-packages.
"""

from __future__ import annotations

import glob
import json
import os
import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from importlib.util import find_spec

from tfgpu_doctor.facts.distributions import TENSORFLOW
from tfgpu_doctor.facts.facts import Fact, Interpreter, Kernel, Known, OtherPython, Python, Unknown, value_or
from tfgpu_doctor.facts.reading import read_head
from tfgpu_doctor.probes import systems
from tfgpu_doctor.probes.files import names_in
from tfgpu_doctor.probes.systems import find

_DIST_INFO = re.compile(r"(?P<name>.+)-(?P<version>[^-]+)\.(?:dist|egg)-info$")
_CUDA = re.compile(r"nvidia_(cuda_runtime|cudnn)_cu\d+|nvidia_cuda_runtime|nvidia_cudnn|cudatoolkit-|cuda-cudart-")
SITE_PACKAGES = (
    *("lib/python3*/site-packages", "lib64/python3*/site-packages", "Lib/site-packages"),
    *("lib/python3*/dist-packages", "local/lib/python3*/dist-packages"),  # Debian's
)
ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX")
LARGEST = 1_000_000  # bytes; a kernel.json has some hundred
_BARE = re.compile(r"python(\d(\.\d+)?)?(\.exe)?$")


def examine(python: Python, environ: Mapping[str, str]) -> Fact[tuple[OtherPython, ...]]:
    """Describe every other environment than that of `python`, the interpreter under test."""
    if isinstance(python.prefix, Unknown):
        return Unknown("which environment is examined is not known")
    prefix = python.prefix.value
    seen = {os.path.realpath(prefix)}
    described = []
    for path, via in _named(value_or(python.executable, None), prefix, environ):
        folder = _environment_of(path)
        if os.path.realpath(folder) not in seen and os.path.exists(path):
            seen.add(os.path.realpath(folder))
            described.append(describe(path, folder, via))
    return Known(tuple(described), "VIRTUAL_ENV, CONDA_PREFIX, Jupyter's kernels, pip on PATH")


def examine_makers() -> Fact[tuple[Interpreter, ...]]:
    """Describe the Python of tfgpu, if it can create an environment for wheels: one Python that is here for sure."""
    is_usual = sys.maxsize > 2**32 and not sysconfig.get_config_var("Py_GIL_DISABLED")
    can = is_usual and find_spec("ensurepip") is not None  # which Debian has in a package of its own
    version = ".".join(map(str, sys.version_info[:3]))
    return Known((Interpreter(sys.executable, version),) if can and sys.executable else (), "the Python of tfgpu")


def _named(executable: str | None, prefix: str, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Interpreters and who names them; the one that the user has activated comes first."""
    names = ("Scripts\\python.exe", "python.exe") if systems.paths().sep == "\\" else ("bin/python", "bin/python3")
    for variable, folder in _activated(environ).items():
        paths = [os.path.join(folder, name) for name in names]
        yield next((path for path in paths if os.path.exists(path)), paths[0]), variable
    for kernel in value_or(examine_kernels(environ, prefix), ()):
        if systems.paths().isabs(kernel.executable):
            yield kernel.executable, f"kernel {kernel.name}"
    if of_pip := _python_of_pip(executable, environ):
        yield of_pip, "pip on PATH"


def _activated(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that name an activated environment, but for that of tfgpu: it was activated to get the command."""
    own = os.path.realpath(sys.prefix)
    named = {variable: environ.get(variable, "") for variable in ACTIVE}
    return {variable: folder for variable, folder in named.items() if folder and os.path.realpath(folder) != own}


def _environment_of(executable: str) -> str:
    """The environment's folder: where pyvenv.cfg or conda-meta is, else the prefix of the real interpreter.

    A virtual environment's python is a link to another, so that the link itself tells where it belongs.
    """
    for path in (executable, os.path.realpath(executable)):
        folder = os.path.dirname(path)
        prefix = os.path.dirname(folder) if os.path.basename(folder) in ("bin", "Scripts") else folder
        if os.path.exists(os.path.join(prefix, "pyvenv.cfg")) or os.path.isdir(os.path.join(prefix, "conda-meta")):
            return prefix
    return prefix


def describe(executable: str, prefix: str, via: str) -> OtherPython:
    """What is installed in an environment."""
    patterns = (os.path.join(glob.escape(prefix), pattern) for pattern in SITE_PACKAGES)
    folders = [path for pattern in patterns for path in sorted(glob.glob(pattern))]
    names = [name for folder in folders for name in names_in(folder)]
    packages = (
        (match["name"].replace("_", "-").lower(), match["version"]) for match in map(_DIST_INFO.match, names) if match
    )
    tensorflow = next((f"{name} {version}" for name, version in packages if name in TENSORFLOW), None)
    cuda = any(map(_CUDA.match, [*names, *names_in(os.path.join(prefix, "conda-meta"))]))
    return OtherPython(executable=executable, via=via, prefix=prefix, tensorflow=tensorflow, cuda=cuda)


def _python_of_pip(executable: str | None, environ: Mapping[str, str]) -> str | None:
    """The interpreter that `pip` installs for, where the shell's own python is the one under test but pip is not its.

    An interpreter that was named with --python says nothing about the shell.
    """
    pip = find("pip", environ)
    if pip is None or executable is None or executable not in (find("python", environ), find("python3", environ)):
        return None
    try:
        first = read_head(pip, 4096).decode("utf-8", "replace").partition("\n")[0]
    except OSError:
        return None
    named = re.match(r"#!\s*(\S*python[\w.]*)\s*$", first)
    return named[1] if named else None


# ---------------------------------------------------------------------------------------------------- jupyter kernels
#
# Folders: Jupyter's documentation, "Common Directories and File Locations", Data files; jupyter_client's documentation,
# "Kernel specs". A kernel whose first word is a bare python gets the interpreter of Jupyter's own environment.


def examine_kernels(environ: Mapping[str, str], prefix: str | None = None) -> Fact[tuple[Kernel, ...]]:
    """Read every Python kernel; `prefix` is the environment under test. Never raises."""
    found: dict[str, Kernel] = {}
    for folder in dict.fromkeys(data_folders(environ, prefix)):
        for name in names_in(os.path.join(folder, "kernels")):
            kernel = read(os.path.join(folder, "kernels", name, "kernel.json"), name, folder, environ)
            if kernel:
                found.setdefault(name.lower(), kernel)  # the first folder wins, as in Jupyter
    return Known(tuple(found.values()), "kernel.json files in Jupyter's data folders")


def data_folders(environ: Mapping[str, str], prefix: str | None) -> Iterator[str]:
    """Jupyter's data folders, in its order."""
    system = systems.other()
    name = system.name if system else "linux"
    yield from (path for path in environ.get("JUPYTER_PATH", "").split(systems.paths().pathsep) if path)
    if environ.get("JUPYTER_DATA_DIR"):
        yield environ["JUPYTER_DATA_DIR"]
    home = environ.get("HOME") or environ.get("USERPROFILE")
    if name == "windows":
        roots = (environ.get("APPDATA"), environ.get("PROGRAMDATA", r"C:\ProgramData"))
        yield from (os.path.join(root, "jupyter") for root in roots if root)
    elif home:
        share = environ.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
        yield os.path.join(home, "Library", "Jupyter") if name == "macos" else os.path.join(share, "jupyter")
    prefixes = filter(None, (prefix, *_activated(environ).values()))
    yield from (os.path.join(one, "share", "jupyter") for one in prefixes)
    yield from () if name == "windows" else ("/usr/local/share/jupyter", "/usr/share/jupyter")


def read(file: str, name: str, folder: str, environ: Mapping[str, str]) -> Kernel | None:
    """One kernel.json; None when it is no kernel of Python, or not readable."""
    try:
        spec = json.loads(read_head(file, LARGEST).decode("utf-8", "replace"))
    except (OSError, ValueError, RecursionError):  # not there, no JSON, or hostile
        return None
    argv = spec.get("argv") if isinstance(spec, dict) else None
    if not isinstance(argv, list) or not argv or not all(isinstance(word, str) for word in argv):
        return None
    if not _BARE.search(os.path.basename(argv[0])) or not any("ipykernel" in word for word in argv):
        return None
    title = str(spec.get("display_name") or name)[:200]
    return Kernel(name=name, display_name=title, file=file, executable=_resolved(argv[0], folder, environ))


def _resolved(program: str, folder: str, environ: Mapping[str, str]) -> str:
    """The interpreter that Jupyter starts: by a bare name, that of the environment with the kernel's folder."""
    if systems.paths().isabs(program):
        return program
    own = ("python.exe",) if systems.paths().sep == "\\" else ("bin", "python")
    beside = os.path.join(os.path.dirname(os.path.dirname(folder)), *own)  # of PREFIX/share/jupyter
    return beside if _BARE.match(program) and os.path.exists(beside) else find(program, environ) or program
