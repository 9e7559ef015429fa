"""Every regular expression of the package, and how it is used: searched for in a text, or matched at its beginning.

Found by the values of all modules, and by the calls of ``re`` in their sources, so that a new one is found, too.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any

if sys.version_info >= (3, 11):
    import re._constants as sre
    import re._parser as sre_parser
else:
    import sre_constants as sre
    import sre_parse as sre_parser

import tfgpu_doctor
from tfgpu_doctor.parsers.messages import Template

_LIKELY = "a1. -_/\\:'\"=(x,|"
SEARCHED = {"search", "finditer", "findall", "sub", "subn", "split"}
ANCHORED = {"match", "fullmatch"}
# run by the interpreter of the user, or at once when they are imported
NOT_IMPORTED = ("tfgpu_doctor.__main__", "tfgpu_doctor.bench.worker", "tfgpu_doctor.bench.workloads.")
UNBOUNDED = 1 << 20
# a constant in a source: where it is made, where a method of it is called, and where it is handed on
_USE = re.compile(r"(?<!\bis )\b(?P<name>_?[A-Z][A-Z0-9_]+)\b(?P<made>(?:: [^\n=]+)? = )?(?:\.(?P<way>\w+))?")
_IMPORT = re.compile(r"^\s*from \S+ import (?:\([^)]*\)|[^(\n]*)$", re.MULTILINE)


@dataclass
class Expression:
    """One of them."""

    place: str  # module and name
    pattern: re.Pattern[str]
    longest: int  # characters of a text that its module lets it see
    ways: set[str] = field(default_factory=set)  # methods that are called on it

    def tried(self, text: str) -> None:
        """Use it on a text as it is used."""
        for way in self.ways & {"match", "fullmatch", "search"}:
            getattr(self.pattern, way)(text)
        if self.ways - {"match", "fullmatch", "search"}:
            for _ in self.pattern.finditer(text):
                pass


@cache
def modules() -> tuple[ModuleType, ...]:
    """Every module of the package that can be imported here."""
    names = (info.name for info in pkgutil.walk_packages(tfgpu_doctor.__path__, "tfgpu_doctor."))
    return tuple(importlib.import_module(name) for name in names if not name.startswith(NOT_IMPORTED))


@cache
def expressions() -> tuple[Expression, ...]:
    """All of them, each once; those over bytes as if they were over text."""
    found: dict[tuple[str, int], Expression] = {}
    ways = _ways()
    for module in modules():
        for name, value in vars(module).items():
            for number, (pattern, searched) in enumerate(_patterns_in(value)):
                used = {"search"} if searched else ways[_key(module, name)] & (SEARCHED | ANCHORED)
                _add(found, module, f"{name}[{number}]", pattern).ways |= used or {"search"}
        for call in _calls(module):
            if (text := _text_of(call.args[0], module)) is not None:
                way = call.func.attr if call.func.attr != "compile" else "search"  # type: ignore[attr-defined]
                _add(found, module, f"line {call.lineno}", re.compile(text)).ways.add(way)
    return tuple(found.values())


def _short(module: ModuleType) -> str:
    return module.__name__.removeprefix("tfgpu_doctor.")


def _add(
    found: dict[tuple[str, int], Expression], module: ModuleType, name: str, pattern: re.Pattern[Any]
) -> Expression:
    if isinstance(pattern.pattern, bytes):
        pattern = re.compile(pattern.pattern.decode("latin-1"), pattern.flags | re.ASCII)
    longest = min(getattr(module, limit, UNBOUNDED) for limit in ("LONGEST", "_LONGEST"))
    one = found.setdefault((pattern.pattern, pattern.flags), Expression(f"{_short(module)}.{name}", pattern, longest))
    one.longest = max(one.longest, longest)
    return one


def _patterns_in(value: Any) -> Iterator[tuple[re.Pattern[Any], bool]]:
    """Each in a value, and whether it is known to be searched for."""
    if isinstance(value, re.Pattern):
        yield value, False
    elif isinstance(value, Template):
        yield value.pattern, True
    elif isinstance(value, dict):
        for one in (*value, *value.values()):
            yield from _patterns_in(one)
    elif isinstance(value, tuple | list | set | frozenset):
        for one in value:
            yield from _patterns_in(one)


def _ways() -> dict[tuple[str, str], set[str]]:
    """(module, name) → the methods that are called on it; one that is handed on is searched for, for all we know."""
    ways: dict[tuple[str, str], set[str]] = defaultdict(set)
    for module in modules():
        for use in _USE.finditer(_IMPORT.sub("", inspect.getsource(module))):
            if not use["made"]:
                ways[_key(module, use["name"])].add(use["way"] or "search")
    return ways


def _key(module: ModuleType, name: str) -> tuple[str, str]:
    """A private name belongs to its module, another may be used anywhere."""
    return (module.__name__ if name.startswith("_") else "", name)


@cache
def _calls(module: ModuleType) -> tuple[ast.Call, ...]:
    """Calls of ``re.search("…", text)`` and the like; those that compile only where a function does it."""
    source = inspect.getsource(module)
    if not re.search(r"\bre\.", source):  # parsing the others takes most of the time
        return ()
    found: dict[ast.Call, bool] = {}  # and whether a function makes it
    for node in ast.walk(ast.parse(source)):
        made = isinstance(node, ast.FunctionDef)
        for call in ast.walk(node) if made or isinstance(node, ast.Module) else ():
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.args):
                continue
            if isinstance(call.func.value, ast.Name) and call.func.value.id == "re":
                found[call] = found.get(call, False) or made
    known = SEARCHED | ANCHORED
    return tuple(
        call
        for call, made in found.items()
        if call.func.attr in (known | {"compile"} if made else known)  # type: ignore[attr-defined]
    )


def _text_of(node: ast.expr, module: ModuleType) -> Any:
    """The expression where it stands in the source, or is a constant of the module."""
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(node, ast.Name):
        value = vars(module).get(node.id)
    return value if isinstance(value, str | bytes) else None


# ------------------------------------------------------------------------ texts made to keep one expression busy
#
# The expression is taken apart by Python's own parser of expressions; for each repeat in it, a text that reaches the
# repeat is followed by what the repeat takes, over and over, and by something that it does not take. An expression
# with nested or neighbouring repeats that can share characters tries every way to share them: quadratic, or worse.


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
