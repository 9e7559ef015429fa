"""Check manifests against the matrix, and edit them until nothing is found. Pure.

The environments that files describe are judged by the same findings as a machine, whose first fixes are edits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from msgspec import structs

from tfgpu_doctor import __version__
from tfgpu_doctor.facts.distributions import TENSORFLOW
from tfgpu_doctor.facts.facts import NOT_EXAMINED, Facts, Known
from tfgpu_doctor.facts.report import (
    SCHEMA,
    Edit,
    Finding,
    Report,
    Severity,
    Tool,
    Undetermined,
    Verdict,
    root_causes,
)
from tfgpu_doctor.facts.versions import minor
from tfgpu_doctor.findings.catalogue import DECLARATIONS, RANK
from tfgpu_doctor.findings.engine import SEVERITIES, diagnose
from tfgpu_doctor.manifests import Environment, ManifestError
from tfgpu_doctor.manifests.editing import Refused, apply
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.plan import manifest_signs as _signs_are_added  # noqa: F401
from tfgpu_doctor.plan.alternatives import is_data_centre
from tfgpu_doctor.plan.file_edits import FileEdits
from tfgpu_doctor.plan.gate import admitted
from tfgpu_doctor.plan.planned import Base, PlannedEnvironment
from tfgpu_doctor.plan.target import Target, to_facts

# --------------------------------------------------------------------------------------------- environments → a report

_ABOUT_VISIBILITY = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")  # judged by line, in files that ask for a GPU


def judge(environments: Iterable[Environment], target: Target, matrix: Matrix, created: str) -> Report:
    """Judge every environment.

    Args:
        environments: as :func:`manifests.reading.joined` gives them.
        created: the time for the report, "2026-11-21T06:36:00Z".
    """
    views = [PlannedEnvironment(one, target, matrix) for one in environments if one.part_of is None]
    found: dict[object, Finding] = {}
    reasons = dict.fromkeys(line for one in views for line in one.environment.not_understood)
    undetermined = [Undetermined(id="tf.python-unsupported", reason=reason) for reason in reasons]
    for view in views:
        own = _findings(view, matrix)
        found |= {_identity(one): one for one in own}
        if (reason := _not_in_matrix(view)) and not own:
            undetermined.append(Undetermined(id="cuda.version-mismatch", reason=reason))
    return Report(
        schema=SCHEMA,
        tool=Tool(name="tfgpu", version=__version__),
        matrix=matrix.info,
        created=created,
        source="text",
        verdict=_verdict(found.values(), any(map(_is_known, views))),
        facts=Facts(),
        timings={},
        findings=tuple(sorted(found.values(), key=_rank)),
        undetermined=tuple(undetermined),
    )


def _is_known(view: PlannedEnvironment) -> bool:
    """Whether it names a TensorFlow of the usual places, or an image that has one; it may be newer than the matrix."""
    one, base = view.tensorflow, view.base
    return not one.elsewhere if one else bool(base and (base.container or base.tensorflow or _is_of_a_month(base)))


def _is_of_a_month(base: Base) -> bool:
    """Whether it is an image of NVIDIA's, whose TensorFlow and CUDA go together, and of which no more is known."""
    return base.of_tensorflow and base.cuda is not None


def _not_in_matrix(view: PlannedEnvironment) -> str | None:
    """Why nothing is known of the TensorFlow that is named."""
    one, base = view.tensorflow, view.base
    if one and one.elsewhere:
        return f"{one.place}: {one.text} comes from {one.elsewhere}, of which the matrix has nothing"
    if one and view.release is None and not view.allowed and not view.conda:
        return f"{one.place}: the matrix has no release that matches {one.text}"
    if one is None and base and base.of_tensorflow and view.release is None and not (base.container or base.cuda):
        return f"{base.image.place}: {base.image.reference} is not in the matrix"
    return None


def _verdict(findings: Iterable[Finding], judged: bool) -> Verdict:
    severities = {one.severity for one in findings}
    if Severity.ERROR in severities:
        return "broken"
    if not judged:
        return "unknown"
    return "degraded" if Severity.WARNING in severities else "ok"


def _identity(one: Finding) -> object:
    return one.id, one.title, one.evidence


def facts_of(one: PlannedEnvironment) -> Facts:
    """The facts that hold once the environment is installed on the described machine."""
    facts, where = to_facts(one.target), str(one.environment.place)
    if isinstance(facts.python.version, Known):  # that of a file stands in the target, too
        version = structs.replace(facts.python.version, source=one.python_place)
        facts = structs.replace(facts, python=structs.replace(facts.python, version=version))
    settings = (each for each in one.environment.settings if each.name not in _ABOUT_VISIBILITY)
    if variables := {each.name: each.value for each in settings if each.name.isupper()}:
        facts = structs.replace(facts, variables=Known(variables, where))
    if one.base and one.base.cuda and is_data_centre(one.target):  # libcuda of the forward-compatibility package
        cuda = Known(minor(one.base.cuda), str(one.base.image.place), "inferred")
        facts = structs.replace(facts, driver=structs.replace(facts.driver, cuda_supported=cuda))
    row = one.release
    if row is None:  # which Pythons its wheels are for is not known
        return structs.replace(facts, python=structs.replace(facts.python, version=NOT_EXAMINED))
    if one.conda or not one.wants_gpu or not row.gpu:
        return facts  # a build without CUDA is no problem where no GPU is meant, else a question to the file
    version, package = Known(row.version, one.where, "inferred"), Known(row.package, one.where, "inferred")
    return structs.replace(facts, tensorflow=structs.replace(facts.tensorflow, version=version, distribution=package))


def _findings(view: PlannedEnvironment, matrix: Matrix) -> list[Finding]:
    """The findings, gravest first; what an edit of a file brings is not installed by hand."""
    facts = facts_of(view)
    found = root_causes(diagnose(facts, matrix, fixes=partial(FileEdits, planned=view), planned=view).findings)
    for index, one in enumerate(found):
        fixes = list(one.fixes)
        for number, fix in enumerate(fixes if any(fix.edits for fix in fixes) else ()):
            by_hand = tuple(line for line in fix.commands if " install " not in line)
            fixes[number] = structs.replace(fix, commands=by_hand)
        found[index] = structs.replace(one, fixes=admitted(fixes, facts, matrix))
    return sorted(found, key=_rank)


def _rank(finding: Finding) -> tuple[int, bool, int, str]:
    """Gravest first; of warnings, the one that keeps TensorFlow from the GPU before those about the installation."""
    unused_gpu = finding.severity is Severity.WARNING and DECLARATIONS[finding.id].about_gpus
    place = finding.evidence[0].source if finding.evidence else ""
    return SEVERITIES.index(finding.severity), not unused_gpu, RANK[finding.id], place


# ------------------------------------------------------------------------------------------------- files are edited


_MOST = 50  # times that files are judged again


class Repair(NamedTuple):
    """What was changed, and what could not be."""

    texts: dict[str, str]  # by path, those of changed files
    refused: tuple[Refused, ...]
    report: Report  # of the files as they are then


def repair(
    report: Report,
    text: Callable[[str], str | None],
    judge: Callable[[Mapping[str, str]], Report],
    shells: Container[str],
) -> Repair:
    """Make the first fix of each problem, judge the files again, and so on until no fix is left that is an edit.

    Args:
        report: of the files as they are.
        text: of a file, by its path; None for one that must not be changed.
        judge: the report with other texts in place of some files. Raises ManifestError: one of them is no manifest.
        shells: paths of files whose lines are commands.
    """
    texts: dict[str, str] = {}
    refused: list[Refused] = []
    for _ in range(_MOST):
        batch = _batch(report, {one.edit for one in refused})
        if not batch:
            break
        changed, reasons = _made(batch, texts, text, shells)
        try:
            after = judge({**texts, **changed})
        except ManifestError as error:
            reason = f"with this change the file cannot be read: {error}"
            refused += [Refused(edit, reason) for one in batch for edit in _first(one)]
            continue
        left = set(map(_identity, after.findings))
        reasons = reasons or [
            Refused(_first(one)[0], f"{one.id} would remain") for one in batch if _identity(one) in left
        ]
        refused += reasons
        if not reasons:
            texts, report = {**texts, **changed}, after
    advised = {edit for one in report.findings for edit in _first(one)}
    return Repair(texts, tuple(one for one in refused if one.edit in advised), report)


def _first(one: Finding) -> tuple[Edit, ...]:
    return one.fixes[0].edits if one.fixes and one.severity is not Severity.NOTE else ()


def _batch(report: Report, refused: Container[Edit]) -> list[Finding]:
    """Findings of different files to repair next: in each file, first what decides on TensorFlow and its Python."""
    open_ = [one for one in report.findings if one.root_cause and _first(one)]
    open_ = [one for one in open_ if not any(edit in refused for edit in _first(one))]
    batch: dict[str, Finding] = {}
    for one in sorted(open_, key=lambda one: not any(map(_decides, _first(one)))):
        if not any(edit.path in batch for edit in _first(one)):
            batch |= dict.fromkeys((edit.path for edit in _first(one)), one)
    return list({id(one): one for one in batch.values()}.values())


def _decides(edit: Edit) -> bool:
    """True if it changes which TensorFlow there is, or for which Python: their lines, bounds, and images."""
    name = re.match(r"[\w.-]*", edit.old)
    is_image = re.search(r"/|(?<!:):(?!:)", edit.old) is not None
    return not edit.beside and (is_image or (name is not None and name[0] in (*TENSORFLOW, "python", "")))


def _made(
    findings: Iterable[Finding],
    texts: Mapping[str, str],
    text: Callable[[str], str | None],
    shells: Container[str],
) -> tuple[dict[str, str], list[Refused]]:
    """The texts of files after the first fixes of findings, by path, and the edits that cannot be made."""
    changed: dict[str, str] = {}
    refused: list[Refused] = []
    edits = dict.fromkeys(edit for one in findings for edit in _first(one))
    for path in dict.fromkeys(edit.path for edit in edits):
        own, now = [edit for edit in edits if edit.path == path], texts.get(path, text(path))
        if now is None:
            reason = "this file is not changed: it is not a regular file, or a link to another folder"
            refused += [Refused(edit, reason) for edit in own]
        else:
            changed[path], reasons = apply(path, now, own, in_shell=path in shells)
            refused += reasons
    return changed, refused
