"""Programs on PATH, as a shell finds them, save that nothing is started out of the current directory.

An empty entry of PATH means the current directory, as do "." and other relative ones: they are passed over.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from tfgpu_doctor.probes import systems
from tfgpu_doctor.probes.files import below


def folders(environ: Mapping[str, str]) -> list[str]:
    """The absolute entries of PATH, in their order."""
    paths = systems.paths()
    entries = environ.get("PATH", os.defpath).split(paths.pathsep)
    return [entry for entry in (one.strip('"') for one in entries) if paths.isabs(entry)]  # on Windows some are quoted


def find(name: str, environ: Mapping[str, str], *, root: str = "/", more: Iterable[str] = ()) -> str | None:
    """Path of the program `name` in the first folder of PATH, or of `more`, that has it; folders are below `root`.

    A `name` with a folder in it is that path itself.
    """
    system = systems.other(root)
    root = system.root if system else root
    endings = system.endings if system else ("",)  # that Windows adds
    files = (name,) if name.lower().endswith(endings) else tuple(name + ending for ending in endings)
    named = systems.paths().dirname(name)
    places = ("",) if named else (below(root, folder) for folder in (*folders(environ), *more))
    for place in places:
        for file in files:
            program = os.path.join(place, file)
            if os.path.isfile(program) and os.access(program, os.X_OK):
                return program
    return None
