"""Whether requirements can be met together, as an installer would find out, from the metadata in the matrix. Pure."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from packaging.markers import Marker
from packaging.specifiers import Specifier, SpecifierSet
from packaging.version import Version

from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.matrix.schema import PackageReleases, PackageRow
from tfgpu_doctor.records.distributions import TENSORFLOW

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


MOST_STEPS = 2_000  # of a search; beyond that the answer is unknown, and nothing is refused


@dataclass(frozen=True)
class Wanted:
    """One requirement that is to be met."""

    name: str
    specifier: str = ""
    extras: tuple[str, ...] = ()


class Unsolvable(Exception):
    """No versions are left for a package."""


class TooHard(Exception):
    """The search has taken too many steps."""


@dataclass
class _Search:
    universe: Universe
    left: dict[str, int] = field(default_factory=dict)  # package that will be installed → versions that are left
    extras: dict[str, tuple[str, ...]] = field(default_factory=dict)
    steps: list[int] = field(default_factory=lambda: [0])

    def copy(self) -> _Search:
        return _Search(self.universe, dict(self.left), dict(self.extras), self.steps)

    def propagate(self) -> None:
        """Leave out versions whose requirements cannot be met, and require what all that are left require."""
        changed = True
        while changed:
            self.steps[0] += 1
            if self.steps[0] > MOST_STEPS:
                raise TooHard
            changed = False
            for name in tuple(self.left):
                changed |= self._narrow(name)

    def _narrow(self, name: str) -> bool:
        package, before = self.universe.package(name), self.left[name]
        lines = [
            (bits, one, _allowed(self.universe.package(one.name), one.specifier))
            for bits, one in package.requires(self.extras[name])
        ]
        for bits, one, allowed in lines:
            if not self.left.get(one.name, allowed) & allowed:
                self.left[name] &= ~bits
        left = self.left[name]
        if not left:
            raise Unsolvable(name)
        changed = left != before
        some: dict[str, tuple[int, int]] = {}  # package → versions that require it, and what any of them allows
        for bits, one, allowed in lines:
            if bits & left == left:
                changed |= self.limit(one.name, allowed, one.extras)
            elif bits & left:
                asking, open_to = some.get(one.name, (0, 0))
                some[one.name] = asking | (bits & left), open_to | allowed
        for target, (asking, open_to) in some.items():
            if asking == left:
                changed |= self.limit(target, open_to, ())
        return changed

    def limit(self, name: str, allowed: int, extras: tuple[str, ...]) -> bool:
        """Narrow a package that will be installed; whether that changed anything. Raises Unsolvable."""
        before, known = self.left.get(name), self.extras.get(name, ())
        after = allowed if before is None else before & allowed
        if not after:
            raise Unsolvable(name)
        self.left[name], self.extras[name] = after, tuple(sorted({*known, *extras}))
        return after != before or self.extras[name] != known

    def finish(self) -> dict[str, str]:
        """Decide on one version of each package, the newest possible one: TensorFlow first. Raises Unsolvable."""
        self.propagate()
        several = [name for name, bits in self.left.items() if bits & (bits - 1)]
        if not several:
            return {name: str(next(self.universe.package(name).named(bits))) for name, bits in self.left.items()}
        name = min(several, key=lambda one: (one not in TENSORFLOW, one))
        bits = self.left[name]
        while bits:
            newest = bits & -bits
            attempt = self.copy()
            attempt.left[name] = newest
            try:
                return attempt.finish()
            except Unsolvable:
                bits &= ~newest
        raise Unsolvable(name)


def _allowed(package: Package, specifier: str) -> int:
    try:
        return package.allowed(specifier)
    except ValueError:
        return package.installable


def solve(universe: Universe, wanted: Sequence[Wanted]) -> dict[str, str]:
    """Versions of all known packages that meet the requirements, dependencies included.

    Raises:
        Unsolvable: there are none.
        TooHard: the search was given up.
    """
    search = _Search(universe)
    for one in wanted:
        if is_judged(universe, one):
            search.limit(one.name, _allowed(universe.package(one.name), one.specifier), one.extras)
    return search.finish()


def is_judged(universe: Universe, one: Wanted) -> bool:
    """Whether the matrix knows the package, and the requirement names no version that it may not have yet."""
    if not universe.known(one.name):
        return False
    try:
        specifiers = SpecifierSet(one.specifier)
    except ValueError:
        return False
    package = universe.package(one.name)
    if any(specifiers.contains(version) for version in package.versions):
        return True
    return not any(_may_be_new(package, each.version.removesuffix(".*")) for each in specifiers)


def _may_be_new(package: Package, text: str) -> bool:
    """Whether a version that the matrix lacks can have been published after it: not one older than all."""
    try:
        version = Version(text)
    except ValueError:
        return True
    return version.is_prerelease or version > package.versions[-1]


def can_be_met(universe: Universe, wanted: Sequence[Wanted]) -> bool:
    """Whether the requirements can be met, or that is unknown."""
    try:
        solve(universe, wanted)
    except Unsolvable:
        return False
    except TooHard:
        return True
    return True


def smallest_conflict(universe: Universe, wanted: Sequence[Wanted]) -> tuple[int, ...]:
    """The positions of requirements that exclude each other, of which none can be left out; empty: none do."""
    if can_be_met(universe, wanted):
        return ()
    kept = [index for index, one in enumerate(wanted) if is_judged(universe, one)]
    for index in tuple(kept):
        without = [one for one in kept if one != index]
        if not can_be_met(universe, [wanted[one] for one in without]):
            kept = without
    return tuple(kept)
