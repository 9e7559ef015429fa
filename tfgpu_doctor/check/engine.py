"""What a rule of `tfgpu check` answers, how it registers, and the lines that it proposes to write. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet

from tfgpu_doctor.check.view import View
from tfgpu_doctor.manifests import Requirement
from tfgpu_doctor.matrix.compatibility import minor, requirement
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.plan.ranking import make_plan
from tfgpu_doctor.records.report import Evidence, Fix, Severity

GUIDE = "https://www.tensorflow.org/install/pip"


@dataclass(frozen=True)
class Problem:
    """What a rule answers."""

    title: str
    cause: str
    evidence: tuple[Evidence, ...]
    fixes: tuple[Fix, ...] = ()
    severity: Severity = Severity.ERROR


Decision = Callable[[View], Iterator[Problem]]
RULES: dict[str, list[Decision]] = {}


def rule(identity: str) -> Callable[[Decision], Decision]:
    """Register a rule under an id of the catalogue; the order of the file is the order of the findings."""

    def register(decide: Decision) -> Decision:
        RULES.setdefault(identity, []).append(decide)
        return decide

    return register


def replacement(view: View, below: str | None = None) -> str | None:
    """The requirement of the best release for the target and its Python."""
    wanted = SpecifierSet(f"<{below}") if below else None
    plan = make_plan(view.matrix, view.target, specifier=wanted)
    best = next((one for one in plan.options if one.kind in ("as-is", "python", "driver", "python+driver")), None)
    row = view.matrix.tensorflow(best.tensorflow, view.target.platform, best.package) if best else None
    return requirement(row) if row else None


def write(one: Requirement, better: str) -> Fix:
    beside = "" if "[" in better else ", with CUDA and cuDNN beside it (tfgpu plan has the commands)"
    return Fix(f"In {one.place}, write {better!r} instead of {one.text!r}{beside}")


def write_all(view: View, one: Requirement | None) -> Iterable[Fix]:
    better = replacement(view)
    if one and better and better != one.text:
        yield write(one, better)


def with_extra(view: View, row: Release) -> str | None:
    """The release with its extra; where that is known to be broken, the best of its minor version, or of all."""
    issues = view.matrix.issues_for(row, python=view.python, compute_capabilities=view.target.capabilities, extra=True)
    if not any(issue.severity == "error" for issue in issues):
        return requirement(row)
    plan = make_plan(view.matrix, view.target, specifier=SpecifierSet(f"=={minor(row.version)}.*"))
    best = next((one for one in plan.options if one.kind == "as-is"), None)
    near = view.matrix.tensorflow(best.tensorflow, view.target.platform, best.package) if best else None
    return requirement(near) if near else replacement(view)
