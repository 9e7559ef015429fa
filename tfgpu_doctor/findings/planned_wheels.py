"""Releases and Pythons of a manifest for which pip finds no wheel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfgpu_doctor.findings.declaration import Problem
from tfgpu_doctor.findings.no_wheel import pythons_of
from tfgpu_doctor.manifests import Requirement
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.plan.conflicts import HAVE_WHEELS, pythons_for
from tfgpu_doctor.plan.file_edits import replacement, write_all, write_python, write_release
from tfgpu_doctor.plan.planned import PlannedEnvironment, specifier
from tfgpu_doctor.records.report import Evidence, Fix, Severity
from tfgpu_doctor.records.versions import numbers

_NO_MATCH = 'pip prints "No matching distribution found"'


def without_wheels(view: PlannedEnvironment, tensorflow: Requirement, allowed: Sequence[Release]) -> Iterator[Problem]:
    """The allowed releases have wheels for none of the Pythons, or only for some of them."""
    pythons, newest = view.pythons or (), allowed[0]
    with_wheels = {python for row in allowed for python in row.python}
    without = [python for python in pythons if python not in with_wheels]
    wheels = f"{tensorflow.text} ({tensorflow.place}; wheels of {newest.version})"
    seen = Evidence(f"Python {', '.join(without)}", view.python_place, pythons_of(newest), wheels)
    if without and len(without) == len(pythons):
        yield Problem(
            title=f"{tensorflow.text} has no wheel for Python {without[-1]}",
            cause=_NO_MATCH,
            evidence=(seen,),
            fixes=_another_python(view, tensorflow, allowed),
        )
    elif without and tensorflow.specifier:
        yield Problem(
            title=f"{tensorflow.text} has no wheel for Python {', '.join(without)}, which {view.python_place} allows",
            cause="uv and Poetry resolve for every Python that is allowed, and fail; pip fails on those Pythons",
            evidence=(seen,),
            fixes=(write_python(view, pythons_for(view, allowed)),),
            severity=Severity.WARNING,
        )


def _another_python(view: PlannedEnvironment, tensorflow: Requirement, allowed: Sequence[Release]) -> tuple[Fix, ...]:
    """A Python that has wheels, or another release; first the release where this one has no CUDA anyway."""
    newest, pythons = allowed[0], pythons_for(view, allowed)
    own = pythons == tuple(newest.python)
    use = write_python(view, pythons, f"{newest.package} {newest.version} has wheels for it" if own else HAVE_WHEELS)
    better = replacement(view)
    if not better:
        return (use,)
    other = write_release(view, tensorflow, better)
    if len(view.pythons or ()) > 1:
        return (other,)  # bounds of a project are narrowed, not moved
    without_cuda = view.wants_gpu and not newest.extra and not view.cudas
    return (other, use) if without_cuda else (use, other)


def no_release(view: PlannedEnvironment, tensorflow: Requirement) -> Iterator[Problem]:
    """No release that is published for the platform matches the requirement."""
    rows = view.matrix.stable(platform=view.target.platform, package=tensorflow.name)
    wanted = specifier(tensorflow.specifier)
    newest = next(iter(rows), None)
    if newest is None or wanted is None or (tensorflow.name == "tensorflow-gpu" and wanted.contains("2.12.0")):
        return
    first, second, *_ = numbers(newest.version)
    if any(wanted.contains(f"{first}.{second + ahead}.0") for ahead in (1, 2, 3)):
        return  # newer than this matrix
    expected = f"a release such as {newest.version}"
    yield Problem(
        title=f"No release of {tensorflow.name} matches {tensorflow.specifier} on {view.target.platform}",
        cause=_NO_MATCH,
        evidence=(Evidence(tensorflow.text, str(tensorflow.place), expected, "names of the wheels"),),
        fixes=tuple(write_all(view, tensorflow)),
    )
