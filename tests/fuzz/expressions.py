"""Every regular expression of the package, and how it is used: searched for in a text, or matched at its beginning.

Found by the values of all modules, and by the calls of ``re`` in their sources, so that a new one is found, too.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any

import tfgpu_doctor
from tfgpu_doctor.parsers.messages.template import Template

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


def made_at_run_time() -> set[str]:
    """The modules in which an expression is put together, or chosen, where it is used."""
    return {_short(module) for module in modules() for call in _calls(module) if _text_of(call.args[0], module) is None}


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
