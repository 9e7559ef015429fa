"""Jupyter's kernels: which interpreter each one starts. Its kernel.json files are read; Jupyter is not needed.

Folders: Jupyter's documentation, "Common Directories and File Locations", Data files; jupyter_client's documentation,
"Kernel specs". A kernel whose first word is a bare python gets the interpreter of Jupyter's own environment.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping

from tfgpu_doctor.files.reading import read_head
from tfgpu_doctor.probes.files import names_in
from tfgpu_doctor.probes.programs import find
from tfgpu_doctor.probes.systems import here
from tfgpu_doctor.records.facts import Fact, Kernel, Known

LARGEST = 1_000_000  # bytes; a kernel.json has some hundred
_BARE = re.compile(r"python(\d(\.\d+)?)?(\.exe)?$")


def examine(environ: Mapping[str, str], prefix: str | None = None) -> Fact[tuple[Kernel, ...]]:
    """Read every Python kernel; `prefix` is the environment under test. Never raises."""
    found: dict[str, Kernel] = {}
    for folder in dict.fromkeys(data_folders(environ, prefix)):
        for name in names_in(os.path.join(folder, "kernels")):
            kernel = read(os.path.join(folder, "kernels", name, "kernel.json"), name, folder, environ)
            if kernel and name.lower() not in found:  # the first folder wins, as in Jupyter
                found[name.lower()] = kernel
    return Known(tuple(found.values()), "kernel.json files in Jupyter's data folders")


def data_folders(environ: Mapping[str, str], prefix: str | None) -> Iterator[str]:
    """Jupyter's data folders, in its order."""
    system = here.other()
    paths, name = here.paths(), system.name if system else "linux"
    yield from (path for path in environ.get("JUPYTER_PATH", "").split(paths.pathsep) if path)
    if environ.get("JUPYTER_DATA_DIR"):
        yield environ["JUPYTER_DATA_DIR"]
    home = environ.get("HOME") or environ.get("USERPROFILE")
    if name == "windows":
        if environ.get("APPDATA"):
            yield os.path.join(environ["APPDATA"], "jupyter")
        yield os.path.join(environ.get("PROGRAMDATA", r"C:\ProgramData"), "jupyter")
    elif home:
        share = environ.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
        yield os.path.join(home, "Library", "Jupyter") if name == "macos" else os.path.join(share, "jupyter")
    for one in (prefix, environ.get("VIRTUAL_ENV"), environ.get("CONDA_PREFIX")):
        if one:
            yield os.path.join(one, "share", "jupyter")
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
    if not _is_python(argv):
        return None
    shown = spec.get("display_name")
    return Kernel(
        name=name,
        display_name=shown[:200] if isinstance(shown, str) else name,
        file=file,
        executable=_resolve(argv[0], folder, environ),
    )


def _is_python(argv: list[str]) -> bool:
    return bool(_BARE.search(os.path.basename(argv[0]))) and any("ipykernel" in word for word in argv)


def _resolve(program: str, folder: str, environ: Mapping[str, str]) -> str:
    if here.paths().isabs(program):
        return program
    windows = here.paths().sep == "\\"
    own = os.path.join(
        os.path.dirname(os.path.dirname(folder)),  # PREFIX/share/jupyter
        *(("python.exe",) if windows else ("bin", "python")),
    )
    if _BARE.match(program) and os.path.exists(own):
        return own
    return find(program, environ) or program
