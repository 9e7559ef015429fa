"""Which TensorFlow releases satisfy a set of filters, and all that the matrix knows of one release. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import zip_longest
from typing import TypeAlias

from msgspec import structs
from packaging.version import Version

from tfgpu_doctor.facts.facts import Record
from tfgpu_doctor.facts.versions import major, minor, numbers, padded
from tfgpu_doctor.matrix.compatibility import (
    driver_branches,
    driver_reaches,
    drives,
    kernels_for,
    oldest_driver,
    only_its_minor,
)
from tfgpu_doctor.matrix.loader import KnownIssue, Matrix, Release
from tfgpu_doctor.matrix.schema import PLATFORMS, ReleaseRow

# the libraries of the toolkit that a program cannot do without; CUPTI only profiles, the others come on their own
TOOLKIT = ("cudart", "cublas", "cublasLt", "cufft", "curand", "cusolver", "cusparse")


class QueryError(ValueError):
    """A question about something that the matrix does not know; the message names what is near it."""


class Filters(Record, frozen=True, kw_only=True):
    """What a release must satisfy. None asks nothing; numbers are compared as far as they are given."""

    platform: str | None = "linux_x86_64"  # None: every platform
    package: str | None = None  # None: tensorflow, and with a GPU-side filter every package
    python: str | None = None  # "3.12"
    cuda: str | None = None  # "11", "11.8", "12.5.1"
    cudnn: str | None = None  # "8", "8.6"
    driver: str | None = None  # "470.82.01"; "470" is the newest of that branch
    compute_capability: str | None = None
    gpu: str | None = None  # a name that Matrix.gpu knows
    gpu_only: bool = False  # implied by the filters on CUDA, cuDNN, driver and card
    ptx: bool = False  # releases that run on the card by PTX alone, too
    pre: bool = False  # release candidates and nightlies, too
    wsl2: bool = False  # Linux under Windows, whose driver is the one of Windows

    @property
    def needs_gpu(self) -> bool:
        """Whether only builds that hold CUDA code count."""
        asked = (self.cuda, self.cudnn, self.driver, self.compute_capability, self.gpu)
        return self.gpu_only or any(one is not None for one in asked)


def releases(matrix: Matrix, filters: Filters) -> tuple[Release, ...]:
    """Every release that satisfies all filters, newest first; at one version `tensorflow` comes first.

    What is unknown satisfies no filter. Names and numbers in `filters` are taken to be well formed (cli/matrix.py
    reads them).
    """
    package = filters.package or (None if filters.needs_gpu else "tensorflow")
    asked = cards(matrix, filters)
    rows = matrix.releases(filters.platform, package)
    return newest_first(row for row in rows if _satisfies(matrix, row, filters, asked))


def _satisfies(matrix: Matrix, row: Release, filters: Filters, asked: tuple[str, ...]) -> bool:
    """Whether a release is what all filters ask for, and runs on these GPUs."""
    return (
        (row.gpu or not filters.needs_gpu)
        and (filters.pre or not row.prerelease)
        and (filters.python is None or filters.python in row.python)
        and (filters.cuda is None or same_as_far_as_given(row.cuda, filters.cuda))
        # rows have major and minor
        and (filters.cudnn is None or same_as_far_as_given(row.cudnn, minor(filters.cudnn)))
        and (filters.driver is None or driver_reaches(filters.driver, min_driver(matrix, row, filters)))
        and all(_runs_on(matrix, row, card, filters) for card in asked)
    )


def _runs_on(matrix: Matrix, row: Release, card: str, filters: Filters) -> bool:
    """Whether a release runs on a GPU, whose drivers include the one given, or else one that the release takes."""
    how = kernels_for(matrix, row, card)
    if how == "no" or (how == "ptx" and not filters.ptx) or broken_on(matrix, row, card, filters.python):
        return False
    (first, last), architecture = driver_branches(matrix, card, filters.gpu), matrix.architecture(card)
    if filters.driver is not None:
        return drives(filters.driver, first or (architecture.first_driver_branch if architecture else None), last)
    needed = min_driver(matrix, row, filters)
    return needed is None or drives(needed, None, last)


def newest_first(rows: Iterable[Release]) -> tuple[Release, ...]:
    """Sort by version, then package (`tensorflow` first), then platform."""
    ordered = sorted(rows, key=lambda row: (row.package != "tensorflow", row.package, PLATFORMS.index(row.platform)))
    return tuple(sorted(ordered, key=lambda row: Version(row.version), reverse=True))


def cards(matrix: Matrix, filters: Filters) -> tuple[str, ...]:
    """The compute capabilities that are asked for, by number and by name."""
    named = matrix.gpu(filters.gpu) if filters.gpu is not None else None
    asked = (filters.compute_capability, named.compute_capability if named else None)
    return tuple(dict.fromkeys(one for one in asked if one is not None))


def broken_on(matrix: Matrix, row: Release, card: str, python: str | None = None) -> KnownIssue | None:
    """The error among the known issues of a release that keeps it from running on a card."""
    issues = matrix.issues_for(row, python=python, compute_capabilities=[card])
    return next((one for one in issues if one.severity == "error" and one.affects == "run"), None)


def same_as_far_as_given(version: str | None, wanted: str) -> bool:
    """Whether "12.5.1" is what "12", "12.5" or "12.5.1" ask for; "11.8" is also 11.8.0, but "7" no certain minor."""
    if version is None:
        return False
    asked, have = numbers(wanted), numbers(version)
    if len(have) >= 2:
        have = (*have, *(0,) * len(asked))
    return have[: len(asked)] == asked


def min_driver(matrix: Matrix, row: Release, filters: Filters) -> str | None:
    """The oldest driver that a release runs on, on its own platform and the GPU asked for; None: unknown."""
    return oldest_driver(row, cards(matrix, filters), "wsl2" if filters.wsl2 else row.platform.partition("_")[0])


def only_with(matrix: Matrix, filters: Filters, **changes: bool) -> tuple[Release, ...]:
    """The releases that `ptx=True` or `pre=True` would add."""
    have = set(map(_key, releases(matrix, filters)))
    return tuple(row for row in releases(matrix, structs.replace(filters, **changes)) if _key(row) not in have)


def known_broken(matrix: Matrix, filters: Filters) -> tuple[tuple[Release, KnownIssue], ...]:
    """Releases with code for the card that satisfy all else, but are known not to work on it, each with the issue."""
    asked = cards(matrix, filters)
    others = structs.replace(filters, compute_capability=None, gpu=None, gpu_only=filters.needs_gpu)
    found = []
    for row in releases(matrix, others) if asked else ():
        issues = [issue for card in asked if (issue := broken_on(matrix, row, card, filters.python))]
        if issues and all(kernels_for(matrix, row, card) != "no" for card in asked):
            found.append((row, issues[0]))
    return tuple(found)


def also_load(matrix: Matrix, filters: Filters) -> tuple[Release, ...]:
    """Releases built for an earlier minor of the CUDA (and cuDNN) asked for that open libraries of the same names.

    That the names are the same is read off the library sets: a build of this minor or a later one opens them, too.
    """
    wanted = filters.cuda
    if wanted is None or len(numbers(wanted)) < 2:
        return ()
    everything = Filters(platform=filters.platform, package=filters.package, gpu_only=True)
    later = [row for row in releases(matrix, everything) if _of_the_major(row, wanted, later=True)]
    others = structs.replace(filters, cuda=None, cudnn=None, gpu_only=True)
    rows = (row for row in releases(matrix, others) if _of_the_major(row, wanted, later=False))
    usable = (row for row in rows if takes_cudnn(row, filters.cudnn))
    return tuple(row for row in usable if any(_same_names(row, proof) for proof in later))


def _of_the_major(row: Release, cuda: str, *, later: bool) -> bool:
    """Whether a release's CUDA is of the same major, and of that minor or a later one, or else an earlier one."""
    return row.cuda is not None and major(row.cuda) == major(cuda) and (padded(row.cuda) >= padded(cuda)) == later


def takes_cudnn(row: Release, cudnn: str | None) -> bool:
    """cuDNN at run time may be a later minor than the one compiled against, of the same major, but for old releases."""
    if cudnn is None or row.cudnn is None:
        return cudnn is None
    if only_its_minor(row):
        have, own = numbers(cudnn)[:2], numbers(row.cudnn)[:2]
        return have[: len(own)] == own[: len(have)]
    return major(row.cudnn) == major(cudnn) and numbers(cudnn) >= numbers(row.cudnn)[: len(numbers(cudnn))]


def _same_names(one: Release, other: Release) -> bool:
    if one.platform != other.platform:
        return False
    here, there = ({lib.component: lib.soname for lib in row.libraries} for row in (one, other))
    common = [name for name in TOOLKIT if name in here and name in there]
    return "cudart" in common and all(here[name] == there[name] for name in common)


def _key(row: Release) -> tuple[str, str, str]:
    return row.package, row.version, row.platform


# "2.15.1", "v2.15.1", "2.15.*", "tensorflow==2.15.1", "tensorflow[and-cuda]==2.15.1"
_REQUIREMENT = re.compile(
    r"(?:(?P<package>[A-Za-z][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*==\s*)?[vV]?(?P<version>[0-9]\S{0,80}?)(?:\.[*xX])?"
)

_Rows: TypeAlias = list[tuple[Version, ReleaseRow]]  # of one package
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
    rows = [(Version(row.version), row) for row in matrix.data.tensorflow if row.package == package]
    there = _having(Version(version), rows)
    newest = max((known for known, row in there if platform in row.wheels), default=None)
    found = matrix.tensorflow(str(newest), platform, package) if newest else None
    if found is None:
        raise QueryError(_unknown(version, platform, package, rows))
    return (with_gpu(matrix, found) if prefer_gpu and not is_named else None) or found


def read_release(matrix: Matrix, text: str, package: str | None = None) -> tuple[str, str]:
    """Split what a person writes into a version and a package.

    Raises QueryError: no version; a package that the matrix does not know, or two different ones.
    """
    match = _REQUIREMENT.fullmatch(text.strip())
    try:
        Version(match["version"] if match else "")
    except ValueError:
        match = None
    if match is None:
        raise QueryError(f"{text.strip()!r} is not a TensorFlow version such as 2.15.1 or 2.15")
    named = match["package"] and known_package(matrix, match["package"])
    asked = package and known_package(matrix, package)
    if named and asked and named != asked:
        raise QueryError(f"{text.strip()!r} names another package than --package {asked}")
    return match["version"], named or asked or "tensorflow"


def with_gpu(matrix: Matrix, row: Release) -> Release | None:
    """The release of the same version and platform that has the GPU, where `row` is the CPU build of the two."""
    if row.gpu or row.package not in _TWINS:
        return None
    twin = matrix.tensorflow(row.version, row.platform, _TWINS[row.package])
    return twin if twin is not None and twin.gpu and twin.version == row.version else None


def known_package(matrix: Matrix, name: str) -> str:
    """The package as the matrix spells it.

    Raises QueryError: it has no such package; the message lists those it has.
    """
    normal = re.sub(r"[-_.]+", "-", name).lower()
    known = dict.fromkeys(row.package for row in matrix.data.tensorflow)
    if normal not in known:
        raise QueryError(f"unknown package {name!r}; the matrix has {', '.join(known)}")
    return normal


def _having(wanted: Version, rows: _Rows) -> _Rows:
    """The rows of that version; of a minor, of any stable patch."""
    if len(wanted.release) >= 3 or wanted.is_prerelease or wanted.local or wanted.is_postrelease:
        return [(known, row) for known, row in rows if known == wanted]
    same = [(known, row) for known, row in rows if known.release[:2] == wanted.release]
    return [(known, row) for known, row in same if not (known.is_prerelease or known.local)]


def _unknown(text: str, platform: str, package: str, rows: _Rows) -> str:
    """Why a version has no row, and what is near."""
    wanted, here = Version(text), [known for known, row in rows if platform in row.wheels]
    near = f"; the nearest known on {platform}: {', '.join(map(str, _nearest(wanted, here)))}"
    if not here:
        near = f"; the matrix knows {package} only for {_listed(name for _, row in rows for name in row.wheels)}"
    if there := [name for _, row in _having(wanted, rows) for name in row.wheels]:
        return f"{package} {text} has no wheel for {platform}; it has wheels for {_listed(there)}{near}"
    if any(known.release[:2] == wanted.release for known in here):
        return f"{package} {text} has no stable release yet{near}"
    return f"unknown {package} {text}{near}"


def _nearest(wanted: Version, known: list[Version]) -> list[Version]:
    """Up to three known versions, newest first; release candidates only where there is nothing else."""
    stable = [one for one in known if not one.is_prerelease] or known
    return sorted(sorted(stable, key=lambda one: distance(one.release, wanted.release))[:3], reverse=True)


def distance(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """How far two versions are from each other: a major version weighs more than any minor."""
    major, minor, patch, *_ = (a - b for a, b in zip_longest((*one, 0, 0), (*other, 0, 0), fillvalue=0))
    return abs(10_000 * major + 100 * minor + patch)


def _listed(names: Iterable[str]) -> str:
    *others, last = dict.fromkeys(names)
    return " and ".join(filter(None, [", ".join(others), last]))
