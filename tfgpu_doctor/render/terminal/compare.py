"""A comparison for people: what changed, layer by layer, then the findings and what explains them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from rich.console import Console
from rich.text import Text

from tfgpu_doctor.compare.records import Change, Comparison, Explanation, FindingChange
from tfgpu_doctor.render.console import clean, marks
from tfgpu_doctor.render.terminal.report import STYLES, hanging

_MOST = 10  # changes of one layer that explain nothing
_MOST_NAMED = 3  # changes that are named in one sentence
_RANKS = {"explains": 0, "connected": 1}
_REAL = ("changed", "added", "removed")
_VERDICTS = {"ok": "ok", "degraded": "warning", "broken": "error", "unknown": "unknown"}


def render(comparison: Comparison, console: Console, *, everything: bool = False) -> None:
    """Print the comparison; `everything` includes what differs from minute to minute."""
    _head(comparison, console)
    shown = [one for one in comparison.changes if everything or one.weight != "noise"]
    if any(one.status in _REAL for one in shown):
        console.print()
        console.print(Text("What changed", "bold"))
        _changes(comparison, [one for one in shown if one.status in _REAL], console, everything)
    for side, status in (("good", "unexamined"), ("bad", "lost")):
        _unexamined(comparison, [one for one in shown if one.status == status], side, console)
    for one in _told(comparison):
        if one.status != "remains":
            console.print()
            _finding(comparison, one, console)
    _remaining(comparison, console)
    console.print()
    hanging(*_sum(comparison, shown, console), console)


def _head(comparison: Comparison, console: Console) -> None:
    tool = f" {comparison.tool.version}, matrix of {comparison.matrix.revision}"
    hanging(Text(""), Text.assemble(("tfgpu compare", "bold"), (clean(tool), "dim")), console)
    console.print()
    symbols = marks(console)
    for label, side in (("good", comparison.good), ("bad", comparison.bad)):
        style = _VERDICTS[side.verdict]
        head = Text.assemble((f"  {symbols[style]} ", STYLES[style]), (f"{label:5}", "bold"))
        text = Text.assemble(clean(side.name), (f"  {clean(side.created)}  {side.verdict}", "dim"))
        hanging(head, text, console)
    if comparison.machines:
        differ = f"These are two machines, or one that was rebuilt: {'; '.join(comparison.machines)}"
        hanging(Text(f"  {symbols['warning']} ", STYLES["warning"]), Text(clean(differ)), console)
    for note in comparison.notes:
        hanging(Text(f"  {symbols['note']} ", STYLES["note"]), Text(clean(note)), console)


# ----------------------------------------------------------------------------------------------------- changes


def _changes(comparison: Comparison, changes: list[Change], console: Console, everything: bool) -> None:
    layers = list(dict.fromkeys(one.layer for one in changes))
    widest = max(map(len, layers))
    new = {one.id for one in comparison.findings if one.status == "new"}
    for layer in layers:
        label = f"{layer:{widest}}"
        told = [one for one in changes if one.layer == layer]
        told.sort(key=lambda one: _RANKS.get(one.weight, 2))
        most = len(told) if everything else max(_MOST, sum(one.weight == "explains" for one in told))
        for one in told[:most]:
            hanging(_marked(one, label, new, console), Text(clean(one.text)), console)
            label = " " * widest
        if len(told) > most:
            rest = f"and {len(told) - most} more, which --all lists"
            hanging(Text(f"  {label}   "), Text(rest, "dim"), console)


def _marked(one: Change, label: str, new: set[str], console: Console) -> Text:
    """A change that explains something has its mark: of a problem, or of a repair."""
    mark = "absent" if one.weight != "explains" else "error" if new & set(one.findings) else "ok"
    symbol = marks(console)[mark] if one.weight == "explains" else " "
    return Text.assemble("  ", (label, "bold"), " ", (symbol, STYLES[mark]), " ")


def _unexamined(comparison: Comparison, changes: list[Change], side: str, console: Console) -> None:
    if not changes:
        return
    name = (comparison.good if side == "good" else comparison.bad).name
    console.print()
    head = Text.assemble((f"{marks(console)['unknown']} ", STYLES["unknown"]))
    text = "; ".join(one.text for one in changes[:_MOST])
    more = f"; and {len(changes) - _MOST} more" if len(changes) > _MOST else ""
    hanging(head, Text(clean(f"Not examined in {name}, so no change: {text}{more}")), console)


# ---------------------------------------------------------------------------------------------------- findings


def _told(comparison: Comparison) -> list[FindingChange]:
    """All but consequences that cannot be compared: their causes are told."""
    return [one for one in comparison.findings if one.status != "unjudged" or not one.follows_from]


def _finding(comparison: Comparison, one: FindingChange, console: Console) -> None:
    gone = one.inside == "good"
    style = STYLES["ok" if gone else one.severity.value]
    symbol = marks(console)["ok" if gone else one.severity.value]
    title = Text.assemble((clean(one.title), f"bold {style}"), (f"  {clean(one.id)}", "dim"))
    hanging(Text(f"{symbol} ", style), title, console)
    say = partial(_say, console=console)
    other = comparison.bad if gone else comparison.good
    if one.status == "unjudged":
        say("?", f"whether it is {'gone' if gone else 'new'} is open: {other.name} lacks the facts to tell")
    else:
        say("is", "gone" if gone else "new")
    explanation = next((found for found in comparison.explanations if found.finding == one.id), None)
    if explanation:
        _explain(comparison, explanation, gone, say)
    elif one.follows_from:
        say("so", f"it follows from {one.follows_from}")


def _say(label: str, text: str, console: Console) -> None:
    hanging(Text(f"    {label:4} ", "dim"), Text(clean(text)), console)


def _explain(comparison: Comparison, explanation: Explanation, gone: bool, say: partial[None]) -> None:
    texts = {one.id: one.text for one in comparison.changes}
    named = _named(texts, explanation.changes)
    name = (comparison.good if gone else comparison.bad).name
    if explanation.how == "undone":
        say("by", named)
        it = "it" if len(explanation.changes) == 1 else "them"
        undone = f"with {it}, {name} does not have it either" if gone else f"without {it}, {name} does not have it"
        also = f", but {', '.join(explanation.side_effects)}" if explanation.side_effects else ""
        say("", f"diagnosed again {undone}{also}")
        for other in explanation.alternatives:
            say("or", _named(texts, other))
        return
    near = [one.text for one in comparison.changes if _is_suspect(one, explanation)]
    if explanation.how == "seen":
        say("seen", named)
        say("", "nothing that was changed takes it away when it is undone")
    elif named:
        near = [named, *near]
    if near:
        say("near", f"its rule reads, and has changed: {_joined(near)}")
    elif explanation.how == "read":
        say("by", "nothing that both reports examined")


def _is_suspect(one: Change, explanation: Explanation) -> bool:
    connected = one.weight in ("connected", "explains") and explanation.finding in one.findings
    return connected and one.status in _REAL and one.id not in explanation.changes


def _named(texts: dict[str, str], ids: Iterable[str]) -> str:
    return _joined([texts[one] for one in ids])


def _joined(texts: list[str]) -> str:
    shown = "; ".join(texts[:_MOST_NAMED])
    return shown + (f"; and {len(texts) - _MOST_NAMED} more above" if len(texts) > _MOST_NAMED else "")


def _remaining(comparison: Comparison, console: Console) -> None:
    left = [one for one in comparison.findings if one.status == "remains" and one.root_cause]
    if left:
        console.print()
    for one in left:
        before = f" (was: {one.before})" if one.before else ""
        title = Text.assemble(clean(one.title + before), (f"  {clean(one.id)}", "dim"))
        hanging(Text("= still there: ", "dim"), title, console)


def _sum(comparison: Comparison, shown: list[Change], console: Console) -> tuple[Text, Text]:
    counts = dict.fromkeys(("new", "gone", "unjudged", "remains"), 0)
    for one in _told(comparison):
        counts[one.status] += one.status != "remains" or one.root_cause
    changes = sum(one.status in _REAL for one in shown)
    if not changes and not (counts["new"] or counts["gone"] or counts["unjudged"]):
        style, text = "ok", "nothing changed"
        text += f" ({_counted(counts['remains'], *_COUNTED['remains'])})" if counts["remains"] else ""
    else:
        parts = [_counted(counts[status], *words) for status, words in _COUNTED.items() if counts[status]]
        text = f"{_count(changes, 'change')}, {', '.join(parts) or 'no finding in either'}"
        style = _style(comparison)
    return Text(f"{marks(console)[style]} ", f"bold {STYLES[style]}"), Text(text, "bold")


_COUNTED = {
    "new": ("new ", ""),
    "unjudged": ("", " that cannot be compared"),
    "gone": ("", " gone"),
    "remains": ("", " in both"),
}


def _counted(number: int, before: str, after: str) -> str:
    return f"{number} {before}finding{'s' * (number != 1)}{after}"


def _style(comparison: Comparison) -> str:
    """The gravest of what is new."""
    new = {one.severity.value for one in comparison.findings if one.status == "new"}
    graver = next((style for style in ("error", "warning", "note") if style in new), None)
    unclear = any(one.status == "unjudged" and one.inside == "bad" for one in _told(comparison))
    return graver or ("unknown" if unclear else "ok")


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"
