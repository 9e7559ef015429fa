"""A value with the place it was read from, or the reason why it could not be determined.

The records are frozen; msgspec derives their JSON, their validation and their JSON Schema.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar, Union

import msgspec
from msgspec import Struct

from tfgpu_doctor.records.printable import escape_json, whole

T = TypeVar("T")
U = TypeVar("U")


class Record(Struct, frozen=True, kw_only=True, omit_defaults=False, forbid_unknown_fields=True):
    """Base of every record: frozen, keyword-only, strict about unknown keys."""


class Document(Record, frozen=True):
    """A record that is a file of its own. Notebooks show it as a page, where something has said how."""

    def to_json(self) -> bytes:
        """The record as JSON."""
        return encode(self)

    def in_brief(self) -> str:
        """What it says, in a few words."""
        return str(getattr(self, "verdict", "") or getattr(self, "schema", ""))

    def __repr__(self) -> str:
        """A line; the whole is some hundred kilobytes."""
        return f"<{type(self).__name__}: {self.in_brief()}>"

    def _repr_html_(self) -> str | None:
        """What Jupyter shows; None: it shows the line."""
        return _html[0](self) if _html else None


_html: list[Callable[[Document], str | None]] = []  # records do not know who renders them


def show_as_html(render: Callable[[Document], str | None]) -> None:
    """Let notebooks show documents with `render`, which returns None for those that it does not know."""
    _html[:] = [render]


def encode(value: object) -> bytes:
    """JSON with two spaces of indentation and a newline at the end, harmless for terminals and CI systems."""
    return escape_json(msgspec.json.format(compact(value), indent=2).decode() + "\n").encode()


def compact(value: object) -> bytes:
    """JSON on one line, U+FFFD in place of half a surrogate pair."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_whole(msgspec.to_builtins(value)))


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list | tuple) else value


class Known(
    Struct, Generic[T], frozen=True, tag_field="is", tag="known", forbid_unknown_fields=True, omit_defaults=True
):
    """A value and where it was read: a path, a command, a library call, a line of a text.

    `grade`: "observed" (a probe, or the output of a program), "stated" (a person wrote it), or "inferred" (it follows
    from something else, which `source` names).
    """

    value: T
    source: str
    grade: str = "observed"


ONE_OF = "one of "  # how the source of a value begins that is supposed, of those that remain possible


class Unknown(Struct, frozen=True, tag_field="is", tag="unknown", forbid_unknown_fields=True, omit_defaults=True):
    """The value could not be determined, and why.

    `one_of`: the values that remain possible, where the evidence leaves a few. `ask`: the command that would tell.
    """

    reason: str
    one_of: tuple[str, ...] = ()
    ask: str | None = None


Fact: TypeAlias = Union[Known[T], Unknown]  # noqa: UP007 - `Known[T] | Unknown` is no generic alias at run time on 3.10

NOT_EXAMINED = Unknown("not examined")
NOT_IN_TEXT = Unknown("the text does not say")
NOT_ASKED = Unknown("not asked for")  # a question that nobody put is no open one


def value_or(fact: Known[T] | Unknown, default: U) -> T | U:
    """Return the value of a known fact, else `default`."""
    return fact.value if isinstance(fact, Known) else default


def map_fact(fact: Known[T] | Unknown, convert: Callable[[T], U]) -> Known[U] | Unknown:
    """Apply `convert` to a known value and keep its source; an unknown stays as it is."""
    return Known(convert(fact.value), fact.source, fact.grade) if isinstance(fact, Known) else fact
