"""What a comparison of two reports comes to: what changed, and a block and a case for each finding. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tfgpu_doctor.compare.comparison import exit_code, is_failing, is_open
from tfgpu_doctor.compare.records import REAL, Change, Comparison, Explanation, FindingChange
from tfgpu_doctor.records.report import EXIT_UNKNOWN, FailOn
from tfgpu_doctor.records.units import count
from tfgpu_doctor.render.formats import Detail
from tfgpu_doctor.render.outline import VERDICT_MARKS
from tfgpu_doctor.render.outlines.report import LEVELS
from tfgpu_doctor.render.shapes import Annotation, Block, Case, Checks, Items, Line, Outcome, Page, Part, Suite, Table

_MOST = 10  # changes of one layer that explain nothing
_MOST_NAMED = 3  # changes that are named in one sentence
_COUNTED = {
    "new": ("new finding", ""),
    "unjudged": ("finding", " that cannot be compared"),
    "gone": ("finding", " gone"),
    "remains": ("finding", " in both"),
}
_RANKS = {"explains": 0, "connected": 1}


_COMMAND = "tfgpu compare"


def page(comparison: Comparison, everything: bool = False, detail: Detail = "shared") -> Page:
    """What changed layer by layer, the findings that are new or gone with their causes, and those in both."""
    everything = everything or detail == "full"
    shown = _what_differs(comparison, everything)
    mark, summary = _summary(comparison, shown)
    about = f"{_COMMAND} {comparison.tool.version}, matrix of {comparison.matrix.revision}"
    whole = Page(_COMMAND, (about,), mark, _COMMAND, summary, (), is_brief=detail == "least")
    if detail == "least":
        return whole
    both = (("good", comparison.good), ("bad", comparison.bad))
    sides = Table(
        "Reports",
        ("Side", "Report"),
        tuple((label, f"{side.name}  {side.created}  {side.verdict}") for label, side in both),
        tuple(VERDICT_MARKS[side.verdict] for _, side in both),
    )
    rows: list[tuple[str, str, str]] = []
    for layer in _layers(shown, everything):
        rows += [(_mark_of(change, comparison), layer.name, change.text) for change in layer.changes]
        rows += [("", layer.name, f"and {layer.left_out} more, which --all lists")] if layer.left_out else []
    differ = _machines(comparison)
    parts: tuple[Part, ...] = (
        sides,
        Items((differ,) if differ else (), mark="warning"),
        Items(comparison.notes, mark="note"),
        Table(
            "What changed",
            ("Layer", "Change"),
            tuple(row[1:] for row in rows),
            tuple(row[0] for row in rows),
            is_named=True,
        ),
        Items(tuple(_not_examined(comparison, shown)), mark="unknown"),
        *(_block_of(comparison, one) for one in _findings_shown(comparison) if one.status != "remains"),
        *map(_remaining, _still_there(comparison)),
    )
    return whole._replace(parts=parts)


def _remaining(finding: FindingChange) -> Block:
    return Block(finding.severity.value, _title_of(finding), (Line("status", "still there"),), (finding.id,))


def checks(comparison: Comparison, fail_on: FailOn = "error", everything: bool = False) -> Checks:
    """A case for each finding: red where it is new, and what cannot be compared where that decides."""
    code = exit_code(comparison, fail_on)
    _, summary = _summary(comparison, _what_differs(comparison, everything))
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
    problems += (Annotation("error", f"{_COMMAND}: {verdict.message}", (summary,)),) if verdict.message else ()
    suites = (Suite("Verdict", (verdict,)), Suite("Findings", cases))
    return Checks(_COMMAND, comparison.created, suites, problems, (f"{_COMMAND}: {summary}",))


def _case(finding: FindingChange, comparison: Comparison, fail_on: FailOn, code: int) -> Case:
    case, severity = Case(finding.id, "tfgpu.compare"), finding.severity.value
    if finding.status == "remains":
        return case._replace(details=(f"{severity}: {_title_of(finding)}", "in both reports"))
    lines = tuple(f"{line.label:9} {line.text}" for line in _block_of(comparison, finding).lines)
    if is_failing(finding, fail_on):
        return case._replace(outcome="failure", kind=severity, message=finding.title, details=lines)
    if is_open(finding, fail_on):
        outcome: Outcome = "error" if code == EXIT_UNKNOWN else "skipped"
        return case._replace(outcome=outcome, kind="could not determine", message=finding.title, details=lines)
    return case._replace(details=(f"{severity}: {finding.title}", *lines))


# ---------------------------------------------------------------------------------------------------------------- words


class LayerChanges(NamedTuple):
    """The changes of one layer that are shown, what explains something first, and how many more there are."""

    name: str
    changes: tuple[Change, ...]
    left_out: int


def _what_differs(comparison: Comparison, everything: bool) -> list[Change]:
    """The changes; without those that differ from minute to minute, unless `everything` is wanted."""
    return [change for change in comparison.changes if everything or change.weight != "noise"]


def _layers(changes: Iterable[Change], everything: bool) -> Iterator[LayerChanges]:
    """What differs between the machines, layer by layer."""
    real = [change for change in changes if change.status in REAL]
    for layer in dict.fromkeys(change.layer for change in real):
        ranked = [change for change in real if change.layer == layer]
        ranked.sort(key=lambda change: _RANKS.get(change.weight, 2))
        most = len(ranked) if everything else max(_MOST, sum(change.weight == "explains" for change in ranked))
        yield LayerChanges(layer, tuple(ranked[:most]), max(len(ranked) - most, 0))


def _mark_of(change: Change, comparison: Comparison) -> str:
    """A change that explains something has a mark: of a problem, or of a repair; the others have none."""
    new = {finding.id for finding in comparison.findings if finding.status == "new"}
    return "" if change.weight != "explains" else "error" if new & set(change.findings) else "ok"


def _not_examined(comparison: Comparison, changes: Sequence[Change]) -> Iterator[str]:
    """What only one of the reports knows, a sentence for each side."""
    for side, status in ((comparison.good, "unexamined"), (comparison.bad, "lost")):
        texts = [change.text for change in changes if change.status == status]
        if texts:
            more = f"; and {len(texts) - _MOST} more" if len(texts) > _MOST else ""
            yield f"Not examined in {side.name}, so not compared: {'; '.join(texts[:_MOST])}{more}"


def _machines(comparison: Comparison) -> str:
    """How the machines differ; empty where they are the same."""
    how = "; ".join(comparison.machines)
    return f"These are two machines, or one that was rebuilt: {how}" if how else ""


def _still_there(comparison: Comparison) -> list[FindingChange]:
    """The root causes that both reports have."""
    return [finding for finding in comparison.findings if finding.status == "remains" and finding.root_cause]


def _title_of(finding: FindingChange) -> str:
    """The title, and the other one that it had."""
    return finding.title + (f" (was: {finding.before})" if finding.before else "")


def _findings_shown(comparison: Comparison) -> list[FindingChange]:
    """All but consequences that cannot be compared: their causes are shown."""
    return [finding for finding in comparison.findings if finding.status != "unjudged" or not finding.follows_from]


def _block_of(comparison: Comparison, finding: FindingChange) -> Block:
    """A finding that is new or gone, with what explains it."""
    gone = finding.inside == "good"
    mark = "ok" if gone else finding.severity.value
    return Block(mark, finding.title, tuple(_lines(comparison, finding, gone)), (finding.id,))


def _lines(comparison: Comparison, finding: FindingChange, gone: bool) -> Iterator[Line]:
    word = "gone" if gone else "new"
    if finding.status == "unjudged":
        other = comparison.bad if gone else comparison.good
        yield Line("status", f"unknown whether it is {word}: {other.name} lacks the facts that decide it")
    else:
        yield Line("status", word)
    explanation = next((found for found in comparison.explanations if found.finding == finding.id), None)
    if explanation:
        yield from _explained(comparison, explanation)
    elif finding.follows_from:
        yield Line("cause", f"a consequence of {finding.follows_from}")


def _explained(comparison: Comparison, explanation: Explanation) -> Iterator[Line]:
    texts = {change.id: change.text for change in comparison.changes}
    named = _named(texts, explanation.changes)
    if not named:
        yield Line("cause", "nothing that both reports examined")
    elif explanation.how == "changes":
        yield Line("related", f"changed, and read by this check: {named}")
    else:
        yield Line("cause" if explanation.how == "change" else "evidence", named)


def _named(texts: dict[str, str], ids: Iterable[str]) -> str:
    return _joined([texts[name] for name in ids])


def _joined(texts: list[str]) -> str:
    shown = "; ".join(texts[:_MOST_NAMED])
    return shown + (f"; and {len(texts) - _MOST_NAMED} more above" if len(texts) > _MOST_NAMED else "")


def _summary(comparison: Comparison, shown: Sequence[Change]) -> tuple[str, str]:
    """A mark and a sentence."""
    counts = dict.fromkeys(("new", "gone", "unjudged", "remains"), 0)
    for finding in _findings_shown(comparison):
        counts[finding.status] += finding.status != "remains" or finding.root_cause
    changes = sum(change.status in REAL for change in shown)
    parts = [count(counts[status], word) + where for status, (word, where) in _COUNTED.items() if counts[status]]
    if changes or counts["new"] or counts["gone"] or counts["unjudged"]:
        return _gravest(comparison), f"{count(changes, 'change')}, {', '.join(parts) or 'no finding in either'}"
    return "ok", "nothing changed" + (f" ({parts[0]})" if parts else "")


def _gravest(comparison: Comparison) -> str:
    """The gravest of what is new."""
    new = {finding.severity.value for finding in comparison.findings if finding.status == "new"}
    graver = next((style for style in ("error", "warning", "note") if style in new), None)
    unclear = any(finding.status == "unjudged" and finding.inside == "bad" for finding in _findings_shown(comparison))
    return graver or ("unknown" if unclear else "ok")
