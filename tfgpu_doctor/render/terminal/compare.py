"""A comparison for people: what changed, layer by layer, then the findings and what explains them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.text import Text

from tfgpu_doctor.compare.records import Change, Comparison, Explanation, FindingChange
from tfgpu_doctor.records.units import count
from tfgpu_doctor.render.console import STYLES, marks
from tfgpu_doctor.render.outline import VERDICT_MARKS, Block, Line
from tfgpu_doctor.render.terminal.layout import conclude, hanging, marked, show_block

_MOST = 10  # changes of one layer that explain nothing
_MOST_NAMED = 3  # changes that are named in one sentence
_COUNTED = {
    "new": ("new finding", ""),
    "unjudged": ("finding", " that cannot be compared"),
    "gone": ("finding", " gone"),
    "remains": ("finding", " in both"),
}
_RANKS = {"explains": 0, "connected": 1}
_REAL = ("changed", "added", "removed")


def render(comparison: Comparison, console: Console, *, everything: bool = False) -> None:
    """Print the comparison; `everything` includes what differs from minute to minute."""
    _head(comparison, console)
    shown = [change for change in comparison.changes if everything or change.weight != "noise"]
    if any(change.status in _REAL for change in shown):
        console.print()
        console.print(Text("What changed", "bold"))
        _changes(comparison, [change for change in shown if change.status in _REAL], console, everything)
    for side, status in (("good", "unexamined"), ("bad", "lost")):
        _unexamined(comparison, [change for change in shown if change.status == status], side, console)
    for finding in _shown(comparison):
        if finding.status != "remains":
            show_block(_block(comparison, finding), console)
    _remaining(comparison, console)
    mark, summary = _summary(comparison, shown)
    conclude(mark, Text(summary, "bold"), console)


def _head(comparison: Comparison, console: Console) -> None:
    tool = f" {comparison.tool.version}, matrix of {comparison.matrix.revision}"
    hanging(Text(""), Text.assemble(("tfgpu compare", "bold"), (tool, "dim")), console)
    console.print()
    symbols = marks(console)
    for label, side in (("good", comparison.good), ("bad", comparison.bad)):
        style = VERDICT_MARKS[side.verdict]
        head = Text.assemble((f"  {symbols[style]} ", STYLES[style]), (f"{label:5}", "bold"))
        text = Text.assemble(side.name, (f"  {side.created}  {side.verdict}", "dim"))
        hanging(head, text, console)
    if comparison.machines:
        differ = f"These are two machines, or one that was rebuilt: {'; '.join(comparison.machines)}"
        marked("warning", differ, console, indent=2)
    for note in comparison.notes:
        marked("note", note, console, indent=2)


def _changes(comparison: Comparison, changes: list[Change], console: Console, everything: bool) -> None:
    layers = list(dict.fromkeys(change.layer for change in changes))
    widest = max(map(len, layers))
    new = {finding.id for finding in comparison.findings if finding.status == "new"}
    for layer in layers:
        label = f"{layer:{widest}}"
        ranked = [change for change in changes if change.layer == layer]
        ranked.sort(key=lambda change: _RANKS.get(change.weight, 2))
        most = len(ranked) if everything else max(_MOST, sum(change.weight == "explains" for change in ranked))
        for change in ranked[:most]:
            hanging(_marked(change, label, new, console), Text(change.text), console)
            label = " " * widest
        if len(ranked) > most:
            rest = f"and {len(ranked) - most} more, which --all lists"
            hanging(Text(f"  {label}   "), Text(rest, "dim"), console)


def _marked(change: Change, label: str, new: set[str], console: Console) -> Text:
    """A change that explains something has its mark: of a problem, or of a repair."""
    mark = "absent" if change.weight != "explains" else "error" if new & set(change.findings) else "ok"
    symbol = marks(console)[mark] if change.weight == "explains" else " "
    return Text.assemble("  ", (label, "bold"), " ", (symbol, STYLES[mark]), " ")


def _unexamined(comparison: Comparison, changes: list[Change], side: str, console: Console) -> None:
    if not changes:
        return
    name = (comparison.good if side == "good" else comparison.bad).name
    console.print()
    text = "; ".join(change.text for change in changes[:_MOST])
    more = f"; and {len(changes) - _MOST} more" if len(changes) > _MOST else ""
    marked("unknown", f"Not examined in {name}, so not compared: {text}{more}", console)


def _shown(comparison: Comparison) -> list[FindingChange]:
    """All but consequences that cannot be compared: their causes are shown."""
    return [finding for finding in comparison.findings if finding.status != "unjudged" or not finding.follows_from]


def _block(comparison: Comparison, finding: FindingChange) -> Block:
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
        yield from _explained(comparison, explanation, gone)
    elif finding.follows_from:
        yield Line("cause", f"a consequence of {finding.follows_from}")


def _explained(comparison: Comparison, explanation: Explanation, gone: bool) -> Iterator[Line]:
    texts = {change.id: change.text for change in comparison.changes}
    named = _named(texts, explanation.changes)
    if explanation.how == "undone":
        yield Line("cause", named)
        yield Line("", _verified(comparison, explanation, gone))
        yield from (Line("or", _named(texts, other)) for other in explanation.alternatives)
        return
    near = [change.text for change in comparison.changes if _is_suspect(change, explanation)]
    if explanation.how == "seen":
        yield Line("evidence", named)
        yield Line("", "undoing any of the changes does not remove it")
    elif named:
        near = [named, *near]
    if near:
        yield Line("related", f"changed, and read by this check: {_joined(near)}")
    elif explanation.how == "read":
        yield Line("cause", "nothing that both reports examined")


def _verified(comparison: Comparison, explanation: Explanation, gone: bool) -> str:
    """What a second diagnosis has shown, of the old report with the changes or of the new one without them."""
    name = (comparison.good if gone else comparison.bad).name
    it = "this change" if len(explanation.changes) == 1 else "these changes"
    undone = f"{name}, diagnosed again {'with' if gone else 'without'} {it}, does not have it"
    also = f", but {', '.join(explanation.side_effects)}" if explanation.side_effects else ""
    return f"confirmed: {undone}{also}"


def _is_suspect(change: Change, explanation: Explanation) -> bool:
    connected = change.weight in ("connected", "explains") and explanation.finding in change.findings
    return connected and change.status in _REAL and change.id not in explanation.changes


def _named(texts: dict[str, str], ids: Iterable[str]) -> str:
    return _joined([texts[name] for name in ids])


def _joined(texts: list[str]) -> str:
    shown = "; ".join(texts[:_MOST_NAMED])
    return shown + (f"; and {len(texts) - _MOST_NAMED} more above" if len(texts) > _MOST_NAMED else "")


def _remaining(comparison: Comparison, console: Console) -> None:
    left = [finding for finding in comparison.findings if finding.status == "remains" and finding.root_cause]
    if left:
        console.print()
    for finding in left:
        before = f" (was: {finding.before})" if finding.before else ""
        title = Text.assemble(finding.title + before, (f"  {finding.id}", "dim"))
        hanging(Text("= still there: ", "dim"), title, console)


def _summary(comparison: Comparison, shown: list[Change]) -> tuple[str, str]:
    """A mark and a sentence."""
    counts = dict.fromkeys(("new", "gone", "unjudged", "remains"), 0)
    for finding in _shown(comparison):
        counts[finding.status] += finding.status != "remains" or finding.root_cause
    changes = sum(change.status in _REAL for change in shown)
    parts = [count(counts[status], word) + where for status, (word, where) in _COUNTED.items() if counts[status]]
    if changes or counts["new"] or counts["gone"] or counts["unjudged"]:
        return _gravest(comparison), f"{count(changes, 'change')}, {', '.join(parts) or 'no finding in either'}"
    return "ok", "nothing changed" + (f" ({parts[0]})" if parts else "")


def _gravest(comparison: Comparison) -> str:
    """The gravest of what is new."""
    new = {finding.severity.value for finding in comparison.findings if finding.status == "new"}
    graver = next((style for style in ("error", "warning", "note") if style in new), None)
    unclear = any(finding.status == "unjudged" and finding.inside == "bad" for finding in _shown(comparison))
    return graver or ("unknown" if unclear else "ok")
