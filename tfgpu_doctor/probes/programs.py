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
    return [entry for entry in _entries(environ) if paths.isabs(entry)]


def find(name: str, environ: Mapping[str, str], *, root: str = "/", more: Iterable[str] = ()) -> str | None:
    """Path of the program `name` in the first folder of PATH, or of `more`, that has it; folders are below `root`.

    A `name` with a folder in it is that path itself.
    """
    system = systems.other(root)
    root = system.root if system else root
    named = systems.paths().dirname(name)
    places = ("",) if named else (below(root, folder) for folder in (*folders(environ), *more))
    for place in places:
        for file in _files(name, system.endings if system else ("",)):
            program = os.path.join(place, file)
            if os.path.isfile(program) and os.access(program, os.X_OK):
                return program
    return None


def missing(name: str, environ: Mapping[str, str]) -> str:
    """Why `find` found nothing: "nvidia-smi is not on PATH"."""
    paths = systems.paths()
    relative = [entry for entry in _entries(environ) if entry and not paths.isabs(entry)]
    passed_over = f"; its relative entries are not searched: {' '.join(dict.fromkeys(relative))}" if relative else ""
    return f"{name} is not on PATH{passed_over}"


def _entries(environ: Mapping[str, str]) -> list[str]:
    """All entries of PATH; on Windows some are quoted."""
    separator = systems.paths().pathsep
    return [entry.strip('"') for entry in environ.get("PATH", os.defpath).split(separator)]


def _files(name: str, endings: Iterable[str]) -> tuple[str, ...]:
    """The names of files that `name` stands for: Windows adds an ending."""
    known = tuple(endings)
    return (name,) if name.lower().endswith(known) else tuple(name + ending for ending in known)
