"""Facts and matrix in, findings out: judge signs, put root causes first, weigh what a text leaves open."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from itertools import islice, product
from math import exp
from typing import Any, Literal, TypeAlias

from msgspec import structs

from tfgpu_doctor import __version__
from tfgpu_doctor.facts.distributions import PLUGIN_BUILDS
from tfgpu_doctor.facts.facts import (
    NOT_ASKED,
    ONE_OF,
    Facts,
    Known,
    Message,
    Record,
    Unknown,
    fact_paths,
    lists_gpu,
    look_up,
    value_or,
)
from tfgpu_doctor.facts.report import (
    GUESSED,
    HARMLESS,
    OVER,
    SCHEMA,
    Evidence,
    Finding,
    Fix,
    Report,
    Severity,
    Tool,
    Undetermined,
    Verdict,
)
from tfgpu_doctor.facts.report import judge as judge_findings
from tfgpu_doctor.facts.similar import did_you_mean
from tfgpu_doctor.facts.units import count
from tfgpu_doctor.facts.versions import at_least
from tfgpu_doctor.findings.catalogue import DECLARATIONS, RANK
from tfgpu_doctor.findings.declaration import (
    OF_ANY_CRASH,
    ON_HOSTED,
    OTHER_RELEASE,
    Context,
    Declaration,
    MakeFixes,
    MessageLog,
    Planned,
    Problem,
    Sign,
    evidence,
    matches,
    message_evidence,
)
from tfgpu_doctor.findings.gpu import FEWER_THAN_REQUIRED
from tfgpu_doctor.findings.inputs import OPTIONAL_COMPONENTS, fetch, smi_works, unreadable
from tfgpu_doctor.findings.symptoms import SYMPTOMS, nothing_fails, situation, trouble
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.parsers.own_report import with_facts
from tfgpu_doctor.parsers.resemblance import NO_CAUSE

# ----------------------------------------------------------------------------------------------------------------------
# Five things are decided here, once, for all findings:
# - Where probes looked at this machine, they know better than a printed line: when a conclusive sign over facts rules a
#   finding out, messages cannot bring it back. In a pasted text every sign counts.
# - What was computed and verified outranks what a list of files suggests: an error that it contradicts is a warning.
# - A fact that is one of several values is judged for each of them: a sign that holds for all is certain, one that
#   holds for some is possible, where something else in the text suggests it: a failure, and not the release alone.
# - A finding that would explain a symptom that is seen, and that nothing rules out, is possible; the commands that
#   would tell the facts that it lacks are what to run to decide.
# - In a text, a problem that is not clearly likelier than every other cause is only possible, and all that is possible
#   stands in the order of its likelihood.


SEVERITIES = tuple(Severity)
_MOST_HYPOTHESES = 24  # combinations of values, where several facts are one of several
_LARGEST = 1e6  # number that counts, of those that a saved report can hold
_OF_ALL = ("python -c", "python --version")  # commands whose answer says as much of one cause as of another
ASK_DOCTOR = "tfgpu doctor"  # tells every fact, on the machine that the text is about


@dataclass(frozen=True, eq=False)
class Shown:
    """A finding, and what one of its signs shows of it, or what a symptom leaves open."""

    declared: Declaration
    problem: Problem
    unless: tuple[str, ...] = ()
    by_value_alone: bool = False  # it holds for some values of a fact that is one of several, and no message says it
    fixes: tuple[Fix, ...] = ()  # those that work here

    @property
    def id(self) -> str:
        """Id of the finding."""
        return self.declared.id

    @property
    def severity(self) -> Severity:
        """How grave this is; what may hold is no error."""
        severity = self.problem.severity or self.declared.severity
        return Severity.WARNING if self.problem.possible and severity is Severity.ERROR else severity

    def changed(self, **changes: Any) -> Shown:
        """Return the same with fields of the problem changed."""
        return replace(self, problem=replace(self.problem, **changes))

    def finding(self, consequences: tuple[str, ...] = (), *, root_cause: bool = True) -> Finding:
        """Return it as it stands in a report."""
        declared, problem = self.declared, self.problem
        return Finding(
            id=declared.id,
            severity=self.severity,
            root_cause=root_cause,
            title=problem.title or declared.title,
            cause=problem.cause or declared.cause,
            evidence=problem.evidence,
            fixes=self.fixes,
            consequences=consequences,
            docs=declared.docs,
            possible=problem.possible,
            answers=declared.answers or problem.answers,
        )


@dataclass(frozen=True)
class Judged:
    """What the signs of one finding come to."""

    declared: Declaration
    shown: tuple[Shown, ...] = ()
    unknown: tuple[tuple[Sign, Unknown], ...] = ()  # signs that could not be judged
    contradicted: bool = False  # a sign over facts says that it does not hold


@dataclass(frozen=True)
class Diagnosis:
    """All findings, root causes first, and the checks that could not be made."""

    findings: tuple[Finding, ...]
    undetermined: tuple[Undetermined, ...]


def diagnose(
    facts: Facts,
    matrix: Matrix,
    *,
    fixes: MakeFixes,
    require_gpus: int | None = None,
    planned: Planned | None = None,
    declarations: Iterable[Declaration] = DECLARATIONS.values(),
    for_any_machine: bool = False,
) -> Diagnosis:
    """Judge `facts` by `matrix`, and the environment that a manifest plans; never raises for the facts' sake.

    `for_any_machine`: the environment is made for a machine that has a GPU, whether or not this one has.
    """
    context = Context(facts, matrix, fixes, require_gpus, planned)
    supposed = tuple(hypotheses(context))
    judged = {one.id: judge(one, context, supposed) for one in declarations}
    certain, opened, likely = _weighed(judged, context)
    if _wants_cpu(context):
        opened = [one for one in opened if not one.declared.about_gpus]
    possible = [*_to_decide([_with_fixes(one, context) for one in opened], certain, judged, context)]
    findings = tuple(arrange(certain if for_any_machine else _as_wanted(certain, context), likely, possible))
    findings = _as_solved(findings, context)
    undetermined = []
    for name, one in judged.items():  # unless a finding answers its question, makes it pointless, or explains it
        closing = (name, *one.declared.pointless_after, *one.declared.explained_by)
        if one.unknown and not any(matches(finding.id, closing) for finding in findings):
            undetermined.append(Undetermined(name, one.unknown[0][1].reason))
    return Diagnosis(findings, tuple(undetermined))


def _as_solved(findings: tuple[Finding, ...], context: Context) -> tuple[Finding, ...]:
    """What a text says is over, without a failure below that: a note of what was shown, and nothing to type."""
    said = context.log.all("solved-said")[-1:]
    if not said or MessageLog(tuple(one for one in context.log.messages if one.line > said[0].line)).complains:
        return findings
    nothing = (Fix(f"Nothing is left to do: {OVER} in line {said[0].line}"),)
    shown = [one for one in findings if not one.possible] or findings[:1]
    return tuple(structs.replace(one, severity=Severity.NOTE, fixes=nothing, answers=True) for one in shown)


def hypotheses(context: Context) -> Iterator[Context]:
    """The same machine with each value of the facts that are one of several."""
    facts_by_path = {path: look_up(context.facts, path) for path in fact_paths() if "." in path}
    several = {path: one.one_of for path, one in facts_by_path.items() if isinstance(one, Unknown) and one.one_of}
    for values in islice(product(*several.values()), _MOST_HYPOTHESES) if several else ():
        pairs = zip(several, values, strict=True)
        known = {path: Known(value, f"{ONE_OF}{', '.join(several[path])}", "inferred") for path, value in pairs}
        yield replace(context, facts=with_facts(context.facts, known), derived={})


# ----------------------------------------------------------------------------------------------------------------------
# One finding at a time: what its signs come to, in the facts as they are and with each value of an open one.


_Outcome: TypeAlias = "Problem | Unknown | None"


_BY_RELEASE = "reported_cuda"


def judge(declared: Declaration, context: Context, supposed: Sequence[Context]) -> Judged:
    """Ask every sign of a finding; what a pasted report of ours says of it, it says with all facts of its machine."""
    messages = value_or(context.facts.messages, ())
    for message in messages:
        if message.kind == "own-finding" and message.values["id"] == declared.id:
            return Judged(declared, (Shown(declared, _reported(message)),))
    outcomes = [(s, _supposed(s, one, supposed)) for s, one in _beside_report(_outcomes(declared, context), messages)]
    shown = [Shown(declared, one, sign.unless) for sign, one in outcomes if isinstance(one, Problem)]
    unknown = tuple((sign, one) for sign, one in outcomes if isinstance(one, Unknown))
    open_ones = (*(sign for sign, _ in unknown), *_asked_anew(outcomes, messages))
    by_value = [one for sign in open_ones if (one := _by_value(declared, sign, supposed))]
    found = [*by_value, *shown] if len(supposed) == 1 else [*shown, *by_value]  # the only value that is left is known
    contradicted = any(one is None for sign, one in outcomes if not sign.reads_messages)
    return Judged(declared, tuple(found), unknown, contradicted)


def _asked_anew(outcomes: list[tuple[Sign, _Outcome]], messages: tuple[Message, ...]) -> list[Sign]:
    """The signs that showed nothing without the release, with which what is told of CUDA is read.

    Which library is missing says more than the releases that are possible.
    """
    named = any(message.kind in ("library-not-opened", "loader-error") for message in messages)
    return [sign for sign, one in outcomes if one is None and _BY_RELEASE in sign.inputs and not named]


def _supposed(sign: Sign, outcome: _Outcome, supposed: Sequence[Context]) -> _Outcome:
    """The same, unless what it shows while a fact is open holds for none of the values."""
    if not isinstance(outcome, Problem) or not supposed or _BY_RELEASE not in sign.inputs:
        return outcome
    return outcome if any(isinstance(_outcome(sign, one), Problem) for one in supposed) else None


def _beside_report(outcomes: list[tuple[Sign, _Outcome]], messages: tuple[Message, ...]) -> list[tuple[Sign, _Outcome]]:
    """What counts beside a pasted report of ours, whose text shows some of its facts: what they rule out, and lines."""
    if not any(message.kind == "own-report" for message in messages):
        return outcomes
    complains = MessageLog(tuple(one for one in messages if one.kind != "own-finding")).complains
    return [(sign, one) for sign, one in outcomes if (complains if sign.reads_messages else one is None)]


def _reported(message: Message) -> Problem:
    """A finding of a pasted report; its fixes stand in it, and its JSON form has all facts."""
    again = "Follow the fixes of that report; or get it as JSON, with all facts, and read it with tfgpu explain"
    return Problem(
        title=message.values.get("title", message.text),
        cause="tfgpu found it on the machine of the pasted report",
        evidence=message_evidence(message),
        fixes=(Fix(again, ("tfgpu doctor --format json --output report.json",)),),
        severity=Severity(message.values["severity"]),
    )


def signs_that_show(declared: Declaration, context: Context) -> list[Sign]:
    """The signs of a finding that show it in these facts."""
    return [sign for sign, outcome in _outcomes(declared, context) if isinstance(outcome, Problem)]


def _outcomes(declared: Declaration, context: Context) -> list[tuple[Sign, _Outcome]]:
    """Of the signs over facts, then of those over messages, unless probes looked, and a conclusive sign overrules them.

    Left out are signs about what nobody asked for: messages, a manifest, a number of GPUs that are required.
    """
    asked = [s for s in declared.signs if all(fetch(name, context) != NOT_ASKED for name in s.required)]
    found = [(sign, _outcome(sign, context)) for sign in asked if not sign.reads_messages]
    if not context.probed or not any(sign.conclusive and outcome is None for sign, outcome in found):
        found += [(sign, _outcome(sign, context)) for sign in asked if sign.reads_messages]
    return found


def _outcome(sign: Sign, context: Context) -> _Outcome:
    """What a sign comes to; a missing input that it requires, or one that cannot be read, makes the answer unknown."""
    inputs = {name: fetch(name, context) for name in sign.inputs}
    needed = [inputs[name] for name in sign.required]
    unknown = [fact for fact in needed or inputs.values() if isinstance(fact, Unknown)]
    if unknown and (needed or len(unknown) == len(inputs)):
        return unknown[0]
    try:
        return sign.show(context, inputs)
    except ValueError as error:
        return unreadable(error)


def _by_value(declared: Declaration, sign: Sign, supposed: Sequence[Context]) -> Shown | None:
    """What a sign shows where a fact is one of several values: certain when it holds for all of them."""
    problems = [one for context in supposed if isinstance(one := _outcome(sign, context), Problem)]
    if not problems:
        return None
    first, partly = problems[0], len(problems) < len(supposed)
    same = all(one.title == first.title for one in problems)  # else it names one of the values, and they remain open
    tails = {(one.title or "").partition(": ")[2] for one in problems}  # "TensorFlow 2.17.1: no kernels for ..."
    tail = tails.pop() if len(tails) == 1 else ""
    title = first.title if same else f"{tail[:1].upper()}{tail[1:]}" or None
    seen = tuple(_common(first.evidence, [other.evidence for other in problems])) or first.evidence
    problem = replace(first, possible=first.possible or partly, title=title, evidence=seen)
    return Shown(declared, problem, sign.unless, partly and not sign.reads_messages)


def _common(first: Sequence[Evidence], all_of_them: Sequence[Sequence[Evidence]]) -> Iterator[Evidence]:
    """What is seen whichever value holds, with what is needed where that is the same, too."""
    for one in first:
        plain = structs.replace(one, need=None, need_source=None)
        if all(one in other for other in all_of_them):
            yield one
        elif all(plain in (structs.replace(each, need=None, need_source=None) for each in o) for o in all_of_them):
            yield plain


# ----------------------------------------------------------------------------------------------------------------------
# All findings beside each other: what holds, what is possible, and the commands that decide.


def holding(judged: Mapping[str, Judged], context: Context) -> tuple[list[Shown], list[Shown]]:
    """What holds, with its fixes, and what is only possible."""
    fired = {name for name, each in judged.items() if any(not one.problem.possible for one in each.shown)}
    shown = [one for each in judged.values() if (one := _strongest(each, fired))]
    shown += [one for each in judged.values() if (one := _possibility(each, context, fired))]
    certain = [_with_fixes(one, context) for one in shown if not one.problem.possible]
    return certain, [one for one in shown if one.problem.possible]


def _strongest(judged: Judged, fired: set[str]) -> Shown | None:
    """The most certain and gravest of what shows a finding, beside these others."""
    others = fired - {judged.declared.id}
    if any(matches(one, judged.declared.pointless_after) for one in others):
        return None
    left = (one for one in judged.shown if not any(matches(other, one.unless) for other in others))
    return min(left, key=lambda one: (one.problem.possible, SEVERITIES.index(one.severity)), default=None)


def _possibility(judged: Judged, context: Context, fired: set[str]) -> Shown | None:
    """It as a possible cause, when nothing shows or contradicts it, and it would explain what is seen."""
    if judged.shown or judged.contradicted or not isinstance(fetch("messages", context), Known):
        return None
    for symptom in judged.declared.symptoms:
        given = {name: value_or(fetch(name, context), None) for name in symptom.inputs}
        if not fired & set(symptom.explained_by) and (seen := symptom.seen(**given)):
            return _as_possible(judged.declared, symptom.because, *seen)
    return None


def _as_possible(declared: Declaration, because: str, *seen: Message | None) -> Shown:
    """A finding that nothing shows and nothing rules out; the commands that decide stand with all of them."""
    lines = message_evidence(*seen, most=1)
    problem = Problem(evidence=lines, cause=because, fixes=(), severity=Severity.WARNING, possible=True)
    return Shown(declared, problem)


def _with_fixes(one: Shown, context: Context) -> Shown:
    """The same with the fixes of its sign, or else the declared ones."""
    fixes = _declared_fixes(one, context) if one.problem.fixes is None else one.problem.fixes
    return replace(one, fixes=context.remedies.that_work_here(fixes))


def _declared_fixes(one: Shown, context: Context) -> tuple[Fix, ...]:
    return one.declared.fixes(context) if one.declared.fixes else ()


def _to_decide(
    possible: list[Shown], certain: list[Shown], judged: Mapping[str, Judged], context: Context
) -> Iterator[Shown]:
    """What is only possible, each with the commands that decide on it, before anything that repairs.

    Where no problem is certain, the likeliest keeps its repair, unless all that speaks for it is a little likeness to
    other reports. In a text, of 69 such repairs in reports that the signs were not written from, 27 were for another
    cause: so what decides comes first, and the repair is what to do if it is so, unless one repair serves all that is
    possible.
    """
    asks = {one.id: () if context.probed else _asks(judged[one.id], context) for one in possible}
    times = Counter(command for commands in asks.values() for command in commands)
    first = None if _problems(certain) else next(iter(possible), None)
    for one in possible:
        decide, repairs = _deciding_and_repairing(one, context)
        repairs = repairs if one is first else []
        if context.probed:
            yield replace(one, fixes=(*decide, *(repairs if _to_try(possible) else ())))
            continue
        order = sorted(
            asks[one.id], key=lambda command: (command.removeprefix("!").startswith(_OF_ALL), times[command])
        )
        yield replace(one, fixes=(*_if_so(decide or [_deciding(order)], repairs[:1], possible),))


def _deciding_and_repairing(one: Shown, context: Context) -> tuple[list[Fix], list[Fix]]:
    own = one.fixes or context.remedies.that_work_here(_declared_fixes(one, context))
    # the libraries are there, and what is missing is a way to them
    there = context.log.works_in_a_shell and one.id.endswith((".missing", ".version-mismatch"))
    # nor is another release proposed for a cause that nothing in the text shows
    like = one.problem.cause in LIKE_OTHERS
    left = [fix for fix in own if not (fix.decides or there or (like and fix.text.startswith(OTHER_RELEASE)))]
    return [fix for fix in own if fix.decides], left


def _if_so(decide: list[Fix], repairs: list[Fix], possible: list[Shown]) -> list[Fix]:
    """What decides, and the repair of what is only possible; before it, if it repairs all that is possible."""
    if not repairs:
        return decide
    if _serves_all(repairs[0], possible):
        return [structs.replace(repairs[0], text=WHICHEVER + repairs[0].text), *decide]
    text = f"If this is the cause: {repairs[0].text}".replace(": If ", " and ", 1)
    return [*decide, structs.replace(repairs[0], text=text)] if _to_try(possible) else decide


def _to_try(possible: list[Shown]) -> Shown | None:
    """The likeliest cause, if its repair may be tried: as in similar reports about speed, or because of a sign."""
    first = next(iter(possible), None)
    if first is None or first.problem.cause == GUESSED:
        return None
    return first if first.id.startswith("perf.") or first.problem.cause != BECAUSE else None


def _serves_all(fix: Fix, possible: list[Shown]) -> bool:
    """Whether a repair brings CUDA and cuDNN for a named release, and it is only open why theirs are not found."""
    if fix.text.startswith(ON_HOSTED):  # its CUDA is that of its own TensorFlow alone
        return all(one.declared.layer in ("CUDA", "cuDNN", "TensorFlow") for one in possible)
    brought = any(one in " ".join(fix.commands) for one in ("cudatoolkit=", "[and-cuda]", "nvidia-cu", "docker run"))
    of_libraries = len(possible) > 1 and all(one.declared.layer in ("CUDA", "cuDNN") for one in possible)
    shown = any(one.problem.cause not in (GUESSED, *LIKE_OTHERS) for one in possible)
    installs = brought and possible[0].id.endswith((".missing", ".version-mismatch"))
    return installs and of_libraries and shown and not fix.text.startswith(OTHER_RELEASE)


def _asks(judged: Judged, context: Context) -> tuple[str, ...]:
    """The commands that tell the facts that its signs lack."""
    facts = (fetch(name, context) for sign, _ in judged.unknown for name in sign.inputs)
    return tuple(dict.fromkeys(fact.ask for fact in facts if isinstance(fact, Unknown) and fact.ask))


def _deciding(commands: Sequence[str]) -> Fix:
    """How to see whether it is the cause."""
    text = f"To decide, run {ASK_DOCTOR} on that machine, or these commands" if commands else "To decide, run"
    return Fix(text, tuple(commands) or (ASK_DOCTOR,))


# ----------------------------------------------------------------------------------------------------------------------
# Findings in their order: root causes first, consequences under them.


def arrange(found: list[Shown], likely: Mapping[str, float], possible: Sequence[Shown]) -> Iterator[Finding]:
    """Sort; what another finding explains is its consequence; what is only possible stands before the notes."""
    # gravest first, then the likeliest, then in the order of declaration
    found = sorted(found, key=lambda one: (-likely.get(one.id, -_LARGEST), not one.problem.rank_first, RANK[one.id]))
    found.sort(key=lambda one: SEVERITIES.index(one.severity))
    unexplained = [one for one in found if _explainer(one, found) is None]
    root_of = {one.id: _root_of(one, unexplained, found) for one in found}
    roots = [one for one in unexplained if root_of[one.id] is one]
    followers = [one for one in found if one not in roots]
    grave = [one for one in roots if one.severity is not Severity.NOTE]
    for one in (*grave, *possible, *roots[len(grave) :]):
        yield one.finding(tuple(other.id for other in followers if root_of[other.id] is one))
    yield from (one.finding(root_cause=False) for one in followers)


def _repaired_with(one: Shown, unexplained: list[Shown]) -> Shown:
    """The first finding whose advice repairs this one, too, beginning alike or containing it: one fault, then."""
    own = _advice(one)
    others = ((other, _advice(other)) for other in unexplained)
    return next(o for o, more in others if o is one or (own and (own[:1] == more[:1] or set(own) <= set(more))))


def _advice(one: Shown) -> tuple[str, ...]:
    """What is to be done first; a command of this program repairs nothing."""
    commands = one.fixes[0].commands if one.fixes else ()
    return () if commands[:1] and commands[0].startswith("tfgpu ") else commands


def _root_of(one: Shown, unexplained: list[Shown], found: list[Shown]) -> Shown | None:
    """Follow the explanations from finding to finding down to a root cause; None where they go round in a circle."""
    for _ in found:
        if one in unexplained:
            return _repaired_with(one, unexplained)
        one = _explainer(one, [*unexplained, *found]) or one
    return None


def _explainer(one: Shown, others: list[Shown]) -> Shown | None:
    """The first finding that explains this one; a note explains nothing, a warning no error but what is said of it.

    That there is no GPU is the whole reason for what is missed without one, whatever else is wrong.
    """
    causes = () if one.problem.never_consequence else one.declared.explained_by
    said = one.id in ("gpu.not-visible", "tf.known-bug") and one.problem.cause  # by a person, or the matrix
    least = max(SEVERITIES.index(one.severity), SEVERITIES.index(Severity.WARNING) if said else 0)
    able = (other for other in others if SEVERITIES.index(other.severity) <= least)
    found = [other for other in able if other is not one and matches(other.id, causes)]
    return min(found, key=lambda other: other.id != "gpu.none", default=None)


def _problems(certain: list[Shown]) -> list[Finding]:
    """What signs see that is neither a symptom nor a note, the first first."""
    return [one for one in arrange(certain, {}, ()) if one.severity is not Severity.NOTE and one.id not in SYMPTOMS]


# ----------------------------------------------------------------------------------------------------------------------
# What was computed and verified outranks what lists of files and versions suggest (DESIGN, law 12).
# Where every phase of the examination ended well, and a matrix product, a convolution and a function compiled by XLA
# were verified, an error that says that TensorFlow cannot use the GPU is contradicted: it becomes a warning, with what
# was verified as evidence. Findings that a small computation does not reach declare so (`despite_verified`).


def _contradicted_as_warnings(certain: list[Shown], context: Context) -> list[Shown]:
    """The findings, with errors that verified computations contradict as warnings."""
    verified = _verified(context)
    if verified is None:
        return certain
    beyond = [one for one in certain if one.declared.despite_verified or one.problem.despite_verified]
    return [
        one
        if one in beyond or one.severity is not Severity.ERROR
        else one.changed(severity=Severity.WARNING, evidence=(*one.problem.evidence, verified))
        for one in certain
    ]


def _verified(context: Context) -> Evidence | None:
    """What was verified, as evidence; None unless it was everything, on all GPUs that are there or required."""
    facts = context.facts
    gpus = sum(one.kind == "GPU" for one in value_or(facts.tensorflow.devices, ()))
    wanted = max(context.require_gpus or 1, value_or(facts.driver.cuda_device_count, 0))
    checks = value_or(facts.tensorflow.checks, ())
    devices = {kind: {one.device for one in checks if one.kind == kind} for kind in ("matmul", "conv2d", "xla")}
    complete = len(devices["matmul"]) == len(devices["conv2d"]) == gpus and devices["xla"]
    phases_ok = all(phase.outcome in ("ok", "skipped") for phase in facts.tensorflow.phases)
    if not context.probed or gpus < wanted or not complete or not phases_ok or not all(one.ok for one in checks):
        return None
    text = f"matmul, conv2d and XLA give correct results on {count(gpus, 'GPU')}"
    return evidence(text, context.source("tensorflow.checks"))


# ----------------------------------------------------------------------------------------------------------------------
# What would keep TensorFlow from a GPU: nothing where there is none, a note where none is required.


def _as_wanted(found: list[Shown], context: Context) -> list[Shown]:
    """The findings, without those that repair nothing here, or with them as notes.

    On a machine without a GPU, what is missing for one is of no interest: of all that is about GPUs, gpu.none and its
    consequences are left. Where no GPU is required and TensorFlow lists none, they are notes. Findings of a pasted
    text stay as they are, for it rarely tells whether all of it is about one machine, unless its writer wants the CPU,
    or only asks: what he would run into is a note beside the answer, which alone says what to install.
    """
    if asks_only(context):
        note = Severity.NOTE
        return [one if one.severity is note else replace(one.changed(severity=note), fixes=()) for one in found]
    unwanted = _wants_cpu(context)
    if context.probed:
        if any(one.id == "gpu.none" for one in found):
            left = ("gpu.none", "gpu.not-visible", "gpu.fewer-than-required")
            found = [one for one in found if not one.declared.about_gpus or one.id in left]
        unwanted = context.require_gpus == 0 and not lists_gpu(value_or(context.facts.tensorflow.devices, None))
    return [one.changed(severity=Severity.NOTE) if unwanted and one.declared.about_gpus else one for one in found]


def _wants_cpu(context: Context) -> bool:
    """True if a text says that the CPU is what its writer wants, or asks how to compute there."""
    log = value_or(fetch("messages", context), MessageLog(()))
    asked = (one.values for one in log.all("question"))
    asks = any((one["about"], one["trouble"]) == ("cpu", "no") for one in asked)
    return asks or log.has("wants-cpu") or log.only_disturbs


# ----------------------------------------------------------------------------------------------------------------------
# What speaks for a cause where a text is all there is, and how much: signs, facts, the situation and words.
# All of it is evidence, and none of it proof. The causes of a situation stand in the order of their numbers in
# tests/cases on 2026-11-23 (WSL2: 11-25), without those that print a message of their own (a missing GLIBC, a mismatch
# of the driver). Which causes reports in the same words had, parsers/resemblance.py tells.


MOST = 3  # causes; a longer list is no help
# What speaks for a cause, and how much: natural logarithms of odds, fitted by scripts/learn_evidence.py to reports that
# the signs were not written from. `likeness` is multiplied by the number that parsers/resemblance.py gives. `usual` is
# above the fit (0), because few of those reports are as short as a question in a chat.
EVIDENCE = {
    "likeness": 4.0,
    "certain": 0.5,  # a sign sees an error
    "sure": 0.8,  # ... of SURE
    "first": 2.0,  # ... that stands before the others
    "warned": 2.4,  # a sign sees a warning
    "open": 2.0,  # a sign leaves it open, or it would explain what is seen
    "said": 1.4,  # somebody gives it as the reason
    "usual": 0.2,  # the first of its situation; of the second a half, of the third a third
    "quiet": 0.7,  # nothing is wrong, and no sign sees an error
}
# whose signs held in about nine of ten reports that they were not written from, or in more
SURE = (
    *("tf.abi-*", "tf.import-avx", "tf.glibc-too-old", "tf.python-unsupported", "gpu.arch-too-*", "xla.*"),
    *("driver.too-old", "driver.version-mismatch", "cuda.version-mismatch", "cudnn.version-mismatch"),
    *("cudnn.dep-missing", "tf.not-installed"),
)
UNLIKE = -1.0  # likeness to reports of which a text has nothing
ENOUGH = 40  # different words; fewer say less of what a text is like
DOUBTED_FROM = 0.5  # of them; in fewer words a sign is believed
SITUATION = 4.0  # by so much more the facts and the situation count in a text without a word
# whose signs held in nearly all of 80 reports (2026-11-29) that likeness was not learnt from: words raise no doubt
UNDOUBTED = ("tf.not-installed", "tf.import-avx", "tf.abi-protobuf", "driver.version-mismatch", "xla.*")
LEAD = 1.5  # by so much a problem that a text shows must be likelier than any other cause, or it is only possible
BESIDE = 2.0  # by so much less likely causes are named beside a problem that a text shows
HEALTHY = 0.5  # by so much it must be more like reports in which nothing is wrong, or causes are named
# where a cause has this chance, it is named though nothing shows it, and so is each that has half of it: of 1,280
# reports that likeness was not learnt from (2026-11-29), 42 of 76 that are named first were right, 33 of 82 below
NAMED_FROM = 0.2
# from this chance its repair is shown, too: of 52 such causes in 2,555 reports that likeness was learnt without
# (2026-11-30), 46 were right
REPAIRED_FROM = 0.6
SAID = "somebody gives this as the reason, and the text shows no other"
BECAUSE = "the text does not show why; in similar reports, this is often the cause"
MOSTLY = "the text does not show why; in similar reports, this is mostly the cause"
LIKE_OTHERS = (BECAUSE, MOSTLY)
WHICHEVER = "In each case: "  # so begins a fix that repairs all that is possible
# situation → system ("" for any other) → causes
COMMON: dict[str, dict[str, tuple[str, ...]]] = {
    "no GPU": {
        "windows": ("tf.windows-native", "cuda.version-mismatch", "cuda.missing", "tf.cpu-build"),
        "wsl2": ("wsl.setup", "cuda.missing", "cuda.lib-path"),
        "macos": ("tf.cpu-build", "gpu.none"),
        "container": ("container.no-gpu", "cuda.missing", "cuda.version-mismatch"),
        "": ("cuda.missing", "cuda.version-mismatch", "cuda.lib-path", "tf.cpu-build"),
    },
    "import": {
        "windows": ("tf.import-dll", "tf.python-unsupported", "tf.abi-numpy"),
        "macos": ("tf.import-avx", "tf.abi-numpy"),
        "": ("tf.abi-numpy", "tf.package-conflict", "tf.wrong-env"),
    },
    "hangs": {"": ("perf.small-work", "perf.input-bound")},
    "slow": {"": ("perf.small-work", "perf.input-bound", "gpu.arch-too-new")},
    "fails": {
        "wsl2": ("wsl.setup", "cuda.missing"),
        "container": ("container.no-gpu", "memory.oom", "cuda.version-mismatch"),
        "": ("memory.oom", "gpu.arch-too-new", "cudnn.version-mismatch", "cuda.version-mismatch"),
    },
}

# Situation → what cannot be the cause of it: only what runs on a GPU is slow there, wrong, or too large for it; a build
# without CUDA can be imported; and what is slow has started.
_DEVICE = ("gpu.throttled", "gpu.fault", "cudnn.init")
_ON_THE_GPU = ("perf.", "compute.", "memory.", "nccl.", "p2p.", "shm.", "xla.", *_DEVICE)
_RUNS = ("gpu.", "xla.", "driver.not-loaded", "tf.cpu-build", "tf.windows-native")  # the import ends well
_STARTS = ("driver.", "container.", "wsl.", "tf.import", "tf.not-installed", "tf.glibc", "tf.abi-", "env.")
_CANNOT = {"no GPU": _ON_THE_GPU, "import": (*_ON_THE_GPU, *_RUNS), "slow": (*_STARTS, "memory.oom", "tf.python-")}
# what there is on one system only
_OF_WINDOWS = ("tf.windows-native", "tf.import-dll")
ONLY_ON = {**dict.fromkeys(_OF_WINDOWS, "windows"), "wsl.setup": "wsl2"}


_AT_LEAST = EVIDENCE["likeness"] * UNLIKE  # what a cause has without any evidence


def _weighed(judged: Mapping[str, Judged], context: Context) -> tuple[list[Shown], list[Shown], Mapping[str, float]]:
    """What holds and what is possible, and how likely each is where a text says enough to tell.

    A problem that is not clearly likelier than every other cause is only possible from here on: without it, others may
    show that it made pointless.
    """
    text = read(context)
    certain, opened = holding(judged, context)
    if text is None:
        return _contradicted_as_warnings(certain, context), opened if context.probed else _shown_by_more(opened), {}
    found = weights(text, certain, opened)
    likely = {cause: sum(EVIDENCE[name] * much for name, much in found[cause].items()) for cause in found}
    if doubtful := _doubtful(text, likely, certain):
        doubts = {"possible": True, "severity": Severity.WARNING}
        doubted = {name: tuple(one.changed(**doubts) for one in judged[name].shown) for name in doubtful}
        return _weighed({**judged, **{name: replace(judged[name], shown=doubted[name]) for name in doubted}}, context)
    if text.shows is None:  # nothing goes wrong, and so no release alone is the cause of it
        opened = _shown_by_more(opened)
    opened += _guesses(text, likely, certain, opened, judged, context)
    opened.sort(key=lambda one: likely.get(one.id, _AT_LEAST), reverse=True)
    if text.in_container:  # it can have no driver of its own
        opened.sort(key=lambda one: one.id == "driver.missing")
    if _is_calm(text, certain, opened, unwanted=_wants_cpu(context)):
        # they are the answer, and beside them nothing is guessed
        certain, opened = [one.changed(answers=True) if one.id in HARMLESS else one for one in certain], []
    return certain, opened, likely if text.tells_enough else {}


def _shown_by_more(opened: list[Shown]) -> list[Shown]:
    return [one for one in opened if not one.by_value_alone]


def _is_calm(text: Text, certain: list[Shown], opened: list[Shown], *, unwanted: bool) -> bool:
    """True if harmless lines are all that a text shows, so that they are what is complained of."""
    log = text.log
    said = text.shows is None or text.shows.kind in ("trouble-said", "failure-said")
    none, some = _likest(text)
    says_more = not said or log.has("slow", "low-utilization") or some > none
    # what begins well may fail behind the last line
    fails = log.complains or log.has("gpu-created", "still-fails-said")
    more = any(one.severity is not Severity.NOTE or one.declared.answers for one in certain)
    harmless = any(one.id in HARMLESS for one in certain)
    return harmless and not (says_more or fails or more) and not any(_is_suggested(one, unwanted) for one in opened)


def _is_suggested(one: Shown, unwanted: bool) -> bool:
    """True if more than the likeness of a few reports speaks for it; for what is about GPUs, that of many."""
    return (
        (one.problem.cause in LIKE_OTHERS and not unwanted) if one.declared.about_gpus else one.problem.cause != GUESSED
    )


@dataclass(frozen=True)
class Text:
    """A text, and what it tells of the situation."""

    log: MessageLog
    os: str | None
    in_container: bool
    plugin: bool  # a build for GPUs of other makers
    lists_gpu: bool  # TensorFlow does
    driver_works: bool  # nvidia-smi shows a GPU, so that nothing below TensorFlow is the cause
    seen: str | None  # the situation
    shows: Message | None  # it
    likeness: dict[str, float]  # by cause
    fullness: float  # how much its words say, from 0 to 1: few say little, printed lines no more than their messages
    tells_enough: bool  # to doubt what signs show, or to put one problem before another

    @property
    def usual(self) -> tuple[str, ...]:
        """The usual causes of the situation, on its system or in its container."""
        table = COMMON[self.seen] if self.seen else {"": ()}
        return table.get(self.os or "-") or table.get("container" if self.in_container else "") or table[""]


def asks_only(context: Context) -> bool:
    """True if a text asks what can be answered, and nothing fails in it."""
    messages = fetch("messages", context)
    if context.probed or not isinstance(messages, Known):
        return False
    question = messages.value.first("question")
    asks = question is not None and question.values["about"] != "other" and question.values["trouble"] != "yes"
    return asks and nothing_fails(messages.value, value_or(fetch("devices", context), None))


def read(context: Context) -> Text | None:
    """The text that is judged; None where probes looked at the machine, a text only asks, or is a report of ours."""
    messages = fetch("messages", context)
    if context.probed or not isinstance(messages, Known) or asks_only(context) or messages.value.has("own-finding"):
        return None
    log, facts = messages.value, context.facts
    seen, shows = situation(log, value_or(fetch("devices", context), None)) or trouble(log) or (None, None)
    like = [one for one in log.all("resembles") if "cause" in one.values]
    words = max((_number(one, "words", 0.0) for one in like), default=0.0)
    if log.has("only-printed") and "12" in log.values("log-era", "cuda"):
        words = 0.0  # most reports that likeness was learnt from are older: the same lines meant another cause
    fullness = min(words / ENOUGH, 1.0)
    return Text(
        log=log,
        os=value_or(facts.host.os, None),
        in_container=value_or(facts.host.container, "none") != "none",
        plugin=value_or(facts.tensorflow.distribution, "") in PLUGIN_BUILDS,
        lists_gpu=lists_gpu(value_or(fetch("devices", context), None) or ()),
        driver_works=smi_works(value_or(facts.driver.nvidia_smi, None)),
        seen=seen,
        shows=shows,
        likeness={m.values["cause"]: UNLIKE + fullness * (_number(m, "likeness", UNLIKE) - UNLIKE) for m in like},
        fullness=fullness,
        tells_enough=fullness >= DOUBTED_FROM,
    )


def _number(one: Message, name: str, otherwise: float) -> float:
    """A value of a message as a number; a saved report can hold anything there."""
    try:
        number = float(one.values.get(name, otherwise))
    except ValueError:
        return otherwise
    return number if abs(number) < _LARGEST else otherwise


def weights(text: Text, certain: list[Shown], opened: Sequence[Shown]) -> dict[str, dict[str, float]]:
    """What speaks for each cause: evidence by name, as in EVIDENCE, and how much of it there is."""
    found: dict[str, dict[str, float]] = defaultdict(lambda: {"likeness": UNLIKE})
    for cause, likeness in text.likeness.items():
        found[cause]["likeness"] = likeness
    scale = 1 + SITUATION * (1 - text.fullness)
    for cause in text.log.values("cause-said", "cause"):
        found[cause]["said"] = scale
    for n, cause in enumerate(text.usual, start=1):
        found[cause]["usual"] = scale / n
    for one in opened:
        found[one.id]["open"] = 1.0
    problems = _problems(certain)
    errors = [one.id for one in problems if one.severity is Severity.ERROR]
    for problem in problems:
        found[problem.id]["certain" if problem.severity is Severity.ERROR else "warned"] = 1.0
    for cause in errors:
        found[cause]["sure"] = float(matches(cause, SURE))
    found[errors[0] if errors else "ok"]["first" if errors else "quiet"] = 1.0
    return found


def _doubtful(text: Text, likely: Mapping[str, float], certain: list[Shown]) -> set[str]:
    """The problems that signs see, and that are not much likelier than any other cause; a few words raise no doubt."""
    problems = {one.id for one in _problems(certain)}
    sure = {one.id for one in certain if one.problem.sure or matches(one.id, UNDOUBTED)}
    other = max((much for cause, much in likely.items() if cause not in problems), default=0.0)
    return {one for one in problems - sure if likely[one] < other + LEAD} if text.tells_enough else set()


def _guesses(
    text: Text,
    likely: Mapping[str, float],
    certain: list[Shown],
    opened: list[Shown],
    judged: Mapping[str, Judged],
    context: Context,
) -> list[Shown]:
    """The likeliest causes that nothing shows and no fact contradicts, with the line that tells of the trouble.

    Only as many as make MOST causes, and beside what is shown, only those that are about as likely.
    """
    shown = [*(one.id for one in _problems(certain)), *(one.id for one in opened)]
    answered = any(one.problem.answers or (text.shows is None and one.declared.answers) for one in certain)
    is_foreign = bool(text.log.values("other-framework", "alone"))  # what such reports had was TensorFlow's
    if answered or is_foreign or not (text.tells_enough if shown else _is_trouble(text, certain)):
        return []
    least = max((likely.get(one, _AT_LEAST) for one in shown), default=-_LARGEST) - BESIDE
    unseen = [one for one in _unseen(text, likely, shown, judged, context) if likely.get(one.id, _AT_LEAST) > least]
    unseen.sort(key=lambda one: likely.get(one.id, _AT_LEAST), reverse=True)
    return unseen[: max(MOST - len(shown), 0)]


def _unseen(
    text: Text, likely: Mapping[str, float], shown: list[str], judged: Mapping[str, Judged], context: Context
) -> Iterator[Shown]:
    """Causes that the text may have, that nothing shows and no fact contradicts."""
    said = {one.values.get("cause"): one for one in reversed(text.log.all("cause-said"))}
    causes = {*text.likeness, *said, *text.usual} - {*NO_CAUSE, *shown}
    left = {one: much for one, much in likely.items() if not one.startswith((*_ruled_out(text), "question"))}
    for cause in _contradicted(judged, context):
        left.pop(cause, None)
    probable = _probable(left)
    if text.seen != "fails" and not text.tells_enough:  # in a few words the situation says more than likeness
        probable = dict.fromkeys(text.usual, 0.0) | probable
    for cause, one in judged.items():
        if cause in causes and cause in left and not one.shown:
            because = GUESSED if cause not in probable else MOSTLY if probable[cause] >= REPAIRED_FROM else BECAUSE
            yield _as_possible(one.declared, *((SAID, said[cause]) if cause in said else (because, text.shows)))


def _contradicted(judged: Mapping[str, Judged], context: Context) -> Iterator[str]:
    """The causes that facts rule out, but for a build for the CPU where the one with CUDA was only assumed."""
    package, build = context.facts.tensorflow.distribution, context.facts.tensorflow.build
    assumed = not isinstance(build, Known) and (not isinstance(package, Known) or package.grade == "inferred")
    yield from (name for name, one in judged.items() if one.contradicted and not (name == "tf.cpu-build" and assumed))
    if lists_gpu(value_or(fetch("devices", context), None)):
        yield from ("tf.cpu-build", "tf.windows-native", "cuda.missing", "gpu.hidden", "gpu.none", "driver.missing")
    if at_least(value_or(context.facts.tensorflow.version, None), "2.12") is False:
        yield "tf.package-removed"  # the last one was 2.11


def _probable(likely: Mapping[str, float]) -> dict[str, float]:
    """The causes with a chance that is worth naming, of these and of nothing being wrong, with that chance."""
    odds = {cause: exp(much) for cause, much in likely.items()}
    chances = {cause: much / sum(odds.values()) for cause, much in odds.items()}
    best = max((chance for cause, chance in chances.items() if cause != "ok"), default=0.0)
    return {cause: chance for cause, chance in chances.items() if best >= NAMED_FROM and 2 * chance >= NAMED_FROM}


def _is_trouble(text: Text, certain: list[Shown]) -> bool:
    """True if something goes wrong: the text tells, or is about as much like reports with a cause as like others.

    What programs print without a failure, a GPU among it, and a few words that ask nothing, complain of nothing.
    """
    calm = text.shows is None and (text.lists_gpu or text.log.has("only-printed", "few-words"))
    if calm or _of_another_program(text):
        return False
    if text.shows is not None and not (certain and text.shows.kind == "trouble-said"):
        return True
    none, some = _likest(text)
    return not text.log.has("gpu-created") and some > none - HEALTHY * text.fullness


def _likest(text: Text) -> tuple[float, float]:
    """How much it is like reports without a cause, and like those of the likeliest cause."""
    none = max(text.likeness.get(one, UNLIKE) for one in NO_CAUSE)
    return none, max((much for one, much in text.likeness.items() if one not in NO_CAUSE), default=none)


def _of_another_program(text: Text) -> bool:
    """Whether nothing but an error of the program itself, or of another framework, is complained of."""
    raised = {*text.log.values("exception", "type")}
    foreign = {*text.log.values("other-framework", "program")}  # PyTorch is often beside a TensorFlow that is not named
    if foreign and text.seen in (None, "slow"):
        return True
    own = raised and raised <= {"NameError", "SyntaxError", "IndentationError", "TabError"}
    other = own or "JAX" in foreign or (foreign and text.seen != "no GPU")
    return bool(other) and text.log.speaks_only_of(*OF_ANY_CRASH)


def _ruled_out(text: Text) -> Iterator[str]:
    """Causes, or layers of them, that the facts rule out.

    What lies below TensorFlow, where something else uses the GPU; what there is on another system only; what cannot be
    the cause of that situation.
    """
    elsewhere = text.log.values("works-elsewhere", "where")  # that it works, on the same computer
    if text.driver_works or any("torch" in where.lower() for where in elsewhere):
        yield from ("driver.", "container.", "wsl.", "gpu.none")
    if set(text.log.values("container-start", "gpus")) == {"yes"} and text.seen != "no GPU":
        yield "container.no-gpu"
    if not text.in_container:
        yield "container."
    if text.plugin:
        yield from ("cuda.", "cudnn.", "driver.", "gpu.arch-")
    if text.in_container and text.os is None:  # what runs in it is Linux, wherever it is started
        yield from _OF_WINDOWS
    yield from (cause for cause, system in ONLY_ON.items() if text.os not in (None, system))
    yield from _CANNOT.get(text.seen or "", ())


def works(facts: Facts, require_gpus: int | None = None) -> bool | None:
    """Whether a GPU was seen to compute under TensorFlow, or, when it was not started, everything it needs is in place.

    Where no GPU is required, the CPU will do. None: could not be determined.
    """
    devices = facts.tensorflow.devices
    if isinstance(devices, Known):
        return require_gpus == 0 or lists_gpu(devices.value)
    if not any(phase.name == "import" and phase.outcome == "skipped" for phase in facts.tensorflow.phases):
        return None
    if require_gpus == 0:
        return True if isinstance(facts.tensorflow.version, Known) else None
    sonames = value_or(facts.loader.sonames, ())
    in_place = bool(value_or(facts.gpus, ())) and isinstance(facts.driver.version, Known) and bool(sonames)
    return True if in_place and all(one.winner for one in sonames if one.component not in OPTIONAL_COMPONENTS) else None


def verdict(findings: tuple[Finding, ...], facts: Facts, source: str, require_gpus: int | None = None) -> Verdict:
    """The verdict of a report; a text that leaves causes open, or only fails, does not tell whether all is well."""
    devices = facts.tensorflow.devices
    said = isinstance(devices, Known) and devices.grade == "stated"  # that no GPU is used, which is a symptom
    open_ones = tuple(one for one in findings if not (said and one.id == "gpu.not-visible"))
    grave = [one for one in open_ones if one.severity is not Severity.NOTE]
    fails = bool(grave) or _complains(value_or(facts.messages, ()))
    if source == "text" and fails and all(one.possible for one in grave):
        return judge_findings(open_ones, works=None)
    runs = works(facts, require_gpus)
    return judge_findings(findings, works=_presuppose_gpu(grave) if runs is None and source == "text" else runs)


def _complains(messages: tuple[Message, ...]) -> bool:
    """Whether a failure is reported, other than that an optional library is not opened."""
    harmless = {one.line for one in messages if one.kind == "harmless"}
    return MessageLog(tuple(one for one in messages if one.line not in harmless)).complains


def _presuppose_gpu(grave: list[Finding]) -> bool | None:
    """Whether what is found is slow on a GPU, or fills it, so that TensorFlow uses one; None: it does not tell."""
    return (bool(grave) and all(one.id.startswith(_ON_THE_GPU) for one in grave)) or None


def now() -> str:
    """The time as reports have it: "2026-11-21T06:36:00Z"."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def make_report(
    facts: Facts,
    matrix: Matrix,
    *,
    fixes: MakeFixes,
    source: Literal["live", "report", "text"],
    timings: dict[str, float],
    require_gpus: int | None = None,
    for_any_machine: bool = False,
) -> Report:
    """Diagnose `facts` and put everything into a report, dated now; the options are those of `diagnose`."""
    diagnosis = diagnose(facts, matrix, fixes=fixes, require_gpus=require_gpus, for_any_machine=for_any_machine)
    return Report(
        schema=SCHEMA,
        tool=Tool(name="tfgpu", version=__version__),
        matrix=matrix.info,
        created=now(),
        source=source,
        verdict=verdict(diagnosis.findings, facts, source, require_gpus),
        facts=facts,
        timings=timings,
        findings=diagnosis.findings,
        undetermined=diagnosis.undetermined,
    )


# ----------------------------------------------------------------------------------------------------------------------
# Leave findings out of a report, or keep only some. Pure.
# Everything is diagnosed first: a cause that is left out takes its consequences with it, so that skipping `gpu.none` on
# a machine without a GPU does not turn "TensorFlow lists no GPU" into a riddle.


class SelectionError(ValueError):
    """No check has that id; the message names those that are near."""


REQUIRED = FEWER_THAN_REQUIRED.id  # the check that --require-gpus asks for


class Check(Record, frozen=True):
    """A check as the list of them shows it."""

    id: str
    layer: str
    severity: str
    title: str


class CheckList(Record, frozen=True):
    """All checks, in alphabetical order."""

    schema: str
    checks: tuple[Check, ...]


def checks() -> CheckList:
    """Every id once, with the severity and the title that it has as a rule."""
    rows = (Check(one.id, one.layer, one.severity.value, one.title) for _, one in sorted(DECLARATIONS.items()))
    return CheckList("tfgpu.checks/1", tuple(rows))


def verify(patterns: tuple[str, ...]) -> None:
    """Make sure that every pattern ("gpu.none", "env.*") means some check. Raises SelectionError: one means none."""
    for pattern in patterns:
        if not any(matches(one, (pattern,)) for one in DECLARATIONS):
            group = f"{pattern.rstrip('.')}.*"
            hint = did_you_mean(pattern, sorted(DECLARATIONS)) or " tfgpu doctor --list-checks shows all."
            if any(matches(one, (group,)) for one in DECLARATIONS):
                hint = f" For all of that group: {group}"
            raise SelectionError(f"no finding has the id {pattern!r}.{hint}")


def chosen(only: tuple[str, ...], skip: tuple[str, ...]) -> tuple[str, ...]:
    """The ids of the checks that match `only` (all, when it is empty) and not `skip`."""
    return tuple(one for one in sorted(DECLARATIONS) if (not only or matches(one, only)) and not matches(one, skip))


def restrict(
    report: Report, only: tuple[str, ...], skip: tuple[str, ...], *, require_gpus: int | None = None
) -> Report:
    """Keep the findings that match `only` (all, when it is empty) and not `skip`.

    With `require_gpus`, the number that the report was made with, it is a problem of its own that GPUs are missing: it
    stays without its cause, and must be skipped by name.
    """
    ids = set(chosen(only, skip))
    gone = {one for finding in report.findings if finding.id not in ids for one in finding.consequences}
    gone -= set() if require_gpus is None else {REQUIRED}
    kept = {one.id: one for one in report.findings if one.id in ids - gone}
    explained = {one for finding in kept.values() for one in finding.consequences}
    findings = tuple(
        structs.replace(
            one,
            consequences=tuple(other for other in one.consequences if other in kept),
            root_cause=one.root_cause or one.id not in explained,
        )
        for one in kept.values()
    )
    return structs.replace(
        report,
        findings=findings,
        undetermined=tuple(one for one in report.undetermined if one.id in ids),
        verdict=verdict(findings, report.facts, report.source, require_gpus),
    )
