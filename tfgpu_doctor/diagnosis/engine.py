"""Facts and matrix in, findings out: judges the signs, puts root causes first, hangs consequences under them.

Three things are decided here, once, for all findings:

- Where probes looked at this machine, they know better than a printed line: when a conclusive sign over facts rules a
  finding out, messages cannot bring it back. In a pasted text every sign counts.
- A fact that is one of several values is judged for each of them: a sign that holds for all is certain, one that
  holds for some is possible.
- A finding that would explain a symptom that is seen, and that nothing rules out, is possible; the commands that would
  tell the facts that it lacks are what to run to decide.
- Where a text tells of trouble and nothing of the above is found, what it names and what does not fit together is
  possible, and then the likeliest causes of such reports, as far as the facts allow them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from msgspec.structs import replace

from tfgpu_doctor.diagnosis.arranging import Found, arrange, with_possible
from tfgpu_doctor.diagnosis.asked import only_asked
from tfgpu_doctor.diagnosis.judging import Candidate, Judged, hypotheses, judge
from tfgpu_doctor.diagnosis.likeliest import as_possible, likeliest, unfit
from tfgpu_doctor.diagnosis.without_gpu import as_notes, where_a_gpu_is_wanted
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.findings.commonness import MOST, SYMPTOMS
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Declaration
from tfgpu_doctor.findings.inputs import fetch
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.plan.planned import PlannedEnvironment
from tfgpu_doctor.records.facts import Facts, Known, value_or
from tfgpu_doctor.records.report import Finding, Fix, Undetermined

_ASK_DOCTOR = "tfgpu doctor"  # tells every fact, on the machine that the text is about


@dataclass(frozen=True)
class Diagnosis:
    """All findings, root causes first, and the checks that could not be made."""

    findings: tuple[Finding, ...]
    undetermined: tuple[Undetermined, ...]


def diagnose(
    facts: Facts,
    matrix: Matrix,
    *,
    require_gpus: int | None = None,
    planned: PlannedEnvironment | None = None,
    declarations: Iterable[Declaration] | None = None,
    for_any_machine: bool = False,
) -> Diagnosis:
    """Judge `facts` by `matrix`, and the environment that a manifest plans; never raises for the facts' sake.

    `for_any_machine`: the environment is made for a machine that has a GPU, whether or not this one has.
    """
    context = Context(facts, matrix, require_gpus, planned)
    open_contexts = tuple(hypotheses(context))
    chosen = DECLARATIONS.values() if declarations is None else declarations
    judged = [judge(one, context, open_contexts) for one in chosen]
    fired = {one.declared.id for one in judged if one.is_certain}
    shown = [(one.declared, candidate) for one in judged if (candidate := one.shown(fired))]
    certain = [_found(declared, candidate, context) for declared, candidate in shown if not candidate.possible]
    possible = [_finding(declared, candidate, context) for declared, candidate in shown if candidate.possible]
    possible += _possibilities(judged, context, fired)
    possible = _with_guesses(possible, certain, judged, context)
    possible = _to_decide(
        where_a_gpu_is_wanted(possible, context), {one.declared.id: one.asks for one in judged}, context
    )
    findings = with_possible(
        arrange(only_asked(certain if for_any_machine else as_notes(certain, context), context)), possible
    )
    return Diagnosis(findings, tuple(_undetermined(judged, {finding.id for finding in findings})))


def _undetermined(judged: Iterable[Judged], ids: set[str]) -> Iterator[Undetermined]:
    for one in judged:
        if one.unknown and one.is_open(ids):
            yield Undetermined(id=one.declared.id, reason=one.unknown.reason)


def _possibilities(judged: Iterable[Judged], context: Context, fired: set[str]) -> list[Finding]:
    """The findings that nothing shows and nothing rules out, and that would explain what is seen."""
    silent = (one for one in judged if not one.candidates and not one.contradicted)
    return [found for one in silent if (found := _possibility(one, context, fired))]


def _with_guesses(
    possible: list[Finding], certain: list[Found], judged: list[Judged], context: Context
) -> list[Finding]:
    """Where all that is found is a symptom: with what does not fit together, or with the likeliest causes.

    Versions come before what a message leaves open of the same libraries, and after what it says of anything else.
    """
    if any(one.finding.id not in SYMPTOMS for one in certain):
        return possible
    unmet = [_finding(declared, candidate, context) for declared, candidate in unfit(judged, context)]
    guessed = (_finding(declared, candidate, context) for declared, candidate in likeliest(judged, context))
    others = (one for one in possible or guessed if one.id not in {other.id for other in unmet})
    beside = [*others] if possible else [*islice(others, max(MOST - len(unmet), 0))]
    of_libraries = not possible or any(one.id.startswith(("cuda.", "cudnn.")) for one in possible)
    return [*unmet, *beside] if of_libraries else [*beside, *unmet]


def _possibility(one: Judged, context: Context, fired: set[str]) -> Finding | None:
    """The finding as a possible cause, when it would explain what is seen."""
    for symptom in one.declared.symptoms:
        if fired & set(symptom.explained_by):
            continue
        messages = fetch("messages", context)
        if not isinstance(messages, Known):
            return None
        if seen := symptom.seen(**{name: value_or(fetch(name, context), None) for name in symptom.inputs}):
            return _finding(one.declared, as_possible(symptom.because, *seen), context)
    return None


def _to_decide(possible: list[Finding], asks: dict[str, tuple[str, ...]], context: Context) -> list[Finding]:
    """Findings that are only possible, with the commands that decide, which several share, and with no other."""
    undecided = [one.id for one in possible if not any(fix.decides for fix in one.fixes)]
    shared = () if context.probed else (_deciding([command for one in undecided for command in asks[one]]),)
    return [replace(one, fixes=(*_words(one), *(shared if one.id in undecided else ()))) for one in possible]


def _deciding(asks: list[str]) -> Fix:
    commands = tuple(dict.fromkeys(command for command in asks if command != _ASK_DOCTOR))
    text = f"To decide, run {_ASK_DOCTOR} on that machine, or these commands" if commands else "To decide, run"
    return Fix(text=text, commands=commands or (_ASK_DOCTOR,))


def _words(one: Finding) -> Iterator[Fix]:
    """Its fixes, without commands that would repair what may be whole."""
    yield from (fix if fix.decides else replace(fix, commands=()) for fix in one.fixes)


def _found(declared: Declaration, candidate: Candidate, context: Context) -> Found:
    return Found(declared, candidate.problem, _finding(declared, candidate, context))


def _finding(declared: Declaration, candidate: Candidate, context: Context) -> Finding:
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
        fixes=context.remedies.that_work_here(fixes),
        docs=declared.docs,
        possible=candidate.possible,
        answers=declared.answers,
    )
