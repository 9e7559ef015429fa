"""The texts of the rows of signs over messages, by the row's name."""

from __future__ import annotations

from functools import cache

from tests.findings import rows_cuda, rows_import, rows_machine, rows_runtime


@cache
def row_texts() -> dict[str, str]:
    """Return the texts on which signs fire."""
    return {
        f"{finding}: {name}": text
        for table in (rows_machine, rows_cuda, rows_import, rows_runtime)
        for finding, rows in table.FIRES.items()
        for name, text in rows.items()
    }
