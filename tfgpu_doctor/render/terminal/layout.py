"""Pieces of a terminal page: hanging lines, blocks, cards, and tables that never cut anything off."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tfgpu_doctor.records.printable import clean
from tfgpu_doctor.render.console import STYLES, cleaned, marks
from tfgpu_doctor.render.outline import LABEL_WIDTH, Block, Line

if TYPE_CHECKING:
    from tfgpu_doctor.render.stack import Layer

_NARROWEST = 12  # characters of the column that is wrapped; with fewer, it would be all wrapping
_INDENT = 4  # of a text whose head is too long to stand beside it
# what no line may end within: a command in a sentence, which is copied, a number before its unit, an arrow
_OPTION = r" --?[a-z][a-z-]{0,24}(?: '[^'\n]{1,40}'| [A-Z]{2,12}\b)?"
_COMMAND = rf"(?:tfgpu [a-z]{{1,12}}|nvidia-smi)(?:{_OPTION}| [a-z]{{1,12}}\.[a-z-]{{1,40}}){{0,4}}"
_UNIT = r"\d (?:%|°C|W|MHz|m?s|µs|[KMGT]i?B|[KMGTP]?FLOP|CPUs?|GPUs?|×)(?![\w%])"
_WHOLE = re.compile(rf"\b{_COMMAND}|{_UNIT}|(?:←|<-) (?:line \d)?")
_GLUE = "\ue000"  # stands for a blank while lines are wrapped; cleaned text never has it
_LINK = re.compile(rf"(?<!\s)\s*((?:(?:←|<-){_GLUE})?https?://\S+)\s*")


def hanging(head: Text, text: Text, console: Console) -> None:
    """Print `head`, and `text` beside it, wrapped under itself, without padding at the ends of lines."""
    if len(head) > console.width // 2 and text:
        head = cleaned(head)
        head.rstrip()
        console.print(head, soft_wrap=True)  # a path must survive being copied
        head = Text(" " * _INDENT)
    indent = len(head)
    width = max(console.width - indent, 20)
    for line in _wrapped(_glued(cleaned(text), width), width, console):
        line.rstrip()
        line.plain = line.plain.replace(_GLUE, " ")
        console.print(Text.assemble(head, line), soft_wrap=True)
        head = Text(" " * indent)


def _wrapped(text: Text, width: int, console: Console) -> Iterator[Text]:
    """The lines of a text; a link that is wider is a line of its own, since a broken one can be neither copied nor
    clicked."""
    links = [found for found in _LINK.finditer(text.plain) if len(found[1]) > width]
    edges = [edge for found in links for edge in (found.start(), *found.span(1), found.end())]
    for place, part in enumerate(text.divide(edges)):  # text, blanks, link, blanks, text, ...
        if place % 4 == 2:
            yield part
        elif place % 4 == 0 and (part or not links):
            yield from part.wrap(console, width, overflow="fold")


def _glued(text: Text, width: int) -> Text:
    """The text with a blank that does not break in each command and before each unit; not in what is wider."""
    whole = _WHOLE.sub(lambda found: found[0].replace(" ", _GLUE) if len(found[0]) <= width else found[0], text.plain)
    if whole != text.plain:
        text = text.copy()
        text.plain = whole
    return text


def marked(mark: str, text: str, console: Console, indent: int = 0) -> None:
    """Print a line behind its mark."""
    hanging(Text(f"{' ' * indent}{marks(console)[mark]} ", STYLES[mark]), Text(text), console)


def conclude(mark: str, text: Text, console: Console, *, first: bool = False) -> None:
    """Print the last line of a page: the verdict; with less detail it is the `first` one."""
    if not first:
        console.print()
    hanging(Text(f"{marks(console)[mark]} ", f"bold {STYLES[mark]}"), text, console)


def show_block(block: Block, console: Console, *, close: bool = False) -> None:
    """Print a finding, or what else has a heading and labelled lines; `close` to the line above."""
    style = STYLES[block.mark]
    ids = f"  {block.ids[0]}" if len(block.ids) == 1 else ""
    title = Text.assemble((block.title, f"bold {style}"), (ids, "dim"))
    if not close:
        console.print()
    hanging(Text(f"{marks(console)[block.mark]} ", style), title, console)
    for line in block.lines:
        show_line(line, console)
    if block.docs:
        # a link must survive being copied, too
        console.print(Text(f"    {'see':{LABEL_WIDTH}} {block.docs}", "dim"), soft_wrap=True)


def show_line(line: Line, console: Console) -> None:
    """Print one labelled line of a block."""
    source = f" {marks(console)['from']} {line.source}" if line.source else ""
    about = f"  {line.id}" if line.id else ""
    text = Text.assemble(line.text, (source + about, "dim"))
    hanging(Text(f"    {line.label:{LABEL_WIDTH}} ", "dim"), text, console)
    for command in line.commands:
        # never wrapped by us: a command must survive being copied
        console.print(Text(" " * (LABEL_WIDTH + 7) + command, "bold cyan"), soft_wrap=True)


def show_stack(layers: Sequence[Layer], console: Console) -> None:
    """Print a line for each layer."""
    symbols = marks(console)
    widest = max(len(layer.name) for layer in layers)
    for layer in layers:
        mark = (f"  {symbols.get(layer.mark, ' ')} ", STYLES.get(layer.mark, ""))
        head = Text.assemble(mark, (f"{layer.name:{widest}} ", "bold"))
        hanging(head, Text(layer.text, "dim" if layer.mark == "absent" else ""), console)


def show_title(title: str, detail: str, console: Console) -> None:
    """Print what the page is about."""
    hanging(Text(""), Text.assemble((title, "bold"), (f"  {detail}" if detail else "", "dim")), console)


def show_card(lines: Iterable[tuple[str, str]], console: Console) -> None:
    """Print labels with their texts beside them."""
    for label, text in lines:
        hanging(Text(f"  {label:10}  ", "dim"), Text(text), console)


def show_table(columns: dict[str, list[str]], console: Console) -> None:
    """Print columns under their headings, the widest one wrapped; where that is too wide, a paragraph for each row."""
    cells = {name: [clean(cell) for cell in column] for name, column in columns.items()}
    widths = {name: max(map(len, (name, *column))) for name, column in cells.items()}
    widest = max(cells, key=lambda name: widths[name])
    longest_word = max(len(word) for cell in (widest, *cells[widest]) for word in cell.split() or [""])
    least = max(longest_word, min(widths[widest], _NARROWEST))
    gaps = len(cells) - 1
    if sum(widths.values()) - widths[widest] + least + gaps > console.width:
        _paragraphs(cells, console)
        return
    gap = 2 if sum(widths.values()) + 2 * gaps <= console.width else 1
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for name in cells:
        table.add_column(name, no_wrap=name != widest)
    for row in zip(*cells.values(), strict=True):
        table.add_row(*map(Text, row))
    for line in console.render_lines(table, pad=False):
        text = Text.assemble(*((segment.text, segment.style or "") for segment in line))
        text.rstrip()
        console.print(text, soft_wrap=True)


def _paragraphs(cells: dict[str, list[str]], console: Console) -> None:
    first, *others = cells
    for number, title in enumerate(cells[first]):
        values = [f"{name} {cells[name][number]}" for name in others if cells[name][number] not in ("", "-")]
        hanging(Text(""), Text(title, "bold"), console)
        hanging(Text("  "), Text("; ".join(values)), console)
