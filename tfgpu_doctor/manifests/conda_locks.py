"""Lock files of conda: conda-lock.yml, pixi.lock, and lists of addresses (@EXPLICIT)."""

from __future__ import annotations

import re

from packaging.utils import canonicalize_name

from tfgpu_doctor.manifests import MOST_REQUIREMENTS, Environment, Place, Requirement
from tfgpu_doctor.manifests.nodes import Node
from tfgpu_doctor.manifests.requirement import LONGEST, conda_requirement, pip_requirement

_ADDRESS = re.compile(r"[a-z]+://\S*/(?P<name>[\w.+-]+)-(?P<version>[^-/\s]+)-(?P<build>[^-/\s]+)\.(?:conda|tar\.bz2)")
_SOURCE = re.compile(r"[a-z]+://\S*/(?P<name>[\w.]+)-(?P<version>\d[\w.+]*)\.(?:tar\.gz|zip)")
_MACHINES = {"64": "x86_64", "aarch64": "aarch64", "arm64": "arm64", "ppc64le": "ppc64le"}
_SYSTEMS = {"linux": "linux", "osx": "darwin", "win": "win32"}


def is_conda_lock(root: Node) -> bool:
    """Whether a YAML document is a conda-lock.yml."""
    return bool(root.items("package")) and root.get("metadata") is not None


def is_pixi_lock(root: Node) -> bool:
    """Whether a YAML document is a pixi.lock."""
    return root.get("environments") is not None and root.get("packages") is not None


def read_conda_lock(path: str, root: Node) -> tuple[Environment, ...]:
    """All platforms of conda-lock.yml, each package with a marker of its own platform."""
    found: dict[Requirement, None] = {}
    for item in root.items("package")[:MOST_REQUIREMENTS]:
        name, version, platform = item.string("name"), item.string("version"), item.string("platform") or ""
        if not name or not version or (item.string("category") or "main") != "main":
            continue
        address = _ADDRESS.match((item.string("url") or "")[:LONGEST])
        place = (item.get("name") or item).place
        of_pip = item.string("manager") == "pip"
        found[_package(name, version, place, platform, address["build"] if address else None, pip=of_pip)] = None
    return (_environment(path, path, tuple(found)),)


def read_pixi_lock(path: str, root: Node) -> tuple[Environment, ...]:
    """Each environment of a pixi.lock, its packages by their addresses."""
    environments = root.get("environments")
    found = []
    for name, node in environments.pairs() if environments else ():
        platforms = node.get("packages")
        packages = [
            one
            for platform, listed in (platforms.pairs() if platforms else ())
            for item in listed.items()[:MOST_REQUIREMENTS]
            if (one := _of_address(item, platform))
        ]
        label = path if name == "default" else f"{path}, environment {name}"
        found.append(_environment(path, label, tuple(dict.fromkeys(packages))))
    return tuple(found)


def explicit_requirement(line: str, place: Place) -> Requirement | None:
    """A line of a list of addresses; None where it is none of a package of conda."""
    address = _ADDRESS.match(line[:LONGEST])
    return _package(address["name"], address["version"], place, "", address["build"]) if address else None


def _of_address(item: Node, platform: str) -> Requirement | None:
    text = (item.string("conda") or item.string("pypi") or "")[:LONGEST]
    if address := _ADDRESS.match(text):
        return _package(address["name"], address["version"], item.place, platform, address["build"])
    if source := _SOURCE.match(text):
        return _package(source["name"], source["version"], item.place, platform, pip=True)
    try:
        wheel = pip_requirement(text, item.place) if text.endswith(".whl") else None
    except ValueError:
        return None
    return _package(wheel.name, wheel.specifier[2:], item.place, platform, pip=True) if wheel else None


def _package(
    name: str, version: str, place: Place, platform: str, build: str | None = None, *, pip: bool = False
) -> Requirement:
    marker = _marker(platform)
    if pip:
        return Requirement(canonicalize_name(name), f"=={version}", place, f"{name}=={version}", marker=marker)
    text = f"{name}={version}" + (f"={build}" if build else "")
    try:
        specifier = conda_requirement(f"{name}=={version}", place).specifier
    except ValueError:
        specifier = f"==={version}"
    return Requirement(name.lower(), specifier, place, text, marker=marker, installer="conda", build=build)


def _marker(platform: str) -> str | None:
    """The environment marker of "linux-64"; None for all platforms, or one that is not known."""
    system, _, machine = platform.partition("-")
    if system not in _SYSTEMS or machine not in _MACHINES:
        return None
    name = "AMD64" if system == "win" and machine == "64" else _MACHINES[machine]
    return f"sys_platform == '{_SYSTEMS[system]}' and platform_machine == '{name}'"


def _environment(path: str, label: str, found: tuple[Requirement, ...]) -> Environment:
    return Environment(
        kind="lock",
        label=label,
        place=Place(path, 1),
        python=tuple(one for one in found if one.name == "python"),
        requirements=tuple(one for one in found if one.name != "python"),
    )
