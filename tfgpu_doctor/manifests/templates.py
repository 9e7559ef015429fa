"""Files that another program fills in: Jinja, cookiecutter, Go templates. What is open is kept as a hole, and reported.

A hole is an expression such as "{{ cookiecutter.version }}". It is moved to a part of Unicode without meaning, so that
the readers of YAML, TOML and shell commands take it for one word; `shown` brings it back.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, TypeVar

from tfgpu_doctor.manifests import LATER, Environment, Place, quoted

_Record = TypeVar("_Record")

_BASE, _SIZE = 0xE000, 0x1000  # of the private use area; an expression with other characters is shortened
_HIDDEN = re.compile("[\ue000-\uefff]+")
_ANY_HOLE = re.compile(r"\{\{(?:(?!\{\{).){0,1000}?\}\}|\{%(?:(?!\{%).){0,1000}?%\}|\{#(?:(?!\{#).){0,1000}?#\}")
# lines that have nothing but statements: {{- if .x }}, {% endif %}, {{/* a comment */}}
_STATEMENT = re.compile(
    r"\s*(?:\{\{-?\s*(?:if|else|end|with|range|define|template|block|/\*|\$)[^{}]*\}\}|\{%[^{}]*%\}|\{#[^{}]*#\})\s*"
)


def is_template(text: str) -> bool:
    """Whether a text has an expression or a statement of a template."""
    return ("{{" in text or "{%" in text) and _ANY_HOLE.search(text) is not None


def hide(text: str) -> str:
    """Make a word of each expression; lines of statements become empty."""
    text = _HIDDEN.sub("\ufffd", text)
    lines = text.split("\n")
    return "\n".join("" if _STATEMENT.fullmatch(line[:2000]) else _ANY_HOLE.sub(_shifted, line) for line in lines)


def _shifted(found: re.Match[str]) -> str:
    return "".join(chr(_BASE + ord(one)) if ord(one) < _SIZE else chr(_BASE + ord("?")) for one in found[0])


def shown(text: str) -> str:
    """The text with its expressions as they are written."""
    return _HIDDEN.sub(lambda found: "".join(chr(ord(one) - _BASE) for one in found[0]), text)


def hole(text: str) -> str | None:
    """The first expression in a text."""
    found = _HIDDEN.search(text)
    return shown(found[0]) if found else None


def filled_later(place: Place, expression: str, *, quote: bool = True) -> str:
    """A line for `not_understood`."""
    return f"{place}: a template: {quoted(expression) if quote else 'a value'} {LATER}"


def complaint(place: Place, text: str, error: ValueError, *, quote: bool) -> str:
    """A line of `not_understood`; with `quote`, it shows what stands there."""
    if expression := hole(text):
        return filled_later(place, expression, quote=quote)
    return f"{place}: {quoted(text)}: {error}" if quote else f"{place}: {error}"


def restored(record: _Record) -> _Record:
    """A record with its expressions as they are written."""
    if isinstance(record, str):
        return shown(record)  # type: ignore[return-value]
    if isinstance(record, tuple):
        return tuple(map(restored, record))  # type: ignore[return-value]
    if not dataclasses.is_dataclass(record) or isinstance(record, type):
        return record
    values = {one.name: restored(getattr(record, one.name)) for one in dataclasses.fields(record)}
    return dataclasses.replace(record, **values)


def unreadable(path: str, text: str, kind: Any) -> Environment:
    """The environment of a template that cannot be read before it is filled in."""
    line = next(number for number, one in enumerate(text.split("\n"), 1) if _ANY_HOLE.search(one))
    found = _ANY_HOLE.search(text)
    note = filled_later(Place(path, line), found[0] if found else "")
    return Environment(kind=kind, label=path, place=Place(path, 1), not_understood=(f"{note}; check what it makes",))
