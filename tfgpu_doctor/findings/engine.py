"""Facts and matrix in, findings out: judge signs, put root causes first, weigh what a text leaves open."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from itertools import islice, product
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from msgspec import structs

from tfgpu_doctor import __version__
from tfgpu_doctor.facts.facts import (
    NOT_ASKED,
    ONE_OF,
    Facts,
    Known,
    Message,
    Record,
    Unknown,
    encode,
    lists_gpu,
    value_or,
)
from tfgpu_doctor.facts.report import SCHEMA, Evidence, Finding, Fix, Report, Severity, Tool, Undetermined, Verdict
from tfgpu_doctor.facts.report import judge as judge_findings
from tfgpu_doctor.facts.similar import did_you_mean
from tfgpu_doctor.facts.units import count
from tfgpu_doctor.findings.catalogue import DECLARATIONS, RANK
from tfgpu_doctor.findings.declaration import (
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
_ASK_DOCTOR = "tfgpu doctor"  # tells every fact, on the machine that the text is about


@dataclass(frozen=True)
class Shown:
    """What one sign shows of a finding, or what a symptom leaves open."""

    declared: Declaration
    problem: Problem
    unless: tuple[str, ...] = ()
    by_value_alone: bool = False  # it holds for some values of a fact that is one of several, and no message says it


@dataclass(frozen=True)
class Judged:
    """What the signs of one finding come to."""

    declared: Declaration
    shown: tuple[Shown, ...] = ()
    unknown: tuple[tuple[Sign, Unknown], ...] = ()  # signs that could not be judged
    contradicted: bool = False  # a sign over facts says that it does not hold

    @property
    def is_certain(self) -> bool:
        """True if a sign shows it whatever is open."""
        return any(not one.problem.possible for one in self.shown)


@dataclass(frozen=True, eq=False)
class Found:
    """A finding that holds, with what it was made of."""

    declared: Declaration
    problem: Problem
    finding: Finding

    def changed(self, **changes: Any) -> Found:
        """Return the same with fields of the finding changed."""
        return replace(self, finding=structs.replace(self.finding, **changes))


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
    declarations: Iterable[Declaration] | None = None,
    for_any_machine: bool = False,
) -> Diagnosis:
    """Judge `facts` by `matrix`, and the environment that a manifest plans; never raises for the facts' sake.

    `for_any_machine`: the environment is made for a machine that has a GPU, whether or not this one has.
    """
    context = Context(facts, matrix, fixes, require_gpus, planned)
    supposed = tuple(hypotheses(context))
    chosen = DECLARATIONS.values() if declarations is None else declarations
    judged = {one.id: judge(one, context, supposed) for one in chosen}
    certain, opened, likely = _weighed(judged, context)
    if _wants_cpu(context):
        opened = [one for one in opened if not one.declared.about_gpus]
    possible = _to_decide([_finding(one, context) for one in opened], certain, judged, context)
    findings = tuple(arrange(certain if for_any_machine else _as_wanted(certain, context), likely, [*possible]))
    ids = {one.id for one in findings}
    unknown = (one for one in judged.values() if one.unknown and _is_open(one.declared, ids))
    return Diagnosis(findings, tuple(Undetermined(one.declared.id, one.unknown[0][1].reason) for one in unknown))


def _is_open(declared: Declaration, ids: set[str]) -> bool:
    """True if these findings neither answer its question, nor make it pointless, nor explain it."""
    closing = (declared.id, *declared.pointless_after, *declared.explained_by)
    return not any(matches(one, closing) for one in ids)


def hypotheses(context: Context) -> Iterator[Context]:
    """The same machine with each value of the facts that are one of several."""
    sections = {name: getattr(context.facts, name) for name in Facts.__struct_fields__}
    leaves = (
        (section, name, getattr(record, name))
        for section, record in sections.items()
        if isinstance(record, Record)
        for name in record.__struct_fields__
    )
    open_facts = [leaf for leaf in leaves if isinstance(leaf[2], Unknown) and leaf[2].one_of]
    combinations = product(*(fact.one_of for _, _, fact in open_facts)) if open_facts else ()
    for values in islice(combinations, _MOST_HYPOTHESES):
        facts = context.facts
        for (section, name, fact), value in zip(open_facts, values, strict=True):
            known = Known(value, f"{ONE_OF}{', '.join(fact.one_of)}", "inferred")
            facts = structs.replace(facts, **{section: structs.replace(getattr(facts, section), **{name: known})})
        yield replace(context, facts=facts, derived={})


# ----------------------------------------------------------------------------------------------------------------------
# One finding at a time: what its signs come to, in the facts as they are and with each value of an open one.


_Outcome: TypeAlias = "Problem | Unknown | None"
_Judgement: TypeAlias = "tuple[Sign, _Outcome]"


def judge(declared: Declaration, context: Context, supposed: Sequence[Context]) -> Judged:
    """Ask every sign of a finding; what a pasted report of ours says of it, it says with all facts of its machine."""
    messages = value_or(context.facts.messages, ())
    named = (one for one in messages if one.kind == "own-finding" and one.values["id"] == declared.id)
    if reported := next(named, None):
        return Judged(declared, (Shown(declared, _reported(reported)),))
    outcomes = [*_beside_report(_outcomes(declared, context), messages)]
    shown = [Shown(declared, one, sign.unless) for sign, one in outcomes if isinstance(one, Problem)]
    unknown = tuple((sign, one) for sign, one in outcomes if isinstance(one, Unknown))
    by_value = [one for sign, _ in unknown if (one := _by_value(declared, sign, supposed))]
    found = [*by_value, *shown] if len(supposed) == 1 else [*shown, *by_value]  # the only value that is left is known
    contradicted = any(one is None for sign, one in outcomes if not sign.reads_messages)
    return Judged(declared, tuple(found), unknown, contradicted)


def _beside_report(outcomes: Iterable[_Judgement], messages: tuple[Message, ...]) -> Iterator[_Judgement]:
    """What counts beside a pasted report of ours, whose text shows some of its facts: what they rule out, and lines."""
    reported = any(message.kind == "own-report" for message in messages)
    complains = MessageLog(tuple(one for one in messages if one.kind != "own-finding")).complains
    for sign, outcome in outcomes:
        if not reported or (complains if sign.reads_messages else outcome is None):
            yield sign, outcome


def _reported(message: Message) -> Problem:
    """A finding of a pasted report; its fixes stand in it, and its JSON form has all facts."""
    return Problem(
        title=message.values.get("title", message.text),
        cause="tfgpu found it on the machine of the pasted report",
        evidence=message_evidence(message),
        fixes=(
            Fix(
                text="Follow the fixes of that report; or get it as JSON, with all facts, and read it with tfgpu "
                "explain",
                commands=("tfgpu doctor --format json --output report.json",),
            ),
        ),
        severity=Severity(message.values["severity"]),
    )


def signs_that_show(declared: Declaration, context: Context) -> list[Sign]:
    """The signs of a finding that show it in these facts."""
    return [sign for sign, outcome in _outcomes(declared, context) if isinstance(outcome, Problem)]


def _outcomes(declared: Declaration, context: Context) -> list[_Judgement]:
    """Of the signs over facts, then of those over messages, unless probes looked, and a conclusive sign overrules them.

    Left out are signs about what nobody asked for: messages, a manifest, a number of GPUs that are required.
    """
    asked = [s for s in declared.signs if all(fetch(name, context) != NOT_ASKED for name in (*s.gates, *s.required))]
    found = [(sign, _outcome(sign, context)) for sign in asked if not sign.reads_messages]
    if not context.probed or not any(sign.conclusive and outcome is None for sign, outcome in found):
        found += [(sign, _outcome(sign, context)) for sign in asked if sign.reads_messages]
    return found


def _outcome(sign: Sign, context: Context) -> _Outcome:
    """What a sign comes to; a missing input that it requires, or one that cannot be read, makes the answer unknown."""
    inputs = {name: fetch(name, context) for name in sign.inputs}
    needed = [inputs[name] for name in (*sign.gates, *sign.required)]
    unknown = [fact for fact in needed or inputs.values() if isinstance(fact, Unknown)]
    if unknown and (needed or len(unknown) == len(inputs)):
        return unknown[0] if needed else Unknown(unknown[0].reason)
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
    problem = replace(first, possible=first.possible or partly, title=first.title if same else None)
    return Shown(declared, problem, sign.unless, partly and not sign.reads_messages)


# ----------------------------------------------------------------------------------------------------------------------
# All findings beside each other: what holds, what is possible, and the commands that decide.


def holding(judged: Mapping[str, Judged], context: Context) -> tuple[list[Found], list[Shown]]:
    """What holds, and what is only possible."""
    fired = {name for name, one in judged.items() if one.is_certain}
    shown = [one for each in judged.values() if (one := _strongest(each, fired))]
    shown += [one for each in judged.values() if (one := _possibility(each, context, fired))]
    certain = [Found(one.declared, one.problem, _finding(one, context)) for one in shown if not one.problem.possible]
    return certain, [one for one in shown if one.problem.possible]


def _strongest(judged: Judged, fired: set[str]) -> Shown | None:
    """The most certain and gravest of what shows a finding, beside these others."""
    declared, others = judged.declared, fired - {judged.declared.id}
    if any(matches(one, declared.pointless_after) for one in others):
        return None
    left = (one for one in judged.shown if not any(matches(other, one.unless) for other in others))
    return min(
        left,
        key=lambda one: (one.problem.possible, SEVERITIES.index(one.problem.severity or declared.severity)),
        default=None,
    )


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


def _finding(shown: Shown, context: Context) -> Finding:
    declared, problem = shown.declared, shown.problem
    severity = problem.severity or declared.severity
    if problem.possible and severity is Severity.ERROR:
        severity = Severity.WARNING  # what may hold is no error
    fixes = _declared_fixes(declared, context) if problem.fixes is None else problem.fixes
    return Finding(
        id=declared.id,
        severity=severity,
        root_cause=True,
        title=problem.title or declared.title,
        cause=problem.cause or declared.cause,
        evidence=problem.evidence,
        fixes=context.remedies.that_work_here(fixes),
        docs=declared.docs,
        possible=problem.possible,
        answers=declared.answers,
    )


def _declared_fixes(declared: Declaration, context: Context) -> tuple[Fix, ...]:
    return declared.fixes(context) if declared.fixes else ()


def _to_decide(
    possible: list[Finding], certain: list[Found], judged: Mapping[str, Judged], context: Context
) -> Iterator[Finding]:
    """Findings that are only possible, with the commands that decide, which several share.

    Where no problem is certain, the likeliest keeps the commands that repair it: they are what to try first. The others
    keep none that would repair what may be whole.
    """
    own = [fix for one in (*possible, *(one.finding for one in certain)) for fix in _that_decide(one)]
    undecided = [one.id for one in possible if not _that_decide(one)]
    signs = [sign for name in undecided for sign, _ in judged[name].unknown]
    shared = () if context.probed else (_deciding(signs, own, context),)
    is_first = not _problems(certain)
    for one in possible:
        fixes = tuple(fix if fix.decides else structs.replace(fix, commands=()) for fix in one.fixes)
        if is_first:
            fixes = one.fixes or context.remedies.that_work_here(_declared_fixes(judged[one.id].declared, context))
        is_first = False
        yield structs.replace(one, fixes=(*fixes, *(shared if one.id in undecided else ())))


def _that_decide(one: Finding) -> list[Fix]:
    return [fix for fix in one.fixes if fix.decides]


def _deciding(signs: list[Sign], own: list[Fix], context: Context) -> Fix:
    """The commands that tell what these signs do not know; without any, what decides on one cause, or the doctor."""
    asked = {_ASK_DOCTOR, *(command for fix in own for command in fix.commands)}
    facts = (fetch(name, context) for sign in signs for name in sign.inputs)
    asks = dict.fromkeys(fact.ask for fact in facts if isinstance(fact, Unknown) and fact.ask)
    commands = tuple(one for one in asks if one not in asked)
    if not commands and own:
        return own[0]
    text = f"To decide, run {_ASK_DOCTOR} on that machine, or these commands" if commands else "To decide, run"
    return Fix(text=text, commands=commands or (_ASK_DOCTOR,))


# ----------------------------------------------------------------------------------------------------------------------
# Findings in their order: root causes first, consequences under them.


_UNRANKED = -1e9  # of what is no cause


def arrange(
    found: list[Found], likely: Mapping[str, float] = MappingProxyType({}), possible: Sequence[Finding] = ()
) -> Iterator[Finding]:
    """Sort, and turn every finding that another one explains into its consequence; the likeliest come first.

    What is only possible stands behind all that holds, and before the notes.
    """

    found = sorted(found, key=lambda one: _rank(one, likely))
    unexplained = [one for one in found if _explainer(one, found) is None]
    roots = [one for one in unexplained if _repaired_with(one, unexplained) is one]
    followers = [one for one in found if one not in roots]
    explained: dict[str, tuple[str, ...]] = {one.finding.id: () for one in roots}
    for one in followers:
        if root := _root_of(one, unexplained, found):
            explained[root.finding.id] += (one.finding.id,)
    heads = [structs.replace(one.finding, consequences=explained[one.finding.id]) for one in roots]
    grave = [one for one in heads if one.severity is not Severity.NOTE]
    yield from (*grave, *possible, *heads[len(grave) :])
    yield from (structs.replace(one.finding, root_cause=False) for one in followers)


def _rank(one: Found, likely: Mapping[str, float]) -> tuple[int, float, bool, int]:
    """Gravest first, then the likeliest, then in the order of declaration."""
    grave, likelihood = SEVERITIES.index(one.finding.severity), likely.get(one.finding.id, _UNRANKED)
    return grave, -likelihood, not one.problem.rank_first, RANK[one.finding.id]


def _repaired_with(one: Found, unexplained: list[Found]) -> Found:
    """The first finding whose advice repairs this one, too, beginning alike or containing it: one fault, then."""
    own = _advice(one)
    others = ((other, _advice(other)) for other in unexplained)
    return next(o for o, more in others if o is one or (own and (own[:1] == more[:1] or set(own) <= set(more))))


def _advice(one: Found) -> tuple[str, ...]:
    """What is to be done first; a command of this program repairs nothing."""
    commands = one.finding.fixes[0].commands if one.finding.fixes else ()
    return () if commands[:1] and commands[0].startswith("tfgpu ") else commands


def _root_of(one: Found, unexplained: list[Found], found: list[Found]) -> Found | None:
    """Follow the explanations from finding to finding down to a root cause."""
    seen: set[str] = set()
    while one not in unexplained and one.finding.id not in seen:
        seen.add(one.finding.id)
        one = _explainer(one, unexplained) or _explainer(one, found) or one
    return _repaired_with(one, unexplained) if one in unexplained else None


def _explainer(one: Found, others: list[Found]) -> Found | None:
    """The first finding that explains this one; a note explains nothing, a warning no error."""
    if one.problem.never_consequence:
        return None
    for other in others:
        graver = SEVERITIES.index(other.finding.severity) <= SEVERITIES.index(one.finding.severity)
        if other is not one and graver and matches(other.finding.id, one.declared.explained_by):
            return other
    return None


def _problems(certain: list[Found]) -> list[Finding]:
    """What signs see that is neither a symptom nor a note, the first first."""
    return [one for one in arrange(certain) if one.severity is not Severity.NOTE and one.id not in SYMPTOMS]


# ----------------------------------------------------------------------------------------------------------------------
# What was computed and verified outranks what lists of files and versions suggest (DESIGN, law 12).
# Where every phase of the examination ended well, and a matrix product, a convolution and a function compiled by XLA
# were verified, an error that says that TensorFlow cannot use the GPU is contradicted: it becomes a warning, with what
# was verified as evidence. Findings that a small computation does not reach declare so (`despite_verified`).


def _contradicted_as_warnings(found: list[Found], context: Context) -> Iterator[Found]:
    """The findings, with errors that verified computations contradict as warnings."""
    verified = _verified(context)
    for one in found:
        beyond = one.declared.despite_verified or one.problem.despite_verified
        if verified and not beyond and one.finding.severity is Severity.ERROR:
            one = one.changed(severity=Severity.WARNING, evidence=(*one.finding.evidence, verified))
        yield one


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


NO_GPU = "gpu.none"
_WITHOUT_ONE = (NO_GPU, "gpu.not-visible", "gpu.fewer-than-required")  # having none, and its consequences


def _as_wanted(found: list[Found], context: Context) -> list[Found]:
    """The findings, without those that repair nothing here, or with them as notes.

    On a machine without a GPU, what is missing for one is of no interest: of all that is about GPUs, gpu.none and its
    consequences are left. Where no GPU is required and TensorFlow lists none, they are notes. Findings of a pasted
    text stay as they are, for it rarely tells whether all of it is about one machine, unless its writer wants the CPU,
    or only asks: what he would run into is a note beside the answer, which alone says what to install.
    """
    if asks_only(context):
        return [
            one if one.finding.severity is Severity.NOTE else one.changed(severity=Severity.NOTE, fixes=())
            for one in found
        ]
    unwanted = _wants_cpu(context)
    if context.probed:
        if any(one.finding.id == NO_GPU for one in found):
            found = [one for one in found if not one.declared.about_gpus or one.finding.id in _WITHOUT_ONE]
        unwanted = context.require_gpus == 0 and not lists_gpu(value_or(context.facts.tensorflow.devices, None))
    return [one.changed(severity=Severity.NOTE) if unwanted and one.declared.about_gpus else one for one in found]


def _wants_cpu(context: Context) -> bool:
    """True if a text says that the CPU is what its writer wants."""
    return value_or(fetch("messages", context), MessageLog(())).has("wants-cpu")


# ----------------------------------------------------------------------------------------------------------------------
# What speaks for a cause where a text is all there is, and how much: signs, facts, the situation and words.
# All of it is evidence, and none of it proof. The causes of a situation stand in the order of their numbers in
# tests/cases on 2026-11-23 (WSL2: 11-25), without those that print a message of their own (a missing GLIBC, a mismatch
# of the driver). Which causes reports in the same words had, parsers/resemblance.py tells.


_BELOW = ("driver.", "container.", "wsl.", "gpu.none")  # causes below TensorFlow
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
LEAD = 1.5  # by so much a problem that a text shows must be likelier than any other cause, or it is only possible
BESIDE = 2.0  # by so much less likely causes are named beside a problem that a text shows
HEALTHY = 0.5  # by so much it must be more like reports in which nothing is wrong, or causes are named
SAID = "somebody gives this as the reason, and the text shows no other"
BECAUSE = "the text does not show why; in similar reports, this is often the cause"
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

# Situation → what cannot be the cause of it: only what runs on a GPU is slow there, wrong, or too large for it; and a
# build without CUDA can be imported.
_DEVICE = ("gpu.throttled", "gpu.fault", "cudnn.init")
_ON_THE_GPU = ("perf.", "compute.", "memory.", "nccl.", "p2p.", "shm.", "xla.", *_DEVICE)
_RUNS = ("gpu.", "xla.", "driver.not-loaded", "tf.cpu-build", "tf.windows-native")  # the import ends well
_CANNOT = {"no GPU": _ON_THE_GPU, "import": (*_ON_THE_GPU, *_RUNS)}
# what there is on one system only
ONLY_ON = {"tf.windows-native": "windows", "tf.import-dll": "windows", "wsl.setup": "wsl2"}


_AT_LEAST = EVIDENCE["likeness"] * UNLIKE  # what a cause has without any evidence
_CALM = ("only-printed", "few-words")
_LARGEST = 1e6  # number that a report can hold there


def _weighed(judged: dict[str, Judged], context: Context) -> tuple[list[Found], list[Shown], dict[str, float]]:
    """What holds and what is possible, and how likely each is where a text says enough to tell.

    A problem that is not clearly likelier than every other cause is only possible from here on: without it, others may
    show that it made pointless.
    """
    text = read(context)
    certain, opened = holding(judged, context)
    if text is None:
        opened = [one for one in opened if context.probed or not one.by_value_alone]
        return [*_contradicted_as_warnings(certain, context)], opened, {}
    likely = weigh(text, certain, opened)
    while doubtful := _doubtful(text, likely, certain):
        for name in doubtful:
            doubted = (
                replace(one, problem=replace(one.problem, possible=True, severity=Severity.WARNING))
                for one in judged[name].shown
            )
            judged[name] = replace(judged[name], shown=tuple(doubted))
        certain, opened = holding(judged, context)
        likely = weigh(text, certain, opened)
    if text.shows is None:  # nothing goes wrong, and so no release alone is the cause of it
        opened = [one for one in opened if not one.by_value_alone]
    return certain, _likeliest(text, likely, certain, opened, judged, context), likely if text.tells_enough else {}


@dataclass(frozen=True)
class Text:
    """A text, and what it tells of the situation."""

    log: MessageLog
    os: str | None
    container: str | None  # None: in none
    driver_works: bool  # nvidia-smi shows a GPU, so that nothing below TensorFlow is the cause
    seen: str | None  # the situation
    shows: Message | None  # it
    likeness: dict[str, float]  # by cause
    # how much its words say, between 0 and 1: few say little, printed lines no more than their messages
    fullness: float

    @property
    def tells_enough(self) -> bool:
        """True if its words say enough to doubt what signs show, or to put one problem before another."""
        return self.fullness >= DOUBTED_FROM


def asks_only(context: Context) -> bool:
    """True if a text asks, and nothing fails in it."""
    messages = fetch("messages", context)
    if context.probed or not isinstance(messages, Known):
        return False
    question = messages.value.first("question")
    asks = question is not None and question.values["trouble"] != "yes"
    return asks and nothing_fails(messages.value, value_or(fetch("devices", context), None))


def read(context: Context) -> Text | None:
    """The text that is judged; None where probes looked at the machine, a text only asks, or is a report of ours."""
    messages = fetch("messages", context)
    if context.probed or not isinstance(messages, Known) or asks_only(context) or messages.value.has("own-finding"):
        return None
    log = messages.value
    seen, shows = situation(log, value_or(fetch("devices", context), None)) or trouble(log) or (None, None)
    like = [one for one in log.all("resembles") if "cause" in one.values]
    words = max((_number(one, "words", 0.0) for one in like), default=0.0)
    if log.has("only-printed") and "12" in log.values("log-era", "cuda"):
        words = 0.0  # most reports that likeness was learnt from are older: the same lines meant another cause
    fullness = min(words / ENOUGH, 1.0)
    likeness = {one.values["cause"]: UNLIKE + fullness * (_number(one, "likeness", UNLIKE) - UNLIKE) for one in like}
    host, smi = context.facts.host, value_or(context.facts.driver.nvidia_smi, None)
    inside = value_or(host.container, "none")
    container = None if inside == "none" else inside
    return Text(log, value_or(host.os, None), container, smi_works(smi), seen, shows, likeness, fullness)


def _number(one: Message, name: str, otherwise: float) -> float:
    """A value of a message as a number; a saved report can hold anything there."""
    try:
        number = float(one.values.get(name, otherwise))
    except ValueError:
        return otherwise
    return number if abs(number) < _LARGEST else otherwise


def weigh(text: Text, certain: list[Found], opened: Sequence[Shown]) -> dict[str, float]:
    """How likely each cause is: a number to compare with those of the others."""
    found = weights(text, certain, opened)
    return {cause: sum(EVIDENCE[name] * much for name, much in found[cause].items()) for cause in found}


def weights(text: Text, certain: list[Found], opened: Sequence[Shown]) -> dict[str, dict[str, float]]:
    """What speaks for each cause: evidence by name, as in EVIDENCE, and how much of it there is."""
    found: dict[str, dict[str, float]] = defaultdict(lambda: {"likeness": UNLIKE})
    for cause, likeness in text.likeness.items():
        found[cause]["likeness"] = likeness
    scale = 1 + SITUATION * (1 - text.fullness)
    for cause in text.log.values("cause-said", "cause"):
        found[cause]["said"] = scale
    for n, cause in enumerate(_usual(text), start=1):
        found[cause]["usual"] = scale / n
    for one in opened:
        found[one.declared.id]["open"] = 1.0
    problems = _problems(certain)
    errors = [one.id for one in problems if one.severity is Severity.ERROR]
    for problem in problems:
        found[problem.id]["certain" if problem.severity is Severity.ERROR else "warned"] = 1.0
    for cause in errors:
        found[cause]["sure"] = float(matches(cause, SURE))
    found[errors[0] if errors else "ok"]["first" if errors else "quiet"] = 1.0
    return found


def _usual(text: Text) -> tuple[str, ...]:
    """The usual causes of the situation, on its system or in its container."""
    table = COMMON[text.seen] if text.seen else {"": ()}
    return table.get(text.os or "-") or table.get("container" if text.container else "") or table[""]


def _doubtful(text: Text, likely: dict[str, float], certain: list[Found]) -> set[str]:
    """The problems that signs see, and that are not much likelier than any other cause; a few words raise no doubt."""
    if not text.tells_enough:
        return set()
    problems = {one.id for one in _problems(certain)}
    sure = {one.finding.id for one in certain if one.problem.sure}
    other = max((much for cause, much in likely.items() if cause not in problems), default=0.0)
    return {cause for cause in problems - sure if likely[cause] < other + LEAD}


def _likeliest(
    text: Text,
    likely: dict[str, float],
    certain: list[Found],
    opened: Sequence[Shown],
    judged: Mapping[str, Judged],
    context: Context,
) -> list[Shown]:
    """What is only possible, the likeliest first, with the likeliest causes that nothing shows.

    Of the latter without those that the facts contradict, only as many as make MOST causes, and beside what is shown,
    only those that are about as likely.
    """

    def likelihood(one: Shown) -> float:
        return likely.get(one.declared.id, _AT_LEAST)

    seen = [likely.get(one.id, _AT_LEAST) for one in _problems(certain)]
    are_wanted = text.tells_enough if seen or opened else _is_trouble(text, certain)
    is_answered = text.shows is None and any(one.declared.answers for one in certain)
    shown = {one.declared.id for one in opened}
    least = max((*seen, *map(likelihood, opened)), default=-_LARGEST) - BESIDE
    guesses = _guesses(judged, text, shown, context) if are_wanted and not is_answered else ()
    guessed = sorted((one for one in guesses if likelihood(one) > least), key=likelihood, reverse=True)
    left = max(MOST - len(seen) - len(opened), 0)
    return sorted((*opened, *guessed[:left]), key=likelihood, reverse=True)


def _is_trouble(text: Text, certain: list[Found]) -> bool:
    """True if something goes wrong: the text tells, or is about as much like reports with a cause as like others.

    What programs print without a failure, a few words that ask nothing, and a text about another framework complain of
    nothing that could be found here.
    """
    calm = text.shows is None and text.log.has(*_CALM)
    if calm or (text.seen in (None, "slow") and text.log.has("other-framework")):
        return False
    if text.shows is not None and not (certain and text.shows.kind == "trouble-said"):
        return True
    none = max(text.likeness.get(one, UNLIKE) for one in NO_CAUSE)
    some = max((much for one, much in text.likeness.items() if one not in NO_CAUSE), default=none)
    return not text.log.has("gpu-created") and some > none - HEALTHY * text.fullness


def _guesses(judged: Mapping[str, Judged], text: Text, shown: set[str], context: Context) -> Iterator[Shown]:
    """What nothing shows and no fact contradicts, with the line that tells of the trouble."""
    said = {one.values.get("cause"): one for one in reversed(text.log.all("cause-said"))}
    never = tuple(_ruled_out(text))
    causes = {*text.likeness, *said, *_usual(text)} - {*NO_CAUSE, *shown}
    package = context.facts.tensorflow.distribution
    assumed = not isinstance(package, Known) or package.grade == "inferred"  # that it was the one with CUDA
    for cause, one in judged.items():
        contradicted = one.contradicted and not (cause == "tf.cpu-build" and assumed)
        if cause in causes and not cause.startswith(never) and not one.shown and not contradicted:
            because, words = (SAID, said[cause]) if cause in said else (BECAUSE, text.shows)
            yield _as_possible(one.declared, because, words)


def _ruled_out(text: Text) -> Iterator[str]:
    """Causes, or layers of them, that the facts rule out.

    What lies below TensorFlow, where something else uses the GPU; what there is on another system only; what cannot be
    the cause of that situation.
    """
    elsewhere = text.log.values("works-elsewhere", "where")  # that it works, on the same computer
    if text.driver_works or any("torch" in where.lower() for where in elsewhere):
        yield from _BELOW
    if set(text.log.values("container-start", "gpus")) == {"yes"} and text.seen != "no GPU":
        yield "container.no-gpu"
    if text.container is None:
        yield "container."
    yield from (cause for cause, system in ONLY_ON.items() if text.os not in (None, system))
    yield from _CANNOT.get(text.seen or "", ())


# ----------------------------------------------------------------------------------------------------------------------
# Facts → a report: diagnosed, judged as a whole, dated.


def works(facts: Facts, require_gpus: int | None = None) -> bool | None:
    """Whether a GPU was seen to compute under TensorFlow, or, when it was not started, everything it needs is in place.

    Where no GPU is required, the CPU will do. None: could not be determined.
    """
    devices = facts.tensorflow.devices
    if isinstance(devices, Known):
        return require_gpus == 0 or lists_gpu(devices.value)
    skipped = {phase.name for phase in facts.tensorflow.phases if phase.outcome == "skipped"}
    if "import" not in skipped:
        return None
    if require_gpus == 0:
        return True if isinstance(facts.tensorflow.version, Known) else None
    sonames = value_or(facts.loader.sonames, ())
    in_place = bool(value_or(facts.gpus, ())) and isinstance(facts.driver.version, Known) and bool(sonames)
    needed = [name for name in sonames if name.component not in OPTIONAL_COMPONENTS]
    return True if in_place and all(name.winner for name in needed) else None


def verdict(findings: tuple[Finding, ...], facts: Facts, source: str, require_gpus: int | None = None) -> Verdict:
    """The verdict of a report; a text that leaves causes open, and shows none, does not tell whether all is well."""
    grave = [one for one in findings if one.severity is not Severity.NOTE]
    only_possible = source == "text" and bool(grave) and all(one.possible for one in grave)
    return judge_findings(findings, works=None if only_possible else works(facts, require_gpus))


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


CHECKS_SCHEMA = "tfgpu.checks/1"
REQUIRED = FEWER_THAN_REQUIRED.id  # the check that --require-gpus asks for


class Check(Record, frozen=True):
    """A check as the list of them shows it."""

    id: str
    layer: str
    severity: str
    title: str


class CheckList(Record, frozen=True):
    """The list as JSON."""

    schema: str
    checks: tuple[Check, ...]


def checks() -> tuple[Check, ...]:
    """Every id once, in alphabetical order, with the severity and the title that it has as a rule."""
    return tuple(Check(one.id, one.layer, one.severity.value, one.title) for _, one in sorted(DECLARATIONS.items()))


def checks_json() -> bytes:
    """The list as JSON."""
    return encode(CheckList(CHECKS_SCHEMA, checks()))


def verify(patterns: tuple[str, ...]) -> None:
    """Make sure that every pattern ("gpu.none", "env.*") means some check.

    Raises SelectionError: one means none.
    """
    known = [one.id for one in checks()]
    for pattern in patterns:
        if not any(matches(one, (pattern,)) for one in known):
            group = f"{pattern.rstrip('.')}.*"
            if any(matches(one, (group,)) for one in known):
                raise SelectionError(f"no finding has the id {pattern!r}. For all of that group: {group}")
            hint = did_you_mean(pattern, known) or " tfgpu doctor --list-checks shows all."
            raise SelectionError(f"no finding has the id {pattern!r}.{hint}")


def chosen(only: tuple[str, ...], skip: tuple[str, ...]) -> tuple[str, ...]:
    """The ids of the checks that match `only` (all, when it is empty) and not `skip`."""
    return tuple(one.id for one in checks() if (not only or matches(one.id, only)) and not matches(one.id, skip))


def restrict(
    report: Report, only: tuple[str, ...], skip: tuple[str, ...], *, require_gpus: int | None = None
) -> Report:
    """Keep the findings that match `only` (all, when it is empty) and not `skip`.

    With `require_gpus`, the number that the report was made with, it is a problem of its own that GPUs are missing: it
    stays without its cause, and must be skipped by name.
    """
    if not only and not skip:
        return report
    ids = set(chosen(only, skip))
    gone = {one for finding in report.findings if finding.id not in ids for one in finding.consequences}
    gone -= set() if require_gpus is None else {REQUIRED}
    kept = [one for one in report.findings if one.id in ids and (one.root_cause or one.id not in gone)]
    findings = tuple(_alone(kept))
    return structs.replace(
        report,
        findings=findings,
        undetermined=tuple(one for one in report.undetermined if one.id in ids),
        verdict=verdict(findings, report.facts, report.source, require_gpus),
    )


def _alone(findings: list[Finding]) -> Iterator[Finding]:
    """The findings without consequences that are not among them; what none of them explains is a root cause."""
    ids = {one.id for one in findings}
    explained = {one for finding in findings for one in finding.consequences}
    for one in findings:
        consequences = tuple(other for other in one.consequences if other in ids)
        is_root = one.root_cause or one.id not in explained
        yield structs.replace(one, consequences=consequences, root_cause=is_root)
