"""Findings in their order: root causes first, consequences under them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import msgspec

from tfgpu_doctor.diagnosis.judging import SEVERITIES
from tfgpu_doctor.findings.catalogue import RANK
from tfgpu_doctor.findings.declaration import Declaration, Problem, matches
from tfgpu_doctor.records.report import Finding, Severity

_UNRANKED = -1e9  # of what is no cause


@dataclass(frozen=True, eq=False)
class Found:
    """A finding that holds, with what it was made of."""

    declared: Declaration
    problem: Problem
    finding: Finding


def as_note(one: Found, **changes: Any) -> Found:
    """The same as a note, with these fields changed."""
    return replace(one, finding=msgspec.structs.replace(one.finding, severity=Severity.NOTE, **changes))


def arrange(found: list[Found], likely: Mapping[str, float] = MappingProxyType({})) -> tuple[Finding, ...]:
    """Sort, and turn every finding that another one explains into its consequence; the likeliest come first."""
    found = sorted(found, key=lambda one: (_rank(one)[0], -likely.get(one.finding.id, _UNRANKED), *_rank(one)))
    unexplained = [one for one in found if _explainer(one, found) is None]
    roots = [one for one in unexplained if _repaired_with(one, unexplained) is one]
    consequences: dict[str, list[str]] = {one.finding.id: [] for one in roots}
    followers = []
    for one in found:
        if one in roots:
            continue
        if root := _root_of(one, unexplained, found):
            consequences[root].append(one.finding.id)
        followers.append(msgspec.structs.replace(one.finding, root_cause=False))
    return (
        *(msgspec.structs.replace(one.finding, consequences=tuple(consequences[one.finding.id])) for one in roots),
        *followers,
    )


def _repaired_with(one: Found, unexplained: list[Found]) -> Found:
    """The first finding whose advice repairs this one, too: one repair, so one fault."""
    return next(other for other in unexplained if other is one or _same_repair(_advice(one), _advice(other)))


def _same_repair(commands: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """Whether the others begin alike, or contain all of them."""
    return bool(commands) and (commands[:1] == others[:1] or set(commands) <= set(others))


def _advice(one: Found) -> tuple[str, ...]:
    """What is to be done first; a command of this program repairs nothing."""
    commands = one.finding.fixes[0].commands if one.finding.fixes else ()
    return () if commands[:1] and commands[0].startswith("tfgpu ") else commands


def _rank(one: Found) -> tuple[int, bool, int]:
    """Gravest first, then in the order of declaration."""
    return SEVERITIES.index(one.finding.severity), not one.problem.rank_first, RANK[one.finding.id]


def _root_of(one: Found, unexplained: list[Found], found: list[Found]) -> str | None:
    """Follow the explanations from finding to finding down to a root cause."""
    seen: set[str] = set()
    here = one
    while here not in unexplained and here.finding.id not in seen:
        seen.add(here.finding.id)
        here = _explainer(here, unexplained) or _explainer(here, found) or here
    return _repaired_with(here, unexplained).finding.id if here in unexplained else None


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
