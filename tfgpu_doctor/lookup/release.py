"""One release by the version that a person writes: its row, or what is near it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from packaging.version import Version

from tfgpu_doctor.lookup.releases import QueryError
from tfgpu_doctor.matrix.loader import Matrix, Release

# "2.15.1", "v2.15.1", "2.15.*", "tensorflow==2.15.1", "tensorflow[and-cuda]==2.15.1"
_REQUIREMENT = re.compile(
    r"(?:(?P<package>[A-Za-z][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*==\s*)?[vV]?(?P<version>[0-9]\S{0,80}?)(?:\.[*xX])?"
)

_TWINS = {"tensorflow": "tensorflow-gpu", "tensorflow-cpu": "tensorflow", "tensorflow-intel": "tensorflow"}


def find_release(
    matrix: Matrix, text: str, platform: str, package: str | None = None, *, prefer_gpu: bool = False
) -> Release:
    """The row of exactly the release that `text` names; "2.15" is the newest stable patch known of that minor.

    Args:
        text: a version, or a requirement of one ("tensorflow-gpu==1.15.5").
        package: `tensorflow` where neither this nor `text` names one.
        prefer_gpu: where none is named, the one that has the GPU (tensorflow-gpu of 1.14, of 1.15 on Windows).

    Raises QueryError: no version, or no such release of that package on that platform; with the nearest that there are.
    """
    is_named = package is not None or not text.strip()[:2].lstrip("vV")[:1].isdigit()
    version, package = read_release(matrix, text, package)
    found = matrix.tensorflow(str(_resolved(matrix, version, platform, package)), platform, package)
    assert found is not None
    return (with_gpu(matrix, found) if prefer_gpu and not is_named else None) or found


def read_release(matrix: Matrix, text: str, package: str | None = None) -> tuple[str, str]:
    """Split what a person writes into a version and a package.

    Raises QueryError: no version; a package that the matrix does not know, or two different ones.
    """
    match = _REQUIREMENT.fullmatch(text.strip())
    try:
        version = str(Version(match["version"]) and match["version"]) if match else None
    except ValueError:
        version = None
    if match is None or version is None:
        raise QueryError(f"{text.strip()!r} is not a TensorFlow version such as 2.15.1 or 2.15")
    named = match["package"] and known_package(matrix, match["package"])
    asked = package and known_package(matrix, package)
    if named and asked and named != asked:
        raise QueryError(f"{text.strip()!r} names another package than --package {asked}")
    return version, named or asked or "tensorflow"


def with_gpu(matrix: Matrix, row: Release) -> Release | None:
    """The release of the same version and platform that has the GPU, where `row` is the CPU build of the two."""
    if row.gpu or row.package not in _TWINS:
        return None
    twin = matrix.tensorflow(row.version, row.platform, _TWINS[row.package])
    return twin if twin is not None and twin.gpu and twin.version == row.version else None


def cpu_twin(matrix: Matrix, row: Release) -> Release | None:
    """The CPU build named `tensorflow` of the same version and platform, beside one of tensorflow-gpu."""
    twin = matrix.tensorflow(row.version, row.platform) if row.package == "tensorflow-gpu" else None
    return twin if twin is not None and not twin.gpu and twin.version == row.version else None


def known_package(matrix: Matrix, name: str) -> str:
    """The package as the matrix spells it.

    Raises QueryError: it has no such package; the message lists those it has.
    """
    normal = re.sub(r"[-_.]+", "-", name).lower()
    known = dict.fromkeys(row.package for row in matrix.data.tensorflow)
    if normal not in known:
        raise QueryError(f"unknown package {name!r}; the matrix has {', '.join(known)}")
    return normal


def _resolved(matrix: Matrix, text: str, platform: str, package: str) -> Version:
    """The version of the row that answers; the error says what there is instead."""
    wanted = Version(text)
    here = versions(matrix, package, platform)
    if _is_exact(text):
        if wanted in here:
            return wanted
    else:
        stable = [one for one in here if one.release[:2] == wanted.release[:2] and not (one.is_prerelease or one.local)]
        if stable and len(wanted.release) == 2:
            return max(stable)
    raise QueryError(_unknown(matrix, text, platform, package))


def versions(matrix: Matrix, package: str, platform: str | None = None) -> list[Version]:
    """The versions known of a package, newest first, on one platform or on any."""
    rows = (row for row in matrix.data.tensorflow if row.package == package)
    return sorted((Version(row.version) for row in rows if platform is None or platform in row.wheels), reverse=True)


def nearest_versions(matrix: Matrix, text: str, platform: str | None, package: str, count: int = 4) -> tuple[str, ...]:
    """The known versions nearest to one, newest first: for "2.15.7" 2.15.1, 2.15.0.post1, 2.15.0.

    Release candidates only where there is nothing else; of other minors, the newest patch.
    """
    wanted = Version(text)
    known = versions(matrix, package, platform)
    own = [one for one in known if one.release[:2] == wanted.release[:2]]
    chosen = own or _newest_patches(known)
    chosen = [one for one in chosen if not one.is_prerelease] or chosen
    return tuple(str(one) for one in sorted(_closest(chosen, wanted)[:count], reverse=True))


def _newest_patches(known: list[Version]) -> list[Version]:
    """The newest patch of each minor."""
    newest: dict[tuple[int, ...], Version] = {}
    for one in known:
        if not one.is_prerelease:
            newest.setdefault(one.release[:2], one)
    return list(newest.values()) or known


def _closest(known: Iterable[Version], wanted: Version) -> list[Version]:
    weights = (10_000, 100, 1)  # a major version weighs more than any minor
    target = sum(weight * part for weight, part in zip(weights, (*wanted.release, 0, 0), strict=False))

    def distance(one: Version) -> int:
        return abs(target - sum(weight * part for weight, part in zip(weights, one.release, strict=False)))

    return sorted(known, key=distance)


def _is_exact(text: str) -> bool:
    version = Version(text)
    return len(version.release) >= 3 or version.is_prerelease or bool(version.local) or version.is_postrelease


def _unknown(matrix: Matrix, text: str, platform: str, package: str) -> str:
    """Why a version has no row, and what is near."""
    wanted = Version(text)
    name = f"{package} {text}"
    elsewhere = _having(matrix, text, package=package)
    if elsewhere:
        near = _near(matrix, text, platform, package)
        return f"{name} has no wheel for {platform}; it has wheels for {_listed(elsewhere)}{near}"
    packages = dict.fromkeys(row.package for row in matrix.data.tensorflow)
    twins = [one for one in packages if one != package and _having(matrix, text, package=one)]
    also = f"; {_listed(twins)} {'has' if len(twins) == 1 else 'have'} that version" if twins else ""
    known = versions(matrix, package, platform)
    minors = dict.fromkeys(f"{one.major}.{one.minor}" for one in known if wanted.release == one.release[:1])
    if minors:
        return f"{name} is a major version; name one of {', '.join(minors)}"
    early = [one for one in known if one.release[:2] == wanted.release[:2]]
    if not _is_exact(text) and early:
        return f"{name} has no stable release yet; the matrix knows {', '.join(map(str, early))}"
    return f"unknown {name}{also}{_near(matrix, text, platform, package)}"


def _near(matrix: Matrix, text: str, platform: str, package: str) -> str:
    near = nearest_versions(matrix, text, platform, package)
    if near:
        return f"; the nearest known on {platform}: {', '.join(near)}"
    platforms = [name for row in matrix.data.tensorflow if row.package == package for name in row.wheels]
    return f"; the matrix knows {package} only for {_listed(list(dict.fromkeys(platforms)))}"


def _having(matrix: Matrix, text: str, package: str) -> list[str]:
    """The platforms on which a package has that version (of a minor: any stable patch)."""
    wanted, exact = Version(text), _is_exact(text)
    found: dict[str, None] = {}
    for row in matrix.data.tensorflow:
        known = Version(row.version)
        same = known == wanted if exact else known.release[:2] == wanted.release and not known.is_prerelease
        if row.package == package and same:
            found.update(dict.fromkeys(map(str, row.wheels)))
    return list(found)


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
