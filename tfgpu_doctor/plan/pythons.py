"""For which Pythons all packages that the files name have wheels, in versions that go together. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.plan.planned import PlannedEnvironment
from tfgpu_doctor.plan.resolving import Wanted, can_be_met
from tfgpu_doctor.plan.universe import universe_of
from tfgpu_doctor.records.distributions import TENSORFLOW
from tfgpu_doctor.records.versions import numbers

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
