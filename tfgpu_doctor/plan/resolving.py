"""Whether requirements can be met together: pip's resolver (resolvelib) over the metadata in the matrix. Pure.

    wanted = [Wanted("tensorflow", "==2.20.0"), Wanted("tf-keras", "==2.15.0")]
    solve(universe, wanted)      # None: tf-keras 2.15 requires tensorflow<2.16
    smallest_conflict(...)       # both of them

What the matrix does not know constrains nothing: other packages, versions that are newer than all that it has, and
older ones, which pip may go back to on an old Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import filterfalse, islice
from typing import Any, TypeAlias

from packaging.markers import Marker
from packaging.specifiers import Specifier, SpecifierSet
from packaging.version import Version
from resolvelib import AbstractProvider, BaseReporter, ResolutionImpossible, ResolutionTooDeep, Resolver

from tfgpu_doctor.facts.distributions import TENSORFLOW
from tfgpu_doctor.facts.versions import numbers
from tfgpu_doctor.manifests import Requirement
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.matrix.schema import PackageReleases, PackageRow

_OLDER = Version("0.dev0")  # in place of all versions before the first that the matrix has
_FIRST_PYTHON = (3, 6)  # for which the matrix names the wheels of packages
_BUILT = frozenset({"pandas", "shap"})  # by pip, from an archive, where a version has no wheel
MOST_STEPS = 2_000  # of a search; beyond that the answer is unknown, and nothing is refused
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?:\[(?P<extras>[^\]]*)\])?(?P<specifier>[^;]*)(?:;\s*(?P<marker>.*))?")
_SYSTEMS = {  # platform_system, sys_platform, os_name
    "linux": ("Linux", "linux", "posix"),
    "macos": ("Darwin", "darwin", "posix"),
    "windows": ("Windows", "win32", "nt"),
}
_PATCHES = (0, 6, 30)  # of a Python: a Requires-Python may leave some out


@dataclass(frozen=True)
class Wanted:
    """One requirement that is to be met, of whatever place; a line of a manifest is as good."""

    name: str
    specifier: str = ""
    extras: tuple[str, ...] = ()


_Line: TypeAlias = Wanted | Requirement


@lru_cache(maxsize=8192)
def specifier(text: str) -> SpecifierSet | None:
    """Read a specifier; None for one that cannot be read."""
    try:
        return SpecifierSet(text)
    except ValueError:
        return None


@lru_cache(maxsize=4096)
def admits(wanted: SpecifierSet, python: str) -> bool:
    """Return True if a Requires-Python admits some patch of a minor version."""
    versions = (one.version.removesuffix(".*") for one in wanted)  # conda's =3.12.1 is ==3.12.1.*
    named = [one for one in versions if one.startswith(f"{python}.")]
    return any(map(wanted.contains, (*(f"{python}.{patch}" for patch in _PATCHES), *named)))


@lru_cache(maxsize=4096)
def holds(marker: str, platform: str, python: str, extra: str = "") -> bool:
    """Return True if an environment marker holds; one that cannot be read is taken to hold."""
    system, _, machine = platform.partition("_")
    environment = dict(zip(("platform_system", "sys_platform", "os_name"), _SYSTEMS[system], strict=True))
    environment |= {"python_version": python, "python_full_version": f"{python}.9", "extra": extra}
    environment["platform_machine"] = "AMD64" if machine == "amd64" else machine
    try:
        return Marker(marker).evaluate(environment)
    except ValueError:
        return True


@dataclass(frozen=True)
class Universe:
    """What can be installed on a platform with a Python, "3.11"."""

    matrix: Matrix
    platform: str
    python: str
    _packages: dict[str, Package] = field(default_factory=dict, compare=False, repr=False)

    def package(self, name: str) -> Package:
        """Return a package that the matrix knows."""
        if name not in self._packages:
            self._packages[name] = Package(self, self.matrix.packages[name])
        return self._packages[name]

    def holds(self, marker: str | None, extras: Iterable[str] = ()) -> bool:
        """Return True if a marker holds here, with one of the extras or without any."""
        return marker is None or any(holds(marker, self.platform, self.python, one) for one in ("", *extras))

    def is_judged(self, one: _Line) -> bool:
        """Return True if the matrix knows a version that is asked for: it has neither all old ones nor all to come."""
        bounds = specifier(one.specifier)
        if one.name not in self.matrix.packages or bounds is None or numbers(self.python) < _FIRST_PYTHON:
            return False
        package = self.package(one.name)
        return any(map(bounds.contains, package.installable if one.name in _BUILT else package.versions))


@lru_cache(maxsize=64)
def universe_of(matrix: Matrix, platform: str, python: str) -> Universe:
    """Return the universe of a platform and a Python, made once."""
    return Universe(matrix, platform, python)


class Package:
    """One package of a universe: its versions, and what each requires."""

    def __init__(self, universe: Universe, row: PackageRow) -> None:
        """Take the versions with a wheel for the Python; TensorFlow's Pythons stand in a table of their own."""
        python, platform = universe.python, universe.platform
        own = {_version(one.version): one.python for one in universe.matrix.releases(platform, row.package)}
        self.installable, self._yanked, known = set[Version](), set[Version](), set[Version]()
        later_python = set[Version]()  # whose first Python is a later one
        for group in row.releases:
            versions = {_version(one) for one in group.versions}
            known |= versions
            if _has_wheel(group, python, platform):
                usable = {one for one in versions if python in own.get(one, (python,))}
                (self._yanked if group.yanked else self.installable).update(usable)
            elif _is_for_later(group, python):
                later_python |= versions
        self.versions = sorted(known, reverse=True)
        self._may_be_older = self.versions[-1] in self.installable | self._yanked | later_python
        self.name, self._universe, self._allowed = row.package, universe, dict[tuple[str, ...], frozenset[Version]]()
        self._requires: dict[tuple[Version, tuple[str, ...]], tuple[Wanted, ...]] = {}
        self._lines = [(_read(text), tuple(_spans(versions))) for text, versions in row.requires.items()]

    def allowed(self, *texts: str) -> frozenset[Version]:
        """Return the versions that specifiers admit and that can be installed; one that cannot be read admits all.

        Those that were withdrawn count where one of the specifiers pins a version, as pip has it.
        """
        if texts not in self._allowed:
            bounds = SpecifierSet(",".join(text for text in texts if specifier(text) is not None))
            pins = any(one.operator in ("==", "===") and not one.version.endswith(".*") for one in bounds)
            candidates = self.installable | self._yanked if pins else self.installable
            # the matrix has all of TensorFlow; of others, older versions may be there for this Python
            has_older = self.name not in TENSORFLOW and self._may_be_older
            older = {_OLDER} if has_older and not any(map(self._excludes_older, bounds)) else ()
            self._allowed[texts] = frozenset((*older, *bounds.filter(candidates, prereleases=True)))
        return self._allowed[texts]

    def _excludes_older(self, bound: Specifier) -> bool:
        """Whether nothing before the first known version meets a bound."""
        return bound.operator[0] in ">=~" and _version(bound.version.removesuffix(".*")) >= self.versions[-1]

    def requires(self, version: Version, extras: tuple[str, ...] = ()) -> tuple[Wanted, ...]:
        """Return the requirements of a version that hold here, of packages that the matrix knows."""
        if (version, extras) not in self._requires:
            self._requires[version, extras] = tuple(
                one
                for (one, marker), spans in self._lines
                if any(first <= version <= last for first, last in spans)
                and one.name in self._universe.matrix.packages
                and self._universe.holds(marker, extras)
            )
        return self._requires[version, extras]


def _has_wheel(group: PackageReleases, python: str, platform: str) -> bool:
    bounds = specifier(group.python or "")
    is_there = python in (group.wheels or (python,)) and platform in (group.platforms or (platform,))
    return is_there and (bounds is None or admits(bounds, python))


def _is_for_later(group: PackageReleases, python: str) -> bool:
    """Whether the first Python of these versions is a later one, so that older versions may have served this one."""
    least = [one.version for one in specifier(group.python or "") or () if one.operator[0] in ">~"]
    return any(several and numbers(python) < min(map(numbers, several)) for several in (least, group.wheels))


@lru_cache(maxsize=8192)
def _read(text: str) -> tuple[Wanted, str | None]:
    """Read a requirement of the table, with its marker; its form is that of scripts/refresh_packages.py."""
    found = _REQUIREMENT.fullmatch(text)
    assert found, text
    extras = tuple(found["extras"].split(",")) if found["extras"] else ()
    return Wanted(found["name"], found["specifier"], extras), found["marker"]


def _spans(versions: str) -> Iterator[tuple[Version, Version]]:
    """Return the first and the last version of each run of "2.4.0..2.4.4 2.6.0"."""
    for run in versions.split():
        first, _, last = run.partition("..")
        yield _version(first), _version(last or first)


@lru_cache(maxsize=16384)
def _version(text: str) -> Version:
    return Version(text)


_Identifier: TypeAlias = tuple[str, tuple[str, ...]]  # name and extras; tensorflow[and-cuda] requires tensorflow
_Candidate: TypeAlias = tuple[_Identifier, Version]


class _Provider(AbstractProvider[_Line, _Candidate, _Identifier]):
    """The packages of a universe, as resolvelib asks for them."""

    def __init__(self, universe: Universe, installed: Mapping[str, str], constraints: Sequence[_Line]) -> None:
        self._universe = universe
        self._bounds: dict[str, list[str]] = {}  # by name
        for one in constraints:
            self._bounds.setdefault(one.name, []).append(one.specifier)
        self._installed = {(name, _version(version)) for name, version in installed.items()}

    def identify(self, requirement_or_candidate: _Line | _Candidate) -> _Identifier:
        if isinstance(requirement_or_candidate, tuple):
            return requirement_or_candidate[0]
        return requirement_or_candidate.name, requirement_or_candidate.extras

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
        requirements: Mapping[_Identifier, Iterator[_Line]],
        incompatibilities: Mapping[_Identifier, Iterator[_Candidate]],
    ) -> list[_Candidate]:
        package = self._universe.package(identifier[0])
        bounds = (*(one.specifier for one in requirements[identifier]), *self._bounds.get(identifier[0], ()))
        allowed = package.allowed(*dict.fromkeys(bounds))
        left = allowed - {version for _, version in incompatibilities[identifier]}
        best = sorted(left, key=lambda version: ((identifier[0], version) in self._installed, version), reverse=True)
        return [(identifier, version) for version in best]

    def is_satisfied_by(self, requirement: _Line, candidate: _Candidate) -> bool:
        (name, _), version = candidate
        return version in self._universe.package(name).allowed(requirement.specifier, f"=={version}")

    def get_dependencies(self, candidate: _Candidate) -> list[_Line]:
        (name, extras), version = candidate
        itself: list[_Line] = [Wanted(name, f"=={version}")] if extras else []
        return [*itself, *self._universe.package(name).requires(version, extras)]


def solve(
    universe: Universe, wanted: Sequence[_Line], installed: Mapping[str, str] | None = None
) -> dict[str, str] | None:
    """Return versions of all known packages that meet the requirements, dependencies included, the newest possible.

    What is installed and fits is kept; what it requires is not asked for. A constraint bounds what others require.
    None: there are none. The search may be given up: then no version is known.
    """
    judged = [*filter(universe.is_judged, wanted)]
    provider = _Provider(universe, installed or {}, [*filter(_is_constraint, judged)])
    required = [*filterfalse(_is_constraint, judged)]
    try:
        result = Resolver(provider, BaseReporter()).resolve(required, max_rounds=MOST_STEPS)
    except ResolutionImpossible:
        return None
    except ResolutionTooDeep:
        return {}
    return {name: str(version) for (name, _), version in result.mapping.values() if version != _OLDER}


def _is_constraint(one: _Line) -> bool:
    return isinstance(one, Requirement) and one.is_constraint


def smallest_conflict(universe: Universe, wanted: Sequence[_Line]) -> tuple[int, ...]:
    """Return the positions of requirements that exclude each other, of which none can be left out; empty: none do."""
    if solve(universe, wanted) is not None:
        return ()
    kept = [index for index, one in enumerate(wanted) if universe.is_judged(one)]
    for index in tuple(kept):
        without = [one for one in kept if one != index]
        if solve(universe, [wanted[one] for one in without]) is None:
            kept = without
    return tuple(kept)
