"""Answers at a length that an assistant can read: what is too long is shortened, and the answer says where.

Only texts become shorter, and lists and tables of names lose their end: what fits a schema still does. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tfgpu_doctor.records.fact import compact
from tfgpu_doctor.records.printable import clean_lines

LONGEST = 40_000  # characters of an answer as JSON; some 10 000 tokens
LONGEST_PAGE = 20_000  # characters of its text
_STEPS = ((4000, 200), (2000, 60), (1000, 25), (500, 10), (300, 5), (120, 3), (60, 1))  # of a text, of a list
_WIDEST = 60  # fields; a record with fewer of them stays whole, since its schema asks for each
_NAMED = 12  # places that are named


def shortened(value: Any) -> tuple[Any, tuple[str, ...]]:
    """JSON data without control characters and at most `LONGEST` long, and what was left out of it."""
    cut: list[str] = []
    result = value
    for text, elements in _STEPS:
        cut = []
        result = _short(value, "", text, elements, cut)
        if len(compact(result)) <= LONGEST:
            break
    return result, _places(cut)


def page(text: str) -> str:
    """The first lines of a text, at most `LONGEST_PAGE` characters; the last line says how many are left out."""
    if len(text) <= LONGEST_PAGE:
        return text
    begin = text[:LONGEST_PAGE].rpartition("\n")[0] or text[:LONGEST_PAGE]
    return f"{begin}\n\n({text.count(chr(10), len(begin))} more lines are left out)\n"


def _short(value: Any, place: str, text: int, elements: int, cut: list[str]) -> Any:
    if isinstance(value, str):
        value = clean_lines(value)
        if len(value) > text:
            cut.append(f"{place}: {len(value) - text} of {len(value)} characters")
            return f"{value[: text // 2]}…{value[len(value) - text // 2 + 1 :]}"
        return value
    if isinstance(value, dict):
        if len(value) > max(elements, _WIDEST):
            cut.append(f"{place}: {len(value) - elements} of {len(value)} entries")
            value = dict(list(value.items())[:elements])
        return {clean_lines(key): _short(one, f"{place}.{key}", text, elements, cut) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        if len(value) > elements:
            cut.append(f"{place}: {len(value) - elements} of {len(value)} elements")
        return [_short(one, f"{place}[{number}]", text, elements, cut) for number, one in enumerate(value[:elements])]
    return value


def _places(cut: list[str]) -> tuple[str, ...]:
    """Where something is left out, each in a line; of many places the first."""
    named = tuple(clean_lines(one.lstrip("."))[:200] for one in cut[:_NAMED])
    return (*named, *_rest(len(cut) - _NAMED))


def _rest(number: int) -> Iterator[str]:
    if number > 0:
        yield f"and at {number} other places"
