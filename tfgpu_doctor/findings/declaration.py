"""What a rule is, and the table that all of them stand in.

A rule declares everything about itself in one place: id, severity, title, the facts it needs, the
findings that make its question pointless (`requires`) and those that explain it (`explained_by`).
Its function gets exactly the needed values, in that order, and decides.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tfgpu_doctor.records.report import Evidence, Fix, Severity


@dataclass(frozen=True)
class Problem:
    """What a rule found. `title`, when given, is more telling than the rule's own."""

    cause: str
    evidence: tuple[Evidence, ...]
    fixes: tuple[Fix, ...] = ()
    title: str | None = None
    severity: Severity | None = None
    possible: bool = False  # the evidence leaves it open; it neither silences nor stands before anything
    ahead: bool = False  # stands before the others of its severity
    independent: bool = False  # what explains this rule's findings in general does not explain this one


@dataclass(frozen=True)
class Rule:
    """A rule and all that is declared about it."""

    id: str
    severity: Severity
    title: str
    needs: tuple[str, ...]  # dotted paths into Facts, or "derived.NAME"; all must be known
    wants: tuple[str, ...]  # the same, but None is handed over where unknown
    requires: tuple[str, ...]  # ids (patterns) whose firing makes this question pointless
    explained_by: tuple[str, ...]  # ids (patterns) of findings that this one is a consequence of
    docs: str
    decide: Callable[..., Problem | None]

    def is_silenced_by(self, fired: set[str]) -> bool:
        """Whether one of the fired findings makes this question pointless."""
        return any(matches(one, self.requires) for one in fired)


RULES: list[Rule] = []


def matches(finding_id: str, patterns: tuple[str, ...]) -> bool:
    """Whether an id matches one of the patterns ("driver.*", "gpu.none")."""
    return any(fnmatch.fnmatchcase(finding_id, pattern) for pattern in patterns)


def rule(
    finding_id: str,
    severity: Severity,
    title: str,
    *,
    needs: tuple[str, ...],
    wants: tuple[str, ...] = (),
    requires: tuple[str, ...] = (),
    explained_by: tuple[str, ...] = (),
    docs: str,
) -> Callable[[Callable[..., Problem | None]], Callable[..., Problem | None]]:
    """Register the decorated function as a rule; it is called with the context, the needs, then the wants."""

    def register(decide: Callable[..., Problem | None]) -> Callable[..., Problem | None]:
        RULES.append(Rule(finding_id, severity, title, needs, wants, requires, explained_by, docs, decide))
        return decide

    return register


def evidence(saw: Any, source: str, need: str | None = None, need_source: str | None = None) -> Evidence:
    """Shorten the commonest line of a rule."""
    return Evidence(saw=str(saw), source=source, need=need, need_source=need_source)
