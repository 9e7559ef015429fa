"""Which Pythons the index offers a list of releases.

pip lists exactly the releases with a wheel for its own Python, so that a list of offered versions betrays that:

>>> from tfgpu_doctor.matrix.loader import Matrix
>>> versions_offered(Matrix.load(), "tensorflow", ["2.20.0rc0", "2.20.0"])
(('3.13',), True)

The list was printed on some day, so releases newer than its newest one do not count, and neither do later patches of
the older minor versions that it names. Releases that the matrix does not know are left out; most release candidates
are not in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from packaging.utils import canonicalize_name
from packaging.version import Version

from tfgpu_doctor.matrix.loader import Matrix

_MOST = 2000
_AFTER_2_0: tuple[int, int] = (1, 15)  # came out after 2.0.0


def versions_offered(
    matrix: Matrix, name: str, versions: Iterable[str], platform: str | None = None
) -> tuple[tuple[str, ...], bool] | None:
    """Find the Pythons to which the index offers this list.

    Args:
        name: the distribution, as it was asked for.
        versions: what pip prints behind "from versions:".
        platform: look only at this one, "linux_x86_64"; None: at all.

    Returns:
        The Pythons whose offer fits best, ascending, and whether the list is what they are offered on some day.
        None for a package that the matrix does not know, and for a list without any version that it knows: an
        empty list means that there is no wheel at all, or that the index was not reached.
    """
    offered: dict[tuple[str, str], set[Version]] = defaultdict(set)
    for release in matrix.releases(platform, canonicalize_name(name)):
        for python in release.python:
            offered[python, release.platform].add(Version(release.version))
    printed = _printed(versions, set[Version]().union(*offered.values()))
    if not printed:
        return None
    fitting = [target for target, whole in offered.items() if _is_a_day_of(whole, printed)]
    if not (exact := bool(fitting)):
        ranked = {target: _likeness(whole, printed) for target, whole in offered.items()}
        best = max(ranked.values())
        fitting = [target for target, score in ranked.items() if score == best and score[0] >= 0.9]
    return tuple(sorted({python for python, _ in fitting}, key=Version)), exact


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


def _series(versions: Iterable[Version]) -> dict[tuple[int, int], list[Version]]:
    found: dict[tuple[int, int], list[Version]] = defaultdict(list)
    for version in sorted(versions):
        found[version.major, version.minor].append(version)
    return found


def _is_a_day_of(whole: set[Version], printed: set[Version]) -> bool:
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


def _likeness(whole: set[Version], printed: set[Version]) -> tuple[float, bool, float]:
    """How much of the list is offered, whether both begin with the same release, how much of the offer is listed."""
    until = max(printed)
    offered = {version for version in whole if version <= until}
    both = len(printed & whole)
    return both / len(printed), min(whole) == min(printed), both / max(1, len(offered))
