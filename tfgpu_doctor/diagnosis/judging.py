"""One finding at a time: what its signs come to, in the facts as they are and with each value of an open one. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeAlias

import msgspec

from tfgpu_doctor.findings import own_reports
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Declaration, Problem, Sign, matches
from tfgpu_doctor.findings.inputs import fetch, unreadable
from tfgpu_doctor.records.fact import ONE_OF
from tfgpu_doctor.records.facts import NOT_ASKED, Facts, Known, Record, Unknown, value_or
from tfgpu_doctor.records.report import Severity

SEVERITIES = tuple(Severity)
_MOST_HYPOTHESES = 24  # combinations of values, where several facts are one of several


@dataclass(frozen=True)
class Candidate:
    """What one sign shows."""

    problem: Problem
    possible: bool = False  # it holds for some values of a fact that is one of several
    unless: tuple[str, ...] = ()
    by_value_alone: bool = False  # ... and no message speaks for it


@dataclass(frozen=True)
class Judged:
    """What the signs of one finding come to."""

    declared: Declaration
    candidates: tuple[Candidate, ...] = ()
    unknown: Unknown | None = None  # why a sign could not be judged
    contradicted: bool = False  # a sign over facts says that it does not hold
    asks: tuple[str, ...] = ()  # commands that would tell what is unknown

    @property
    def is_certain(self) -> bool:
        """Whether a sign holds whatever is open."""
        return any(not one.possible for one in self.candidates)

    def doubted(self) -> Judged:
        """The same, only possible."""
        candidates = (
            replace(one, possible=True, problem=replace(one.problem, severity=Severity.WARNING))
            for one in self.candidates
        )
        return replace(self, candidates=tuple(candidates))

    def shown(self, fired: set[str]) -> Candidate | None:
        """The most certain and gravest of what shows, beside these findings."""
        others = fired - {self.declared.id}
        if self.declared.is_pointless(others):
            return None
        left = [one for one in self.candidates if not any(matches(other, one.unless) for other in others)]
        return min(left, key=lambda one: (one.possible, self._gravity(one.problem)), default=None)

    def is_open(self, ids: set[str]) -> bool:
        """Whether its question stays open beside these findings, which neither answer it nor make it pointless."""
        answered = self.declared.id in ids or self.declared.is_pointless(ids)
        return not answered and not any(matches(one, self.declared.explained_by) for one in ids)

    def _gravity(self, problem: Problem) -> int:
        return SEVERITIES.index(problem.severity or self.declared.severity)


_Outcome: TypeAlias = "tuple[Sign, Problem | Unknown | None]"


def judge(declared: Declaration, context: Context, hypotheses: tuple[Context, ...]) -> Judged:
    """Ask every sign of a finding; what a pasted report of ours says of it, it says with all facts of its machine."""
    over_facts, over_messages = _outcomes(declared, context)
    shown = [one for _, one in (*over_facts, *over_messages) if isinstance(one, Problem)]
    if reported := own_reports.problem(declared, shown, context):
        return Judged(declared, (Candidate(reported),))
    if own_reports.is_there(context):
        over_facts = [(sign, one) for sign, one in over_facts if one is None]
        over_messages = over_messages if own_reports.has_failures_beside(context) else []
    return _judged(declared, over_facts, over_messages, context, hypotheses)


def _judged(
    declared: Declaration,
    over_facts: list[_Outcome],
    over_messages: list[_Outcome],
    context: Context,
    hypotheses: tuple[Context, ...],
) -> Judged:
    outcomes = [*over_facts, *over_messages]
    found = [Candidate(one, one.possible, sign.unless) for sign, one in outcomes if isinstance(one, Problem)]
    unknown = [(sign, why) for sign, why in outcomes if isinstance(why, Unknown)]
    by_value = [*_open_candidates([sign for sign, _ in unknown], hypotheses)]
    found = [*by_value, *found] if len(hypotheses) == 1 else [*found, *by_value]  # the only value that is left is known
    return Judged(
        declared,
        tuple(found),
        unknown=unknown[0][1] if unknown else None,
        contradicted=any(outcome is None for _, outcome in over_facts),
        asks=tuple(dict.fromkeys(command for sign, _ in unknown for command in _asks(sign, context))),
    )


def signs_that_show(declared: Declaration, context: Context) -> list[Sign]:
    """The signs of a finding that show it in these facts."""
    over_facts, over_messages = _outcomes(declared, context)
    return [sign for sign, outcome in (*over_facts, *over_messages) if isinstance(outcome, Problem)]


def _outcomes(declared: Declaration, context: Context) -> tuple[list[_Outcome], list[_Outcome]]:
    """Of the signs over facts and over messages; where probes looked, a conclusive one overrules printed lines."""
    signs = [sign for sign in declared.signs if _is_asked(sign, context)]
    over_facts = [(sign, _outcome(sign, context)) for sign in signs if not sign.reads_messages]
    if context.probed and any(sign.conclusive and outcome is None for sign, outcome in over_facts):
        return over_facts, []
    return over_facts, [(sign, _outcome(sign, context)) for sign in signs if sign.reads_messages]


def _is_asked(sign: Sign, context: Context) -> bool:
    """Whether nobody left out what the sign is about: messages, a manifest, a number of GPUs that are required."""
    return all(fetch(name, context) != NOT_ASKED for name in (*sign.gates, *sign.required))


def _outcome(sign: Sign, context: Context) -> Problem | Unknown | None:
    """What a sign comes to; a value that is no version or number where one belongs makes the answer unknown."""
    try:
        return _apply(sign, context)
    except ValueError as error:
        return unreadable(error)


def _apply(sign: Sign, context: Context) -> Problem | Unknown | None:
    """Hand the sign its inputs; a missing one that it requires makes the answer unknown."""
    for name in (*sign.gates, *sign.required):
        fact = fetch(name, context)
        if isinstance(fact, Unknown):
            return fact
    optional = {name: fetch(name, context) for name in sign.optional}
    if not sign.required and not sign.gates and optional and all(isinstance(f, Unknown) for f in optional.values()):
        first = next(iter(optional.values()))
        return Unknown(first.reason) if isinstance(first, Unknown) else None
    required = {name: value_or(fetch(name, context), None) for name in sign.required}
    given = {**required, **{name: value_or(fact, None) for name, fact in optional.items()}}
    problem: Problem | None = sign.decide(context, **given) if sign.takes_context else sign.decide(**given)
    return problem


def hypotheses(context: Context) -> Iterator[Context]:
    """The same machine with each value of the facts that are one of several."""
    open_facts = list(_open_facts(context.facts))
    combinations = product(*(fact.one_of for _, fact in open_facts)) if open_facts else ()
    for number, values in enumerate(combinations):
        if number == _MOST_HYPOTHESES:
            return
        facts = context.facts
        for (path, fact), value in zip(open_facts, values, strict=True):
            facts = _with_value(facts, path, Known(value, f"{ONE_OF}{', '.join(fact.one_of)}", "inferred"))
        yield replace(context, facts=facts, derived={})


def _open_facts(facts: Facts) -> Iterator[tuple[str, Unknown]]:
    for section in Facts.__struct_fields__:
        record = getattr(facts, section)
        if not isinstance(record, Record):
            continue
        for name in record.__struct_fields__:
            fact = getattr(record, name)
            if isinstance(fact, Unknown) and fact.one_of:
                yield f"{section}.{name}", fact


def _with_value(facts: Facts, path: str, value: Known[str]) -> Facts:
    section, name = path.split(".")
    record = msgspec.structs.replace(getattr(facts, section), **{name: value})
    return msgspec.structs.replace(facts, **{section: record})


def _open_candidates(signs: list[Sign], contexts: tuple[Context, ...]) -> Iterator[Candidate]:
    """What signs show where a fact is one of several values: certain when a sign holds for all of them."""
    for sign in signs if contexts else ():
        outcomes = [_outcome(sign, context) for context in contexts]
        if found := [one for one in outcomes if isinstance(one, Problem)]:
            first = found[0]
            if any(one.title != first.title for one in found):
                first = replace(first, title=None)  # it names one of the values, and they remain open
            partly = len(found) < len(outcomes)
            yield Candidate(first, first.possible or partly, sign.unless, partly and not sign.reads_messages)


def _asks(sign: Sign, context: Context) -> Iterator[str]:
    for name in sign.inputs:
        fact = fetch(name, context)
        if isinstance(fact, Unknown) and fact.ask:
            yield fact.ask
