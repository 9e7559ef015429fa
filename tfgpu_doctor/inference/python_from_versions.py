"""Which Python a list of offered versions betrays: pip lists exactly the releases with a wheel for its own Python.

>>> from tfgpu_doctor.matrix.loader import Matrix
>>> found = versions_offered(Matrix.load(), "tensorflow", ["2.20.0rc0", "2.20.0"])
>>> found.pythons, found.exact
(('3.13',), True)

The list was printed on some day, so releases newer than its newest one do not count, and neither do later patches of
the older minor versions that it names. Releases that the matrix does not know are left out; most release candidates
are not in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from packaging.version import Version

from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.parsers.tools.package_rows import normalised

_MOST = 2000
_Series = tuple[int, int]
_AFTER_2_0: _Series = (1, 15)  # came out after 2.0.0


@dataclass(frozen=True)
class Target:
    """A Python and a platform for which the index has wheels."""

    python: str  # "3.8"
    platform: str  # "linux_x86_64"


@dataclass(frozen=True)
class Matches:
    """The Pythons and platforms that fit the list best."""

    offers: tuple[Target, ...]
    exact: bool  # the list is what they are offered, on some day; else it is only near to that

    @property
    def pythons(self) -> tuple[str, ...]:
        """Each Python once, ascending."""
        return tuple(sorted({offer.python for offer in self.offers}, key=Version))

    @property
    def platforms(self) -> tuple[str, ...]:
        """Each platform once."""
        return tuple(sorted({offer.platform for offer in self.offers}))


def versions_offered(matrix: Matrix, name: str, versions: Iterable[str], platform: str | None = None) -> Matches | None:
    """Find the Pythons to which the index offers this list.

    Args:
        name: the distribution, as it was asked for.
        versions: what pip prints behind "from versions:".
        platform: look only at this one, "linux_x86_64"; None: at all.

    Returns:
        None for a package that the matrix does not know, and for a list without any version that it knows: an
        empty list means that there is no wheel at all, or that the index was not reached.
    """
    offered = _offered(matrix, normalised(name), platform)
    known = set[Version]().union(*offered.values()) if offered else set[Version]()
    printed = _printed(versions, known)
    if not printed:
        return None
    exact = [offer for offer, whole in offered.items() if _is_a_day_of(whole, printed)]
    ranked = {offer: _likeness(whole, printed) for offer, whole in offered.items()}
    best = max(ranked.values())
    near = [offer for offer, score in ranked.items() if score == best and score[0] >= 0.9]
    return Matches(tuple(exact or near), exact=bool(exact))


def _offered(matrix: Matrix, package: str, platform: str | None) -> dict[Target, frozenset[Version]]:
    """What the index offers to each Python on each platform, today."""
    found: dict[Target, set[Version]] = defaultdict(set)
    for release in matrix.releases(platform, package):
        version = Version(release.version)
        for python in release.python:
            found[Target(python, release.platform)].add(version)
    return {offer: frozenset(versions) for offer, versions in found.items()}


def _printed(versions: Iterable[str], known: set[Version]) -> set[Version]:
    """The versions that the matrix knows; of a list of candidates alone, the releases that they became."""
    parsed = set()
    for text, _ in zip(versions, range(_MOST), strict=False):
        try:
            parsed.add(Version(text))
        except ValueError:
            continue
    there = parsed & known
    return there or {Version(version.base_version) for version in parsed if version.is_prerelease} & known


def _series(versions: Iterable[Version]) -> dict[_Series, list[Version]]:
    """Minor version → its releases, ascending."""
    found: dict[_Series, list[Version]] = defaultdict(list)
    for version in sorted(versions):
        found[version.major, version.minor].append(version)
    return found


def _is_a_day_of(whole: frozenset[Version], printed: set[Version]) -> bool:
    """Whether this was offered on some day: of each minor version up to the newest, the first releases."""
    if not printed <= whole:
        return False
    ours, theirs = _series(whole), _series(printed)
    newest = max(theirs)
    for series, releases in ours.items():
        if series > newest or (series == _AFTER_2_0 and newest <= (2, 0) and series not in theirs):
            continue
        listed = theirs.get(series, [])
        if not listed or listed != releases[: len(listed)]:
            return False
    return True


def _likeness(whole: frozenset[Version], printed: set[Version]) -> tuple[float, bool, float]:
    """How much of the list is offered, whether both begin with the same release, how much of the offer is listed."""
    until = max(printed)
    offered = {version for version in whole if version <= until}
    both = len(printed & whole)
    return both / len(printed), min(whole) == min(printed), both / max(1, len(offered))
