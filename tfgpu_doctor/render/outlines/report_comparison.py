"""What a comparison of two reports comes to: what changed, and a block and a case for each finding. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tfgpu_doctor.compare.comparison import exit_code, is_failing, is_open
from tfgpu_doctor.compare.records import REAL, Change, Comparison, Explanation, FindingChange
from tfgpu_doctor.facts.report import EXIT_UNKNOWN, FailOn
from tfgpu_doctor.facts.units import count
from tfgpu_doctor.render.formats import Detail
from tfgpu_doctor.render.outline import VERDICT_MARKS
from tfgpu_doctor.render.shapes import (
    LEVELS,
    Annotation,
    Block,
    Case,
    Checks,
    Items,
    Line,
    Outcome,
    Page,
    Part,
    Suite,
    Table,
)

_MOST = 10  # changes of one layer that explain nothing
_MOST_NAMED = 3  # changes that are named in one sentence
_COUNTED = {
    "new": ("new finding", ""),
    "unjudged": ("finding", " that cannot be compared"),
    "gone": ("finding", " gone"),
    "remains": ("finding", " in both"),
}
_RANKS = {"explains": 0, "connected": 1}


def page(comparison: Comparison, detail: Detail = "shared") -> Page:
    """What changed layer by layer, the findings that are new or gone with their causes, and those in both."""
    mark, summary = _summary(comparison)
    about = f"tfgpu compare {comparison.tool.version}, matrix of {comparison.matrix.revision}"
    whole = Page("tfgpu compare", (about,), mark, "tfgpu compare", summary, ())
    is_brief = detail in ("normal", "least")
    rows = tuple(_rows(comparison, is_brief))
    changed, signs = tuple(row[1:] for row in rows), tuple(row[0] for row in rows)
    differ = "; ".join(comparison.machines)
    found = [
        one
        for one in _findings_shown(comparison)
        if not (is_brief and one.status == "unjudged" and one.inside == "good")
    ]
    both = comparison.good, comparison.bad
    sides = tuple(zip(("base", "new"), (f"{one.name}  {one.created}  {one.verdict}" for one in both), strict=True))
    parts: tuple[Part, ...] = (
        Table("Reports", ("Side", "Report"), sides, tuple(VERDICT_MARKS[one.verdict] for one in both)),
        Items((f"These are two machines, or one that was rebuilt: {differ}",) if differ else (), mark="warning"),
        Items(comparison.notes, mark="note"),
        Table("What changed", ("Layer", "Change"), changed, signs, is_named=True),
        Items(tuple(_not_examined(comparison)), mark="unknown"),
        *(_block_of(comparison, one) for one in found if one.status != "remains"),
        *(_block_of(comparison, one) for one in found if one.status == "remains" and one.root_cause),
    )
    return whole._replace(parts=parts)


def checks(comparison: Comparison, fail_on: FailOn = "error") -> Checks:
    """A case for each finding: red where it is new, and what cannot be compared where that decides."""
    code = exit_code(comparison, fail_on)
    _, summary = _summary(comparison)
    found = _findings_shown(comparison)
    cases = tuple(_case(one, comparison, fail_on, code) for one in found)
    verdict = Case("a verdict could be reached", "tfgpu.compare", details=(summary,))
    if code == EXIT_UNKNOWN and not any(case.outcome == "error" for case in cases):
        about = f"could not determine the verdict of {comparison.bad.name}"
        verdict = verdict._replace(outcome="error", kind="could not determine", message=about)
    problems = tuple(
        Annotation(LEVELS[one.severity], f"{one.title} ({one.id})", case.details)
        for one, case in zip(found, cases, strict=True)
        if one.status in ("new", "unjudged") and one.inside == "bad"
    )
    problems += (Annotation("error", f"tfgpu compare: {verdict.message}", (summary,)),) if verdict.message else ()
    suites = (Suite("Verdict", (verdict,)), Suite("Findings", cases))
    return Checks("tfgpu compare", comparison.created, suites, problems, (f"tfgpu compare: {summary}",))


def _case(finding: FindingChange, comparison: Comparison, fail_on: FailOn, code: int) -> Case:
    case, severity = Case(finding.id, "tfgpu.compare"), finding.severity.value
    block = _block_of(comparison, finding)
    if finding.status == "remains":
        return case._replace(details=(f"{severity}: {block.title}", "in both reports"))
    lines = tuple(f"{line.label:9} {line.text}" for line in block.lines)
    if is_failing(finding, fail_on):
        return case._replace(outcome="failure", kind=severity, message=finding.title, details=lines)
    if is_open(finding, fail_on):
        outcome: Outcome = "error" if code == EXIT_UNKNOWN else "skipped"
        return case._replace(outcome=outcome, kind="could not determine", message=finding.title, details=lines)
    return case._replace(details=(f"{severity}: {finding.title}", *lines))


# ---------------------------------------------------------------------------------------------------------------- words


def _rows(comparison: Comparison, is_brief: bool) -> Iterator[tuple[str, str, str]]:
    """Yield what differs between the machines, layer by layer; in brief, lines of a log are only counted."""
    real = [change for change in comparison.changes if change.status in REAL]
    logged = [one for one in real if is_brief and one.id.startswith("messages.") and one.weight != "explains"]
    shown = [change for change in real if change not in logged]
    for layer in dict.fromkeys(change.layer for change in shown):
        yield from _rows_of(layer, [change for change in shown if change.layer == layer], comparison, is_brief)
    if logged:
        yield "", logged[0].layer, f"{count(len(logged), 'line')} of the log differ, which -v lists"


def _rows_of(
    layer: str, changes: list[Change], comparison: Comparison, is_brief: bool
) -> Iterator[tuple[str, str, str]]:
    """Yield the changes of one layer, what explains something first and with a mark."""
    new = {finding.id for finding in comparison.findings if finding.status == "new"}
    ranked = sorted(changes, key=lambda change: _RANKS.get(change.weight, 2))
    most = max(_MOST, sum(change.weight == "explains" for change in ranked)) if is_brief else len(ranked)
    for change in ranked[:most]:
        mark = "error" if new & set(change.findings) else "ok"
        yield mark if change.weight == "explains" else "", layer, change.text
    if len(ranked) > most:
        yield "", layer, f"and {len(ranked) - most} more, which -v lists"


def _not_examined(comparison: Comparison) -> Iterator[str]:
    """What only one of the reports knows, a sentence for each side."""
    for side, status in ((comparison.good, "unexamined"), (comparison.bad, "lost")):
        texts = [change.text for change in comparison.changes if change.status == status]
        if texts:
            more = f"; and {len(texts) - _MOST} more" if len(texts) > _MOST else ""
            yield f"Not examined in {side.name}, so not compared: {'; '.join(texts[:_MOST])}{more}"


def _findings_shown(comparison: Comparison) -> list[FindingChange]:
    """All but consequences that cannot be compared: their causes are shown."""
    return [finding for finding in comparison.findings if finding.status != "unjudged" or not finding.follows_from]


def _block_of(comparison: Comparison, finding: FindingChange) -> Block:
    """A finding with its status; one that is new or gone with what explains it, another with its title before."""
    if finding.status == "remains":
        title = finding.title + (f" (was: {finding.before})" if finding.before else "")
        return Block(finding.severity.value, title, (Line("status", "still there"),), (finding.id,))
    gone = finding.inside == "good"
    word, other = ("gone", comparison.bad) if gone else ("new", comparison.good)
    unknown = f"unknown whether it is {word}: {other.name} lacks the facts that decide it"
    lines = [Line("status", unknown if finding.status == "unjudged" else word)]
    explanation = next((found for found in comparison.explanations if found.finding == finding.id), None)
    if explanation:
        lines.append(_explained(comparison, explanation))
    elif finding.follows_from:
        lines.append(Line("cause", f"a consequence of {finding.follows_from}"))
    return Block("ok" if gone else finding.severity.value, finding.title, tuple(lines), (finding.id,))


def _explained(comparison: Comparison, explanation: Explanation) -> Line:
    by_id = {change.id: change.text for change in comparison.changes}
    texts = [by_id[name] for name in explanation.changes]
    more = f"; and {len(texts) - _MOST_NAMED} more above" if len(texts) > _MOST_NAMED else ""
    named = "; ".join(texts[:_MOST_NAMED]) + more
    if not named:
        return Line("cause", "nothing that both reports examined")
    if explanation.how == "changes":
        return Line("related", f"changed, and read by this check: {named}")
    return Line("cause" if explanation.how == "change" else "evidence", named)


def _summary(comparison: Comparison) -> tuple[str, str]:
    """A mark, that of the gravest of what is new, and a sentence."""
    found = [one for one in _findings_shown(comparison) if one.status != "remains" or one.root_cause]
    counts: Counter[str] = Counter(one.status for one in found)
    changes = sum(change.status in REAL for change in comparison.changes)
    parts = [count(counts[status], word) + where for status, (word, where) in _COUNTED.items() if counts[status]]
    if not changes and counts.keys() <= {"remains"}:
        return "ok", "nothing changed" + (f" ({parts[0]})" if parts else "")
    return _mark(comparison), f"{count(changes, 'change')}, {', '.join(parts) or 'no finding in either'}"


def _mark(comparison: Comparison) -> str:
    new = {finding.severity.value for finding in comparison.findings if finding.status == "new"}
    unclear = any(one.status == "unjudged" and one.inside == "bad" for one in _findings_shown(comparison))
    return next((style for style in ("error", "warning", "note") if style in new), "unknown" if unclear else "ok")
