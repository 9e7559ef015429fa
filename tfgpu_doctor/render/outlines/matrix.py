"""What an answer of the matrix comes to: a sheet of cards, tables and notes, and the same as a page. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tfgpu_doctor import __version__
from tfgpu_doctor.records.facts import encode
from tfgpu_doctor.render.formats import Detail
from tfgpu_doctor.render.shapes import Detail as Folded
from tfgpu_doctor.render.shapes import Items, Page, Part, Table

_COMMAND = "tfgpu matrix"


class Sheet(NamedTuple):
    """An answer for people; `brief` is what its first screen shows, where that is less."""

    title: str
    detail: str
    parts: tuple[Part, ...]
    brief: tuple[Part, ...] = ()


def card(lines: tuple[tuple[str, str], ...]) -> Table:
    """Labels with their texts; an empty label goes on with the one above."""
    return Table("", ("What", "Answer"), lines)


def table(cells: Mapping[str, Sequence[str]]) -> Table:
    """The cells of each column by its heading."""
    return Table("", tuple(cells), tuple(zip(*cells.values(), strict=True)))


def note(text: str) -> Items:
    """A sentence or two, what the words and signs of a table mean among them."""
    return Items((text,))


def sources(read: Mapping[str, str], documents_only: bool = False) -> Folded:
    """Each document once, with its members, a wheel's files, and the fields that were read there.

    Args:
        read: field → where it was read.
        documents_only: leave out what was read in each document.
    """
    documents: dict[str, dict[str, list[str]]] = {}
    for field, source in read.items():
        wheel, colon, member = source.partition(".whl: ")
        document = wheel + ".whl" if colon else source
        documents.setdefault(document, {}).setdefault(member if colon else "", []).append(field)
    rows = []
    for document, members in documents.items():
        fields = (f"{member}: {', '.join(found)}" if member else ", ".join(found) for member, found in members.items())
        rows.append((document, "" if documents_only else "; ".join(fields)))
    return Folded("Sources", ("Document", "Read there"), tuple(rows))


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
    whole = Page(_COMMAND, (about,), "note", sheet.title, sheet.detail, sheet.parts)
    if detail == "shared":
        return whole
    parts = sheet.parts if detail == "full" else sheet.brief or sheet.parts
    if detail == "least":
        parts = tuple(part for part in parts if isinstance(part, Table))
    return whole._replace(mark="", parts=parts, is_brief=True)
