"""Which DLL Windows would pick for each that TensorFlow loads by name.

TensorFlow calls LoadLibraryExW with LOAD_WITH_ALTERED_SEARCH_PATH (tensorflow/core/platform/windows/load_library.cc),
for which Windows searches the folder of the program, the system folder, Windows' own folder, the current one, and those
of PATH (Microsoft, "Dynamic-link library search order", unpackaged apps). What os.add_dll_directory adds, since
Python 3.8 the only folders in which a module's own imports and ctypes look, counts there no more than PATH does here.
"""

from __future__ import annotations

import ntpath
import os
from collections.abc import Iterator, Mapping, Sequence

from tfgpu_doctor.probes.files import below, names_in
from tfgpu_doctor.records.facts import Candidate, Known, Loader, Soname, Toolkit, Unknown

# cuDNN 8's parts load it, and no CUDA installer brings it; NVIDIA, "Installing zlib", cuDNN 8.9 installation guide.
ZLIB = "zlibwapi.dll"


def examine(
    sonames: Sequence[tuple[str, str]],
    *,
    environ: Mapping[str, str],
    site_packages: Sequence[str],
    toolkits: Sequence[Toolkit],
    executable: str | None = None,
    root: str = "/",
) -> Loader:
    """Look for each DLL by file existence; a fake root holds ``C:`` as a folder."""
    windows = environ.get("SYSTEMROOT", "C:\\Windows")
    search = tuple(dict.fromkeys(entry.strip('"') for entry in environ.get("PATH", "").split(";") if entry.strip()))
    if not sonames:
        return Loader(sonames=Unknown("which libraries this TensorFlow opens is not known"))
    own = [(ntpath.dirname(executable), "folder of Python")] if executable else []
    reach = [
        *own,
        *((folder, "default path") for folder in (ntpath.join(windows, "System32"), windows)),
        *((folder, "PATH") for folder in search if ntpath.isabs(folder)),
    ]
    beyond = [
        (ntpath.join(site, "nvidia", package, "bin"), "pip wheel")
        for site in site_packages
        for package in names_in(below(root, ntpath.join(site, "nvidia")))
    ]
    beyond += [(ntpath.join(kit.path, "bin"), "toolkit") for kit in toolkits]
    prefixes = dict.fromkeys(ntpath.dirname(ntpath.dirname(site)) for site in site_packages)  # above Lib, site-packages
    beyond += [(ntpath.join(prefix, "Library", "bin"), "conda") for prefix in prefixes]
    beyond += [(folder, "cuDNN's installer") for folder in _cudnn_folders(environ, root)]
    found = tuple(_look(name, component, reach, beyond, root) for name, component in sonames)
    return Loader(
        runpath=Unknown("Windows has no RUNPATH"),
        sonames=Known(found, "files in the folders of Python, Windows and PATH"),
    )


def _cudnn_folders(environ: Mapping[str, str], root: str) -> Iterator[str]:
    """C:\\Program Files\\NVIDIA\\CUDNN\\v9.3\\bin\\12.6: NVIDIA's installer puts none of them on PATH."""
    base = ntpath.join(environ.get("PROGRAMFILES", "C:\\Program Files"), "NVIDIA", "CUDNN")
    for version in names_in(below(root, base)):
        folder = ntpath.join(base, version, "bin")
        yield folder
        yield from (ntpath.join(folder, name) for name in names_in(below(root, folder)) if name[:1].isdigit())


def _look(
    name: str, component: str, reach: Sequence[tuple[str, str]], beyond: Sequence[tuple[str, str]], root: str
) -> Soname:
    # cuDNN 8 opens zlib's DLL, which Windows does not have
    lacks_zlib = name.startswith("cudnn64_8") and not any(_has(root, folder, ZLIB) for folder, _ in reach)
    problem = f"opens {ZLIB}, not found" if lacks_zlib else None
    seen = dict.fromkeys(
        (ntpath.join(folder, name), via, near)
        for near, folders in ((True, reach), (False, beyond))
        for folder, via in folders
        if _has(root, folder, name)
    )
    unique = {ntpath.normcase(path): (path, via, near) for path, via, near in reversed(seen)}
    candidates = tuple(
        Candidate(path=path, via=via, reachable=True, problem=problem, effect="later" if problem else None)
        if near
        else Candidate(path=path, via=via, reachable=False)
        for path, via, near in reversed(unique.values())
    )
    winner = next((one.path for one in candidates if one.reachable and not one.problem), None)
    folders = dict.fromkeys(folder for folder, _ in (*reach, *beyond))
    others = tuple(path for folder in folders for path in _other_versions(name, folder, root))
    return Soname(soname=name, component=component, candidates=candidates, winner=winner, other_versions=others)


def _other_versions(name: str, folder: str, root: str) -> Iterator[str]:
    """cudart64_12.dll beside cudart64_110.dll."""
    stem = name.lower().split("_")[0] + "_"
    for other in names_in(below(root, folder)):
        if other.lower().startswith(stem) and other.lower() != name.lower() and other.lower().endswith(".dll"):
            yield ntpath.join(folder, other)


def _has(root: str, folder: str, name: str) -> bool:
    return os.path.isfile(below(root, ntpath.join(folder, name)))
