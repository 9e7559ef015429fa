"""Findings in their order: root causes first, consequences under them. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from tfgpu_doctor.diagnosis.judging import SEVERITIES
from tfgpu_doctor.findings.catalogue import RANK
from tfgpu_doctor.findings.declaration import Declaration, Problem, matches
from tfgpu_doctor.records.report import Finding, Severity


@dataclass(frozen=True, eq=False)
class Found:
    """A finding that holds, with what it was made of."""

    declared: Declaration
    problem: Problem
    finding: Finding


def arrange(found: list[Found]) -> tuple[Finding, ...]:
    """Sort, and turn every finding that another one explains into its consequence."""
    found = sorted(found, key=_rank)
    roots = [one for one in found if _explainer(one, found) is None]
    consequences: dict[str, list[str]] = {one.finding.id: [] for one in roots}
    followers = []
    for one in found:
        if one in roots:
            continue
        if root := _root_of(one, roots, found):
            consequences[root].append(one.finding.id)
        followers.append(msgspec.structs.replace(one.finding, root_cause=False))
    return (
        *(msgspec.structs.replace(one.finding, consequences=tuple(consequences[one.finding.id])) for one in roots),
        *followers,
    )


def _rank(one: Found) -> tuple[int, bool, int]:
    """Gravest first, then in the order of declaration."""
    return SEVERITIES.index(one.finding.severity), not one.problem.rank_first, RANK[one.finding.id]


def _root_of(one: Found, roots: list[Found], found: list[Found]) -> str | None:
    """Follow the explanations from finding to finding down to a root cause."""
    seen: set[str] = set()
    here = one
    while here not in roots and here.finding.id not in seen:
        seen.add(here.finding.id)
        here = _explainer(here, roots) or _explainer(here, found) or here
    return here.finding.id if here in roots else None


def _explainer(one: Found, others: list[Found]) -> Found | None:
    """The first finding that explains this one; a note explains nothing, a warning no error."""
    if one.problem.never_consequence:
        return None
    for other in others:
        graver = SEVERITIES.index(other.finding.severity) <= SEVERITIES.index(one.finding.severity)
        if other is not one and graver and matches(other.finding.id, one.declared.explained_by):
            return other
    return None


def with_possible(findings: tuple[Finding, ...], possible: list[Finding]) -> tuple[Finding, ...]:
    """What is only possible stands behind all that holds, and before the notes."""
    place = next((n for n, one in enumerate(findings) if one.severity is Severity.NOTE or not one.root_cause), None)
    place = len(findings) if place is None else place
    return (*findings[:place], *possible, *findings[place:])
