"""What an answer of the matrix comes to: a sheet of cards, tables and notes, and the same as a page. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tfgpu_doctor import __version__
from tfgpu_doctor.records.fact import encode
from tfgpu_doctor.render.formats import Detail
from tfgpu_doctor.render.outline import Block
from tfgpu_doctor.render.outline import Detail as Folded
from tfgpu_doctor.render.shapes import Items, Page, Table
from tfgpu_doctor.render.shapes import Part as PagePart

_COMMAND = "tfgpu matrix"


class Card(NamedTuple):
    """Labels with their texts; an empty label goes on with the one above."""

    lines: tuple[tuple[str, str], ...]


class Columns(NamedTuple):
    """A table: the cells of each column by its heading."""

    cells: Mapping[str, Sequence[str]]


class Note(NamedTuple):
    """A paragraph, and what stands before its first line where it is an item of a list."""

    text: str
    head: str = ""


class Legend(NamedTuple):
    """What the words and signs of a table mean."""

    text: str


class Sources(NamedTuple):
    """Field → where it was read; `documents_only` leaves out what was read in each document."""

    read: Mapping[str, str]
    documents_only: bool = False

    def documents(self) -> dict[str, dict[str, list[str]]]:
        """Each document once → its members, a wheel's files → the fields that were read there."""
        found: dict[str, dict[str, list[str]]] = {}
        for field, source in self.read.items():
            wheel, colon, member = source.partition(".whl: ")
            document = wheel + ".whl" if colon else source
            found.setdefault(document, {}).setdefault(member if colon else "", []).append(field)
        return found


SheetPart = Card | Columns | Note | Legend | Sources | Block


class Sheet(NamedTuple):
    """An answer for people; `brief` is what its first screen shows, where that is less."""

    title: str
    detail: str
    parts: tuple[SheetPart, ...]
    brief: tuple[SheetPart, ...] = ()


class Answered(NamedTuple):
    """An answer as data and as a sheet."""

    answer: Any
    sheet: Sheet
    revision: str  # of the matrix

    def to_json(self) -> bytes:
        """The answer alone."""
        return encode(self.answer)

    def __repr__(self) -> str:
        """A line."""
        return f"<Answered: {self.sheet.title}>"

    def _repr_html_(self) -> str:
        """What Jupyter shows."""
        from tfgpu_doctor.render.html.page import fragment

        return fragment(page(self))


def page(answered: Answered, detail: Detail = "shared") -> Page:
    """The whole sheet, its first screen, or its answer alone."""
    sheet = answered.sheet
    about = f"{_COMMAND} {__version__}, matrix of {answered.revision}"
    whole = Page(_COMMAND, (about,), "note", sheet.title, sheet.detail, tuple(_parts(sheet.parts)))
    if detail == "shared":
        return whole
    parts = sheet.parts if detail == "full" else sheet.brief or sheet.parts
    if detail == "least":
        parts = tuple(part for part in parts if isinstance(part, Card | Columns))
    return whole._replace(mark="", parts=tuple(_parts(parts)), is_brief=True)


def _parts(parts: tuple[SheetPart, ...]) -> Iterator[PagePart]:
    notes: list[Note] = []
    for part in parts:
        if isinstance(part, Note) and part.head:
            notes.append(part)
            continue
        yield from _list(notes)
        notes = []
        match part:
            case Card():
                yield Table("", ("What", "Answer"), part.lines)
            case Columns():
                yield Table("", tuple(part.cells), tuple(zip(*part.cells.values(), strict=True)))
            case Note() if part.text.endswith(":"):
                notes = [part]
            case Note() | Legend():
                yield Items((part.text,))
            case Sources():
                read = ((document, "; ".join(_read(members))) for document, members in part.documents().items())
                rows = tuple((document, "" if part.documents_only else fields) for document, fields in read)
                yield Folded("Sources", ("Document", "Read there"), rows)
            case Block():
                yield part
    yield from _list(notes)


def _list(notes: Sequence[Note]) -> Iterator[Items]:
    """Items of a list, the first of which may be the sentence above them."""
    title = notes[0].text if notes and not notes[0].head else ""
    lines = tuple(f"{note.head.strip()}: {note.text}" for note in notes[bool(title) :])
    if title or lines:
        yield Items(lines or (title,), title.rstrip(":") if lines else "")


def _read(members: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for member, fields in members.items():
        yield f"{member}: {', '.join(fields)}" if member else ", ".join(fields)
