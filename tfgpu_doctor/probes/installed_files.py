"""Packages and their files: what is damaged, which package an error names, and what another folder hides.

RECORD lists every file of a distribution with its size (PyPA specification "Recording installed projects"). Only what
is loaded is compared: modules, shared libraries, and the files that XLA compiles with. Headers, tests and stubs are
removed from images on purpose.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from tfgpu_doctor.facts.distributions import TENSORFLOW
from tfgpu_doctor.facts.facts import DamagedPackage, Fact, FailingFile, Known, Package, Phase, ShadowedModule, Unknown
from tfgpu_doctor.probes.files import names_in, text_in
from tfgpu_doctor.probes.tensorflow_probe import normal, required_name

MOST_NAMED = 5  # files of a package; the number of the others is enough
_ENDINGS = (".py", ".so", ".pyd", ".dll", ".bc")
_PROGRAMS = ("ptxas", "nvlink", "fatbinary")
_NOT_LOADED = ("/tests/", "/test/", "/testing/", "/examples/")
_MODULES = (".py", ".pyc", ".so", ".pyd")


def examine(packages: Fact[tuple[Package, ...]]) -> Fact[tuple[DamagedPackage, ...]]:
    """Compare the files of each package that has a RECORD: is each there, and of the size that was installed?"""
    if isinstance(packages, Unknown):
        return packages
    damaged = (_compare(package) for package in packages.value)
    return Known(tuple(one for one in damaged if one), "RECORD of the installed packages")


def _compare(package: Package) -> DamagedPackage | None:
    """What is damaged; conda's and the distribution's own packages have no RECORD that can be relied on."""
    folder, ending = package.location, f"-{package.version}.dist-info"
    infos = () if folder is None or package.installer == "conda" else names_in(folder)
    info = next((name for name in infos if name.endswith(ending) and normal(name) == package.name), None)
    if folder is None or info is None:
        return None
    missing, overwritten = list[str](), list[str]()
    for path, size in _listed(folder, info):
        try:
            found = os.stat(os.path.join(folder, path)).st_size
        except (FileNotFoundError, NotADirectoryError):
            missing.append(path)
        except OSError:  # not ours to look at
            continue
        else:
            is_source = path.endswith(".py")  # those are edited on purpose
            overwritten += [] if is_source or size in (None, found) else [path]
    if not missing and not overwritten:
        return None
    return DamagedPackage(
        name=package.name,
        version=package.version,
        record=os.path.join(folder, info, "RECORD"),
        missing=tuple(missing[:MOST_NAMED]),
        overwritten=tuple(overwritten[:MOST_NAMED]),
        files=len(missing) + len(overwritten),
    )


def _record(folder: str, info: str) -> list[str]:
    """The lines of a RECORD; none where it cannot be read. Of one that is too long, the last is cut off."""
    text = text_in("/", os.path.abspath(os.path.join(folder, info, "RECORD")))
    return text.rpartition("\n")[0].splitlines()


def _listed(folder: str, info: str) -> Iterator[tuple[str, int | None]]:
    """The files to compare, relative to the folder of the package, with the size that they were installed with."""
    # of the 22,000 rows of TensorFlow 2.21, 20,000 are headers and byte code
    lines = (line for line in _record(folder, info) if "/include/" not in line and ".pyc," not in line)
    with suppress(csv.Error):  # no table
        for row in csv.reader(lines):
            path, size = row[0] if row else "", int(row[2]) if len(row) > 2 and re.fullmatch("[0-9]+", row[2]) else None
            # Nothing is lost with an empty file. All of NVIDIA's wheels share nvidia/__init__.py, which goes with the
            # first of them that is uninstalled.
            if size != 0 and _is_loaded(path):
                yield path, size


def _is_loaded(path: str) -> bool:
    """True if TensorFlow needs such a file; anybody may have written the path: it stays below the packages' folder."""
    name = path.rpartition("/")[2]
    is_inside = not os.path.isabs(path) and not path.startswith("..") and "\0" not in path
    is_library = name.endswith(_ENDINGS) or ".so." in name or name in _PROGRAMS
    return is_inside and is_library and not any(part in f"/{path}" for part in _NOT_LOADED)


# -------------------------------------------------------------------------------------------------------------- errors


def named_in_errors(phases: Iterable[Phase], folders: Sequence[str]) -> Fact[tuple[FailingFile, ...]]:
    """The shared libraries of these site-packages that the error of a phase names, each with the package that has it.

    Where the error comes from a file of tensorflow-plugins/ that it does not name, all of that folder count.
    """
    failed = [one for one in phases if one.outcome == "raised"]
    found: dict[str, FailingFile] = {}
    for folder in folders:
        named = re.compile(
            re.escape(folder.rstrip("/\\")) + r"[\\/]([^\n:'\"]{1,300}?\.(?:so|dylib|dll|pyd)(?:\.\d+)*)\b"
        )
        # an error has python/platform/../x.so, and RECORD python/x.so
        paths = {os.path.normpath(path) for one in failed for path in named.findall(one.exception or "")}
        if not paths and any("_plugin_dir" in line for one in failed for line in one.traceback):
            paths = {f"tensorflow-plugins/{name}" for name in names_in(os.path.join(folder, "tensorflow-plugins"))}
        owners = _owners(folder, paths) if paths else {}
        for path in sorted(paths):
            name, version = owners.get(path, (None, None))
            found.setdefault(os.path.join(folder, path), FailingFile(os.path.join(folder, path), name, version))
    return Known(tuple(found.values()), "errors of the import, RECORD of the installed packages")


def _owners(folder: str, paths: set[str]) -> dict[str, tuple[str, str]]:
    owners: dict[str, tuple[str, str]] = {}
    for info in names_in(folder):
        if info.endswith(".dist-info"):
            owner = (normal(info), info.removesuffix(".dist-info").rpartition("-")[2])
            owners |= dict.fromkeys(paths & {line.partition(",")[0] for line in _record(folder, info)}, owner)
    return owners


# --------------------------------------------------------------------------------------------------- shadowed modules


def examine_shadowed(
    sys_path: Sequence[str],
    packages: Fact[tuple[Package, ...]],
    user_site: str | None,
    environ: Mapping[str, str],
    cwd: str | None = None,
) -> Fact[tuple[ShadowedModule, ...]]:
    """Compare what lies before TensorFlow's folder on `sys_path` with the modules of the packages that it needs.

    The user's own site-packages are left out: pip knows them. So is the module tensorflow, which has facts of its own.
    """
    if isinstance(packages, Unknown):
        return packages
    homes = (one.location for one in packages.value if one.name in TENSORFLOW and one.location in sys_path)
    if (home := next(homes, None)) is None:
        return Known((), "sys.path")
    named = set(map(os.path.abspath, filter(None, environ.get("PYTHONPATH", "").split(os.pathsep))))
    before = [folder for folder in sys_path[: sys_path.index(home)] if folder != user_site or folder in named]
    versions = {(one.name, one.location): one.version for one in packages.value}
    found: dict[str, ShadowedModule] = {}
    for folder, name, owner in _met(before, home, packages.value):
        via, line = ("PYTHONPATH", None) if folder in named else _how(folder, home, cwd or os.getcwd())
        one = ShadowedModule(
            module=_module(name),
            path=os.path.join(folder, name),
            version=versions.get((owner.name, folder)),
            package=owner.name,
            package_version=owner.version,
            via=via,
            line=line,
        )
        found.setdefault(one.module, one)
    return Known(tuple(found.values()), "sys.path")


def _met(before: Sequence[str], home: str, packages: tuple[Package, ...]) -> Iterator[tuple[str, str, Package]]:
    """The modules in these folders that a needed package in `home` has, too: folder, name and that package."""
    inside = {_module(name) for name in names_in(home)} - {"tensorflow", ""}
    names = ((folder, name) for folder in before for name in names_in(folder) if _module(name) in inside)
    met = [(folder, name) for folder, name in names if _is_importable(os.path.join(folder, name))]
    owners = dict(_modules(home, packages)) if met else {}
    yield from ((folder, name, owners[_module(name)]) for folder, name in met if _module(name) in owners)


def _module(name: str) -> str:
    return name.partition(".")[0] if name.endswith(_MODULES) or "." not in name else ""


def _is_importable(path: str) -> bool:
    """True for a module or a package; one without __init__ comes after all installed ones."""
    return path.endswith(_MODULES) or any(os.path.isfile(os.path.join(path, f"__init__{end}")) for end in _MODULES)


def _modules(home: str, packages: tuple[Package, ...]) -> Iterator[tuple[str, Package]]:
    """The modules of each package in `home` that TensorFlow needs, at first or second hand, by RECORD."""
    there = {one.name: one for one in packages if one.location == home}
    needed, new = set[str](), set(there) & set(TENSORFLOW)
    while new:
        needed |= new
        new = {required_name(line) for name in new for line in there[name].requires if "extra" not in line}
        new = (new & set(there)) - needed
    for info in names_in(home):
        if info.endswith(".dist-info") and normal(info) in needed:
            tops = {line.partition(",")[0].partition("/")[0] for line in _record(home, info) if line[:2] != ".."}
            yield from ((module, there[normal(info)]) for module in set(map(_module, tops)) - {""})


def _how(folder: str, home: str, here: str) -> tuple[str | None, int | None]:
    """How a folder came on sys.path, when not through PYTHONPATH: a .pth file, and its line."""
    if folder == here:
        return "current folder", None
    for path in (os.path.join(home, name) for name in names_in(home) if name.endswith(".pth")):
        for number, line in enumerate(text_in("/", os.path.abspath(path)).splitlines(), 1):
            if folder in line and not line.startswith("#"):
                return path, number
    return None, None
