"""Lines of a manifest that exclude each other, and what to write instead: other versions, another Python. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from packaging.version import Version

from tfgpu_doctor.manifests import Requirement
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.plan.planned import PlannedEnvironment
from tfgpu_doctor.plan.resolving import (
    Requires,
    TooHard,
    Universe,
    Unsolvable,
    Wanted,
    can_be_met,
    smallest_conflict,
    solve,
    universe_of,
)
from tfgpu_doctor.records.distributions import TENSORFLOW
from tfgpu_doctor.records.report import Evidence
from tfgpu_doctor.records.versions import numbers

MOST = 20  # conflicts that are looked for in one environment


@dataclass(frozen=True)
class Conflict:
    """The fewest lines that cannot be installed together."""

    lines: tuple[Requirement, ...]  # TensorFlow's first, if it is one of them
    evidence: tuple[Evidence, ...]
    changed: tuple[Requirement, ...]  # of the lines, those that give way
    better: tuple[str | None, ...]  # what to write in their place; None: there is no such version

    @property
    def names(self) -> frozenset[str]:
        """The packages whose lines give way."""
        return frozenset(one.name for one in self.changed)


@lru_cache(maxsize=16)
def conflicts(view: PlannedEnvironment) -> tuple[Conflict, ...]:
    """All conflicts among the requirements of an environment; after each, its lines are taken to be changed."""
    return tuple(_conflicts(view)) if view.refused else ()


def _conflicts(view: PlannedEnvironment) -> Iterator[Conflict]:
    universe, original = view.universe, view.wanted_in(view.universe)
    wanted = dict(enumerate(one for _, one in original))  # by position; without those of which there is no version
    found: list[tuple[list[int], tuple[int, ...]]] = []  # positions that give way, and all that exclude each other
    for _ in range(MOST):
        left = tuple(wanted)
        core = tuple(left[index] for index in smallest_conflict(universe, [*wanted.values()]))
        freed = _giving_way(universe, {index: wanted[index] for index in core})
        if not freed:
            break
        found.append((freed, core))
        for index in freed:
            one = wanted.pop(index)
            if universe.package(one.name).allowed(""):
                wanted[index] = replace(one, specifier="")
        wanted = dict(sorted(wanted.items()))
    versions = _solution(universe, [*wanted.values()])
    for freed, core in found:
        lines = [original[index] for index in core]
        yield Conflict(
            lines=tuple(line for line, _ in lines),
            evidence=tuple(_evidence(universe, lines)),
            changed=tuple(original[index][0] for index in freed),
            better=tuple(_better(universe, original[index][0], versions) for index in freed),
        )


def _giving_way(universe: Universe, core: Mapping[int, Wanted]) -> list[int]:
    """Of lines that exclude each other, those that are to change: such without any version, else those with bounds."""
    changed = [index for index, one in core.items() if one.name not in TENSORFLOW] or list(core)
    if len(changed) == len(core) > 1:
        changed = changed[1:]  # the first line stays
    without = [index for index in changed if not universe.package(core[index].name).allowed("")]
    return without or [index for index in changed if core[index].specifier]


def _solution(universe: Universe, wanted: Sequence[Wanted]) -> dict[str, str]:
    try:
        return solve(universe, wanted)
    except (Unsolvable, TooHard):
        return {}


def _better(universe: Universe, line: Requirement, versions: dict[str, str]) -> str | None:
    """What TensorFlow itself requires of the package, or the version that goes with the rest."""
    extras = f"[{','.join(line.extras)}]" if line.extras else ""
    for name in TENSORFLOW:
        if name in versions and line.name not in TENSORFLOW:
            bounds = [one for one in _requirements(universe, name, versions[name]) if one.name == line.name]
            if bounds and bounds[0].specifier:
                return f"{line.name}{extras}{bounds[0].specifier}"
    return f"{line.name}{extras}=={versions[line.name]}" if line.name in versions else None


def _requirements(
    universe: Universe, name: str, version: str, extras: tuple[str, ...] = ("and-cuda",)
) -> list[Requires]:
    return [*universe.package(name).requires(Version(version), extras)]


def _evidence(universe: Universe, lines: Sequence[tuple[Requirement, Wanted]]) -> Iterator[Evidence]:
    """Which line requires what of which other one; without such a pair, both of them."""
    direct = list(_direct(universe, lines))
    if direct:
        yield from direct
        return
    *rest, (last, _) = lines
    if not rest:
        expected = f"a version with a wheel for Python {universe.python}"
        yield Evidence(last.text, str(last.place), expected, "names of the wheels")
        return
    needs = _shared(universe, lines)
    for (line, _), need in zip(lines, needs, strict=True):
        yield Evidence(line.text, str(line.place), need, f"{line.name} (metadata)" if need else None)


def _direct(universe: Universe, lines: Sequence[tuple[Requirement, Wanted]]) -> Iterator[Evidence]:
    for line, one in lines:
        newest = _newest(universe, one)
        if newest is None:
            expected = f"a version with a wheel for Python {universe.python}"
            yield Evidence(line.text, str(line.place), expected, "names of the wheels")
            continue
        for needed in _requirements(universe, one.name, newest, one.extras):
            for other, wanted in lines:
                target = universe.package(other.name)
                if needed.name == other.name and not target.allowed(needed.specifier) & target.allowed(
                    wanted.specifier
                ):
                    source = f"{_shown(line.name)} {newest} (metadata)"
                    yield Evidence(other.text, str(other.place), needed.text, source)


def _newest(universe: Universe, one: Wanted) -> str | None:
    newest = max(universe.package(one.name).allowed(one.specifier), default=None)
    return str(newest) if newest else None


def _shared(universe: Universe, lines: Sequence[tuple[Requirement, Wanted]]) -> list[str | None]:
    """What the newest version of each line requires of a package that they disagree on."""
    required: list[dict[str, str]] = []
    for _, one in lines:
        newest = _newest(universe, one)
        found = _requirements(universe, one.name, newest, one.extras) if newest else []
        required.append({each.name: each.specifier for each in found})
    common = set.intersection(*(set(needed) for needed in required)) if required else set()
    for name in sorted(common):
        package = universe.package(name)
        if not package.installable.intersection(*(package.allowed(needed[name]) for needed in required)):
            return [f"{name}{needed[name]}" for needed in required]
    return [None for _ in lines]


def _shown(name: str) -> str:
    return "TensorFlow" if name == "tensorflow" else name


HAVE_WHEELS = "the packages that are named have wheels for it"  # why another Python is advised


def pythons_for(view: PlannedEnvironment, rows: Sequence[Release]) -> tuple[str, ...]:
    """The Pythons to allow for releases of TensorFlow, newest first, of which one is to be installed.

    Those of the newest with wheels of everything, as it is written; else of any of them; else those for which the
    other packages have a wheel of some version; else those of the newest.
    """
    newest = rows[0].python
    return (
        fitting(view, newest)
        or fitting(view, _all_of(rows))
        or fitting(view, newest, versions_may_change=True)
        or tuple(newest)
    )


def fitting(
    view: PlannedEnvironment,
    pythons: Iterable[str],
    release: Release | None = None,
    *,
    versions_may_change: bool = False,
) -> tuple[str, ...]:
    """Of some Pythons, ascending, the newest without a gap for which everything can be installed.

    Args:
        view: the environment.
        pythons: to choose from.
        release: stands in TensorFlow's line; None: what is written there.
        versions_may_change: of the other packages.
    """
    found: list[str] = []
    for python in pythons:
        universe = universe_of(view.matrix, view.target.platform, python)
        wanted = [_wanted(one, release, versions_may_change) for _, one in view.wanted_in(universe)]
        if not can_be_met(universe, wanted):
            continue
        if found and numbers(python)[1] != numbers(found[-1])[1] + 1:
            found = []
        found.append(python)
    return tuple(found)


def all_fitting(view: PlannedEnvironment) -> tuple[str, ...]:
    """Of all Pythons of the releases that are allowed, those for which everything can be installed as it is written."""
    return fitting(view, _all_of(view.allowed))


def _all_of(rows: Iterable[Release]) -> list[str]:
    return sorted({python for row in rows for python in row.python}, key=numbers)


def _wanted(one: Wanted, release: Release | None, versions_may_change: bool) -> Wanted:
    if one.name in TENSORFLOW:
        return one if release is None else Wanted(release.package, f"=={release.version}", one.extras)
    return replace(one, specifier="") if versions_may_change else one
