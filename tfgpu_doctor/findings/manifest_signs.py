"""Signs over the environment that a manifest describes, before anything is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from tfgpu_doctor.findings.declaration import Declaration, Problem
from tfgpu_doctor.matrix.schema import CondaBuild
from tfgpu_doctor.plan.planned import PlannedEnvironment, pinned, specifier
from tfgpu_doctor.records.report import Fix, Severity

CONDA_RECIPE = "conda-forge's tensorflow recipe"
USE_PIP = Fix("Or install TensorFlow with pip instead: tfgpu plan lists the commands")

# findings that decide which TensorFlow, if any, is installed: what it needs is no question beside them; nor beside a
# package that has been discontinued, unless one of its releases is asked for by its number
DECIDED_BY_PACKAGE = ("tf.windows-native", "tf.cpu-build")

Search: TypeAlias = Callable[[PlannedEnvironment], Iterator[Problem]]


def in_manifests(declared: Declaration, unless: tuple[str, ...] = ()) -> Callable[[Search], Search]:
    """Register a search of a planned environment as a sign; what it yields becomes one problem."""

    def register(search: Search) -> Search:
        @declared.sign(conclusive=False, unless=unless)
        def sign(planned: PlannedEnvironment) -> Problem | None:
            decided = set(DECIDED_BY_PACKAGE) <= set(unless) and _is_replaced(planned)
            return None if decided else _joined(tuple(search(planned)))

        return search

    return register


def _is_replaced(view: PlannedEnvironment) -> bool:
    """Whether a discontinued package is required, of any release."""
    one = view.tensorflow
    return one is not None and one.name in ("tensorflow-gpu", "tf-nightly-gpu") and pinned(one) is None


def _joined(problems: Iterable[Problem]) -> Problem | None:
    """The gravest of several, with the evidence and the fixes of all."""
    order = tuple(Severity)
    several = sorted(problems, key=lambda one: order.index(one.severity or Severity.ERROR))
    if not several:
        return None
    first = several[0]
    fixes = (fix for one in several for fix in one.fixes or ())
    return Problem(
        title=first.title,
        cause=first.cause,
        evidence=tuple(dict.fromkeys(line for one in several for line in one.evidence)),
        fixes=tuple(dict.fromkeys(fixes)),
        severity=first.severity or Severity.ERROR,
    )


def conda_builds(view: PlannedEnvironment) -> tuple[CondaBuild, ...]:
    """conda-forge's builds that the match spec allows on the platform; none where another channel may be used."""
    tensorflow, channels = view.tensorflow, view.environment.channels
    if tensorflow is None or not view.conda or (channels and "conda-forge" not in channels):
        return ()
    wanted = specifier(tensorflow.specifier)
    rows = (row for row in view.matrix.data.conda_forge if row.platform == view.target.platform)
    return tuple(row for row in rows if wanted is not None and wanted.contains(row.version))
