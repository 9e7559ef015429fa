"""Whether requirements can be met together: pip's resolver (resolvelib) over the metadata in the matrix. Pure.

    wanted = [Wanted("tensorflow", "==2.20.0"), Wanted("tf-keras", "==2.15.0")]
    solve(universe, wanted)      # Unsolvable: tf-keras 2.15 requires tensorflow<2.16
    smallest_conflict(...)       # both of them

What the matrix does not know constrains nothing: other packages, and versions that are newer than all that it has.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any, TypeAlias

from packaging.markers import Marker
from packaging.specifiers import Specifier, SpecifierSet
from packaging.version import Version
from resolvelib import AbstractProvider, BaseReporter, ResolutionImpossible, ResolutionTooDeep, Resolver

from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.matrix.schema import PackageReleases, PackageRow
from tfgpu_doctor.records.distributions import TENSORFLOW

MOST_STEPS = 2_000  # of a search; beyond that the answer is unknown, and nothing is refused
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
_COMPARISONS: dict[str, Callable[[Version, Version], bool]] = {
    ">=": operator.ge, "<=": operator.le, "<": operator.lt, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


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


@dataclass(frozen=True)
class Wanted:
    """One requirement that is to be met."""

    name: str
    specifier: str = ""
    extras: tuple[str, ...] = ()


class Unsolvable(Exception):
    """No versions meet all requirements."""


class TooHard(Exception):
    """The search has taken too many steps."""


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
        """Return True if the matrix has the releases of a package."""
        return name in self.matrix.packages

    @cached_property
    def _packages(self) -> dict[str, Package]:
        return {}

    def package(self, name: str) -> Package:
        """Return a known package."""
        if name not in self._packages:
            self._packages[name] = Package(self, name, self.matrix.packages[name])
        return self._packages[name]

    def holds(self, marker: str | None, extras: Iterable[str] = ()) -> bool:
        """Return True if a marker holds here, with one of the extras or without any."""
        return marker is None or any(holds(marker, self.platform, self.python, one) for one in ("", *extras))


@lru_cache(maxsize=64)
def universe_of(matrix: Matrix, platform: str, python: str) -> Universe:
    """Return the universe of a platform and a Python, made once."""
    return Universe(matrix, platform, python)


class Package:
    """One package of a universe: its versions, and what each requires."""

    def __init__(self, universe: Universe, name: str, row: PackageRow) -> None:
        self.universe = universe
        groups = [(group, [_version(one) for one in group.versions]) for group in row.releases]
        self.versions = sorted({one for _, versions in groups for one in versions}, reverse=True)
        own = {_version(one.version): one.python for one in universe.matrix.releases(universe.platform, name)}
        usable = [(group.yanked, self._usable(group, versions, own)) for group, versions in groups]
        self.installable = frozenset(one for yanked, versions in usable if not yanked for one in versions)
        self._yanked = frozenset(one for yanked, versions in usable if yanked for one in versions)
        self._allowed: dict[str, frozenset[Version]] = {}
        self._requires: dict[tuple[Version, tuple[str, ...]], tuple[Requires, ...]] = {}
        self._lines = [(read_requires(text), tuple(_spans(versions))) for text, versions in row.requires.items()]

    def _usable(
        self, group: PackageReleases, versions: list[Version], own: dict[Version, tuple[str, ...]]
    ) -> list[Version]:
        """Return the versions with a wheel for the Python; TensorFlow's Pythons stand in a table of their own."""
        python, platform = self.universe.python, self.universe.platform
        if (group.wheels and python not in group.wheels) or (group.platforms and platform not in group.platforms):
            return []
        if group.python and not _admits(group.python, python):
            return []
        return [one for one in versions if python in own.get(one, (python,))]

    def allowed(self, specifier: str) -> frozenset[Version]:
        """Return the versions that a specifier admits and that can be installed. Raises ValueError."""
        if specifier not in self._allowed:
            parts = list(SpecifierSet(specifier))
            pins = any(one.operator in ("==", "===") and not one.version.endswith(".*") for one in parts)
            candidates = self.installable | self._yanked if pins else self.installable
            self._allowed[specifier] = frozenset(filter(_test_of(parts), candidates))
        return self._allowed[specifier]

    def allowed_or_any(self, specifier: str) -> frozenset[Version]:
        """Return the same; all that can be installed where the specifier cannot be read."""
        try:
            return self.allowed(specifier)
        except ValueError:
            return self.installable

    def requires(self, version: Version, extras: tuple[str, ...] = ()) -> tuple[Requires, ...]:
        """Return the requirements of a version that hold here, of packages that the matrix knows."""
        if (version, extras) not in self._requires:
            self._requires[version, extras] = tuple(
                one
                for one, spans in self._lines
                if any(first <= version <= last for first, last in spans)
                and self.universe.known(one.name)
                and self.universe.holds(one.marker, extras)
            )
        return self._requires[version, extras]


def _spans(versions: str) -> Iterator[tuple[Version, Version]]:
    """Return the first and the last version of each run of "2.4.0..2.4.4 2.6.0"."""
    for run in versions.split():
        first, _, last = run.partition("..")
        yield _version(first), _version(last or first)


def _test_of(parts: list[Specifier]) -> Callable[[Version], bool]:
    """Return the test for a version of all parts of a specifier; bounds are compared as numbers."""
    tests = [
        (_COMPARISONS[one.operator], Version(one.version))
        for one in parts
        if one.operator in _COMPARISONS and not one.version.endswith(".*")
    ]
    others = [one for one in parts if one.operator not in _COMPARISONS or one.version.endswith(".*")]
    return lambda version: (
        all(compare(version, bound) for compare, bound in tests) and all(one.contains(version) for one in others)
    )


@lru_cache(maxsize=16384)
def _version(text: str) -> Version:
    return Version(text)


@lru_cache(maxsize=4096)
def holds(marker: str, platform: str, python: str, extra: str = "") -> bool:
    """Return True if an environment marker holds; one that cannot be read is taken to hold."""
    environment = {**_MARKERS[platform], **_CPYTHON, "python_version": python, "python_full_version": f"{python}.9"}
    environment |= {"extra": extra, "platform_release": "", "platform_version": "", "implementation_version": python}
    try:
        return Marker(marker).evaluate(environment)
    except ValueError:
        return True


@lru_cache(maxsize=4096)
def _admits(wanted: str, python: str) -> bool:
    """Return True if a Requires-Python admits some patch of a minor version."""
    try:
        specifier = SpecifierSet(wanted)
    except ValueError:
        return True
    return any(specifier.contains(f"{python}.{patch}") for patch in _PATCHES)


_Identifier: TypeAlias = tuple[str, tuple[str, ...]]  # name and extras; tensorflow[and-cuda] requires tensorflow
_Candidate: TypeAlias = tuple[_Identifier, Version]


class _Provider(AbstractProvider[Wanted, _Candidate, _Identifier]):
    """The packages of a universe, as resolvelib asks for them."""

    def __init__(self, universe: Universe) -> None:
        self._universe = universe

    def identify(self, requirement_or_candidate: Wanted | _Candidate) -> _Identifier:
        if isinstance(requirement_or_candidate, Wanted):
            return requirement_or_candidate.name, requirement_or_candidate.extras
        return requirement_or_candidate[0]

    def get_preference(
        self,
        identifier: _Identifier,
        resolutions: Mapping[_Identifier, _Candidate],  # noqa: ARG002 - resolvelib names what it gives
        candidates: Mapping[_Identifier, Iterator[_Candidate]],
        information: Mapping[_Identifier, Iterator[Any]],
        backtrack_causes: Sequence[Any],
    ) -> tuple[bool, bool, bool, _Identifier]:
        """Decide first where one version is left, then on TensorFlow, then on lines, and on what conflicted last."""
        is_open = len(list(islice(candidates[identifier], 2))) > 1
        is_line = any(one.parent is None for one in information[identifier])
        causes = {self.identify(one) for cause in backtrack_causes for one in (cause.requirement, cause.parent) if one}
        return is_open, identifier[0] not in TENSORFLOW, not is_line and identifier not in causes, identifier

    def find_matches(
        self,
        identifier: _Identifier,
        requirements: Mapping[_Identifier, Iterator[Wanted]],
        incompatibilities: Mapping[_Identifier, Iterator[_Candidate]],
    ) -> list[_Candidate]:
        package = self._universe.package(identifier[0])
        allowed = frozenset.intersection(*(package.allowed_or_any(one.specifier) for one in requirements[identifier]))
        left = allowed - {version for _, version in incompatibilities[identifier]}
        return [(identifier, version) for version in sorted(left, reverse=True)]

    def is_satisfied_by(self, requirement: Wanted, candidate: _Candidate) -> bool:
        return candidate[1] in self._universe.package(requirement.name).allowed_or_any(requirement.specifier)

    def get_dependencies(self, candidate: _Candidate) -> list[Wanted]:
        (name, extras), version = candidate
        required = self._universe.package(name).requires(version, extras)
        itself = [Wanted(name, f"=={version}")] if extras else []
        return [*itself, *(Wanted(one.name, one.specifier, one.extras) for one in required)]


def solve(universe: Universe, wanted: Sequence[Wanted]) -> dict[str, str]:
    """Return versions of all known packages that meet the requirements, dependencies included, the newest possible.

    Raises:
        Unsolvable: there are none.
        TooHard: the search was given up.
    """
    judged = [one for one in wanted if is_judged(universe, one)]
    try:
        result = Resolver(_Provider(universe), BaseReporter()).resolve(judged, max_rounds=MOST_STEPS)
    except ResolutionImpossible as error:
        raise Unsolvable from error
    except ResolutionTooDeep as error:
        raise TooHard from error
    return {name: str(version) for (name, _), version in result.mapping.values()}


def is_judged(universe: Universe, one: Wanted) -> bool:
    """Return True if the matrix knows the package, and the requirement names no version that it may not have yet."""
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
    """Return True if a version that the matrix lacks can have been published after it: not one older than all."""
    try:
        version = Version(text)
    except ValueError:
        return True
    return version.is_prerelease or version > package.versions[-1]


def can_be_met(universe: Universe, wanted: Sequence[Wanted]) -> bool:
    """Return True if the requirements can be met, or that is unknown."""
    try:
        solve(universe, wanted)
    except Unsolvable:
        return False
    except TooHard:
        return True
    return True


def smallest_conflict(universe: Universe, wanted: Sequence[Wanted]) -> tuple[int, ...]:
    """Return the positions of requirements that exclude each other, of which none can be left out; empty: none do."""
    if can_be_met(universe, wanted):
        return ()
    kept = [index for index, one in enumerate(wanted) if is_judged(universe, one)]
    for index in tuple(kept):
        without = [one for one in kept if one != index]
        if not can_be_met(universe, [wanted[one] for one in without]):
            kept = without
    return tuple(kept)
