"""Programs on PATH, as a shell finds them, save that nothing is started out of the current directory.

An empty entry of PATH means the current directory, as do "." and other relative ones: they are passed over.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping

from tfgpu_doctor.probes.files import below


def folders(environ: Mapping[str, str]) -> list[str]:
    """The absolute entries of PATH, in their order."""
    return [entry for entry in environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(entry)]


def find(name: str, environ: Mapping[str, str], *, root: str = "/", more: Iterable[str] = ()) -> str | None:
    """Path of the program `name` in the first folder of PATH, or of `more`, that has it; folders are below `root`.

    A `name` with a folder in it is that path itself.
    """
    places = ("",) if os.path.dirname(name) else (below(root, folder) for folder in (*folders(environ), *more))
    for place in places:
        for file in _files(name):
            program = os.path.join(place, file)
            if os.path.isfile(program) and os.access(program, os.X_OK):
                return program
    return None


def missing(name: str, environ: Mapping[str, str]) -> str:
    """Why `find` found nothing: "nvidia-smi is not on PATH"."""
    entries = environ.get("PATH", os.defpath).split(os.pathsep)
    relative = [entry for entry in entries if entry and not os.path.isabs(entry)]
    passed_over = f"; its relative entries are not searched: {' '.join(dict.fromkeys(relative))}" if relative else ""
    return f"{name} is not on PATH{passed_over}"


def _files(name: str) -> tuple[str, ...]:
    """The names of files that `name` stands for: Windows adds an ending."""
    if sys.platform != "win32":
        return (name,)
    endings = os.environ.get("PATHEXT", ".COM;.EXE;.BAT;.CMD").lower().split(os.pathsep)
    return (name,) if name.lower().endswith(tuple(endings)) else tuple(name + ending for ending in endings)
