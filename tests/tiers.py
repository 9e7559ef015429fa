"""Which rows of a table run every day, and which stand behind `-m full`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def usual(rows: Iterable[Any], chosen: Callable[[Any], bool]) -> list[Any]:
    """The rows, of which those that are not chosen run with `-m full` only."""
    return [pytest.param(row, marks=() if chosen(row) else pytest.mark.full) for row in rows]


def every_other(rows: Iterable[Any]) -> list[Any]:
    """Rows that say much the same, each in a process of its own: half of them by default."""
    ordered = sorted(rows)
    return usual(ordered, lambda row: ordered.index(row) % 2 == 0)
