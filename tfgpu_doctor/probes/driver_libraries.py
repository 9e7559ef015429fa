"""Every libcuda.so.1 and libnvidia-ml.so.1 in the loader's reach, and the one that it takes."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping

from tfgpu_doctor.probes.files import below
from tfgpu_doctor.probes.ld_so import Hit, LdSo, below_once, split_library_path
from tfgpu_doctor.probes.loader import MACHINES, read_cache
from tfgpu_doctor.probes.systems import here
from tfgpu_doctor.records.facts import Fact, Known, LibraryFile

OUT_OF_REACH = ("/usr/lib/wsl/lib", "/run/opengl-driver/lib")  # WSL2, NixOS: in reach only when configured
NOT_REACHED = "not on the loader path"
STUB = "stub of the CUDA toolkit, not a driver"
_DRIVER_VERSION = re.compile(r"\.so\.(\d{3}\.\d+(?:\.\d+)?)$")  # WSL's libcuda.so.1.1 tells no version


def find(sonames: tuple[str, ...], environ: Mapping[str, str], root: str) -> dict[str, Fact[tuple[LibraryFile, ...]]]:
    """For each soname the files that carry it, the loader's choice first; a fake `root` is taken for a Linux."""
    if system := here.other(root):
        return {soname: system.driver_files(soname, environ) for soname in sonames}
    linker = LdSo(
        machine=MACHINES.get(platform.machine().lower(), "EM_X86_64"),
        library_path=split_library_path(environ),
        cache=read_cache(root),
        root=root,
    )
    return {soname: _linux(soname, linker, root) for soname in sonames}


def reachable(files: Fact[tuple[LibraryFile, ...]]) -> bool:
    """Whether the loader has a file to try at all."""
    return isinstance(files, Known) and any(file.problem != NOT_REACHED for file in files.value)


def _linux(soname: str, linker: LdSo, root: str) -> Fact[tuple[LibraryFile, ...]]:
    """The files in the loader's order, then those that it skips or does not come to.

    One that it does not skip but fails on (an empty file) stands first, although nothing is loaded.
    """
    hits = linker.open(soname, (), all_hits=True).hits
    hits.sort(key=lambda hit: hit.effect == "skipped")
    seen = {os.path.realpath(below_once(root, hit.path)) for hit in hits}
    far = [f"{folder}/{soname}" for folder in OUT_OF_REACH]
    hits += [
        Hit(path, "", NOT_REACHED)
        for path in far
        if os.path.exists(below(root, path)) and os.path.realpath(below(root, path)) not in seen
    ]
    return Known(tuple(_described(hit, linker, root) for hit in hits), "LD_LIBRARY_PATH, ldconfig -p, default folders")


def _described(hit: Hit, linker: LdSo, root: str) -> LibraryFile:
    real = os.path.realpath(below_once(root, hit.path))
    version = _DRIVER_VERSION.search(real)
    stub = f"{STUB}: {real}" if "/stubs/" in hit.path or "/stubs/" in real else None
    return LibraryFile(
        path=hit.path,
        version=version[1] if version else None,
        soname=getattr(linker.check(hit.path), "soname", None),
        problem=hit.problem or stub,
    )
