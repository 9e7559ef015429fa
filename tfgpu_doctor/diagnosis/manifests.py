"""Manifests → a report: the environments that they describe, judged by the same findings. Pure."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from tfgpu_doctor import __version__
from tfgpu_doctor.diagnosis.engine import diagnose
from tfgpu_doctor.diagnosis.judging import SEVERITIES
from tfgpu_doctor.diagnosis.together import together
from tfgpu_doctor.findings.catalogue import DECLARATIONS, RANK
from tfgpu_doctor.manifests import Environment
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.plan.answers import Answers, settled
from tfgpu_doctor.plan.gate import admitted
from tfgpu_doctor.plan.planned import PlannedEnvironment, compared, planned
from tfgpu_doctor.plan.target import Target, to_facts
from tfgpu_doctor.records.facts import Facts, Known
from tfgpu_doctor.records.report import (
    SCHEMA,
    Edit,
    Finding,
    Fix,
    Report,
    Resolved,
    Severity,
    Tool,
    Undetermined,
    Verdict,
)

NONE = Answers()
_EXTRAS = re.compile(r'\[[\w,-]+\]|\{ version = ("[^"]*"), extras = \[[^]]*\] \}')
_ABOUT_VISIBILITY = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")  # judged by line, in files that ask for a GPU


def judge(
    environments: Iterable[Environment], target: Target, matrix: Matrix, created: str, answers: Answers = NONE
) -> Report:
    """Judge every environment.

    Args:
        environments: as :func:`manifests.reading.joined` gives them.
        created: the time for the report, "2026-11-21T06:36:00Z".
        answers: of a real resolver, where it was asked.
    """
    named = compared([planned(one, target, matrix) for one in environments if one.part_of is None])
    views = [settled(one, answers.found.get(one.environment)) for one in named]
    by_view = [tuple(_agreeing(one, target, matrix)) for one in views]
    found = {(one.id, one.title, one.evidence): one for several in by_view for one in several}
    findings = sorted(found.values(), key=_rank)
    return Report(
        schema=SCHEMA,
        tool=Tool(name="tfgpu", version=__version__),
        matrix=matrix.info,
        created=created,
        source="text",
        verdict=_verdict(findings, any(one.judged for one in views) and not answers.open),
        facts=Facts(),
        timings={},
        findings=tuple(findings),
        undetermined=(
            *(Undetermined(id="tf.package-conflict", reason=reason) for reason in answers.open),
            *_unread(views),
            *_open(one for one, found in zip(views, by_view, strict=True) if not found),
        ),
        resolved=tuple(
            Resolved(label=one.label, program=answer.program, python=answer.python, versions=dict(answer.versions))
            for one, answer in answers.found.items()
            if answer.refusal is None
        ),
    )


def facts_of(one: PlannedEnvironment) -> Facts:
    """The facts that hold once the environment is installed on the described machine."""
    facts = to_facts(one.target)
    if isinstance(facts.python.version, Known):  # that of a file stands in the target, too
        version = replace(facts.python.version, source=one.python_place)
        facts = replace(facts, python=replace(facts.python, version=version))
    where = str(one.environment.place)
    variables = {
        s.name: s.value for s in one.environment.settings if s.name.isupper() and s.name not in _ABOUT_VISIBILITY
    }
    facts = replace(facts, variables=Known(variables, where)) if variables else facts
    row = one.release
    if row is None or one.conda or not one.wants_gpu or not row.gpu:
        return (
            facts  # a build without CUDA is no problem where no GPU is meant, and a question to the file where one is
        )
    installed = replace(
        facts.tensorflow,
        version=Known(row.version, one.where, "inferred"),
        distribution=Known(row.package, one.where, "inferred"),
    )
    return replace(facts, tensorflow=installed)


def _agreeing(one: PlannedEnvironment, target: Target, matrix: Matrix) -> Iterator[Finding]:
    """The findings of an environment, whose edits go together."""

    def again(environment: Environment) -> list[Finding]:
        view = dataclasses.replace(planned(environment, target, matrix), differences=one.differences)
        return sorted(_findings(view, matrix), key=_rank)

    facts = facts_of(one)
    for finding in together(one.environment, sorted(_findings(one, matrix), key=_rank), again):
        yield replace(finding, fixes=admitted(_distinct(finding.fixes), facts, matrix))


def _distinct(fixes: Iterable[Fix]) -> Iterator[Fix]:
    """The fixes without those that write what an earlier one writes: the same release, with or without its extra."""
    seen: list[set[Edit]] = []
    for fix in fixes:
        written = {replace(edit, new=_EXTRAS.sub(r"\1", edit.new)) for edit in fix.edits}
        if not written or not any(written <= one for one in seen):
            yield fix
        seen.append(written)


def _findings(one: PlannedEnvironment, matrix: Matrix) -> Iterator[Finding]:
    diagnosis = diagnose(facts_of(one), matrix, planned=one)
    for finding in diagnosis.findings:
        if finding.root_cause and not finding.possible:
            edited = any(fix.edits for fix in finding.fixes)
            yield replace(finding, fixes=tuple(map(_without_installing, finding.fixes))) if edited else finding


def _without_installing(fix: Fix) -> Fix:
    """What an edit of a file brings is not installed by hand."""
    return replace(fix, commands=tuple(one for one in fix.commands if " install " not in one))


def _rank(finding: Finding) -> tuple[int, bool, int, str]:
    """Gravest first; of warnings, the one that keeps TensorFlow from the GPU before those about the installation."""
    unused_gpu = finding.severity is Severity.WARNING and DECLARATIONS[finding.id].about_gpus
    place = finding.evidence[0].source if finding.evidence else ""
    return SEVERITIES.index(finding.severity), not unused_gpu, RANK[finding.id], place


def _verdict(findings: list[Finding], judged: bool) -> Verdict:
    severities = {one.severity for one in findings}
    if Severity.ERROR in severities:
        return "broken"
    if not judged:
        return "unknown"
    return "degraded" if Severity.WARNING in severities else "ok"


def _unread(views: Iterable[PlannedEnvironment]) -> Iterator[Undetermined]:
    """Lines that were not understood."""
    later = {line for one in views for line in one.environment.open}
    for line in dict.fromkeys(line for one in views for line in one.environment.not_understood):
        yield Undetermined(id="tf.python-unsupported", reason=line if line in later else f"not understood: {line}")


def _open(views: Iterable[PlannedEnvironment]) -> Iterator[Undetermined]:
    """What could not be judged, and why."""
    for one in views:
        if one.tensorflow and one.release is None and not one.allowed:
            reason = f"{one.tensorflow.place}: the matrix has no release that matches {one.tensorflow.text}"
            yield Undetermined(id="cuda.version-mismatch", reason=reason)
