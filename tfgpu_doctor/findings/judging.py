"""Judge signs and arrange what they found: consequences under causes, verified before suspected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec

from tfgpu_doctor.findings.catalogue import RANK
from tfgpu_doctor.findings.declaration import (
    DECLARATIONS,
    Context,
    Declaration,
    MessageLog,
    Problem,
    Sign,
    evidence,
    matches,
    message_evidence,
)
from tfgpu_doctor.findings.inputs import fetch, unreadable
from tfgpu_doctor.parsers.own_report import without_blanks
from tfgpu_doctor.records.facts import NOT_ASKED, ONE_OF, Facts, Known, Message, Record, Unknown, lists_gpu, value_or
from tfgpu_doctor.records.report import Evidence, Finding, Fix, Severity
from tfgpu_doctor.records.units import count

# ----------------------------------------------------------------------------------------------------------------------
# A report of tfgpu that was pasted as text: its findings are taken over.
# The report was made with all facts of its machine, and its text shows some of them: these are not judged again. A fix
# is made anew of them, and stands only where the report advises it, too. So nothing of a pasted text is printed as
# advice of ours, and no advice contradicts that of the report. A report made with another matrix may advise what was
# corrected since, so that none of its fixes stands. The JSON form contains all facts.


_AS_JSON = Fix(
    text="Get the complete report as JSON, and read it with tfgpu explain",
    commands=("tfgpu doctor --format json --output report.json",),
)


def is_there(context: Context) -> bool:
    """Whether the text has a report of ours."""
    return any(message.kind == "own-report" for message in value_or(context.facts.messages, ()))


def has_failures_beside(context: Context) -> bool:
    """Whether programs report a failure outside of that report."""
    messages = value_or(context.facts.messages, ())
    return MessageLog(tuple(one for one in messages if one.kind != "own-finding")).complains


def problem(declared: Declaration, shown: Iterable[Problem], context: Context) -> Problem | None:
    """A finding of a pasted report; None if the report does not name it, or if there is no such report.

    Args:
        shown: what the signs of the finding show in the facts that the text has, for their fixes.
    """
    for message in value_or(context.facts.messages, ()):
        if message.kind == "own-finding" and message.values["id"] == declared.id:
            return Problem(
                title=message.values.get("title", message.text),
                cause="tfgpu found it on the machine of the pasted report",
                evidence=message_evidence(message),
                fixes=_advised(declared, shown, message, context) or (_AS_JSON,),
                severity=Severity(message.values["severity"]),
            )
    return None


def _advised(declared: Declaration, shown: Iterable[Problem], message: Message, context: Context) -> tuple[Fix, ...]:
    """The fixes of these facts that the report has as well, in its order; none where its first is not among them."""
    reports = MessageLog(value_or(context.facts.messages, ())).all("own-report")
    if not any(f"matrix of {context.matrix.revision}" in one.text for one in reports):
        return ()
    made = [fix for one in shown for fix in one.fixes or ()]
    made += declared.fixes(context) if declared.fixes else ()
    advice = message.values.get("advice", "").lower()
    places = {advice.find(_as_printed(context.remedies.where_it_belongs(fix))): fix for fix in reversed(made)}
    return tuple(places[place] for place in sorted(places) if place >= 0) if 0 in places else ()


def _as_printed(fix: Fix) -> str:
    return without_blanks("".join((fix.text.removeprefix("Or "), *fix.commands))).lower()


# ----------------------------------------------------------------------------------------------------------------------
# One finding at a time: what its signs come to, in the facts as they are and with each value of an open one. Pure.


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
    if reported := problem(declared, shown, context):
        return Judged(declared, (Candidate(reported),))
    if is_there(context):
        over_facts = [(sign, one) for sign, one in over_facts if one is None]
        over_messages = over_messages if has_failures_beside(context) else []
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


# ----------------------------------------------------------------------------------------------------------------------
# Findings in their order: root causes first, consequences under them. Pure.


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


# ----------------------------------------------------------------------------------------------------------------------
# What was computed and verified outranks what lists of files and versions suggest (DESIGN, law 12). Pure.
# Where every phase of the examination ended well, and a matrix product, a convolution and a function compiled by XLA
# were verified, an error that says that TensorFlow cannot use the GPU is contradicted: it becomes a warning, with what
# was verified as evidence. Findings that a small computation does not reach declare so (`despite_verified`).


_PER_GPU = frozenset({"matmul", "conv2d"})


def contradicted_as_warnings(found: list[Found], context: Context) -> list[Found]:
    """Return the findings, with errors that verified computations contradict as warnings."""
    verified = _verified(context)
    return [_softened(one, verified) if verified else one for one in found]


def _softened(one: Found, verified: Evidence) -> Found:
    beyond = one.declared.despite_verified or one.problem.despite_verified
    if beyond or one.finding.severity is not Severity.ERROR:
        return one
    lines = (*one.finding.evidence, verified)
    return replace(one, finding=msgspec.structs.replace(one.finding, severity=Severity.WARNING, evidence=lines))


def _verified(context: Context) -> Evidence | None:
    """Return what was verified, as evidence; None unless it was everything, on all GPUs that are there or required."""
    facts = context.facts
    gpus = [one for one in value_or(facts.tensorflow.devices, ()) if one.kind == "GPU"]
    wanted = max(context.require_gpus or 1, value_or(facts.driver.cuda_device_count, 0))
    if not context.probed or len(gpus) < wanted or not _all_went_well(facts, len(gpus)):
        return None
    text = f"matmul, conv2d and XLA give correct results on {count(len(gpus), 'GPU')}"
    return evidence(text, context.source("tensorflow.checks"))


def _all_went_well(facts: Facts, gpus: int) -> bool:
    """True if no phase failed and no computation, and each kind was done where the probe does it."""
    checks = value_or(facts.tensorflow.checks, ())
    devices = {kind: {check.device for check in checks if check.kind == kind} for kind in (*_PER_GPU, "xla")}
    complete = all(len(devices[kind]) == gpus for kind in _PER_GPU) and bool(devices["xla"])
    phases_ok = all(phase.outcome in ("ok", "skipped") for phase in facts.tensorflow.phases)
    return complete and phases_ok and all(check.ok for check in checks)


# ----------------------------------------------------------------------------------------------------------------------
# What would keep TensorFlow from a GPU: nothing where there is none, a note where none is required. Pure.


NO_GPU = "gpu.none"
_WITHOUT_ONE = (NO_GPU, "gpu.not-visible", "gpu.fewer-than-required")  # having none, and its consequences


def as_notes(found: list[Found], context: Context) -> list[Found]:
    """The findings, without those that repair nothing here, or with them as notes.

    On a machine without a GPU, what is missing for one is of no interest: of all that is about GPUs, gpu.none and its
    consequences are left. Where no GPU is required and TensorFlow lists none, they are notes. Findings of a pasted
    text stay as they are, for it rarely tells whether all of it is about one machine, unless its writer wants the CPU.
    """
    if not context.probed:
        wanted = _is_cpu_wanted(context)
        return [as_note(one) if wanted and one.declared.about_gpus else one for one in found]
    if any(one.finding.id == NO_GPU for one in found):
        found = [one for one in found if not one.declared.about_gpus or one.finding.id in _WITHOUT_ONE]
    none_required = context.require_gpus == 0 and not lists_gpu(value_or(context.facts.tensorflow.devices, None))
    return [as_note(one) if none_required and one.declared.about_gpus else one for one in found]


def where_a_gpu_is_wanted(possible: list[Finding], context: Context) -> list[Finding]:
    """What may keep TensorFlow from a GPU; nothing, where the CPU is wanted."""
    if not _is_cpu_wanted(context):
        return possible
    return [one for one in possible if not DECLARATIONS[one.id].about_gpus]


def _is_cpu_wanted(context: Context) -> bool:
    """Whether a text says that the CPU is what its writer wants."""
    messages = fetch("messages", context)
    return isinstance(messages, Known) and messages.value.has("wants-cpu")
