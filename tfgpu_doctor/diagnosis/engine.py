"""Facts and matrix in, findings out: judges the signs, puts root causes first, hangs consequences under them.

Three things are decided here, once, for all findings:

- Where probes looked at this machine, they know better than a printed line: when a conclusive sign over facts rules a
  finding out, messages cannot bring it back. In a pasted text every sign counts.
- A fact that is one of several values is judged for each of them: a sign that holds for all is certain, one that
  holds for some is possible.
- A finding that would explain a symptom that is seen, and that nothing rules out, is possible; the commands that would
  tell the facts that it lacks are what to run to decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product

import msgspec

from tfgpu_doctor.findings import own_reports
from tfgpu_doctor.findings.catalogue import DECLARATIONS, RANK
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Declaration, Problem, Sign, matches
from tfgpu_doctor.findings.inputs import PATHS, fetch
from tfgpu_doctor.findings.message_log import message_evidence
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.plan.planned import PlannedEnvironment
from tfgpu_doctor.records.facts import NOT_ASKED, Facts, Known, Record, Unknown, value_or
from tfgpu_doctor.records.report import Finding, Fix, Severity, Undetermined

_SEVERITIES = tuple(Severity)
_MOST_HYPOTHESES = 24  # combinations of values, where several facts are one of several
_ASK_DOCTOR = "tfgpu doctor"  # tells every fact, on the machine that the text is about


@dataclass(frozen=True)
class Diagnosis:
    """All findings, root causes first, and the checks that could not be made."""

    findings: tuple[Finding, ...]
    undetermined: tuple[Undetermined, ...]


@dataclass(frozen=True)
class _Candidate:
    """What one sign shows."""

    problem: Problem
    possible: bool = False  # it holds for some values of a fact that is one of several
    unless: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Judged:
    """What the signs of one finding come to."""

    declared: Declaration
    candidates: tuple[_Candidate, ...] = ()
    unknown: Unknown | None = None  # why a sign could not be judged
    contradicted: bool = False  # a sign over facts says that it does not hold
    asks: tuple[str, ...] = ()  # commands that would tell what is unknown

    def shown(self, fired: set[str]) -> _Candidate | None:
        """The most certain and gravest of what shows, beside these findings."""
        others = fired - {self.declared.id}
        if self.declared.is_pointless(others):
            return None
        left = [one for one in self.candidates if not any(matches(other, one.unless) for other in others)]
        return min(left, key=lambda one: (one.possible, self._gravity(one.problem)), default=None)

    def _gravity(self, problem: Problem) -> int:
        return _SEVERITIES.index(problem.severity or self.declared.severity)


def diagnose(
    facts: Facts,
    matrix: Matrix,
    *,
    require_gpus: int | None = None,
    planned: PlannedEnvironment | None = None,
    declarations: Iterable[Declaration] | None = None,
) -> Diagnosis:
    """Judge `facts` by `matrix`, and the environment that a manifest plans; never raises for the facts' sake."""
    context = Context(facts, matrix, require_gpus, planned)
    hypotheses = tuple(_hypotheses(context))
    chosen = DECLARATIONS.values() if declarations is None else declarations
    judged = [_judge(one, context, hypotheses) for one in chosen]
    fired = {one.declared.id for one in judged if any(not candidate.possible for candidate in one.candidates)}
    shown = [(one, candidate) for one in judged if (candidate := one.shown(fired))]
    certain = [
        _Found(one.declared, candidate.problem, _finding(one.declared, candidate, context))
        for one, candidate in shown
        if not candidate.possible
    ]
    possible = [_finding(one.declared, candidate, context) for one, candidate in shown if candidate.possible]
    possible += [found for one in judged if not one.candidates if (found := _possibility(one, context, fired))]
    findings = _with_possible(_arrange(certain), possible)
    ids = {finding.id for finding in findings}
    undetermined = tuple(
        Undetermined(id=one.declared.id, reason=one.unknown.reason)
        for one in judged
        if one.unknown and one.declared.id not in ids and not one.declared.is_pointless(ids)
        if not any(matches(i, one.declared.explained_by) for i in ids)
    )
    return Diagnosis(findings, undetermined)


# --------------------------------------------------------------------------------------- judging one finding


def _judge(declared: Declaration, context: Context, hypotheses: tuple[Context, ...]) -> _Judged:
    """Ask every sign; where the machine was probed, a conclusive one overrules printed lines."""
    signs = [sign for sign in declared.signs if _is_asked(sign, context)]
    outcomes = [(sign, _outcome(sign, context)) for sign in signs if not sign.reads_messages]
    contradicted = any(outcome is None for _, outcome in outcomes)
    overruled = context.probed and any(sign.conclusive and outcome is None for sign, outcome in outcomes)
    if not overruled:
        outcomes += [(sign, _outcome(sign, context)) for sign in signs if sign.reads_messages]
    found = [_Candidate(one, one.possible, sign.unless) for sign, one in outcomes if isinstance(one, Problem)]
    unknown = [(sign, why) for sign, why in outcomes if isinstance(why, Unknown)]
    if hypotheses:
        found += [one for sign, _ in unknown if (one := _under_hypotheses(sign, hypotheses))]
    if not any(not one.possible for one in found) and (reported := own_reports.problem(declared.id, context)):
        found.append(_Candidate(reported))
    asks = tuple(dict.fromkeys(command for sign, _ in unknown for command in _asks(sign, context)))
    why = next((reason for _, reason in unknown), None)
    return _Judged(declared, tuple(found), why, contradicted, asks)


def _is_asked(sign: Sign, context: Context) -> bool:
    """Whether nobody left out what the sign is about: messages, a manifest, a number of GPUs that are required."""
    return all(fetch(name, context) != NOT_ASKED for name in (*sign.gates, *sign.required))


def _outcome(sign: Sign, context: Context) -> Problem | Unknown | None:
    """What a sign comes to; a value that is no version or number where one belongs makes the answer unknown.

    The probes write no such values, but a saved report can hold any.
    """
    try:
        return _apply(sign, context)
    except ValueError as error:
        return Unknown(f"a value in the facts cannot be read: {str(error)[:200]}")


def _apply(sign: Sign, context: Context) -> Problem | Unknown | None:
    """Hand the sign its inputs; a missing one that it requires makes the answer unknown."""
    for name in (*sign.gates, *sign.required):
        fact = fetch(name, context)
        if isinstance(fact, Unknown):
            return msgspec.structs.replace(fact, reason=f"{PATHS.get(name, name)}: {fact.reason}")
    optional = {name: fetch(name, context) for name in sign.optional}
    if not sign.required and not sign.gates and optional and all(isinstance(f, Unknown) for f in optional.values()):
        name, first = next(iter(optional.items()))
        return Unknown(f"{PATHS.get(name, name)}: {first.reason}") if isinstance(first, Unknown) else None
    required = {name: value_or(fetch(name, context), None) for name in sign.required}
    given = {**required, **{name: value_or(fact, None) for name, fact in optional.items()}}
    problem: Problem | None = sign.decide(context, **given) if sign.takes_context else sign.decide(**given)
    return problem


# --------------------------------------------------------------------------------- what the evidence leaves open


def _hypotheses(context: Context) -> Iterator[Context]:
    """The same machine with each value of the facts that are one of several."""
    open_facts = list(_open_facts(context.facts))
    combinations = product(*(fact.one_of for _, fact in open_facts)) if open_facts else ()
    for number, values in enumerate(combinations):
        if number == _MOST_HYPOTHESES:
            return
        facts = context.facts
        for (path, fact), value in zip(open_facts, values, strict=True):
            facts = _with_value(facts, path, Known(value, f"one of {', '.join(fact.one_of)}", "inferred"))
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


def _under_hypotheses(sign: Sign, hypotheses: tuple[Context, ...]) -> _Candidate | None:
    """What a sign shows where a fact is one of several values: certain when it holds for all of them."""
    outcomes = [_outcome(sign, context) for context in hypotheses]
    found = [one for one in outcomes if isinstance(one, Problem)]
    return _Candidate(found[0], found[0].possible or len(found) < len(outcomes), sign.unless) if found else None


def _asks(sign: Sign, context: Context) -> Iterator[str]:
    for name in (*sign.gates, *sign.required):
        fact = fetch(name, context)
        if isinstance(fact, Unknown) and fact.ask:
            yield fact.ask


def _possibility(one: _Judged, context: Context, fired: set[str]) -> Finding | None:
    """The finding as a possible cause, when it would explain what is seen and nothing rules it out."""
    if one.contradicted:
        return None
    for symptom in one.declared.symptoms:
        if fired & set(symptom.explained_by):
            continue
        messages = fetch("messages", context)
        if not isinstance(messages, Known):
            return None
        if seen := symptom.seen(**{name: value_or(fetch(name, context), None) for name in symptom.inputs}):
            fix = Fix(text="To decide, run", commands=one.asks or (_ASK_DOCTOR,))
            problem = Problem(
                cause=symptom.because,
                evidence=message_evidence(*seen, most=1),
                fixes=(fix,),
                severity=Severity.WARNING,
            )
            return _finding(one.declared, _Candidate(problem, possible=True), context)
    return None


# ------------------------------------------------------------------------------------------------- arranging


def _finding(declared: Declaration, candidate: _Candidate, context: Context) -> Finding:
    problem = candidate.problem
    fixes = problem.fixes
    if fixes is None:
        fixes = declared.fixes(context) if declared.fixes else ()
    return Finding(
        id=declared.id,
        severity=problem.severity or declared.severity,
        root_cause=True,
        title=problem.title or declared.title,
        cause=problem.cause or declared.cause,
        evidence=problem.evidence,
        fixes=tuple(context.remedies.where_it_belongs(fix) for fix in fixes),
        docs=declared.docs,
        possible=candidate.possible,
    )


@dataclass(frozen=True, eq=False)
class _Found:
    """A finding that holds, with what it was made of."""

    declared: Declaration
    problem: Problem
    finding: Finding


def _arrange(found: list[_Found]) -> tuple[Finding, ...]:
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


def _rank(one: _Found) -> tuple[int, bool, int]:
    """Gravest first, then in the order of declaration."""
    return _SEVERITIES.index(one.finding.severity), not one.problem.rank_first, RANK[one.finding.id]


def _root_of(one: _Found, roots: list[_Found], found: list[_Found]) -> str | None:
    """Follow the explanations from finding to finding down to a root cause."""
    seen: set[str] = set()
    here = one
    while here not in roots and here.finding.id not in seen:
        seen.add(here.finding.id)
        here = _explainer(here, roots) or _explainer(here, found) or here
    return here.finding.id if here in roots else None


def _explainer(one: _Found, others: list[_Found]) -> _Found | None:
    """The first finding that explains this one; a note explains nothing, a warning no error."""
    if one.problem.never_consequence:
        return None
    for other in others:
        graver = _SEVERITIES.index(other.finding.severity) <= _SEVERITIES.index(one.finding.severity)
        if other is not one and graver and matches(other.finding.id, one.declared.explained_by):
            return other
    return None


def _with_possible(findings: tuple[Finding, ...], possible: list[Finding]) -> tuple[Finding, ...]:
    """What is only possible stands behind all that holds, and before the notes."""
    place = next((n for n, one in enumerate(findings) if one.severity is Severity.NOTE or not one.root_cause), None)
    place = len(findings) if place is None else place
    return (*findings[:place], *possible, *findings[place:])
