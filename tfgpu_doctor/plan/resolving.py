"""Whether requirements can be met together, as an installer would find out, from the metadata in the matrix. Pure.

    wanted = [Wanted("tensorflow", "==2.20.0"), Wanted("tf-keras", "==2.15.0")]
    solve(universe, wanted)      # None: tf-keras 2.15 requires tensorflow<2.16
    smallest_conflict(...)       # both of them

What the matrix does not know constrains nothing: other packages, and versions that are newer than all that it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tfgpu_doctor.plan.universe import Package, Universe
from tfgpu_doctor.records.distributions import TENSORFLOW

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
