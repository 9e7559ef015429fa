"""Check manifests against the matrix. Pure.

The environments that files describe are judged by the same findings as a machine, whose first fixes are edits.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from difflib import SequenceMatcher
from functools import partial

from msgspec import structs

from tfgpu_doctor import __version__
from tfgpu_doctor.facts.facts import NOT_EXAMINED, Facts, Known
from tfgpu_doctor.facts.report import (
    SCHEMA,
    Edit,
    Evidence,
    Finding,
    Fix,
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
from tfgpu_doctor.manifests import Environment, UnreadList
from tfgpu_doctor.manifests.requirement import pip_requirement
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.plan.alternatives import doubts_of, is_data_centre
from tfgpu_doctor.plan.file_edits import FileEdits
from tfgpu_doctor.plan.gate import admitted
from tfgpu_doctor.plan.manifest_signs import other_major_planned, other_version_planned
from tfgpu_doctor.plan.planned import Base, PlannedEnvironment
from tfgpu_doctor.plan.target import Target, to_facts

_ABOUT_VISIBILITY = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")  # judged by line, in files that ask for a GPU


def judge(environments: Iterable[Environment], target: Target, matrix: Matrix, created: str) -> Report:
    """Judge every environment.

    Args:
        environments: as :func:`manifests.reading.joined` gives them.
        created: the time for the report, "2026-11-21T06:36:00Z".
    """
    views = [PlannedEnvironment(one, target, matrix) for one in environments if one.part_of is None]
    found: dict[object, Finding] = {}
    reasons = dict.fromkeys(str(line) for one in views for line in one.environment.not_understood)
    undetermined = [Undetermined(id="tf.python-unsupported", reason=reason) for reason in reasons]
    with_extra = {one.environment.place.path for one in views if one.environment.kind == "pyproject" and one.extra}
    for view in views:
        own = [one for one in _findings(view, target, matrix) if not _is_for_extra(one, view, with_extra)]
        found |= {(one.id, one.title, one.evidence): one for one in own}
        undetermined += _left_open(view, own)
    judged = any(map(_is_known, views)) and not any(one.environment.unread for one in views)
    return Report(
        schema=SCHEMA,
        tool=Tool(name="tfgpu", version=__version__),
        matrix=matrix.info,
        created=created,
        source="text",
        verdict=_verdict(found.values(), judged),
        facts=Facts(),
        timings={},
        findings=tuple(sorted(found.values(), key=_rank)),
        undetermined=tuple(undetermined),
    )


def _left_open(view: PlannedEnvironment, own: list[Finding]) -> Iterator[Undetermined]:
    """What is not judged of an environment."""
    if view.tensorflow and view.allowed and not view.release and len(view.wanted) > 1:
        later = f"{view.where}: the other requirements are judged when TensorFlow has a wheel: check again then"
        yield Undetermined(id="tf.package-conflict", reason=later)
    if (reason := _not_in_matrix(view)) and Severity.ERROR not in {one.severity for one in own}:
        yield Undetermined(id="cuda.version-mismatch", reason=reason)
    if view.base:
        yield from _about_image(view, view.base)
    for one in () if view.tensorflow else view.environment.requirements:
        if one.name != "tensorflow" and SequenceMatcher(None, one.name, "tensorflow").ratio() > _MISTYPED:
            yield Undetermined(id="tf.not-installed", reason=f"{one.place}: {one.text}: did you mean tensorflow?")


def _about_image(view: PlannedEnvironment, base: Base) -> Iterator[Undetermined]:
    """Which TensorFlow it has, where something is installed over that, and whether it runs on the described GPU."""
    if base.of_a_month and base.of_tensorflow and base.cuda and view.wanted and not base.tensorflow:
        reason = f"{base.image.place}: which TensorFlow {base.image.reference} has is not in the matrix"
        yield Undetermined(id="tf.package-conflict", reason=reason)
    for doubt in doubts_of(base.container, view.target, view.matrix) if base.container else ():
        yield Undetermined(id="gpu.arch-too-new", reason=f"{base.image.place}: {doubt}")


def _is_for_extra(finding: Finding, view: PlannedEnvironment, with_extra: set[str]) -> bool:
    """Whether it is about a project without the extra that brings CUDA."""
    line, kind = view.tensorflow, view.environment.kind
    of_project = kind in ("pyproject", "workflow") and line is not None and line.place.path in with_extra
    return of_project and finding.id == "cuda.missing"


_MISTYPED = 0.9  # a letter too many, too few, or in another place


def _is_known(view: PlannedEnvironment) -> bool:
    """Whether it names a TensorFlow of the usual places, of which something is known, or an image that has one."""
    one, base = view.tensorflow, view.base
    if any(isinstance(line, UnreadList) for line in view.environment.not_understood):
        return False
    if one and not one.elsewhere:
        return bool(view.conda or view.allowed or view.release) and _not_in_matrix(view) is None
    inside = base and (base.tensorflow or "tensorflow/serving" in base.image.name or (base.of_tensorflow and base.cuda))
    return one is None and bool(inside or view.apart) and _not_in_matrix(view) is None


def _not_in_matrix(view: PlannedEnvironment) -> str | None:
    """Why nothing is known of the TensorFlow that is named."""
    one, base = view.tensorflow, view.base
    if one and one.elsewhere:
        return f"{one.place}: {one.text} comes from {one.elsewhere}, of which the matrix has nothing"
    if one and view.release is None and not view.allowed and not view.conda:
        return f"{one.place}: the matrix has no release that matches {one.text}"
    if base and view.is_open:
        return f"{view.where}: what {base.image.reference} ({base.image.place}) contains is not in the matrix"
    if one is None and base and base.of_tensorflow and not _is_listed(view, base):
        return f"{base.image.place}: {base.image.reference} is not in the matrix"
    return None


def _is_listed(view: PlannedEnvironment, base: Base) -> bool:
    """Whether the CUDA of an image is known, and its TensorFlow, or that pip leaves it as it is."""
    asked = any(one.name == "tensorflow" and one.specifier for one in view.environment.requirements)
    release_known = view.release is not None or (base.of_a_month and bool(base.tensorflow or not asked))
    return release_known and bool(base.cuda or not base.gpu)


def _verdict(findings: Iterable[Finding], judged: bool) -> Verdict:
    severities = {one.severity for one in findings}
    if Severity.ERROR in severities:
        return "broken"
    if not judged:
        return "unknown"
    return "degraded" if Severity.WARNING in severities else "ok"


def facts_of(one: PlannedEnvironment) -> Facts:
    """The facts that hold once the environment is installed on the described machine."""
    target, where = one.target, str(one.environment.place)
    if not one.drives:  # which one will be there is open
        target = structs.replace(target, driver=None)
    facts = to_facts(target)
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


def _breaks(view: PlannedEnvironment, target: Target, fix: Fix) -> bool:
    """Whether another TensorFlow, as an edit writes it, needs another CUDA or cuDNN than the image contains."""
    one, base = view.tensorflow, view.base
    new = next((edit.new for edit in fix.edits if one and edit.old == one.text and not edit.beside), None)
    made = pip_requirement(new, one.place) if one and new and one.text == f"{one.name}{one.specifier}" else None
    if one is None or made is None or base is None or base.cuda is None:
        return False
    lines = (replace(made, step=one.step) if each == one else each for each in view.environment.requirements)
    after = PlannedEnvironment(replace(view.environment, requirements=tuple(lines)), target, view.matrix)
    return any(map(any, (other_major_planned(after), other_version_planned(after))))


def _findings(view: PlannedEnvironment, target: Target, matrix: Matrix) -> list[Finding]:
    """The findings, gravest first; what an edit of a file brings is not installed by hand."""
    facts = facts_of(view)
    found = root_causes(diagnose(facts, matrix, fixes=partial(FileEdits, planned=view), planned=view).findings)
    harmless = "" if any(one.severity is Severity.ERROR for one in found) else "env."  # ids of notes that are left out
    notes = [one.id for one in found if one.severity is Severity.NOTE and one.id != "tf.package-removed"]
    found = [one for one in found if one.id not in notes or not one.id.startswith(harmless)]
    for index, one in enumerate(found):
        fixes = _for_files(_of_its_lines(one, [fix for fix in one.fixes if not _breaks(view, target, fix)], view))
        found[index] = structs.replace(one, evidence=_placed(one, view), fixes=admitted(fixes, facts, matrix))
    return sorted(found, key=_rank)


def _of_its_lines(finding: Finding, fixes: list[Fix], view: PlannedEnvironment) -> list[Fix]:
    """The fixes; no edit of what variables make, nor any of a matrix, whose other values have that line, too."""
    found, of_matrix = list[Fix](), list[str]()
    for fix in fixes:
        lines = [(one.old, _line(view, one.path, one.line)) for one in fix.edits]
        made = {old: line for old, line in lines if "$" in line and old not in line}
        if any("matrix." in line for line in made.values()):
            of_matrix += made.values()
            continue
        text = fix.text
        for old in made:
            text = text.replace(f"instead of {old!r}", f"instead of what becomes {old!r}")
        found.append(_for_the_shell(structs.replace(fix, text=text, edits=() if made else fix.edits), view))
    values = [one for one in view.environment.matrix if f"matrix.{one.name}" in " ".join(of_matrix)]
    if values and finding.severity is not Severity.NOTE:
        shown = " or ".join(f"{one.name} {one.value} ({one.place})" for one in values)
        found.append(Fix(f"In the matrix, change {shown}, or leave their combination out under exclude"))
    return found


_OF_SHELL = ("dockerfile", "singularity", "notebook", "workflow", "compose")
_REDIRECTS = re.compile(r"\w[^<>;'\"\n]*[<>;].*")  # a requirement in which a shell sees < or ;


def _for_the_shell(fix: Fix, view: PlannedEnvironment) -> Fix:
    """The fix with quotes around what a command would read as a redirection, where none are there."""
    environment, edits, text = view.environment, list[Edit](), fix.text
    scripts = {environment.place.path, environment.image.place.path if environment.image else ""}
    for one in fix.edits:
        inside = re.search(rf"([\"']){re.escape(one.old)}\1", _line(view, one.path, one.line)) and not one.beside
        is_bare = environment.kind in _OF_SHELL and one.path in scripts and not inside
        mark = "" if not is_bare or not _REDIRECTS.fullmatch(one.new) else '"' if "'" in one.new else "'"
        edits.append(structs.replace(one, new=f"{mark}{one.new}{mark}"))
        text = text.replace(repr(one.new), repr(edits[-1].new))
    return structs.replace(fix, text=text, edits=tuple(edits))


def _line(view: PlannedEnvironment, path: str, number: int) -> str:
    return "".join(view.environment.texts.get(posixpath.normpath(path), "").split("\n")[number - 1 : number])


def _placed(finding: Finding, view: PlannedEnvironment) -> tuple[Evidence, ...]:
    """The evidence; of what --gpu and --driver show, also the line that it is about, where CI systems show it."""
    if any(one.place for one in finding.evidence):
        return finding.evidence
    named = view.tensorflow.text if view.tensorflow else view.base.image.reference if view.base else ""
    return *finding.evidence, Evidence(saw=named or view.environment.label, source=view.where)


def _for_files(fixes: list[Fix]) -> Iterator[Fix]:
    """The fixes; beside an edit, without commands that install."""
    edited = any(fix.edits for fix in fixes)
    for fix in fixes:
        yield structs.replace(fix, commands=tuple(one for one in fix.commands if not (edited and " install " in one)))


def _rank(finding: Finding) -> tuple[int, bool, int, str]:
    """Gravest first; of warnings, the one that keeps TensorFlow from the GPU before those about the installation."""
    unused_gpu = finding.severity is Severity.WARNING and DECLARATIONS[finding.id].about_gpus
    place = finding.evidence[0].source if finding.evidence else ""
    return SEVERITIES.index(finding.severity), not unused_gpu, RANK[finding.id], place
