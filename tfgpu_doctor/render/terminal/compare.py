"""A comparison for people: what changed, layer by layer, then the findings and what explains them."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from tfgpu_doctor.compare.records import Comparison
from tfgpu_doctor.render import compare_words as words
from tfgpu_doctor.render.console import STYLES, marks
from tfgpu_doctor.render.formats import Detail
from tfgpu_doctor.render.outline import VERDICT_MARKS
from tfgpu_doctor.render.terminal.layout import conclude, hanging, marked, show_block


def render(comparison: Comparison, console: Console, *, everything: bool = False, detail: Detail = "normal") -> None:
    """Print the comparison, or its verdict alone; `everything` includes what differs from minute to minute."""
    everything = everything or detail == "full"
    shown = words.what_differs(comparison, everything)
    if detail == "least":
        mark, summary = words.summary(comparison, shown)
        conclude(mark, Text(summary, "bold"), console, first=True)
        return
    _head(comparison, console)
    _changes(comparison, list(words.layers(shown, everything)), console)
    for sentence in words.not_examined(comparison, shown):
        console.print()
        marked("unknown", sentence, console)
    for finding in words.findings_shown(comparison):
        if finding.status != "remains" or detail == "full":
            show_block(words.block_of(comparison, finding), console)
    if detail != "full":
        _remaining(comparison, console)
    mark, summary = words.summary(comparison, shown)
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
    if differ := words.machines(comparison):
        marked("warning", differ, console, indent=2)
    for note in comparison.notes:
        marked("note", note, console, indent=2)


def _changes(comparison: Comparison, layers: list[words.LayerChanges], console: Console) -> None:
    if not layers:
        return
    console.print()
    console.print(Text("What changed", "bold"))
    widest = max(len(layer.name) for layer in layers)
    for layer in layers:
        label = f"{layer.name:{widest}}"
        for change in layer.changes:
            hanging(_marked(words.mark_of(change, comparison), label, console), Text(change.text), console)
            label = " " * widest
        if layer.left_out:
            rest = f"and {layer.left_out} more, which --all lists"
            hanging(Text(f"  {label}   "), Text(rest, "dim"), console)


def _marked(mark: str, label: str, console: Console) -> Text:
    symbol = (marks(console)[mark], STYLES[mark]) if mark else (" ", "dim")
    return Text.assemble("  ", (label, "bold"), " ", symbol, " ")


def _remaining(comparison: Comparison, console: Console) -> None:
    left = words.still_there(comparison)
    if left:
        console.print()
    for finding in left:
        title = Text.assemble(words.title_of(finding), (f"  {finding.id}", "dim"))
        hanging(Text("= still there: ", "dim"), title, console)
