"""Notebooks of Jupyter and Colab: what their cells install, and the Python that they were saved with."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tfgpu_doctor.manifests import MOST_REQUIREMENTS, Environment, ManifestError, Place, Requirement
from tfgpu_doctor.manifests.installing import Sources, with_files
from tfgpu_doctor.manifests.pip import Include
from tfgpu_doctor.manifests.shell import Installed, read_commands
from tfgpu_doctor.manifests.toml_project import table, texts

_SHELL_CELL = re.compile(r"%%(?:bash|sh|shell|script)\b")
_COMMAND = re.compile(r"\s*(?:!{1,2}|%(?=(?:pip|conda|mamba|uv)\b))")


def read_notebook(path: str, text: str, include: Include) -> tuple[Environment, ...]:
    """The environment of its kernel. Raises ManifestError: it is no notebook."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"{path}:{getattr(error, 'lineno', 1)}: invalid JSON") from error
    cells = data.get("cells") if isinstance(data, dict) else None
    if not isinstance(cells, list):
        raise ManifestError(f"{path}: no notebook of format 4: it has no cells")
    installed, lines = Installed(), _Lines(text)
    for cell in cells[:MOST_REQUIREMENTS]:
        if isinstance(cell, dict):
            source = lines.numbered(cell.get("source"))
            if cell.get("cell_type") == "code":
                read_commands([*_commands(source)], path, installed)
    requirements, not_understood = with_files(path, installed, Sources(), include)
    return (
        Environment(
            kind="notebook",
            label=path,
            place=Place(path, 1),
            python=tuple(_python(path, lines, table(data, "metadata", "language_info").get("version"))),
            requirements=tuple(one for one in requirements if one.name != "python"),
            not_understood=tuple(not_understood),
        ),
    )


class _Lines:
    """Finds the lines of the file on which the strings of the notebook stand, in their order."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._line = text, 0, 1

    def line_of(self, string: str) -> int:
        """The line of the next such string; of the last one where it is written in another way."""
        for written in (json.dumps(string, ensure_ascii=False), json.dumps(string)):
            found = self._text.find(written, self._at)
            if found >= 0:
                self._line += self._text.count("\n", self._at, found)
                self._at = found + len(written)
                break
        return self._line

    def numbered(self, source: Any) -> list[tuple[int, str]]:
        """The lines of a cell, which is one string or a list of them."""
        several = [source] if isinstance(source, str) else texts(source)
        return [(self.line_of(one), line) for one in several for line in one.splitlines()[:MOST_REQUIREMENTS]]


def _commands(source: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """The lines of a cell that a shell gets, without their mark."""
    whole = bool(source) and _SHELL_CELL.match(source[0][1]) is not None
    goes_on = False
    for number, line in source[1:] if whole else source:
        mark = _COMMAND.match(line[:1000])
        if whole or goes_on or mark:
            goes_on = line.rstrip().endswith("\\")
            yield number, line[mark.end() :] if mark and not whole else line


def _python(path: str, lines: _Lines, version: Any) -> Iterator[Requirement]:
    found = re.match(r"[23]\.\d{1,2}(?=\.|$)", version) if isinstance(version, str) else None
    if found:
        yield Requirement("python", f"=={found[0]}.*", Place(path, lines.line_of(version)), f"python {found[0]}")
