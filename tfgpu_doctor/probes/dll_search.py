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
    if not sonames:
        return Loader(sonames=Unknown("which libraries this TensorFlow opens is not known"))
    reach = list(_reach(environ, executable))
    beyond = list(_beyond(environ, site_packages, toolkits, root))
    found = tuple(_look(name, component, reach, beyond, root) for name, component in sonames)
    return Loader(
        runpath=Unknown("Windows has no RUNPATH"),
        sonames=Known(found, "files in the folders of Python, Windows and PATH"),
    )


def _reach(environ: Mapping[str, str], executable: str | None) -> Iterator[tuple[str, str]]:
    """The folders that Windows searches, and why, in its order."""
    if executable:
        yield ntpath.dirname(executable), "folder of Python"
    windows = environ.get("SYSTEMROOT", "C:\\Windows")
    yield ntpath.join(windows, "System32"), "default path"
    yield windows, "default path"
    entries = (entry.strip('"') for entry in environ.get("PATH", "").split(";"))
    yield from ((folder, "PATH") for folder in dict.fromkeys(entries) if ntpath.isabs(folder))


def _beyond(
    environ: Mapping[str, str], site_packages: Sequence[str], toolkits: Sequence[Toolkit], root: str
) -> Iterator[tuple[str, str]]:
    """Other folders with CUDA, and whose they are."""
    for site in site_packages:
        wheels = ntpath.join(site, "nvidia")
        yield from ((ntpath.join(wheels, name, "bin"), "pip wheel") for name in names_in(below(root, wheels)))
    yield from ((ntpath.join(kit.path, "bin"), "toolkit") for kit in toolkits)
    prefixes = dict.fromkeys(ntpath.dirname(ntpath.dirname(site)) for site in site_packages)  # above Lib, site-packages
    yield from ((ntpath.join(prefix, "Library", "bin"), "conda") for prefix in prefixes)
    # C:\Program Files\NVIDIA\CUDNN\v9.3\bin\12.6: NVIDIA's installer puts none of them on PATH
    base = ntpath.join(environ.get("PROGRAMFILES", "C:\\Program Files"), "NVIDIA", "CUDNN")
    for folder in (ntpath.join(base, version, "bin") for version in names_in(below(root, base))):
        inner = [ntpath.join(folder, name) for name in names_in(below(root, folder)) if name[:1].isdigit()]
        yield from ((one, "cuDNN's installer") for one in (folder, *inner))


def _look(
    name: str, component: str, reach: Sequence[tuple[str, str]], beyond: Sequence[tuple[str, str]], root: str
) -> Soname:
    # cuDNN 8 opens zlib's DLL, which Windows does not have
    lacks_zlib = name.startswith("cudnn64_8") and not any(_has(root, folder, ZLIB) for folder, _ in reach)
    problem, effect = (f"opens {ZLIB}, not found", "later") if lacks_zlib else (None, None)
    candidates: dict[str, Candidate] = {}
    others: list[str] = []
    stem = name.lower().split("_")[0] + "_"
    for folder, via in (*reach, *beyond):
        if _has(root, folder, name):
            path, near = ntpath.join(folder, name), (folder, via) in reach
            found = (problem, effect) if near else (None, None)
            one = Candidate(path=path, via=via, reachable=near, problem=found[0], effect=found[1])
            candidates.setdefault(ntpath.normcase(path), one)
        for other in names_in(below(root, folder)):  # cudart64_12.dll beside cudart64_110.dll
            lower = other.lower()
            if lower.startswith(stem) and lower.endswith(".dll") and lower != name.lower():
                others.append(ntpath.join(folder, other))
    winner = next((one.path for one in candidates.values() if one.reachable and not one.problem), None)
    return Soname(
        soname=name,
        component=component,
        candidates=tuple(candidates.values()),
        winner=winner,
        other_versions=tuple(dict.fromkeys(others)),
    )


def _has(root: str, folder: str, name: str) -> bool:
    return os.path.isfile(below(root, ntpath.join(folder, name)))
