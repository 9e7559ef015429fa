"""A fleet for people: what the nodes have, the groups of odd ones, the verdict."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from tfgpu_doctor.fleet.records import Fleet
from tfgpu_doctor.records.units import count
from tfgpu_doctor.render import fleet_words as words
from tfgpu_doctor.render.console import STYLES
from tfgpu_doctor.render.formats import Detail
from tfgpu_doctor.render.stack import Layer
from tfgpu_doctor.render.terminal.layout import conclude, hanging, marked, show_block, show_stack

_MOST_UNREAD = 5  # parts of files that a first screen names


def render(fleet: Fleet, console: Console, detail: Detail = "normal") -> None:
    """Print the whole fleet; with less detail the verdict and the worst group."""
    if detail == "least":
        _show_verdict(fleet, console, first=True)
        for group in fleet.groups[:1]:
            whole = words.block(group)
            lines = [line for line in whole.lines if line.label in ("nodes", "fix")][:2]
            show_block(whole._replace(lines=tuple(lines)), console)
        return
    hanging(Text(f"tfgpu fleet {fleet.tool.version}  ", "bold"), Text(words.about(fleet), "dim"), console)
    _show_stack(fleet, console)
    if detail == "full":
        _show_common(fleet, console)
    _show_groups(fleet, console, whole=detail == "full")
    _show_unread(fleet, console, whole=detail == "full")
    for place, note in enumerate(fleet.notes):
        if not place:
            console.print()
        marked("note", note, console)
    _show_verdict(fleet, console)


def _show_stack(fleet: Fleet, console: Console) -> None:
    layers = list(words.stack(fleet))
    if layers:
        console.print()
        show_stack([*layers, Layer("Nodes", "", words.verdicts(fleet))], console)


def _show_common(fleet: Fleet, console: Console) -> None:
    """Every fact that nodes know, with the number of nodes that have each value."""
    rows = words.picture(fleet)
    widest = max((len(label) for _, label, _ in rows), default=0)
    is_wide = widest + 3 <= console.width // 2  # the values get the larger part of a line
    shown = ""
    for layer, label, text in rows:
        if layer != shown:
            console.print()
            count_of = "" if shown else " (number of nodes)"
            hanging(Text(""), Text.assemble((layer, "bold"), (count_of, "dim")), console)
            shown = layer
        if is_wide:
            hanging(Text(f"  {label:{widest}} ", "dim"), Text(text), console)
        else:
            hanging(Text("  "), Text.assemble((f"{label}: ", "dim"), text), console)


def _show_groups(fleet: Fleet, console: Console, *, whole: bool) -> None:
    """The groups; without `whole` the first ones with what has not been said, and the titles of the others."""
    blocks = [words.block(group, whole=True) for group in fleet.groups]
    shown = blocks if whole else list(words.brief(fleet.groups))
    for place, block in enumerate(shown):
        # titles alone stand together
        show_block(block, console, close=place > 0 and not block.lines and not shown[place - 1].lines)
    if shown != blocks:
        console.print()
        hanging(Text(""), Text("All nodes, values and fixes: tfgpu fleet -v", "dim"), console)


def _show_unread(fleet: Fleet, console: Console, *, whole: bool) -> None:
    lines = words.unread(fleet)
    if not lines:
        return
    console.print()
    shown = lines if whole else lines[:_MOST_UNREAD]
    for line in shown:
        marked("unknown", line, console)
    if len(lines) > len(shown):
        hanging(Text("  "), Text(f"and {count(len(lines) - len(shown), 'more reason')}; -v shows all", "dim"), console)


def _show_verdict(fleet: Fleet, console: Console, *, first: bool = False) -> None:
    mark = words.MARKS[fleet.verdict]
    word = (fleet.verdict, f"bold {STYLES[mark]}")
    conclude(mark, Text.assemble(word, f": {words.verdict(fleet)}"), console, first=first)
