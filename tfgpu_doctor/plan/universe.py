"""The packages of the matrix for one platform and one Python: which versions there are, and what each requires. Pure.

Versions of a package, newest first, are the bits of a number, so that sets of them are joined and intersected at once.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from packaging.markers import Marker
from packaging.specifiers import Specifier, SpecifierSet
from packaging.version import Version

from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.matrix.schema import PackageReleases, PackageRow

_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?:\[(?P<extras>[^\]]*)\])?(?P<specifier>[^;]*)(?:;\s*(?P<marker>.*))?")
_LINUX = {"platform_system": "Linux", "sys_platform": "linux", "os_name": "posix"}
_MACOS = {"platform_system": "Darwin", "sys_platform": "darwin", "os_name": "posix"}
_WINDOWS = {"platform_system": "Windows", "sys_platform": "win32", "os_name": "nt"}
_MARKERS = {
    "linux_x86_64": {**_LINUX, "platform_machine": "x86_64"},
    "linux_aarch64": {**_LINUX, "platform_machine": "aarch64"},
    "windows_amd64": {**_WINDOWS, "platform_machine": "AMD64"},
    "macos_arm64": {**_MACOS, "platform_machine": "arm64"},
    "macos_x86_64": {**_MACOS, "platform_machine": "x86_64"},
}
_PATCHES = (0, 6, 30)  # of a Python: a Requires-Python may leave some out
_CPYTHON = {"implementation_name": "cpython", "platform_python_implementation": "CPython"}


@dataclass(frozen=True)
class Requires:
    """One requirement of a package."""

    name: str
    specifier: str
    extras: tuple[str, ...]
    marker: str | None

    @property
    def text(self) -> str:
        return f"{self.name}{self.specifier}"


@lru_cache(maxsize=8192)
def read_requires(text: str) -> Requires:
    """Read a requirement of the table; its form is that of scripts/refresh_packages.py."""
    found = _REQUIREMENT.fullmatch(text)
    assert found, text
    extras = tuple(found["extras"].split(",")) if found["extras"] else ()
    return Requires(found["name"], found["specifier"], extras, found["marker"])


@dataclass(frozen=True)
class Universe:
    """What can be installed on a platform with a Python, "3.11"."""

    matrix: Matrix
    platform: str
    python: str

    def known(self, name: str) -> bool:
        """Whether the matrix has the releases of a package."""
        return name in self.matrix.packages

    @cached_property
    def _packages(self) -> dict[str, Package]:
        return {}

    def package(self, name: str) -> Package:
        """A known package."""
        if name not in self._packages:
            self._packages[name] = Package(self, name, self.matrix.packages[name])
        return self._packages[name]

    def holds(self, marker: str | None, extras: Iterable[str] = ()) -> bool:
        """Whether a marker holds here, with one of the extras or without any."""
        return marker is None or any(holds(marker, self.platform, self.python, one) for one in ("", *extras))


@lru_cache(maxsize=64)
def universe_of(matrix: Matrix, platform: str, python: str) -> Universe:
    """The universe of a platform and a Python, made once."""
    return Universe(matrix, platform, python)


class Package:
    """One package of a universe."""

    def __init__(self, universe: Universe, name: str, row: PackageRow) -> None:
        self.universe = universe
        self.versions = sorted({_version(one) for group in row.releases for one in group.versions}, reverse=True)
        self._ascending = self.versions[::-1]
        self._bit = {version: 1 << index for index, version in enumerate(self.versions)}
        self.everything = (1 << len(self.versions)) - 1
        own = self._pythons_of_tensorflow(name)
        self.installable = self._yanked = 0
        for group in row.releases:
            bits = self._bits(group, own)
            self._yanked |= bits if group.yanked else 0
            self.installable |= 0 if group.yanked else bits
        self._allowed: dict[str, int] = {}
        self._requires: dict[tuple[str, ...], tuple[tuple[int, Requires], ...]] = {}
        self._lines = row.requires

    def _pythons_of_tensorflow(self, name: str) -> dict[str, tuple[str, ...]] | None:
        """TensorFlow's releases have their Pythons in a table of their own."""
        found = self.universe.matrix.releases(platform=self.universe.platform, package=name)
        return {row.version: row.python for row in found} or None

    def _bits(self, group: PackageReleases, own: dict[str, tuple[str, ...]] | None) -> int:
        """The versions of a group that have a wheel for the Python."""
        python, platform = self.universe.python, self.universe.platform
        if (group.wheels and python not in group.wheels) or (group.platforms and platform not in group.platforms):
            return 0
        if group.python and not _admits(group.python, python):
            return 0
        has_wheel = (one for one in group.versions if own is None or python in own.get(one, (python,)))
        return sum(self._bit[_version(one)] for one in has_wheel)

    def _span(self, versions: str) -> int:
        """The versions of "2.4.0..2.4.4 2.6.0"."""
        bits = 0
        for run in versions.split():
            first, _, last = run.partition("..")
            bits |= 2 * self._bit[_version(first)] - self._bit[_version(last or first)]
        return bits

    def allowed(self, specifier: str) -> int:
        """The versions that a specifier admits and that can be installed. Raises ValueError."""
        if specifier not in self._allowed:
            parts = SpecifierSet(specifier)
            bits = self.everything
            for one in parts:
                bits &= self._admitted(one)
            pins = any(one.operator in ("==", "===") and not one.version.endswith(".*") for one in parts)
            self._allowed[specifier] = bits & (self.installable | (self._yanked if pins else 0))
        return self._allowed[specifier]

    def _admitted(self, one: Specifier) -> int:
        if one.operator in (">=", "<", "<="):
            bound, count = Version(one.version), len(self.versions)
            side = bisect_right if one.operator == "<=" else bisect_left
            below = side(self._ascending, bound)  # so many of the oldest
            newer = (1 << (count - below)) - 1
            return newer if one.operator == ">=" else self.everything & ~newer
        if one.operator in ("==", "!=") and not one.version.endswith(".*"):
            bit = self._bit.get(Version(one.version), 0)
            return bit if one.operator == "==" else self.everything & ~bit
        return sum(bit for version, bit in self._bit.items() if one.contains(version))

    def requires(self, extras: tuple[str, ...] = ()) -> tuple[tuple[int, Requires], ...]:
        """The requirements that hold here, each with the versions that have it."""
        if extras not in self._requires:
            read = ((versions, read_requires(text)) for text, versions in self._lines.items())
            held = ((self._span(versions), one) for versions, one in read if self.universe.holds(one.marker, extras))
            self._requires[extras] = tuple((bits, one) for bits, one in held if self.universe.known(one.name))
        return self._requires[extras]

    def named(self, bits: int) -> Iterator[Version]:
        """The versions of a set, newest first."""
        return (version for version, bit in self._bit.items() if bits & bit)


@lru_cache(maxsize=16384)
def _version(text: str) -> Version:
    return Version(text)


@lru_cache(maxsize=4096)
def holds(marker: str, platform: str, python: str, extra: str = "") -> bool:
    """Whether an environment marker holds; one that cannot be read is taken to hold."""
    environment = {**_MARKERS[platform], **_CPYTHON, "python_version": python, "python_full_version": f"{python}.9"}
    environment |= {"extra": extra, "platform_release": "", "platform_version": "", "implementation_version": python}
    try:
        return Marker(marker).evaluate(environment)
    except ValueError:
        return True


@lru_cache(maxsize=4096)
def _admits(wanted: str, python: str) -> bool:
    """Whether a Requires-Python admits some patch of a minor version."""
    try:
        specifier = SpecifierSet(wanted)
    except ValueError:
        return True
    return any(specifier.contains(f"{python}.{patch}") for patch in _PATCHES)
