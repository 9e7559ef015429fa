"""Versions of packages against what TensorFlow and each other require."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import partial

from msgspec import structs
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tfgpu_doctor.findings.declaration import Problem
from tfgpu_doctor.manifests import Requirement
from tfgpu_doctor.plan.conflicts import HAVE_WHEELS, Conflict, all_fitting, conflicts
from tfgpu_doctor.plan.constraints import PlanRequest, broken_within
from tfgpu_doctor.plan.file_edits import replacement, write, write_python
from tfgpu_doctor.plan.planned import PlannedEnvironment, specifier
from tfgpu_doctor.records.distributions import TENSORFLOW
from tfgpu_doctor.records.report import Evidence, Fix

_REFUSED = "the installer finds no versions that meet all requirements, and installs nothing"


def allows(bound: str, version: str) -> bool | None:
    """Whether a specifier contains a version; None where either cannot be read."""
    try:
        return SpecifierSet(bound).contains(Version(version), prereleases=True)
    except ValueError:
        return None


def without_gaps(bound: str) -> str:
    """The bounds without single versions between them, of which pip takes none as it takes the newest."""
    return ",".join(part for part in bound.split(",") if not part.startswith("!="))


def narrowed(bounds: Iterable[str]) -> str:
    """What meets all of these bounds, with one lower bound where several are given."""
    parts = [part for bound in dict.fromkeys(bounds) for part in without_gaps(bound).split(",") if part]
    lower = [part for part in parts if part.startswith(">=")]
    highest = max(lower, key=lambda part: Version(part.removeprefix(">=")), default=None)
    return ",".join(dict.fromkeys(part for part in parts if part not in lower or part == highest))


def refused(view: PlannedEnvironment, *, only: str | None = None, but: Collection[str] = ()) -> Iterator[Problem]:
    """Lines that pip cannot install together.

    Args:
        only: those of which the line of this package has to give way.
        but: not those, as they are problems of other findings.
    """
    for conflict in conflicts(view):
        alone = next(iter(conflict.names)) if len(conflict.names) == 1 else None
        if (only is None and alone not in but) or (only is not None and alone == only):
            pairs = zip(conflict.changed, map(partial(_for_the_gpu, view), conflict.better), strict=True)
            yield Problem(
                title=_title(view, conflict),
                cause=_REFUSED,
                evidence=conflict.evidence,
                fixes=tuple(write(line, better) for line, better in pairs if better and better != line.text)
                or tuple(_other_python(view)),
            )


def _for_the_gpu(view: PlannedEnvironment, better: str | None) -> str | None:
    """A TensorFlow that goes with the other lines, where it goes with the GPU, too; else what the report advises."""
    name, _, version = (better or "").partition("==")
    row = view.matrix.tensorflow(version, view.target.platform, name) if name in TENSORFLOW and version else None
    request = PlanRequest(view.matrix, structs.replace(view.target, python=None))
    suits = row is None or not row.gpu or broken_within(request, row, frozenset({"known-issue"})) is not None
    return better if suits else replacement(view)


def _other_python(view: PlannedEnvironment) -> Iterator[Fix]:
    """A Python for which all packages have a wheel, where there is one."""
    if pythons := all_fitting(view):
        yield write_python(view, pythons, HAVE_WHEELS)


def _title(view: PlannedEnvironment, conflict: Conflict) -> str:
    first, *rest = conflict.lines
    if not rest:
        return f"{first.text} cannot be installed with Python {view.universe.python}"
    if first.name in TENSORFLOW and view.release and len(rest) == 1:
        return f"{rest[0].text} is incompatible with TensorFlow {view.release.version}"
    texts = [first.text, *(one.text for one in rest)]
    return f"{', '.join(texts[:-1])} and {texts[-1]} exclude each other"


def outside_bounds(view: PlannedEnvironment, name: str, bound: str | None) -> Iterator[Problem]:
    """A requirement that allows none of the versions within a bound of TensorFlow's, which pip may not know of."""
    row, requirement = view.release, view.requirement(name)
    if row is None or requirement is None or bound is None or view.conda:
        return
    if specifier(requirement.specifier) is None or specifier(bound) is None or name in _giving_way(view):
        return
    if not _both(view, requirement, bound):
        expected = f"{name}{bound}"
        yield Problem(
            title=f"{requirement.text} is incompatible with TensorFlow {row.version}",
            cause="the installer refuses this combination, or the import fails",
            evidence=(
                Evidence(requirement.text, str(requirement.place), expected, f"TensorFlow {row.version} (metadata)"),
            ),
            fixes=(write(requirement, expected),),
        )


def _both(view: PlannedEnvironment, requirement: Requirement, bound: str) -> bool:
    """Whether some version meets both; those that are named in either count, too."""
    wanted, allowed = specifier(requirement.specifier), specifier(bound)
    assert wanted is not None and allowed is not None
    named = [one.version.removesuffix(".*") for one in (*wanted, *allowed)]
    if any(wanted.contains(one) and allowed.contains(one) for one in named):
        return True
    if not view.universe.known(requirement.name):
        return False
    package = view.universe.package(requirement.name)
    return bool(package.allowed(requirement.specifier) & package.allowed(bound))


def _giving_way(view: PlannedEnvironment) -> set[str]:
    return {name for conflict in conflicts(view) for name in conflict.names}
