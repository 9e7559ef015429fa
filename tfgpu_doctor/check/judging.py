"""Manifests → a report, by the rules of this package. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import replace

from tfgpu_doctor import __version__
from tfgpu_doctor.check import rules_conda, rules_container, rules_cuda, rules_neighbours, rules_package  # noqa: F401 - they register
from tfgpu_doctor.check.engine import RULES, Problem
from tfgpu_doctor.check.view import View, view
from tfgpu_doctor.findings.catalogue import RANK
from tfgpu_doctor.findings.declaration import matches
from tfgpu_doctor.manifests import Environment
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.plan.target import Target
from tfgpu_doctor.records.facts import Facts
from tfgpu_doctor.records.report import SCHEMA, Finding, MatrixInfo, Report, Severity, Tool, Undetermined, Verdict

_SEVERITIES = tuple(Severity)
# a finding of the first kind makes those of the second pointless: they follow from it
_EXPLAINS = {
    "tf.package-removed": ("tf.python-*", "tf.cpu-build", "cuda.*", "cudnn.*", "tf.known-bug", "gpu.arch*", "tf.abi-*"),
    "tf.python-unsupported": ("cuda.*", "cudnn.*", "driver.too-old", "gpu.arch*"),
    "tf.windows-native": ("cuda.*", "cudnn.*", "tf.cpu-build", "tf.known-bug"),
    "tf.cpu-build": ("cuda.*", "cudnn.*", "tf.known-bug"),
    "cuda.version-mismatch": ("cudnn.*", "cuda.missing"),
    "cuda.missing": ("cudnn.*",),
    "gpu.arch-too-new": ("tf.known-bug",),
    "gpu.arch-too-old": ("tf.known-bug",),
}


def judge(environments: Iterable[Environment], target: Target, matrix: Matrix, created: str) -> Report:
    """Judge every environment.

    Args:
        environments: as :func:`joined` gives them.
        created: the time for the report, "2026-11-21T06:36:00Z".
    """
    views = [view(one, target, matrix) for one in environments]
    by_view = [tuple(_findings(seen)) for seen in views]
    found = {(one.id, one.title, one.evidence): one for several in by_view for one in several}
    findings = sorted(found.values(), key=_rank)
    judged = any(seen.judged for seen in views)
    return Report(
        schema=SCHEMA,
        tool=Tool(name="tfgpu", version=__version__),
        matrix=MatrixInfo(revision=matrix.revision, source=", ".join(matrix.layers) or "bundled"),
        created=created,
        source="text",
        verdict=_verdict(findings, judged),
        facts=Facts(),
        timings={},
        findings=tuple(findings),
        undetermined=(*_unread(views), *_open(seen for seen, found in zip(views, by_view, strict=True) if not found)),
    )


def _verdict(findings: list[Finding], judged: bool) -> Verdict:
    severities = {one.severity for one in findings}
    if Severity.ERROR in severities:
        return "broken"
    if not judged:
        return "unknown"
    return "degraded" if Severity.WARNING in severities else "ok"


def _findings(seen: View) -> Iterator[Finding]:
    found = [(identity, one) for identity, rules in RULES.items() for decide in rules for one in decide(seen)]
    errors = {identity for identity, one in found if one.severity is Severity.ERROR}
    explained = {pattern for identity in errors for pattern in _EXPLAINS.get(identity, ())}
    for identity, one in found:
        if not matches(identity, tuple(explained)):
            yield _finding(identity, one)


def _finding(identity: str, one: Problem) -> Finding:
    return Finding(
        id=identity,
        severity=one.severity,
        root_cause=True,
        title=one.title,
        cause=one.cause,
        evidence=one.evidence,
        fixes=one.fixes,
    )


def _rank(finding: Finding) -> tuple[int, int, str]:
    return _SEVERITIES.index(finding.severity), RANK[finding.id], finding.evidence[0].source if finding.evidence else ""


def _unread(views: Iterable[View]) -> Iterator[Undetermined]:
    """Lines that were not understood."""
    for line in dict.fromkeys(line for seen in views for line in seen.environment.not_understood):
        yield Undetermined(id="tf.python-unsupported", reason=f"not understood: {line}")


def _open(views: Iterable[View]) -> Iterator[Undetermined]:
    """What could not be judged, and why."""
    for seen in views:
        if seen.tensorflow and seen.release is None and not seen.allowed:
            reason = f"{seen.tensorflow.place}: the matrix has no release that matches {seen.tensorflow.text}"
            yield Undetermined(id="cuda.version-mismatch", reason=reason)


def joined(environments: tuple[Environment, ...]) -> Iterator[Environment]:
    """A service that is built from a Dockerfile among the files gets what that Dockerfile installs."""
    dockerfiles = {posixpath.normpath(one.place.path): one for one in environments if one.kind == "dockerfile"}
    for one in environments:
        built = dockerfiles.get(posixpath.normpath(one.build_context)) if one.build_context else None
        if built is None:
            yield one
            continue
        yield replace(
            one,
            image=built.image,
            python=built.python,
            requirements=built.requirements,
            settings=(*built.settings, *one.settings),
        )
