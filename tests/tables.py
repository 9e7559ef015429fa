"""Tests over many rows: one loop that shows every row that fails, and rows that stand in a data file."""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml


def read_rows(path: Path) -> Any:
    """Read the rows of a YAML file."""
    return yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)


def each(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call a test with every row, as `parametrize` does, but as one test: it fails with all rows that fail.

    Every row has its own folder `tmp_path`, and what it does with `monkeypatch` is undone after it. A test
    with fixtures that are made from these takes `parametrize`.
    """
    parts = tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else names
    table = [(row,) if len(parts) == 1 else tuple(row) for row in rows]
    assert table, "a table without rows tests nothing"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def loop(**fixtures: Any) -> None:
            wrong = [message for number, row in enumerate(table) if (message := run(number, row, fixtures))]
            assert not wrong, f"{len(wrong)} of {len(table)} rows\n\n" + "\n\n".join(wrong)

        def run(number: int, row: tuple[Any, ...], fixtures: Mapping[str, Any]) -> str | None:
            given = dict(fixtures)
            if "tmp_path" in given:
                given["tmp_path"] = given["tmp_path"] / str(number)
                given["tmp_path"].mkdir()
            with pytest.MonkeyPatch.context() as patch:
                if "monkeypatch" in given:
                    given["monkeypatch"] = patch
                try:
                    test(**given, **dict(zip(parts, row, strict=True)))
                except pytest.skip.Exception as skip:
                    return None if len(table) > 1 else pytest.skip(str(skip))  # the other rows still run
                except (Exception, pytest.fail.Exception) as error:
                    last = traceback.extract_tb(error.__traceback__)[-1]
                    return f"{row!r:.300}\n{Path(last.filename).name}:{last.lineno}: {type(error).__name__}: {error}"
            return None

        signature = inspect.signature(test)
        kept = [value for name, value in signature.parameters.items() if name not in parts]
        loop.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return loop

    return decorate
