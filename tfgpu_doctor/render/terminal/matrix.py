"""Answers of the matrix in a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from tfgpu_doctor.render.formats import Detail
from tfgpu_doctor.render.outline import Block
from tfgpu_doctor.render.outlines.matrix import Answered, Card, Columns, Legend, Note, SheetPart, Sources
from tfgpu_doctor.render.terminal.layout import hanging, show_block, show_card, show_table, show_title


def render(answered: Answered, console: Console, detail: Detail = "normal") -> None:
    """Print the sheet, its first screen, or its answer alone."""
    sheet = answered.sheet
    show_title(sheet.title, sheet.detail, console)
    parts = sheet.parts if detail == "full" else sheet.brief or sheet.parts
    for part in parts:
        if detail != "least" or isinstance(part, Card | Columns):
            _show(part, console)


def _show(part: SheetPart, console: Console) -> None:
    match part:
        case Card():
            show_card(part.lines, console)
        case Columns():
            console.print()
            show_table({name: list(cells) for name, cells in part.cells.items()}, console)
        case Note():
            _note(part, console)
        case Legend():
            console.print()
            hanging(Text(""), Text(part.text, "dim"), console)
        case Sources():
            _sources(part, console)
        case Block():
            show_block(part, console, close=not part.lines)


def _note(note: Note, console: Console) -> None:
    """Print a paragraph; an item of a list beside its head, or below it where that leaves little room."""
    head = Text(note.head)
    if not note.head:
        console.print()
    elif len(head) > console.width // 2:
        hanging(Text("  "), Text(note.head.strip()), console)
        head = Text("    ")
    hanging(head, Text(note.text), console)


def _sources(sources: Sources, console: Console) -> None:
    console.print()
    for document, members in sources.documents().items():
        if document.startswith("https://"):
            console.print(Text(f"  from  {document}", "dim"), soft_wrap=True)  # a link must survive being copied
        else:
            hanging(Text("  from  ", "dim"), Text(document, "dim"), console)
        for member, fields in () if sources.documents_only else members.items():
            read = f"{member}: {', '.join(fields)}" if member else ", ".join(fields)
            hanging(Text("        "), Text(read, "dim"), console)
