"""Rows of any table of the matrix by their name, with their sources. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from msgspec import to_builtins

from tfgpu_doctor.lookup.releases import QueryError
from tfgpu_doctor.matrix.lint import TABLES
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.matrix.rows import spelled_out
from tfgpu_doctor.records.facts import Record
from tfgpu_doctor.records.similar import similar

_OWN_COMMAND = ("tensorflow", "cuda", "cudnn", "gpus")  # of `tfgpu matrix`
_NAMES = ("id", "version", "l4t", "package", "isa", "file", "first", "cloud", "gpu", "tag", "compute_capability")
_PREFIX = re.compile(r"(?:docker://|docker\.io/|jetpack |l4t |r(?=\d\d\.\d))+")


class Found(Record, frozen=True, kw_only=True):
    """A row of a table."""

    table: str
    name: str
    row: dict[str, Any]  # its fields, without empty ones
    sources: dict[str, str]  # field that names a source → the source


def find(matrix: Matrix, key: str) -> tuple[Found, ...]:
    """Return the rows that have this name; where none has, those whose name begins with it.

    Raises QueryError: there is none; the message has names that are written like it.
    """
    wanted = _PREFIX.sub("", key.strip().lower(), count=1)
    rows = [*_named_rows(matrix)]
    exact = [one for one in rows if any(fnmatchcase(wanted, _pattern(name)) for name in one[2])]
    found = exact or [one for one in rows if any(name.lower().startswith(wanted) for name in one[2])]
    if not found or not wanted:
        raise QueryError(_unknown(key, [name for *_, several in rows for name in several]))
    return tuple(_found(matrix, table, row, several[0]) for table, row, several in found)


def _named_rows(matrix: Matrix) -> Iterator[tuple[str, Any, list[str]]]:
    """Yield the rows of the tables that have no command of their own, with their names."""
    for table in TABLES:
        if table not in _OWN_COMMAND:
            yield from ((table, row, [*names(row)]) for row in getattr(matrix.data, table))


def _unknown(key: str, known: list[str]) -> str:
    near = similar(key.strip(), known, 4)
    hint = f"; the nearest are {', '.join(near)}" if near else ""
    return (
        f"no row of the matrix is called {key[:80]!r}{hint}. tfgpu matrix find lists the tables; tfgpu matrix "
        "tensorflow, cuda, cudnn and gpu look up theirs"
    )


def names(row: Any) -> Iterator[str]:
    """Yield the names of a row, first the one that tells it from the others."""
    image = getattr(row, "image", None)
    if image:
        yield f"{image}:{row.tag}"
    yield from getattr(row, "names", ())
    yield from (value for name in _NAMES if isinstance(value := getattr(row, name, None), str))


def _pattern(name: str) -> str:
    """The name in lower case, as a pattern: names of instances have "#" for a number and end with "*"."""
    return name.lower().replace("#", "[0-9]*")


def _found(matrix: Matrix, table: str, row: Any, name: str) -> Found:
    fields = {field: value for field, value in to_builtins(row).items() if value not in (None, "", (), [], {})}
    keys = [field for field in fields if field == "source" or field.endswith("_source")]
    sources = {field: spelled_out(matrix.data, fields.pop(field)) for field in keys}
    return Found(table=table, name=name, row=fields, sources=sources)
