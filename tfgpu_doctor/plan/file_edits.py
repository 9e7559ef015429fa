"""Lines that a manifest should have instead of those that it has. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from packaging.specifiers import SpecifierSet

from tfgpu_doctor.manifests import Requirement
from tfgpu_doctor.matrix.compatibility import requirement
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.plan.fixes import Fixes
from tfgpu_doctor.plan.planned import PlannedEnvironment
from tfgpu_doctor.records.facts import Facts
from tfgpu_doctor.records.report import Fix
from tfgpu_doctor.records.versions import minor


def replacement(planned: PlannedEnvironment, below: str | None = None) -> str | None:
    """The requirement of the best release for the target and its Python."""
    from tfgpu_doctor.plan.ranking import make_plan  # of no use to a doctor that reads no manifest

    wanted = SpecifierSet(f"<{below}") if below else None
    plan = make_plan(planned.matrix, planned.target, specifier=wanted)
    best = next((one for one in plan.options if one.kind in ("as-is", "python", "driver", "python+driver")), None)
    row = planned.matrix.tensorflow(best.tensorflow, planned.target.platform, best.package) if best else None
    return requirement(row) if row else None


def write(one: Requirement, better: str) -> Fix:
    beside = "" if "[" in better else ", with CUDA and cuDNN beside it (tfgpu plan has the commands)"
    return Fix(f"In {one.place}, write {better!r} instead of {one.text!r}{beside}")


def write_all(planned: PlannedEnvironment, one: Requirement | None) -> Iterable[Fix]:
    better = replacement(planned)
    if one and better and better != one.text:
        yield write(one, better)


def with_extra(planned: PlannedEnvironment, row: Release) -> str | None:
    """The release with its extra; where that is known to be broken, the best of its minor version, or of all."""
    issues = planned.matrix.issues_for(
        row, python=planned.python, compute_capabilities=planned.target.capabilities, extra=True
    )
    if not any(issue.severity == "error" for issue in issues):
        return requirement(row)
    from tfgpu_doctor.plan.ranking import make_plan

    plan = make_plan(planned.matrix, planned.target, specifier=SpecifierSet(f"=={minor(row.version)}.*"))
    best = next((one for one in plan.options if one.kind == "as-is"), None)
    near = planned.matrix.tensorflow(best.tensorflow, planned.target.platform, best.package) if best else None
    return requirement(near) if near else replacement(planned)


class FileEdits(Fixes):
    """The same fixes as edits of the files that were read: nothing is installed yet."""

    def __init__(self, facts: Facts, matrix: Matrix, planned: PlannedEnvironment) -> None:
        """Take the environment that the files describe."""
        super().__init__(facts, matrix)
        self._planned = planned

    def where_it_belongs(self, fix: Fix) -> Fix:
        """A variable is unset by taking its line out of the file."""
        for one in self._planned.environment.settings:
            if any(command.startswith("unset ") and one.name in command.split() for command in fix.commands):
                return Fix(f"Remove {one.name} from {one.place}")
        return fix

    def reinstall_best(self, why: str) -> tuple[Fix, ...]:
        """The line of TensorFlow, with the best release for the described machine."""
        return tuple(write_all(self._planned, self._planned.tensorflow))

    def beside_the_wheels(self, why: str) -> tuple[Fix, ...]:
        """No line of a file brings such a build; `tfgpu plan` lists images and conda-forge's builds."""
        return (Fix(f"List container images and other builds: {why}", ("tfgpu plan",)),)
