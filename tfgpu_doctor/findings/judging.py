"""Judge signs and arrange what they found: consequences under causes, verified before suspected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice, product
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec

from tfgpu_doctor.facts.facts import NOT_ASKED, ONE_OF, Facts, Known, Message, Record, Unknown, lists_gpu, value_or
from tfgpu_doctor.facts.report import Evidence, Finding, Fix, Severity
from tfgpu_doctor.facts.units import count
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

# ----------------------------------------------------------------------------------------------------------------------
# A report of tfgpu that was pasted as text: its findings are taken over, and not judged again, since it was made with
# all facts of its machine, and its text shows some of them. Its fixes stand in it; the JSON form contains all facts.


_AS_JSON = Fix(
    text="Follow the fixes of that report; or get it as JSON, with all facts, and read it with tfgpu explain",
    commands=("tfgpu doctor --format json --output report.json",),
)


def _reported(declared: Declaration, messages: Iterable[Message]) -> Problem | None:
    """A finding of a pasted report; None if no such report names it."""
    named = (one for one in messages if one.kind == "own-finding" and one.values["id"] == declared.id)
    if (message := next(named, None)) is None:
        return None
    return Problem(
        title=message.values.get("title", message.text),
        cause="tfgpu found it on the machine of the pasted report",
        evidence=message_evidence(message),
        fixes=(_AS_JSON,),
        severity=Severity(message.values["severity"]),
    )


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
        usual = self.declared.severity
        return min(left, key=lambda one: (one.possible, SEVERITIES.index(one.problem.severity or usual)), default=None)

    def is_open(self, ids: set[str]) -> bool:
        """Whether its question stays open beside these findings, which neither answer it nor make it pointless."""
        answered = self.declared.id in ids or self.declared.is_pointless(ids)
        return not answered and not any(matches(one, self.declared.explained_by) for one in ids)


_Outcome: TypeAlias = "tuple[Sign, Problem | Unknown | None]"


def judge(declared: Declaration, context: Context, hypotheses: tuple[Context, ...]) -> Judged:
    """Ask every sign of a finding; what a pasted report of ours says of it, it says with all facts of its machine."""
    messages = value_or(context.facts.messages, ())
    if reported := _reported(declared, messages):
        return Judged(declared, (Candidate(reported),))
    over_facts, over_messages = _outcomes(declared, context)
    if any(message.kind == "own-report" for message in messages):
        beside = MessageLog(tuple(one for one in messages if one.kind != "own-finding"))
        over_facts = [(sign, one) for sign, one in over_facts if one is None]
        over_messages = over_messages if beside.complains else []
    outcomes = [*over_facts, *over_messages]
    found = [Candidate(one, one.possible, sign.unless) for sign, one in outcomes if isinstance(one, Problem)]
    unknown = {sign: why for sign, why in outcomes if isinstance(why, Unknown)}
    by_value = [*_open_candidates([*unknown], hypotheses)]
    found = [*by_value, *found] if len(hypotheses) == 1 else [*found, *by_value]  # the only value that is left is known
    return Judged(
        declared,
        tuple(found),
        unknown=next(iter(unknown.values()), None),
        contradicted=any(outcome is None for _, outcome in over_facts),
        asks=tuple(dict.fromkeys(_asks([*unknown], context))),
    )


def _asks(signs: list[Sign], context: Context) -> Iterator[str]:
    """The commands that would tell what signs do not know."""
    for name in (name for sign in signs for name in sign.inputs):
        fact = fetch(name, context)
        if isinstance(fact, Unknown) and fact.ask:
            yield fact.ask


def signs_that_show(declared: Declaration, context: Context) -> list[Sign]:
    """The signs of a finding that show it in these facts."""
    over_facts, over_messages = _outcomes(declared, context)
    return [sign for sign, outcome in (*over_facts, *over_messages) if isinstance(outcome, Problem)]


def _outcomes(declared: Declaration, context: Context) -> tuple[list[_Outcome], list[_Outcome]]:
    """Of the signs over facts and over messages; where probes looked, a conclusive one overrules printed lines."""
    # not those about what nobody asked for: messages, a manifest, a number of GPUs that are required
    asked = [s for s in declared.signs if all(fetch(name, context) != NOT_ASKED for name in (*s.gates, *s.required))]
    over_facts = [(sign, _outcome(sign, context)) for sign in asked if not sign.reads_messages]
    if context.probed and any(sign.conclusive and outcome is None for sign, outcome in over_facts):
        return over_facts, []
    return over_facts, [(sign, _outcome(sign, context)) for sign in asked if sign.reads_messages]


def _outcome(sign: Sign, context: Context) -> Problem | Unknown | None:
    """What a sign comes to; a missing input that it requires, or one that cannot be read, makes the answer unknown."""
    inputs = {name: fetch(name, context) for name in sign.inputs}
    needed = [inputs[name] for name in (*sign.gates, *sign.required)]
    unknown = [fact for fact in needed or inputs.values() if isinstance(fact, Unknown)]
    if unknown and (needed or len(unknown) == len(inputs)):
        return unknown[0] if needed else Unknown(unknown[0].reason)
    given = _values(inputs, sign)
    try:
        problem: Problem | None = sign.decide(context, **given) if sign.takes_context else sign.decide(**given)
    except ValueError as error:
        return unreadable(error)
    return problem if problem and problem.evidence else None


def _values(inputs: Mapping[str, Known[Any] | Unknown], sign: Sign) -> dict[str, Any]:
    """What is handed over to a sign; where an input is unknown, the sign has a default."""
    names = (*sign.required, *sign.optional)
    return {name: fact.value for name in names if isinstance(fact := inputs[name], Known)}


def hypotheses(context: Context) -> Iterator[Context]:
    """The same machine with each value of the facts that are one of several."""
    open_facts = list(_open_facts(context.facts))
    combinations = product(*(fact.one_of for _, fact in open_facts)) if open_facts else ()
    for values in islice(combinations, _MOST_HYPOTHESES):
        facts = context.facts
        for (path, fact), value in zip(open_facts, values, strict=True):
            section, name = path.split(".")
            known = Known(value, f"{ONE_OF}{', '.join(fact.one_of)}", "inferred")
            record = msgspec.structs.replace(getattr(facts, section), **{name: known})
            facts = msgspec.structs.replace(facts, **{section: record})
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
    """The first finding whose advice repairs this one, too, beginning alike or containing it: one fault, then."""
    own = _advice(one)
    others = ((other, _advice(other)) for other in unexplained)
    return next(o for o, more in others if o is one or (own and (own[:1] == more[:1] or set(own) <= set(more))))


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
    if verified is None:
        return found
    softened = []
    for one in found:
        beyond = one.declared.despite_verified or one.problem.despite_verified
        if not beyond and one.finding.severity is Severity.ERROR:
            lines = (*one.finding.evidence, verified)
            warning = msgspec.structs.replace(one.finding, severity=Severity.WARNING, evidence=lines)
            one = replace(one, finding=warning)
        softened.append(one)
    return softened


def _verified(context: Context) -> Evidence | None:
    """Return what was verified, as evidence; None unless it was everything, on all GPUs that are there or required."""
    facts = context.facts
    gpus = sum(one.kind == "GPU" for one in value_or(facts.tensorflow.devices, ()))
    wanted = max(context.require_gpus or 1, value_or(facts.driver.cuda_device_count, 0))
    checks = value_or(facts.tensorflow.checks, ())
    devices = {kind: {check.device for check in checks if check.kind == kind} for kind in (*_PER_GPU, "xla")}
    complete = all(len(devices[kind]) == gpus for kind in _PER_GPU) and bool(devices["xla"])
    phases_ok = all(phase.outcome in ("ok", "skipped") for phase in facts.tensorflow.phases)
    all_well = complete and phases_ok and all(check.ok for check in checks)
    if not context.probed or gpus < wanted or not all_well:
        return None
    text = f"matmul, conv2d and XLA give correct results on {count(gpus, 'GPU')}"
    return evidence(text, context.source("tensorflow.checks"))


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
