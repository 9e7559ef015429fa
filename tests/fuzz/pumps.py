"""Texts made to keep one regular expression busy: what leads to each of its repeats, and then that repeat for long.

The expression is taken apart by Python's own parser of expressions; for each repeat in it, a text that reaches the
repeat is followed by what the repeat takes, over and over, and by something that it does not take. An expression with
nested or neighbouring repeats that can share characters tries every way to share them: quadratic, or worse.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

if sys.version_info >= (3, 11):
    import re._constants as sre
    import re._parser as sre_parser
else:
    import sre_constants as sre
    import sre_parse as sre_parser

_CATEGORIES = {
    sre.CATEGORY_DIGIT: "1",
    sre.CATEGORY_SPACE: " ",
    sre.CATEGORY_WORD: "a",
    sre.CATEGORY_NOT_DIGIT: "a",
    sre.CATEGORY_NOT_SPACE: "a",
    sre.CATEGORY_NOT_WORD: " ",
}
_LIKELY = "a1. -_/\\:'\"=(x,|"


def bombs(pattern: re.Pattern[str], length: int, *, few: bool = False) -> Iterator[str]:
    """Texts of that length that may keep the expression busy; none for one that repeats nothing.

    A `few` of them: for each repeat the one that is the likeliest to.
    """
    tree = sre_parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    repeats = list(dict.fromkeys(_repeats(tree, "")))
    if few:
        for before, pump in repeats:
            if len(pump) > 1:
                yield _filled(before, pump, "!", length)
            if before:
                yield _filled("", before + pump, "!", length)
    elif repeats:
        made: set[str] = set()
        for before, pump in (("", _sample(tree)), *repeats):
            for unit in filter(None, dict.fromkeys((pump, pump + " ", before + pump, before))):
                for start in dict.fromkeys(("", before)):
                    for end in ("", "!", "\u20ac "):
                        text = _filled(start, unit, end, length)
                        if text not in made:
                            made.add(text)
                            yield text


def _filled(start: str, unit: str, end: str, length: int) -> str:
    room = length - len(start) - len(end)
    return start + (unit * (room // len(unit) + 1))[:room] + end


def _repeats(tree: Any, before: str) -> Iterator[tuple[str, str]]:
    """What leads to each repeat, and what it takes."""
    for operator, argument in tree:
        if operator in (sre.MAX_REPEAT, sre.MIN_REPEAT) or operator.name == "POSSESSIVE_REPEAT":
            _low, high, body = argument
            if high > 8:
                yield before, _sample(body)
                for other in _others(body):
                    yield before, other
            yield from _repeats(body, before)
        elif operator is sre.BRANCH:
            for branch in argument[1]:
                yield from _repeats(branch, before)
        elif operator is sre.SUBPATTERN:
            yield from _repeats(argument[-1], before)
        elif operator in (sre.ASSERT, sre.ASSERT_NOT):
            yield from _repeats(argument[1], before)
        before += _sample([(operator, argument)])


def _others(body: Any) -> Iterator[str]:
    """Other characters that a class takes: what separates words is where neighbouring repeats meet."""
    if len(body) == 1 and body[0][0] in (sre.IN, sre.ANY, sre.NOT_LITERAL):
        taken = [char for char in _LIKELY if _takes(body[0], char)]
        yield "".join(taken)  # of one character alone the cleaning of lines leaves a hundred
        yield from taken[1:]


def _takes(item: Any, char: str) -> bool:
    operator, argument = item
    if operator is sre.ANY:
        return True
    if operator is sre.NOT_LITERAL:
        return bool(chr(argument) != char)
    negated = argument[0][0] is sre.NEGATE
    return any(_in_class(one, char) for one in argument if one[0] is not sre.NEGATE) != negated


def _in_class(item: Any, char: str) -> bool:
    operator, argument = item
    if operator is sre.LITERAL:
        return bool(ord(char) == argument)
    if operator is sre.RANGE:
        return bool(argument[0] <= ord(char) <= argument[1])
    return {
        sre.CATEGORY_DIGIT: char.isdigit(),
        sre.CATEGORY_SPACE: char.isspace(),
        sre.CATEGORY_WORD: char.isalnum() or char == "_",
        sre.CATEGORY_NOT_DIGIT: not char.isdigit(),
        sre.CATEGORY_NOT_SPACE: not char.isspace(),
        sre.CATEGORY_NOT_WORD: not (char.isalnum() or char == "_"),
    }[argument]


def _sample(tree: Any) -> str:
    """A text that the expression takes, nearly."""
    return "".join(_sample_of(*item) for item in tree)


def _sample_of(operator: Any, argument: Any) -> str:
    if operator is sre.LITERAL:
        return chr(argument)
    if operator in (sre.IN, sre.ANY, sre.NOT_LITERAL):
        return next((char for char in _LIKELY if _takes((operator, argument), char)), "a")
    if operator in (sre.MAX_REPEAT, sre.MIN_REPEAT) or operator.name == "POSSESSIVE_REPEAT":
        low, high, body = argument
        return _sample(body) * min(max(low, 1 if high > 8 else low), 20)
    if operator is sre.SUBPATTERN:
        return _sample(argument[-1])
    if operator.name == "ATOMIC_GROUP":
        return _sample(argument)
    return _sample(argument[1][0]) if operator is sre.BRANCH else ""
