"""Time in proportion to the text, whatever stands in it: every expression by itself, and the whole way of a text.

Every regular expression of the package is found by the values of all modules, and by the calls of ``re`` in their
sources, so that a new one is found, too; with how it is used, and texts made to keep it busy.
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
from functools import cache, lru_cache
from itertools import chain, islice
from types import ModuleType
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import re._constants as sre
    import re._parser as sre_parser
else:
    import sre_constants as sre
    import sre_parse as sre_parser

import tfgpu_doctor
from tests.fuzz.samples import of
from tests.fuzz.targets import matrix
from tests.guard import StillBusyError, guarded
from tfgpu_doctor.facts.report import verdict_sentence
from tfgpu_doctor.parsers import lines, text_to_facts
from tfgpu_doctor.parsers.messages import Template
from tfgpu_doctor.plan.diagnosis import make_report

_TAKEN: dict[str, list[str]] = {}  # an item of an expression → likely characters that it takes
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
    """Return every module of the package that can be imported here."""
    names = (info.name for info in pkgutil.walk_packages(tfgpu_doctor.__path__, "tfgpu_doctor."))
    return tuple(importlib.import_module(name) for name in names if not name.startswith(NOT_IMPORTED))


@cache
def expressions() -> tuple[Expression, ...]:
    """Return all of them, each once; those over bytes as if they were over text."""
    found: dict[tuple[str, int], Expression] = {}
    ways = _ways()
    for module in modules():
        longest = min(getattr(module, limit, UNBOUNDED) for limit in ("LONGEST", "_LONGEST"))
        for name, pattern, used in (*_constants(module, ways), *_calls(module)):
            if isinstance(pattern.pattern, bytes):
                pattern = re.compile(pattern.pattern.decode("latin-1"), pattern.flags | re.ASCII)
            place = f"{module.__name__.removeprefix('tfgpu_doctor.')}.{name}"
            one = found.setdefault((pattern.pattern, pattern.flags), Expression(place, pattern, longest))
            one.longest = max(one.longest, longest)
            one.ways |= used
    return tuple(found.values())


Found = Iterator[tuple[str, "re.Pattern[Any]", set[str]]]  # name, expression, and how it is used


def _constants(module: ModuleType, ways: dict[tuple[str, str], set[str]]) -> Found:
    for name, value in vars(module).items():
        for number, (pattern, is_searched) in enumerate(_patterns_in(value)):
            used = {"search"} if is_searched else ways[_key(module, name)] & (SEARCHED | ANCHORED)
            yield f"{name}[{number}]", pattern, used or {"search"}


def _patterns_in(value: Any) -> Iterator[tuple[re.Pattern[Any], bool]]:
    """Yield each in a value, and whether it is known to be searched for."""
    if isinstance(value, re.Pattern):
        yield value, False
    elif isinstance(value, Template):
        yield value.pattern, True
    elif isinstance(value, dict | tuple | list | set | frozenset):
        for one in (*value, *value.values()) if isinstance(value, dict) else value:
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


def _calls(module: ModuleType) -> Found:
    """Yield those of ``re.search("…", text)`` and the like, and those that a function compiles."""
    source = inspect.getsource(module)
    nodes = list(ast.walk(ast.parse(source))) if re.search(r"\bre\.", source) else []  # parsing takes most of the time
    within = {inner for one in nodes if isinstance(one, ast.FunctionDef) for inner in ast.walk(one)}
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=way), args=[first, *_]):
                text = first.value if isinstance(first, ast.Constant) else None
                text = vars(module).get(first.id) if isinstance(first, ast.Name) else text
                if isinstance(text, str | bytes) and (
                    node in within if way == "compile" else way in SEARCHED | ANCHORED
                ):
                    yield f"line {node.lineno}", re.compile(text), {way if way != "compile" else "search"}


# ------------------------------------------------------------------------ texts made to keep one expression busy
#
# The expression is taken apart by Python's own parser of expressions; for each repeat in it, a text that reaches the
# repeat is followed by what the repeat takes, over and over, and by something that it does not take. An expression
# with nested or neighbouring repeats that can share characters tries every way to share them: quadratic, or worse.


def bombs(pattern: re.Pattern[str], length: int, *, few: bool = False) -> Iterator[str]:
    """Yield texts of that length that may keep the expression busy; none for one that repeats nothing.

    A `few` of them: for each repeat those that are the likeliest to.
    """
    found = repeats(pattern)
    made: dict[tuple[str, str, str], None] = {}  # beginning, what is repeated, end
    for before, pump in found if few or not found else (("", _sample(_parsed(pattern))), *found):
        if few:
            units = [(before, pump)] * (len(pump) > 1) + [("", before + pump)] * bool(before)
            made |= {(start, unit, "!"): None for start, unit in units}
        else:
            units = [(start, unit) for unit in (pump, pump + " ", before + pump, before) for start in ("", before)]
            made |= {(start, unit, end): None for start, unit in units for end in ("", "!", "\u20ac ") if unit}
    for start, unit, end in made:
        room = length - len(start) - len(end)
        yield start + (unit * (room // len(unit) + 1))[:room] + end


def _parsed(pattern: re.Pattern[str]) -> Any:
    return sre_parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)


@cache
def repeats(pattern: re.Pattern[str]) -> tuple[tuple[str, str], ...]:
    """Return what leads to each repeat of an expression, and what it takes."""
    return tuple(dict.fromkeys(_repeats(_parsed(pattern), "")))


def _repeats(tree: Any, before: str) -> Iterator[tuple[str, str]]:
    """Yield what leads to each repeat, and what it takes."""
    for operator, argument in tree:
        inner: tuple[Any, ...] = ()
        if operator in (sre.MAX_REPEAT, sre.MIN_REPEAT) or operator.name == "POSSESSIVE_REPEAT":
            _low, high, body = argument
            if high > 8:
                yield before, _sample(body)
                yield from ((before, other) for other in _others(body))
            inner = (body,)
        elif operator is sre.BRANCH:
            inner = tuple(argument[1])
        elif operator is sre.SUBPATTERN:
            inner = (argument[-1],)
        elif operator in (sre.ASSERT, sre.ASSERT_NOT):
            inner = (argument[1],)
        for body in inner:
            yield from _repeats(body, before)
        before += _sample([(operator, argument)])


def _others(body: Any) -> Iterator[str]:
    """Yield other characters that a class takes: what separates words is where neighbouring repeats meet."""
    if len(body) == 1 and body[0][0] in (sre.IN, sre.ANY, sre.NOT_LITERAL):
        taken = _taken(body[0])
        yield "".join(taken)  # of one character alone the cleaning of lines leaves a hundred
        yield from taken[1:]


def _taken(item: tuple[Any, Any]) -> list[str]:
    """Return the likely characters that one item of an expression takes."""
    if (known := _TAKEN.get(repr(item))) is not None:
        return known
    one = sre_parser.SubPattern(sre_parser.State(), [item])
    compiled = re._compiler if sys.version_info >= (3, 11) else importlib.import_module("sre_compile")  # type: ignore[attr-defined]
    pattern = compiled.compile(one, 0)
    _TAKEN[repr(item)] = [char for char in _LIKELY if pattern.match(char)]
    return _TAKEN[repr(item)]


def _sample(tree: Any) -> str:
    """Return a text that the expression takes, nearly."""
    return "".join(_sample_of(*item) for item in tree)


def _sample_of(operator: Any, argument: Any) -> str:
    if operator is sre.LITERAL:
        return chr(argument)
    if operator in (sre.IN, sre.ANY, sre.NOT_LITERAL):
        return next(iter(_taken((operator, argument))), "a")
    if operator in (sre.MAX_REPEAT, sre.MIN_REPEAT) or operator.name == "POSSESSIVE_REPEAT":
        low, high, body = argument
        return _sample(body) * min(max(low, 1 if high > 8 else low), 20)
    if operator is sre.SUBPATTERN:
        return _sample(argument[-1])
    if operator.name == "ATOMIC_GROUP":
        return _sample(argument)
    return _sample(argument[1][0]) if operator is sre.BRANCH else ""


# Characters, and the seconds within which an expression tries them. In proportion to the text, 12,000 take 1 to 20 ms;
# as its square, a fifth of a second or more.
FEW, MANY_CHARACTERS = (12_000, 0.1), (48_000, 0.5)
TRIES = 3  # a machine may be busy for a moment; what is quadratic is so each time
FIXED = ("1.1", "a.a", "a/", "- ", "( ", "x1_", "a=", '"a', ": ", "[1]", "a,", "é ")
OF_LINES = ("parsers.", "findings.")  # see what lines.clean leaves
# a few characters of a text
OF_OURS = "redact.patterns.A_VERSION_BEFORE"


cleaned = lru_cache(16)(lines.clean)  # the same fixed texts for every expression


def texts(one: Expression, length: int, *, few: bool) -> Iterator[str]:
    """Texts made to keep it busy, as long as it may see; some of them, else all."""
    made = islice(bombs(one.pattern, length, few=few), 5 if few else 150)
    fixed = ((unit * length)[:length] for unit in FIXED[: 1 if few else None])
    for text in chain(made, fixed if repeats(one.pattern) else ()):
        text = cleaned(text) if one.place.startswith(OF_LINES) else text
        if len(text) > length // 2 or one.longest < length:  # what cleaning shortens is nothing to see
            yield text[: one.longest]


def slow(one: Expression, *, few: bool) -> str:
    """The first text that it takes too long for; empty where there is none."""
    length, seconds = FEW if few else MANY_CHARACTERS
    for text in texts(one, length, few=few):
        times = length // max(len(text), length // 100)
        if all(_busy(one, text, times, seconds) for _ in range(TRIES)):
            return f"{one.place} {one.pattern.pattern[:80]!r}: {text[:40]!r}"
    return ""


def _busy(one: Expression, text: str, times: int, seconds: float) -> bool:
    try:
        with guarded(seconds):
            for _ in range(times):
                one.tried(text)
    except StillBusyError:
        return True
    return False


def from_outside() -> list[Expression]:
    return [one for one in expressions() if not one.place.startswith(OF_OURS)]


def test_expressions_take_time_in_proportion_to_the_text() -> None:
    """All that the package has: in one test, because finding them takes longer than trying a part of them."""
    places = [one.place.split(".")[0] for one in from_outside()]
    for folder in ("parsers", "findings", "manifests", "redact", "render", "probes", "cli", "matrix"):
        assert folder in places
    assert [found for one in from_outside() if (found := slow(one, few=True))] == []


@pytest.mark.full
@pytest.mark.parametrize("part", range(8))
def test_expressions_take_time_in_proportion_to_any_text(part: int) -> None:
    assert [found for one in from_outside()[part::8] if (found := slow(one, few=False))] == []


def test_one_that_does_not_is_found() -> None:
    for expression in (r"(\w+)=('[^']*'|\S*)", r"(?:^|[\s/])(?:[\w./-]*[/\\])?[\w+-]+?\.so (?:missing|not found)"):
        assert slow(Expression("parsers.made_up", re.compile(expression), UNBOUNDED, {"search"}), few=True), expression


TELLING = "E tensorflow/stream_executor/cuda/cuda_driver.cc:271] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no device"
LONG: dict[str, str] = {
    kind: head + unit * times + tail for kind, (head, unit, times, tail) in of("long_lines").items()
}
MANY: dict[str, str] = of("many_lines")  # kind → a line with the number {n}
HOSTILE = 300  # lines before and after the one that tells: twice what is read as a whole


def whole_way(data: bytes, seconds: float) -> str:
    """Explain the text; what the verdict says."""
    with guarded(seconds):
        report = make_report(text_to_facts.read(lines.read([data]), matrix()), matrix(), source="text", timings={})
        report.to_json()
    assert any(message.kind == "cuinit-failed" for message in report.facts.messages.value)  # type: ignore[union-attr]
    return verdict_sentence(report)


def test_long_lines_in_any_number_are_a_bounded_amount_of_work() -> None:
    """What is counted is what the parsers see; a short line between them is seen as a whole."""
    for kind, long in LONG.items():
        hostile = [f"{long}{number}" for number in range(HOSTILE)]
        excerpt = lines.read(["\n".join([*hostile, TELLING, *hostile]).encode()])
        assert sum(len(line.text) for line in excerpt.lines) <= lines.MOST_CHARACTERS, kind
        assert len(excerpt.lines) <= 2 * lines.MOST_PIECES, kind
        assert lines.Line(HOSTILE + 1, TELLING) in excerpt.lines, kind
        assert excerpt.cut or kind in ("progress", "a gap", "a field of brackets")


def test_what_was_left_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MOST_CHARACTERS", 50_000)
    text = "\n".join([f"{LONG['digits']}{number}" for number in range(100)] + [TELLING])
    assert whole_way(text.encode(), 20).endswith("; 100 lines were too long to be examined as a whole")


def test_many_of_one_kind() -> None:
    for line in MANY.values():
        whole_way("\n".join([line.format(n=number) for number in range(150)] + [TELLING]).encode(), 1.25)


@pytest.mark.full
def test_very_many_lines() -> None:
    for line in (*MANY.values(), *(text.replace("{", "{{").replace("}", "}}") + "{n}" for text in LONG.values())):
        whole_way("\n".join([line.format(n=number) for number in range(8_000)] + [TELLING]).encode(), 30)
