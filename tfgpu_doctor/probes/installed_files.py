"""Packages whose files are no longer those that were installed, by the RECORD of each.

RECORD lists every file of a distribution with its size (PyPA specification "Recording installed projects"). Only what
is loaded is compared: modules, shared libraries, and the files that XLA compiles with. Headers, tests and stubs are
removed from images on purpose.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Iterator, Sequence

from tfgpu_doctor.probes.files import names_in, read_text
from tfgpu_doctor.probes.tensorflow_probe import normal
from tfgpu_doctor.records.facts import DamagedPackage, Fact, FailingFile, Known, Package, Phase, Unknown

MOST_NAMED = 5  # files of a package; the number of the others is enough
_ENDINGS = (".py", ".so", ".pyd", ".dll", ".bc")
_PROGRAMS = ("ptxas", "nvlink", "fatbinary")
_NOT_LOADED = ("/tests/", "/test/", "/testing/", "/examples/")


def examine(packages: Fact[tuple[Package, ...]]) -> Fact[tuple[DamagedPackage, ...]]:
    """Compare the files of each package that has a RECORD: is each there, and of the size that was installed?"""
    if isinstance(packages, Unknown):
        return packages
    damaged = (_compare(package) for package in packages.value)
    return Known(tuple(one for one in damaged if one), "RECORD of the installed packages")


def named_in_errors(phases: Iterable[Phase], folders: Sequence[str]) -> Fact[tuple[FailingFile, ...]]:
    """The shared libraries of these site-packages that the error of a phase names, each with the package that has it.

    Where the error comes from a file of tensorflow-plugins/ that it does not name, all of that folder count.
    """
    failed = [one for one in phases if one.outcome == "raised"]
    texts = [one.exception or "" for one in failed]
    found: dict[str, FailingFile] = {}
    for folder in folders:
        named = re.compile(
            re.escape(folder.rstrip("/\\")) + r"[\\/]([^\n:'\"]{1,300}?\.(?:so|dylib|dll|pyd)(?:\.\d+)*)\b"
        )
        paths = {path for text in texts for path in named.findall(text)}
        if not paths and any("_plugin_dir" in line for one in failed for line in one.traceback):
            paths = {f"tensorflow-plugins/{name}" for name in names_in(os.path.join(folder, "tensorflow-plugins"))}
        owners = dict(_owners(folder, paths)) if paths else {}
        for path in sorted(paths):
            name, version = owners.get(path, (None, None))
            found.setdefault(os.path.join(folder, path), FailingFile(os.path.join(folder, path), name, version))
    return Known(tuple(found.values()), "errors of the import, RECORD of the installed packages")


def _owners(folder: str, paths: set[str]) -> Iterator[tuple[str, tuple[str, str]]]:
    """The package and its version that list each of these files."""
    for name in names_in(folder):
        if name.endswith(".dist-info"):
            try:
                listed = read_text("/", os.path.abspath(os.path.join(folder, name, "RECORD")))
            except OSError:
                continue
            version = name.removesuffix(".dist-info").rpartition("-")[2]
            yield from ((path, (normal(name), version)) for path in paths if f"\n{path}," in f"\n{listed}")


def _compare(package: Package) -> DamagedPackage | None:
    if package.location is None or (record := _record_of(package)) is None:
        return None
    missing, overwritten = [], []
    for path, size in _listed(record):
        try:
            found = os.stat(os.path.join(package.location, path)).st_size
        except (FileNotFoundError, NotADirectoryError):
            missing.append(path)
        except OSError:  # not ours to look at: nothing is known about it
            continue
        else:
            if size is not None and size != found and not path.endswith(".py"):  # sources are edited on purpose
                overwritten.append(path)
    count = len(missing) + len(overwritten)
    if not count:
        return None
    return DamagedPackage(
        name=package.name,
        version=package.version,
        record=record,
        missing=tuple(missing[:MOST_NAMED]),
        overwritten=tuple(overwritten[:MOST_NAMED]),
        files=count,
    )


def _record_of(package: Package) -> str | None:
    """The RECORD of a package; conda's and the distribution's own packages have none that can be relied on."""
    assert package.location is not None
    if package.installer == "conda":
        return None
    ending = f"-{package.version}.dist-info"
    for name in names_in(package.location):
        if name.endswith(ending) and normal(name) == package.name:
            return os.path.join(package.location, name, "RECORD")
    return None


def _listed(record: str) -> Iterator[tuple[str, int | None]]:
    """The files to compare, relative to the folder of the package, with the size that they were installed with."""
    try:
        whole, _, _ = read_text("/", os.path.abspath(record)).rpartition(
            "\n"
        )  # a list that is too long ends in half a row
        # of the 22,000 rows of TensorFlow 2.21, 20,000 are headers and byte code
        rows = (row for row in whole.splitlines() if "/include/" not in row and ".pyc," not in row)
        yield from _to_compare(csv.reader(rows))
    except (OSError, csv.Error):  # no RECORD, or no table
        return


def _to_compare(rows: Iterable[list[str]]) -> Iterator[tuple[str, int | None]]:
    for row in rows:
        path = row[0] if row else ""
        size = int(row[2]) if len(row) > 2 and row[2].isascii() and row[2].isdecimal() else None
        # Nothing is lost with an empty file. All of NVIDIA's wheels share nvidia/__init__.py, which goes with the
        # first of them that is uninstalled.
        if _is_inside(path) and _is_loaded(path) and size != 0:
            yield path, size


def _is_inside(path: str) -> bool:
    """Whether a path of RECORD, which anybody may have written, stays below the folder of the packages."""
    return bool(path) and not os.path.isabs(path) and not path.startswith("..") and "\0" not in path


def _is_loaded(path: str) -> bool:
    name = path.rpartition("/")[2]
    kind = name.endswith(_ENDINGS) or ".so." in name or name in _PROGRAMS
    return kind and not any(part in f"/{path}" for part in _NOT_LOADED)
