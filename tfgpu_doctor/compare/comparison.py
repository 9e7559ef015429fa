"""What changed between two reports, what of it matters, and what goes with a finding that is new or gone. Pure.

Both reports are diagnosed anew by the same signs, so that only the facts differ. A sign names what it reads by its
parameters: the changes of these facts go with the finding. Of a collection, the finding must name the element: of
hundreds of packages, the one that its evidence speaks of. Changes of state, which somebody made, come before what was
only observed, since a symptom always goes with itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from tfgpu_doctor import __version__
from tfgpu_doctor.compare.differences import Difference, differences
from tfgpu_doctor.compare.records import (
    REAL,
    SCHEMA,
    Change,
    Comparison,
    Explanation,
    FindingChange,
    FindingStatus,
    How,
    Inside,
    Side,
    Status,
    Weight,
)
from tfgpu_doctor.facts.facts import Facts, Unknown, compact, value_or
from tfgpu_doctor.facts.report import FailOn, Finding, Report, Tool, exit_status, failing
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.findings.declaration import Context, Sign
from tfgpu_doctor.findings.engine import signs_that_show, verdict
from tfgpu_doctor.findings.inputs import facts_behind, fetch
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.plan.diagnosis import context_of, diagnose

_MACHINE = frozenset({"host.os", "host.machine", "host.distribution", "host.cpu_model", "host.memory", "gpus.name"})
_SHARED_PREFIXES = frozenset({"", "/usr", "/usr/local", "/opt", "/opt/local"})


class _Judged(NamedTuple):
    """The findings of one report."""

    findings: dict[str, Finding]
    read: dict[str, list[Difference]]  # by finding, the differences that the signs which show it read
    open_in_other: set[str]  # those that the other report lacks the facts to judge: neither new nor gone


def compare(
    good: Report,
    bad: Report,
    matrix: Matrix,
    created: str,
    *,
    names: tuple[str, str] = ("GOOD", "BAD"),
) -> Comparison:
    """Compare two reports; `created` is the time, `names` are what the reports are called."""
    move = _mover(good.facts, bad.facts)
    aligned = _aligned(good.facts, move)
    found = differences(aligned, bad.facts)
    if move:
        found = [*_as_reported(found, differences(good.facts, bad.facts), move)]
    before, after = (diagnose(one.facts, matrix).findings for one in (good, bad))
    old, new = (context_of(facts, matrix) for facts in (aligned, bad.facts))
    sides = (_judged(before, old, new, "lost", found), _judged(after, new, old, "unexamined", found))
    findings = _findings(*sides)
    explanations = tuple(_explanations(findings, sides))
    return Comparison(
        schema=SCHEMA,
        tool=Tool(name="tfgpu", version=__version__),
        matrix=matrix.info,
        created=created,
        good=_side(good, names[0], before),
        bad=_side(bad, names[1], after),
        machines=tuple(dict.fromkeys(one.text for one in found if _is_of_machine(one))),
        notes=tuple(_notes(((good, before, names[0]), (bad, after, names[1])))),
        changes=tuple(_changes(found, explanations, sides)),
        findings=findings,
        explanations=explanations,
    )


def _judged(
    findings: tuple[Finding, ...], here: Context, other: Context, unknown: Status, found: list[Difference]
) -> _Judged:
    """Judge a report; `unknown` is the status of what the other one does not know."""
    read = {one.id: [difference for difference in found if _is_read(difference, one, here)] for one in findings}
    is_open = set()
    for id_, differing in read.items():
        statuses = {one.status for one in differing}
        # of all that their signs read, only facts differ that the other report does not know
        if _lacks_facts(id_, other) or (unknown in statuses and statuses.isdisjoint(REAL)):
            is_open.add(id_)
    return _Judged({one.id: one for one in findings}, read, is_open)


def _is_read(difference: Difference, finding: Finding, context: Context) -> bool:
    """True if a sign reads the fact and, of a collection, the finding names the element; of a GPU, its value."""
    declared = DECLARATIONS.get(finding.id)
    signs = (signs_that_show(declared, context) or declared.signs) if declared else ()
    if not any(difference.path in facts_behind(name) for sign in signs for name in sign.inputs):
        return False
    if difference.path == "gpus":
        words = (difference.about.label.rpartition(": ")[2], difference.good, difference.bad)
        return difference.field is None or any(word and _is_named(word, finding) for word in words)
    return difference.key is None or _is_named(difference.key, finding)


def _lacks_facts(finding: str, context: Context) -> bool:
    """True if the facts leave it open that the finding holds: no sign of it has all that it requires."""

    def is_open(sign: Sign) -> bool:
        required = [isinstance(fetch(name, context), Unknown) for name in sign.required]
        optional = [isinstance(fetch(name, context), Unknown) for name in sign.optional]
        return any(required) or (not required and bool(optional) and all(optional))

    return all(is_open(sign) for sign in (DECLARATIONS[finding].signs if finding in DECLARATIONS else ()))


def _is_named(word: str, finding: Finding) -> bool:
    texts = (finding.title, finding.cause, *(f"{item.saw} {item.source}" for item in finding.evidence))
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", " ".join(texts), re.IGNORECASE) is not None


def _explanations(findings: tuple[FindingChange, ...], sides: tuple[_Judged, _Judged]) -> Iterator[Explanation]:
    """Yield the changes that go with each finding that is new or gone, but for those that follow from another."""
    judged = {(change.id, change.status) for change in findings}
    for change in findings:
        if change.status not in ("new", "gone") or (change.follows_from, change.status) in judged:
            continue
        changed = [one for one in sides[change.status == "new"].read[change.id] if one.status in REAL]
        states = [one for one in changed if one.about.grade == "state"]
        # what is of the finding's own layer comes first: the driver, before another GPU on the bus
        layer = DECLARATIONS[change.id].layer if change.id in DECLARATIONS else None
        states.sort(key=lambda one: one.layer != layer)
        hows: tuple[How, ...] = ("observed", "change", "changes")
        how = hows[min(len({one.about.group or one.id for one in states}), 2)]
        yield Explanation(finding=change.id, how=how, changes=tuple(one.id for one in states or changed))


def exit_code(comparison: Comparison, fail_on: FailOn) -> int:
    """0 nothing new at or above `fail_on`, 1 something is, 3 that is open."""
    is_failed = any(is_failing(change, fail_on) for change in comparison.findings)
    is_unclear = any(is_open(change, fail_on) for change in comparison.findings)
    return exit_status(fail_on, is_failed, is_unclear or comparison.bad.verdict == "unknown")


def is_failing(change: FindingChange, fail_on: FailOn) -> bool:
    """Return whether a finding is new and makes the exit code 1."""
    return change.status == "new" and change.inside == "bad" and change.severity in failing(fail_on)


def is_open(change: FindingChange, fail_on: FailOn) -> bool:
    """Return whether it would count, and the other report lacks the facts to tell whether it is new."""
    is_counted = change.inside == "bad" and change.severity in failing(fail_on)
    return change.status == "unjudged" and change.root_cause and is_counted


def _side(report: Report, name: str, findings: tuple[Finding, ...]) -> Side:
    return Side(
        name=name,
        created=report.created,
        tool=report.tool.version,
        matrix=report.matrix.revision,
        verdict=verdict(findings, report.facts, report.source),
    )


def _mover(good: Facts, bad: Facts) -> Callable[[str], str] | None:
    """Return what moves GOOD's environment into BAD's folder, in a text; None where they are one, or of the system."""
    one, other = ((value_or(facts.python.prefix, "") or "").rstrip("/") for facts in (good, bad))
    if one == other or {one, other} & _SHARED_PREFIXES or any(char in one + other for char in '\\"'):
        return None
    pattern = re.compile(re.escape(one) + r"(?=[\\/\"':\s]|$)")
    old, new = (".".join(value_or(facts.python.version, "").split(".")[:2]) for facts in (good, bad))
    return lambda text: pattern.sub(lambda _: other, text).replace(
        f"{other}/lib/python{old}/", f"{other}/lib/python{new}/"
    )


def _aligned(facts: Facts, move: Callable[[str], str] | None) -> Facts:
    """Return GOOD's facts as if its environment lay in BAD's folder, so that only what lies in it differs."""
    if move is None:
        return facts
    moved = msgspec.json.decode(move(compact(facts).decode()), type=Facts)
    where = {"executable": facts.python.executable, "prefix": facts.python.prefix}
    return msgspec.structs.replace(moved, python=msgspec.structs.replace(moved.python, **where))


def _as_reported(found: list[Difference], there: list[Difference], move: Callable[[str], str]) -> Iterator[Difference]:
    """Yield what still differs without the move, as the reports have it: BAD's environment can read from GOOD's."""
    by_id = {move(one.id): one for one in there} | {one.id: one for one in there}
    for one in found:
        if reported := by_id.get(one.id):
            yield reported if reported.status == one.status else one


def _is_of_machine(one: Difference) -> bool:
    """True if one machine that is compared with itself cannot have such a difference, unless it was rebuilt."""
    identity = f"gpus.{one.field}" if one.path == "gpus" else one.id
    return one.status == "changed" and one.about.grade != "noise" and identity in _MACHINE


def _notes(sides: Iterable[tuple[Report, tuple[Finding, ...], str]]) -> Iterator[str]:
    """Yield which findings this version judges otherwise than the one that wrote a report."""
    for report, findings, name in sides:
        then, now = {one.id for one in report.findings}, {one.id for one in findings}
        then -= {"gpu.fewer-than-required"}  # how many are required is not in the report
        by = f"tfgpu {report.tool.version} with the matrix of {report.matrix.revision}"
        if then - now:
            yield f"{', '.join(sorted(then - now))}: reported in {name} by {by}, but not found by this version"
        if now - then:
            yield f"{', '.join(sorted(now - then))}: found in {name} by this version, but not reported by {by}"


def _findings(before: _Judged, after: _Judged) -> tuple[FindingChange, ...]:
    """Return new ones first, then those that cannot be compared, those that remain, and those that are gone."""
    found: list[FindingChange] = []
    for id_ in {**after.findings, **before.findings}:
        side = after if id_ in after.findings else before
        finding, old = side.findings[id_], before.findings.get(id_)
        inside: Inside = "good" if side is before else "both" if old else "bad"
        status: FindingStatus = "gone" if inside == "good" else "remains" if inside == "both" else "new"
        if inside != "both" and id_ in side.open_in_other:
            status = "unjudged"
        roots = (one.id for one in side.findings.values() if id_ in one.consequences)
        found.append(
            FindingChange(
                id=id_,
                status=status,
                inside=inside,
                severity=finding.severity,
                root_cause=finding.root_cause,
                title=finding.title,
                before=old.title if old and old.title != finding.title else None,
                follows_from=None if finding.root_cause else next(roots, None),
            )
        )
    return tuple(sorted(found, key=lambda change: ("new", "unjudged", "remains", "gone").index(change.status)))


def _changes(
    found: Iterable[Difference], explanations: tuple[Explanation, ...], sides: Iterable[_Judged]
) -> Iterator[Change]:
    """Yield the differences with how much they matter; not what varies from minute to minute and explains nothing."""
    for one in found:
        explained = tuple(explanation.finding for explanation in explanations if one.id in explanation.changes)
        if one.about.grade == "noise" and not explained:
            continue
        connected = tuple(dict.fromkeys(id_ for side in sides for id_, read in side.read.items() if one in read))
        weight: Weight = "explains" if explained else "connected" if connected else "can-matter"
        shown = {name: getattr(one, name) for name in ("id", "layer", "status", "text", "good", "bad")}
        yield Change(**shown, weight=weight, findings=explained or connected)
