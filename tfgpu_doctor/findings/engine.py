"""Facts become a report: diagnose, choose checks, decide on the verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Literal

import msgspec
from msgspec.structs import replace

from tfgpu_doctor import __version__
from tfgpu_doctor.facts.facts import Facts, Known, Record, encode, lists_gpu, value_or
from tfgpu_doctor.facts.report import SCHEMA, Finding, Fix, Report, Severity, Tool, Undetermined, Verdict
from tfgpu_doctor.facts.report import judge as judge_findings
from tfgpu_doctor.facts.similar import did_you_mean
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.findings.declaration import Context, Declaration, Fixes, Planned, matches
from tfgpu_doctor.findings.gpu import FEWER_THAN_REQUIRED
from tfgpu_doctor.findings.inputs import OPTIONAL_COMPONENTS, fetch
from tfgpu_doctor.findings.judging import (
    Candidate,
    Found,
    Judged,
    arrange,
    as_notes,
    contradicted_as_warnings,
    hypotheses,
    judge,
    where_a_gpu_is_wanted,
    with_possible,
)
from tfgpu_doctor.findings.likeliest import (
    Open,
    as_possible,
    doubted,
    likeliest,
    only_asked,
    read,
    suggested,
    tells_enough,
    weigh,
)
from tfgpu_doctor.findings.symptoms import SYMPTOMS
from tfgpu_doctor.matrix.loader import Matrix

# ----------------------------------------------------------------------------------------------------------------------
# Facts and matrix in, findings out: judges the signs, puts root causes first, hangs consequences under them.
# Five things are decided here, once, for all findings:
# - Where probes looked at this machine, they know better than a printed line: when a conclusive sign over facts rules a
#   finding out, messages cannot bring it back. In a pasted text every sign counts.
# - What was computed and verified outranks what a list of files suggests: an error that it contradicts is a warning
#   (verified.py).
# - A fact that is one of several values is judged for each of them: a sign that holds for all is certain, one that
#   holds for some is possible, where something else in the text suggests it: a failure, and not the release alone.
# - A finding that would explain a symptom that is seen, and that nothing rules out, is possible; the commands that
#   would tell the facts that it lacks are what to run to decide.
# - In a text, a problem that is not clearly likelier than every other cause is only possible, and all that is possible
#   stands in the order of its likelihood (likeliest.py).


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
    fixes: Callable[[Facts, Matrix], Fixes],
    require_gpus: int | None = None,
    planned: Planned | None = None,
    declarations: Iterable[Declaration] | None = None,
    for_any_machine: bool = False,
) -> Diagnosis:
    """Judge `facts` by `matrix`, and the environment that a manifest plans; never raises for the facts' sake.

    `for_any_machine`: the environment is made for a machine that has a GPU, whether or not this one has.
    """
    context = Context(facts, matrix, fixes, require_gpus, planned)
    open_contexts = tuple(hypotheses(context))
    chosen = DECLARATIONS.values() if declarations is None else declarations
    judged, certain, opened, likely = _weighed([judge(one, context, open_contexts) for one in chosen], context)
    possible = _to_decide(
        where_a_gpu_is_wanted([_finding(*one, context) for one in opened], context),
        [one.finding for one in certain],
        {one.declared.id: one for one in judged},
        context,
    )
    asked = only_asked(certain if for_any_machine else as_notes(certain, context), context)
    findings = with_possible(arrange(asked, likely), [*possible])
    ids = {finding.id for finding in findings}
    unknown = (Undetermined(one.declared.id, one.unknown.reason) for one in judged if one.unknown and one.is_open(ids))
    return Diagnosis(findings, tuple(unknown))


def _weighed(judged: list[Judged], context: Context) -> tuple[list[Judged], list[Found], list[Open], dict[str, float]]:
    """What holds and what is possible, and how likely each is where a text says enough to tell."""
    certain, opened = holding(judged, context)
    certain = contradicted_as_warnings(certain, context)
    text = read(context)
    if text is None:
        return judged, certain, [one for one in opened if context.probed or not one[1].by_value_alone], {}
    likely = weigh(text, certain, opened)
    while wrong := doubted(text, likely, certain):  # without them others may show, which they made pointless
        judged = [one.doubted() if one.declared.id in wrong else one for one in judged]
        certain, opened = holding(judged, context)
        likely = weigh(text, certain, opened)
    opened = likeliest(text, likely, certain, [*suggested(text, opened)], judged, context)
    return judged, certain, opened, likely if tells_enough(text) else {}


def holding(judged: list[Judged], context: Context) -> tuple[list[Found], list[Open]]:
    """What holds, and what is only possible."""
    fired = {one.declared.id for one in judged if one.is_certain}
    shown = [(one.declared, candidate) for one in judged if (candidate := one.shown(fired))]
    silent = (one for one in judged if not one.candidates and not one.contradicted)
    opened = [one for one in shown if one[1].possible]
    opened += [(one.declared, found) for one in silent if (found := _possibility(one, context, fired))]
    certain = [one for one in shown if not one[1].possible]
    return [Found(one[0], one[1].problem, _finding(*one, context)) for one in certain], opened


def _possibility(one: Judged, context: Context, fired: set[str]) -> Candidate | None:
    """It as a possible cause, when it would explain what is seen."""
    for symptom in one.declared.symptoms:
        if fired & set(symptom.explained_by):
            continue
        messages = fetch("messages", context)
        if not isinstance(messages, Known):
            return None
        if seen := symptom.seen(**{name: value_or(fetch(name, context), None) for name in symptom.inputs}):
            return as_possible(symptom.because, *seen)
    return None


def _to_decide(
    possible: list[Finding], certain: list[Finding], judged: dict[str, Judged], context: Context
) -> Iterator[Finding]:
    """Findings that are only possible, with the commands that decide, which several share.

    Where no problem is certain, the likeliest keeps the commands that repair it: they are what to try first. The others
    keep none that would repair what may be whole.
    """
    own = [fix for one in (*possible, *certain) for fix in _that_decide(one)]
    undecided = [one.id for one in possible if not _that_decide(one)]
    shared = () if context.probed else (_deciding([judged[finding].asks for finding in undecided], own),)
    is_first = not any(one.severity is not Severity.NOTE and one.id not in SYMPTOMS for one in certain)
    for one in possible:
        fixes = tuple(fix if fix.decides else replace(fix, commands=()) for fix in one.fixes)
        if is_first:
            fixes = one.fixes or context.remedies.that_work_here(_declared_fixes(judged[one.id].declared, context))
        is_first = False
        yield replace(one, fixes=(*fixes, *(shared if one.id in undecided else ())))


def _declared_fixes(declared: Declaration, context: Context) -> tuple[Fix, ...]:
    return declared.fixes(context) if declared.fixes else ()


def _that_decide(one: Finding) -> list[Fix]:
    return [fix for fix in one.fixes if fix.decides]


def _deciding(asks: list[tuple[str, ...]], own: list[Fix]) -> Fix:
    """What decides between several: these commands beside the doctor; without any, what decides on one of them."""
    asked = {_ASK_DOCTOR, *(command for fix in own for command in fix.commands)}
    commands = tuple(dict.fromkeys(one for several in asks for one in several if one not in asked))
    if not commands and own:
        return own[0]
    text = f"To decide, run {_ASK_DOCTOR} on that machine, or these commands" if commands else "To decide, run"
    return Fix(text=text, commands=commands or (_ASK_DOCTOR,))


def _finding(declared: Declaration, candidate: Candidate, context: Context) -> Finding:
    problem = candidate.problem
    fixes = _declared_fixes(declared, context) if problem.fixes is None else problem.fixes
    severity = problem.severity or declared.severity
    if candidate.possible and severity is Severity.ERROR:
        severity = Severity.WARNING  # what may hold is no error
    return Finding(
        id=declared.id,
        severity=severity,
        root_cause=True,
        title=problem.title or declared.title,
        cause=problem.cause or declared.cause,
        evidence=problem.evidence,
        fixes=context.remedies.that_work_here(fixes),
        docs=declared.docs,
        possible=candidate.possible,
        answers=declared.answers,
    )


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
    fixes: Callable[[Facts, Matrix], Fixes],
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
    return msgspec.structs.replace(
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
        yield msgspec.structs.replace(one, consequences=consequences, root_cause=is_root)
