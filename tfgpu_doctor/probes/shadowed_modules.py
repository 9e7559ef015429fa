"""Modules that TensorFlow needs and that lie in a folder which comes before that of the installed packages."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from tfgpu_doctor.probes.files import names_in, read_text
from tfgpu_doctor.probes.tensorflow_probe import normal, required_name
from tfgpu_doctor.records.distributions import TENSORFLOW
from tfgpu_doctor.records.facts import Fact, Known, Package, ShadowedModule, Unknown

_ENDINGS = (".py", ".pyc", ".so", ".pyd")


def examine(
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
    tensorflow = next((one for one in packages.value if one.name in TENSORFLOW and one.location in sys_path), None)
    if tensorflow is None or tensorflow.location is None:
        return Known((), "sys.path")
    home = tensorflow.location
    named = {os.path.abspath(entry) for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if entry}
    before = [folder for folder in sys_path[: sys_path.index(home)] if folder != user_site or folder in named]
    met = _met_twice(before, home)
    return Known(_described(met, home, packages.value, named, os.getcwd() if cwd is None else cwd), "sys.path")


def _met_twice(before: Sequence[str], home: str) -> list[tuple[str, str]]:
    """What can be imported from these folders and from TensorFlow's."""
    inside = {_module(name) for name in names_in(home)} - {"tensorflow", ""}
    return [(folder, path) for folder in before for path in _importable(folder) if _module(path) in inside]


def _described(
    met: list[tuple[str, str]], home: str, packages: tuple[Package, ...], named: set[str], here: str
) -> tuple[ShadowedModule, ...]:
    if not met:
        return ()
    owners = dict(_owners(home, packages))
    versions = {(one.name, one.location): one.version for one in packages}
    found: dict[str, ShadowedModule] = {}
    for folder, name in met:
        if (owner := owners.get(_module(name))) is None:
            continue
        via, line = ("PYTHONPATH", None) if folder in named else _how(folder, home, here)
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
    return tuple(found.values())


def _module(name: str) -> str:
    return name.partition(".")[0] if name.endswith(_ENDINGS) or "." not in name else ""


def _importable(folder: str) -> Iterator[str]:
    """Modules and packages of a folder; one without __init__ comes after all installed ones."""
    for name in names_in(folder):
        path = os.path.join(folder, name)
        if name.endswith(_ENDINGS) or any(os.path.isfile(os.path.join(path, f"__init__{end}")) for end in _ENDINGS):
            yield name


def _owners(home: str, packages: tuple[Package, ...]) -> Iterator[tuple[str, Package]]:
    """The modules of each package in `home` that TensorFlow needs, by RECORD."""
    there = {one.name: one for one in packages if one.location == home}
    needed = _needed(there)
    for entry in names_in(home):
        if entry.endswith(".dist-info") and (owner := there.get(normal(entry))) and owner.name in needed:
            for module in _of_record(os.path.join(home, entry, "RECORD")):
                yield module, owner


def _needed(there: Mapping[str, Package]) -> set[str]:
    """What TensorFlow requires of these packages, at first or second hand, and itself."""
    needed, new = set[str](), set(there) & set(TENSORFLOW)
    while new:
        needed |= new
        new = {required_name(line) for name in new for line in there[name].requires if "extra" not in line}
        new = (new & set(there)) - needed
    return needed


def _of_record(record: str) -> set[str]:
    try:
        lines = read_text("/", os.path.abspath(record)).splitlines()
    except OSError:
        return set()
    tops = {line.partition(",")[0].partition("/")[0] for line in lines if not line.startswith("..")}
    return {_module(top) for top in tops} - {""}


def _how(folder: str, home: str, here: str) -> tuple[str | None, int | None]:
    """How a folder came on sys.path, when not through PYTHONPATH."""
    if folder == here:
        return "current folder", None
    for name in names_in(home):
        if name.endswith(".pth"):
            try:
                lines = read_text("/", os.path.abspath(os.path.join(home, name))).splitlines()
            except OSError:
                continue
            for number, line in enumerate(lines, 1):
                if folder in line and not line.startswith("#"):
                    return os.path.join(home, name), number
    return None, None
