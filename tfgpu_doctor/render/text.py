"""A page as text for people: hanging lines, blocks, and tables that never cut anything off."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from tfgpu_doctor.facts.printable import clean
from tfgpu_doctor.render.console import STYLES, SYMBOLS, cleaned, console_for
from tfgpu_doctor.render.outline import LABEL_WIDTH
from tfgpu_doctor.render.shapes import Block, Code, Items, Line, Page, Part, Table, has_content

_NARROWEST = 12  # characters of the column that is wrapped; with fewer, it would be all wrapping
_INDENT = 4  # of a text whose head is too long to stand beside it
# what no line may end within: a command in a sentence, which is copied, a number before its unit, an arrow
_OPTION = r" --?[a-z][a-z-]{0,24}(?: '[^'\n]{1,200}'| [A-Z]{2,12}\b| (?=[^\s'\"]{0,80}[/\d.])[^\s'\",;:)]+)?"
_COMMAND = rf"(?:tfgpu [a-z]{{1,12}}|nvidia-smi)(?:{_OPTION}| [a-z]{{1,12}}\.[a-z-]{{1,40}}){{0,4}}"
_UNIT = r"\d (?:%|°C|W|MHz|m?s|µs|[KMGT]i?B|[KMGTP]?FLOP|CPUs?|GPUs?|×)(?![\w%])"
_TYPED = r"(?:(?<=\bwrite )|(?<=\binstead of ))'[^'\n]{1,400}'"  # into a file
_WHOLE = re.compile(rf"\b{_COMMAND}|{_TYPED}|{_UNIT}|(?:←|<-) (?:line \d)?")
GLUE = "\ue000"  # stands for a blank while lines are wrapped; cleaned text never has it
# what is copied: links, commands and long quotations, with their blanks glued
_COPIED = re.compile(rf"(?<!\s)\s*((?:(?:←|<-){GLUE})?https?://\S+|(?:tfgpu{GLUE}|(?<=\s)'\S{{40}})\S*)\s*")


def render(page: Page, console: Console) -> None:
    """Print the page."""
    if page.is_brief:
        _verdict(page, console)
    for number, line in enumerate(() if page.is_brief else page.about):
        command = re.match(r"tfgpu \w+", line) if number == 0 else None
        end = command.end() if command else 0
        hanging(Text(""), Text.assemble((line[:end], "bold"), (line[end:], "dim" if number == 0 else "")), console)
    before: Part | None = None
    for part in filter(has_content, page.parts):
        together = _is_title(part) and _is_title(before) if before else page.is_brief and isinstance(part, Items)
        if not together:  # titles alone stand together, and what a text tells with the verdict on it
            console.print()
        _part(part, console)
        before = part
    if page.hint:
        console.print()
        hanging(Text(""), Text(page.hint, "dim"), console)
    if not page.is_brief:
        console.print()
        _verdict(page, console)


def height(page: Page) -> int:
    """How many lines it takes at 80 columns."""
    out = io.StringIO()
    console = console_for(out)
    console.width = 80
    render(page, console)
    return len(out.getvalue().splitlines())


def _verdict(page: Page, console: Console) -> None:
    style, word = STYLES[page.mark], page.word.removeprefix(page.title).strip()
    sentence = f": {page.sentence}" if word and page.sentence else page.sentence
    text = Text.assemble((word, f"bold {style}"), (sentence, "" if word else "bold"))
    hanging(Text(f"{SYMBOLS[page.mark]} " if page.mark else "", f"bold {style}"), text, console)


def _is_title(part: Part) -> bool:
    return isinstance(part, Block) and not part.lines and not part.docs


def _part(part: Part, console: Console) -> None:
    match part:
        case Block():
            show_block(part, console)
        case Items():
            _items(part, console)
        case Code():
            _title(part.title, console)
            for line in part.lines:  # as they are
                console.print(Text(line), soft_wrap=True)
        case Table():
            if part.is_named or part.is_folded:
                _title(part.title, console)
            if len(part.head) == 2:
                _pairs(part.rows, part.marks, console)
            else:
                _columns(part, console)
        case Page():
            _verdict(part, console)
            for one in filter(has_content, part.parts):
                _part(one, console)


def _items(part: Items, console: Console) -> None:
    _title(part.title, console)
    if len(part.lines) == 1 and not part.title and not part.mark:
        hanging(Text(""), Text(part.lines[0]), console)
        return
    symbol, style = (SYMBOLS[part.mark], STYLES[part.mark]) if part.mark else ("-", "dim")
    for line in part.lines:
        hanging(Text(f"{symbol} ", style), Text(line), console)


def _title(title: str, console: Console) -> None:
    if title:
        hanging(Text(""), Text(title, "bold"), console)


def hanging(head: Text, text: Text, console: Console) -> None:
    """Print `head`, and `text` beside it, wrapped under itself, without padding at the ends of lines."""
    if len(head) > console.width // 2 and text:
        head = cleaned(head)
        head.rstrip()
        console.print(head, soft_wrap=True)  # a path must survive being copied
        head = Text(" " * _INDENT)
    indent = len(head)
    width = max(console.width - indent, 20)
    text = cleaned(text).copy()
    text.plain = glued(text.plain)
    for line in _wrapped(text, width, console):
        line.rstrip()
        line.plain = line.plain.replace(GLUE, " ")
        shown = Text.assemble(head, line)
        shown.rstrip()
        console.print(shown, soft_wrap=True)
        head = Text(" " * indent)


def _wrapped(text: Text, width: int, console: Console) -> Iterator[Text]:
    """The lines of a text; a link or a command that is wider is a line of its own, so that it can be copied."""
    links = [found for found in _COPIED.finditer(text.plain) if len(found[1]) > width]
    edges = [edge for found in links for edge in (found.start(), *found.span(1), found.end())]
    for place, part in enumerate(text.divide(edges)):  # text, blanks, link, blanks, text, ...
        if place % 4 == 2:
            yield part
        elif place % 4 == 0 and (part or not links):
            yield from part.wrap(console, width, overflow="fold")


def glued(text: str) -> str:
    """The text with a blank that does not break in each command, in what is typed, and before each unit."""
    return _WHOLE.sub(lambda found: found[0].replace(" ", GLUE), text)


def show_block(block: Block, console: Console) -> None:
    """Print a finding, or what else has a heading and labelled lines."""
    style = STYLES.get(block.mark, "")
    ids = f"  {block.ids[0]}" if len(block.ids) == 1 else ""
    title = Text.assemble((block.title, f"bold {style}"), (ids, "dim"))
    hanging(Text(f"{SYMBOLS[block.mark]} " if block.mark else "", style), title, console)
    indent = LABEL_WIDTH + _INDENT + 1 if any(line.label for line in block.lines) else _INDENT
    for line in block.lines:
        _line(line, indent, console)
    if block.docs:
        # a link must survive being copied, too
        console.print(Text(f"    {'see':{LABEL_WIDTH}} {block.docs}", "dim"), soft_wrap=True)


def _line(line: Line, indent: int, console: Console) -> None:
    """Print one labelled line; commands are never wrapped by us: they must survive being copied."""
    head = Text(f"    {line.label:{LABEL_WIDTH}} "[:indent] if line.label else " " * indent, "dim")
    commands = line.commands
    if line.text or not commands:
        source = f" ← {line.source}" if line.source else ""
        about = f"  {line.id}" if line.id else ""
        hanging(head, Text.assemble(line.text, (source + about, "dim")), console)
        indent += 2
    else:
        console.print(Text.assemble(head, (commands[0], "bold cyan")), soft_wrap=True)
        commands = commands[1:]
    for command in commands:
        console.print(Text(" " * indent + command, "bold cyan"), soft_wrap=True)


def _pairs(rows: Sequence[tuple[str, ...]], signs: Sequence[str], console: Console) -> None:
    """Print labels with their texts beside them, behind their marks; a label that repeats the one above is left out."""
    before = None
    room = console.width // 2 - 5
    widest = max((len(label) for label, *_ in rows if len(label) <= room), default=0)
    for place, (label, *texts) in enumerate(rows):
        mark = signs[place] if signs else ""
        symbol = (f"  {SYMBOLS.get(mark, ' ')} ", STYLES.get(mark, "")) if signs else "  "
        head = Text.assemble(symbol, (f"{'' if label == before else label:{widest}} ", "bold"))
        style = "dim" if mark == "absent" else ""
        if len(head) > console.width and " " in label:
            hanging(Text(*symbol) if signs else Text("  "), Text(label, "bold"), console)
            head = Text(" " * _INDENT)
        hanging(head, Text("  ".join(filter(None, texts)), style), console)
        before = label


def _columns(part: Table, console: Console) -> None:
    """Print columns under their headings, the widest one wrapped; where that is too wide, a paragraph for each row."""
    signs = [Text(f"{SYMBOLS[mark]} ", STYLES[mark]) for mark in part.marks] or [Text()] * len(part.rows)
    marked = [
        [sign + clean(row[0]), *map(Text, map(clean, row[1:]))] for sign, row in zip(signs, part.rows, strict=True)
    ]
    head = [("  " if part.marks else "") + part.head[0], *part.head[1:]]
    columns = [(name, *(cell.plain for cell in cells)) for name, *cells in zip(head, *marked, strict=True)]
    widths = [max(map(cell_len, column)) for column in columns]
    widest = widths.index(max(widths))
    longest_word = max(cell_len(word) for word in " ".join(columns[widest]).split() or [""])
    least = sum(widths) - widths[widest] + max(longest_word, min(widths[widest], _NARROWEST)) + len(head) - 1
    if least <= console.width:
        _grid(part, head, marked, widths, console)
        return
    for sign, (label, *cells) in zip(signs, part.rows, strict=True):
        values = (f"{name} {cell}" for name, cell in zip(head[1:], cells, strict=True) if cell not in {"", "-"})
        hanging(sign, Text(label, "bold"), console)
        hanging(Text("  "), Text("; ".join(values)), console)


def _grid(part: Table, head: list[str], rows: list[list[Text]], widths: list[int], console: Console) -> None:
    gap = 2 if sum(widths) + 2 * (len(head) - 1) <= console.width else 1
    grid = Grid(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for place, name in enumerate(head):
        is_wrapped = place == widths.index(max(widths))
        grid.add_column(name, no_wrap=not is_wrapped, justify="right" if place in part.right else "left")
    for row in rows:
        grid.add_row(*row)
    for line in console.render_lines(grid, pad=False):
        text = Text.assemble(*((segment.text, segment.style or "") for segment in line))
        text.rstrip()
        console.print(text, soft_wrap=True)
