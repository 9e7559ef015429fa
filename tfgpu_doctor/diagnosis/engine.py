"""Facts and matrix in, findings out: runs the rules, puts root causes first, hangs consequences under them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any, Literal, TypeAlias

import msgspec

from tfgpu_doctor import __version__
from tfgpu_doctor.findings import (  # noqa: F401 - they register
    computed,
    container,
    cuda,
    cuda_init,
    cudnn,
    driver,
    environment,
    environment_more,
    environment_said,
    gpu,
    gpu_arch,
    gpu_health,
    imports,
    memory,
    performance,
    python,
    said_absent,
    said_by_us,
    said_container,
    said_cpu_build,
    said_cuda,
    said_cudnn,
    said_driver,
    said_driver_state,
    said_gpu,
    said_gpu_arch,
    said_harmless,
    said_import,
    said_memory,
    said_neighbours,
    said_packages,
    said_possible,
    said_runtime,
    said_shadowed,
    said_speed,
    said_xla,
    tensorflow,
    wrong_environment,
    xla,
)
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import RULES, Problem, Rule, matches
from tfgpu_doctor.findings.derived import DERIVED
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.records.facts import NOT_ASKED, Facts, Known, Unknown, look_up, value_or
from tfgpu_doctor.records.report import SCHEMA, Finding, MatrixInfo, Report, Severity, Tool, Undetermined, judge

# Gravest first: what stops TensorFlow from running at all comes before what keeps it from the GPU; then
# the stack from the bottom up. An annotation (tf.known-bug) never stands before the specific cause.
ORDER = (
    "tf.wrong-env",
    "tf.not-installed",
    "tf.python-unsupported",
    "tf.package-removed",
    "tf.shadowed",
    "tf.package-conflict",
    "tf.abi-*",
    "tf.glibc-too-old",
    "tf.import-*",
    "env.xla-flags",
    "gpu.none",
    "container.*",
    "wsl.*",
    "driver.*",
    "gpu.fault",
    "gpu.hidden",
    "gpu.*",
    "tf.windows-native",
    "tf.cpu-build",
    "cuda.*",
    "cudnn.*",
    "compute.*",
    "memory.*",
    "xla.*",
    "*",
    "perf.*",
    "env.*",
    "tensorrt.missing-benign",
    "benign.log",
    "tf.known-bug",
)
said_by_us.register()  # once all the others stand in the table
_SEVERITIES = tuple(Severity)
_Found: TypeAlias = tuple[Rule, Finding]


@dataclass(frozen=True)
class Diagnosis:
    """All findings, root causes first, and the checks that could not be made."""

    findings: tuple[Finding, ...]
    undetermined: tuple[Undetermined, ...]


def diagnose(
    facts: Facts, matrix: Matrix, *, require_gpus: int | None = None, rules: Iterable[Rule] = RULES
) -> Diagnosis:
    """Judge `facts` by `matrix`; never raises for the facts' sake."""
    context = Context(facts, matrix, require_gpus)
    fired: list[tuple[Rule, Problem]] = []
    undetermined: list[tuple[Rule, str]] = []
    for one in rules:
        outcome = _outcome(one, context)
        if isinstance(outcome, Problem):
            fired.append((one, outcome))
        elif isinstance(outcome, Unknown):
            undetermined.append((one, outcome.reason))
    ids = {one.id for one, problem in fired if not problem.possible}
    kept = _one_each([(one, problem) for one, problem in fired if not one.is_silenced_by(ids - {one.id})])
    certain = [
        (_explainable(one, problem), _finding(one, problem, context)) for one, problem in kept if not problem.possible
    ]
    open_causes = [_finding(one, problem, context) for one, problem in kept if problem.possible]
    ahead = {one.id for one, problem in kept if problem.ahead}
    findings = _with_possible(_arrange(certain, ahead), open_causes)
    ids = {one.id for one, _ in kept}
    open_questions = tuple(
        Undetermined(id=one.id, reason=reason)
        for one, reason in undetermined
        if not one.is_silenced_by(ids) and not any(matches(i, one.explained_by) for i in ids)
    )
    return Diagnosis(findings, open_questions)


def _with_possible(findings: tuple[Finding, ...], possible: list[Finding]) -> tuple[Finding, ...]:
    """What is only possible stands behind all that holds, and before the notes."""
    place = next((n for n, one in enumerate(findings) if one.severity is Severity.NOTE or not one.root_cause), None)
    place = len(findings) if place is None else place
    return (*findings[:place], *possible, *findings[place:])


def _one_each(fired: list[tuple[Rule, Problem]]) -> list[tuple[Rule, Problem]]:
    """A finding once, where a rule over facts and one over messages agree: what is certain, the gravest, the first."""
    chosen: dict[str, tuple[Rule, Problem]] = {}
    for one, problem in fired:
        old = chosen.get(one.id)
        if old is None or _grave(one, problem) < _grave(*old):
            chosen[one.id] = (one, problem)
    return list(chosen.values())


def _grave(one: Rule, problem: Problem) -> tuple[bool, int]:
    return problem.possible, _SEVERITIES.index(problem.severity or one.severity)


def _outcome(one: Rule, context: Context) -> Problem | Unknown | None:
    """What the rule comes to; a value that is no version or number where one belongs makes the answer unknown.

    The probes write no such values, but a saved report can hold any.
    """
    try:
        return _apply(one, context)
    except ValueError as error:
        return Unknown(f"a value in the facts cannot be read: {str(error)[:200]}")


def _apply(one: Rule, context: Context) -> Problem | Unknown | None:
    """Hand the rule its inputs; a missing need makes the answer unknown."""
    needs = [_fetch(path, context) for path in one.needs]
    for path, fact in zip(one.needs, needs, strict=True):
        if fact is NOT_ASKED:
            return None
        if isinstance(fact, Unknown):
            return Unknown(f"{path.removeprefix('derived.')}: {fact.reason}")
    wants = [_fetch(path, context) for path in one.wants]
    if not needs and wants and all(isinstance(fact, Unknown) for fact in wants):
        return Unknown(f"{one.wants[0]}: {wants[0].reason}")
    problem: Problem | None = one.decide(
        context, *(fact.value for fact in needs), *(value_or(fact, None) for fact in wants)
    )
    return problem


def _fetch(path: str, context: Context) -> Any:
    if path.startswith("derived."):
        name = path.removeprefix("derived.")
        if name not in context.derived:
            context.derived[name] = DERIVED[name](context)
        return context.derived[name]
    found: Any = look_up(context.facts, path)
    # a plain field (the phases) counts as known
    return found if isinstance(found, Known | Unknown) else Known(found, path)


def _explainable(one: Rule, problem: Problem) -> Rule:
    return replace(one, explained_by=()) if problem.independent else one


def _finding(one: Rule, problem: Problem, context: Context) -> Finding:
    return Finding(
        id=one.id,
        severity=problem.severity or one.severity,
        root_cause=True,
        title=problem.title or one.title,
        cause=problem.cause,
        evidence=problem.evidence,
        fixes=tuple(context.remedies.where_it_belongs(fix) for fix in problem.fixes),
        docs=one.docs,
        possible=problem.possible,
    )


def _rank(finding: Finding, ahead: Collection[str]) -> tuple[int, bool, int]:
    # an id that stands there itself goes before a pattern that it matches
    patterns = (i for i, pattern in enumerate(ORDER) if matches(finding.id, (pattern,)))
    place = ORDER.index(finding.id) if finding.id in ORDER else next(patterns)
    return _SEVERITIES.index(finding.severity), finding.id not in ahead, place


def _arrange(found: list[_Found], ahead: Collection[str]) -> tuple[Finding, ...]:
    """Sort, and turn every finding that another one explains into its consequence."""
    found = sorted(found, key=lambda pair: _rank(pair[1], ahead))
    roots = [pair for pair in found if not _explainer(pair, found)]
    consequences: dict[str, list[str]] = {finding.id: [] for _, finding in roots}
    followers: list[Finding] = []
    for pair in found:
        if pair in roots:
            continue
        explainer = _root_of(pair, roots, found)
        followers.append(msgspec.structs.replace(pair[1], root_cause=False))
        if explainer:
            consequences[explainer].append(pair[1].id)
    shown = [
        msgspec.structs.replace(finding, consequences=tuple(dict.fromkeys(consequences[finding.id])))
        for _, finding in roots
    ]
    return (*shown, *followers)


def _root_of(pair: _Found, roots: list[_Found], found: list[_Found]) -> str | None:
    """Follow the explanations from finding to finding down to a root cause."""
    seen: set[str] = set()
    here = pair
    while here not in roots and here[1].id not in seen:
        seen.add(here[1].id)
        step = _explainer(here, roots) or _explainer(here, found)
        here = next(other for other in found if other[1].id == step)
    return here[1].id if here in roots else None


def _explainer(pair: _Found, others: list[_Found]) -> str | None:
    """Return the id of the first finding that explains this one; a note explains nothing, a warning no error."""
    one, finding = pair
    for _, other in others:
        graver = _SEVERITIES.index(other.severity) <= _SEVERITIES.index(finding.severity)
        if other.id != finding.id and graver and matches(other.id, one.explained_by):
            return other.id
    return None


def works(facts: Facts) -> bool | None:
    """Whether a GPU was seen to compute under TensorFlow, or, when it was not started, everything it needs is in place.

    None: could not be determined.
    """
    devices = facts.tensorflow.devices
    if isinstance(devices, Known):
        return any(device.kind == "GPU" for device in devices.value)
    skipped = {phase.name for phase in facts.tensorflow.phases if phase.outcome == "skipped"}
    if "import" not in skipped:
        return None
    sonames = value_or(facts.loader.sonames, ())
    in_place = bool(value_or(facts.gpus, ())) and isinstance(facts.driver.version, Known) and bool(sonames)
    return True if in_place and all(name.winner for name in sonames) else None


def now() -> str:
    """The time as reports have it: "2026-11-21T06:36:00Z"."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def make_report(
    facts: Facts,
    matrix: Matrix,
    *,
    source: Literal["live", "report", "text"],
    timings: dict[str, float],
    require_gpus: int | None = None,
) -> Report:
    """Diagnose `facts` and put everything into a report, dated now."""
    diagnosis = diagnose(facts, matrix, require_gpus=require_gpus)
    return Report(
        schema=SCHEMA,
        tool=Tool(name="tfgpu", version=__version__),
        matrix=MatrixInfo(revision=matrix.revision, source=", ".join(matrix.layers) or "bundled"),
        created=now(),
        source=source,
        verdict=judge(diagnosis.findings, works=works(facts)),
        facts=facts,
        timings=timings,
        findings=diagnosis.findings,
        undetermined=diagnosis.undetermined,
    )
