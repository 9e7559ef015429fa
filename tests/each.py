"""A table of rows as one test: it goes through all of them and shows every row that fails."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any


def each(names: str | Iterable[str], rows: Iterable[Any], **_ids: Any) -> Callable[[Callable[..., None]], Any]:
    """Run the test for each row, which pytest.mark.parametrize would make a test of its own of."""
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = [row if len(arguments) > 1 else (row,) for row in rows]
    assert table, "a table without rows tests nothing"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def all_rows(**fixtures: Any) -> None:
            wrong: list[tuple[Any, Exception]] = []
            for row in table:
                try:
                    test(**fixtures, **dict(zip(arguments, row, strict=True)))
                except Exception as error:
                    wrong.append((row, error))
            if wrong:
                shown = "\n\n".join(f"{str(row)[:300]}\n{type(error).__name__}: {error}" for row, error in wrong)
                raise AssertionError(f"{len(wrong)} of {len(table)} rows:\n{shown}") from wrong[0][1]

        signature = inspect.signature(test)
        left = [one for name, one in signature.parameters.items() if name not in arguments]
        all_rows.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return all_rows

    return decorate
