"""Rows of any table of the matrix, and the tables themselves, for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfgpu_doctor.matrix.tables import About, Found, Table
from tfgpu_doctor.render.outlines import matrix as shown
from tfgpu_doctor.render.outlines.matrix import Sheet
from tfgpu_doctor.render.shapes import Block, Line, Part

_FEW = 5  # rows that a first screen shows whole


def rows(key: str, found: Sequence[Found]) -> Sheet:
    """The rows of that name, each with its sources; of many, first their tables and names."""
    parts: list[Part] = []
    for one in found:
        parts += (shown.card(tuple(_lines(one))), shown.sources(one.sources, documents_only=True))
    columns = {"table": [one.table for one in found], "row": [one.name for one in found]}
    brief = (shown.table(columns), shown.note("-v shows the rows")) if len(found) > _FEW else ()
    return Sheet(key, f"{len(found)} row{'s' if len(found) > 1 else ''}", tuple(parts), brief)


def _lines(one: Found) -> Iterator[tuple[str, str]]:
    yield "table", one.table
    for field, value in one.row.items():
        yield field.replace("_", " "), _text(value)


def _text(value: Any) -> str:
    """A value of a row: lists by commas, mappings by semicolons."""
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {_text(each)}" for name, each in value.items() if each not in (None, [], {}))
    return ", ".join(map(_text, value)) if isinstance(value, list | tuple) else str(value)


def about(answer: About) -> Sheet:
    """Every table; with its sources where everything is shown."""
    columns = {
        "table": [table.name for table in answer.tables],
        "rows": [str(table.rows) for table in answer.tables],
        "updated": [table.updated or "?" for table in answer.tables],
        "source": [_sources(table) for table in answer.tables],
    }
    layers = f", with {', '.join(answer.layers)} over it" if answer.layers else ""
    hint = shown.note("updated: when it was last held to its sources; -v lists them all")
    blocks = tuple(
        Block("note", table.name, tuple(Line("source", f"{one.title} ({one.rows})") for one in table.sources))
        for table in answer.tables
        if table.sources
    )
    table = shown.table(columns)
    about = f"revision {answer.revision}, {answer.rows} rows{layers}"
    return Sheet("Compatibility matrix", about, (table, *blocks), (table, hint))


def _sources(table: Table) -> str:
    if table.derived_by:
        return f"derived by {table.derived_by}"
    many = len(table.sources)
    return table.sources[0].title if many == 1 else f"{many} sources, by hand" if many else "-"
