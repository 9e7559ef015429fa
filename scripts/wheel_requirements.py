"""What a TensorFlow wheel requires (METADATA): bounds, the pins of the extra with CUDA, another wheel. Pure."""

from __future__ import annotations

import re
from typing import Any

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tfgpu_doctor.matrix.schema import Platform

_LINUX = {"platform_system": "Linux", "sys_platform": "linux", "os_name": "posix"}
_MACOS = {"platform_system": "Darwin", "sys_platform": "darwin", "os_name": "posix"}
_WINDOWS = {"platform_system": "Windows", "sys_platform": "win32", "os_name": "nt"}
MARKERS: dict[Platform, dict[str, str]] = {
    "linux_x86_64": {**_LINUX, "platform_machine": "x86_64"},
    "linux_aarch64": {**_LINUX, "platform_machine": "aarch64"},
    "windows_amd64": {**_WINDOWS, "platform_machine": "AMD64"},
    "macos_arm64": {**_MACOS, "platform_machine": "arm64"},
    "macos_x86_64": {**_MACOS, "platform_machine": "x86_64"},
}
REDIRECT = re.compile(r"tensorflow-(intel|macos|cpu-aws|cpu)")
BOUNDS = {"numpy": "numpy", "protobuf": "protobuf", "keras": "keras", "ml-dtypes": "ml_dtypes"}


def bounds_by_python(requirements: list[Requirement], platform: Platform, versions: tuple[str, ...]) -> dict[str, Any]:
    """The fields of a row that say which numpy, protobuf, ... it takes: the oldest Python's, which are the weakest."""
    bounds = {python: _bounds(requirements, platform, python) for python in versions}
    base = bounds[versions[0]]
    return {**base, "bounds_by_python": {one: _changes(now, base) for one, now in bounds.items() if now != base}}


def extra_of(requirements: list[Requirement]) -> str | None:
    """The extra that brings NVIDIA's libraries."""
    for requirement in requirements:
        if requirement.name.startswith("nvidia-") and requirement.marker:
            found = re.search(r'extra == "([^"]+)"', str(requirement.marker))
            if found:
                return found.group(1)
    return None


def _holds(requirement: Requirement, platform: Platform, python: str, extra: str = "") -> bool:
    environment = {**default_environment(), **MARKERS[platform], "extra": extra}
    environment |= {"python_version": python, "python_full_version": f"{python}.0"}
    return requirement.marker is None or requirement.marker.evaluate(environment)  # type: ignore[arg-type]


def pins_of(requirements: list[Requirement], platform: Platform, python: str, extra: str) -> dict[str, str]:
    pins = {
        canonicalize_name(one.name): _specifier(one)
        for one in requirements
        if _holds(one, platform, python, extra) and not _holds(one, platform, python)
    }
    return dict(sorted(pins.items()))


def _bounds(requirements: list[Requirement], platform: Platform, python: str) -> dict[str, str]:
    wanted = {canonicalize_name(one.name): one for one in requirements if _holds(one, platform, python)}
    return {field: _specifier(wanted[name]) for name, field in BOUNDS.items() if name in wanted}


def _changes(bounds: dict[str, str], base: dict[str, str]) -> dict[str, str]:
    return {name: one for name, one in bounds.items() if base.get(name) != one}


def redirect_of(requirements: list[Requirement], platform: Platform, python: str) -> str | None:
    """The package that an empty wheel stands for: "tensorflow-intel==2.13.0"."""
    for one in requirements:
        name = canonicalize_name(one.name)
        if REDIRECT.fullmatch(name) and _holds(one, platform, python):
            return f"{name}{one.specifier}"
    return None


def _specifier(requirement: Requirement) -> str:
    """Lower bound, upper bound, exclusions: ">=3.20.3,<6,!=4.21.0"."""
    order = ("===", "==", "~=", ">=", ">", "<", "<=", "!=")
    ordered = sorted(requirement.specifier, key=lambda one: (order.index(one.operator), str(one)))
    return ",".join(str(one) for one in ordered)
