"""What the matrix is made of: rows, date and sources of each table. Pure."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tfgpu_doctor.matrix.lint import TABLES
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.records.facts import Record


class SourceOf(Record, frozen=True, kw_only=True):
    """A source, and how many rows of a table name it."""

    title: str
    url: str | None
    rows: int


class Table(Record, frozen=True, kw_only=True):
    """A table of the matrix."""

    name: str
    rows: int
    updated: str | None  # the day on which it was last held to its sources; None: unknown
    derived_by: str | None  # the script that writes it; None: entered by hand
    sources: tuple[SourceOf, ...]  # most rows first


class About(Record, frozen=True, kw_only=True):
    """The whole matrix."""

    revision: str
    layers: tuple[str, ...]  # files laid over the bundled matrix
    rows: int
    tables: tuple[Table, ...]


_DERIVED = {
    **dict.fromkeys(("libraries", "nvidia", "tensorflow"), "scripts/refresh_matrix.py"),
    **dict.fromkeys(("gpus", "pci_devices"), "scripts/refresh_gpus.py"),
    "log_lines": "scripts/refresh_log_lines.py",
    "packages": "scripts/refresh_packages.py",
}


def about(matrix: Matrix) -> About:
    """Count the rows of each table and its sources."""
    tables = tuple(_table(matrix, name) for name in TABLES)
    return About(
        revision=matrix.revision,
        layers=matrix.layers,
        rows=sum(one.rows for one in tables),
        tables=tables,
    )


def _table(matrix: Matrix, name: str) -> Table:
    rows = getattr(matrix.data, name)
    keys = Counter(row.source for row in rows)
    return Table(
        name=name,
        rows=sum(map(_entries, rows)),
        updated=matrix.data.updated.get(name),
        derived_by=_DERIVED.get(name),
        sources=tuple(_source(matrix, key, count) for key, count in keys.most_common()),
    )


def _entries(row: Any) -> int:
    """Rows of `gpus` hold many names, those of `tensorflow` a wheel for each platform."""
    names, wheels = getattr(row, "names", None), getattr(row, "wheels", None)
    if names is not None:
        return len(names)
    return len(wheels) if isinstance(wheels, dict) else 1


def _source(matrix: Matrix, key: str, rows: int) -> SourceOf:
    source = matrix.data.sources[key]
    return SourceOf(title=source.title, url=source.url, rows=rows)
