"""Texts made to keep one regular expression busy: what leads to each of its repeats, and then that repeat for long.

The expression is taken apart by Python's own parser of expressions; for each repeat in it, a text that reaches the
repeat is followed by what the repeat takes, over and over, and by something that it does not take. An expression with
nested or neighbouring repeats that can share characters tries every way to share them: quadratic, or worse.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from tfgpu_doctor import inference, parsers, redact
from tfgpu_doctor.parsers.messages.template import Template
from tfgpu_doctor.render import markdown

if sys.version_info >= (3, 11):
    import re._constants as sre
    import re._parser as sre_parser
else:
    import sre_constants as sre
    import sre_parse as sre_parser

LENGTH = 4_000
_CATEGORIES = {
    sre.CATEGORY_DIGIT: "1",
    sre.CATEGORY_SPACE: " ",
    sre.CATEGORY_WORD: "a",
    sre.CATEGORY_NOT_DIGIT: "a",
    sre.CATEGORY_NOT_SPACE: "a",
    sre.CATEGORY_NOT_WORD: " ",
}
_LIKELY = "a1. -_/\\:'\"=(x,|"


def modules() -> Iterator[ModuleType]:
    """Every module that reads text, and those that clean and redact it."""
    for package in (parsers, inference, redact, markdown):
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield importlib.import_module(info.name)


def patterns() -> Iterator[tuple[str, re.Pattern[str], int]]:
    """Every expression over text in them: the place where it stands, and how long a text that module lets it see."""
    seen: set[tuple[str, int]] = set()
    for module in modules():
        longest = min(getattr(module, name, LENGTH) for name in ("LONGEST", "_LONGEST"))
        for name, value in vars(module).items():
            for number, pattern in enumerate(_patterns_in(value)):
                if isinstance(pattern.pattern, str) and (pattern.pattern, pattern.flags) not in seen:
                    seen.add((pattern.pattern, pattern.flags))
                    yield f"{module.__name__.removeprefix('tfgpu_doctor.')}.{name}[{number}]", pattern, longest


def _patterns_in(value: Any) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, Template):
        yield value.pattern
    elif isinstance(value, dict):
        for one in (*value, *value.values()):
            yield from _patterns_in(one)
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _patterns_in(one)


def bombs(pattern: re.Pattern[str]) -> Iterator[str]:
    """Lines of 4 000 characters that may keep the expression busy."""
    tree = sre_parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    whole = _sample(tree)
    made: set[str] = set()
    for before, pump in (("", whole), *_repeats(tree, "")):
        for unit in {pump, pump + " ", before + pump, before}:
            if not unit:
                continue
            for start in {"", before}:
                for end in ("", "!", "\u20ac "):
                    room = LENGTH - len(start) - len(end)
                    text = start + (unit * (room // len(unit) + 1))[:room] + end
                    if text not in made:
                        made.add(text)
                        yield text


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
