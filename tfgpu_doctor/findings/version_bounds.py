"""Versions of a dependency against the bounds of a TensorFlow release."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from tfgpu_doctor.findings.declaration import Problem
from tfgpu_doctor.plan.file_edits import write
from tfgpu_doctor.plan.planned import PlannedEnvironment, specifier
from tfgpu_doctor.records.report import Evidence


def allows(bound: str, version: str) -> bool | None:
    """Whether a specifier contains a version; None where either cannot be read."""
    try:
        return SpecifierSet(bound).contains(Version(version), prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return None


def outside_bounds(
    view: PlannedEnvironment, name: str, bound: str | None, published: tuple[str, ...]
) -> Iterator[Problem]:
    """A requirement that allows none of the versions within the bounds of the TensorFlow release.

    `published` are versions of every minor release; those that are named in either specifier are tried as well.
    """
    row, requirement = view.release, view.requirement(name)
    if row is None or requirement is None or bound is None or view.conda:
        return
    wanted, allowed = specifier(requirement.specifier), specifier(bound)
    if wanted is None or allowed is None:
        return
    named = {one.version.removesuffix(".*") for one in (*wanted, *allowed)}
    if not any(wanted.contains(one) and allowed.contains(one) for one in (*published, *named)):
        expected = f"{name}{bound}"
        yield Problem(
            title=f"{requirement.text} is incompatible with TensorFlow {row.version}",
            cause="the installer refuses this combination, or the import fails",
            evidence=(
                Evidence(requirement.text, str(requirement.place), expected, f"TensorFlow {row.version} (metadata)"),
            ),
            fixes=(write(requirement, expected),),
        )
