"""Files that another program fills in: Helm, Jinja, cookiecutter. What is open is kept as a hole, and reported.

A hole is an expression such as "{{ .Values.image }}". It is moved to a part of Unicode without meaning, so that the
readers of YAML, TOML and shell commands take it for one word; `shown` brings it back.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tfgpu_doctor.manifests import LATER, Environment, IncludeError, Place, quoted

Include = Callable[[str], str]
_Record = TypeVar("_Record")

_BASE, _SIZE = 0xE000, 0x1000  # of the private use area; an expression with other characters is shortened
_HIDDEN = re.compile("[\ue000-\uefff]+")
_ANY_HOLE = re.compile(r"\{\{(?:(?!\{\{).){0,1000}?\}\}|\{%(?:(?!\{%).){0,1000}?%\}|\{#(?:(?!\{#).){0,1000}?#\}")
# lines that have nothing but statements: {{- if .Values.x }}, {% endif %}, {{/* a comment */}}
_STATEMENT = re.compile(
    r"\s*(?:\{\{-?\s*(?:if|else|end|with|range|define|template|block|/\*|\$|include\b|toYaml\b|tpl\b)[^{}]*\}\}|\{%[^{}]*%\}|\{#[^{}]*#\})\s*"
)
_INSERTED = re.compile(r"\{\{-?\s*(?:include|toYaml|tpl)\b")
_BLOCK = re.compile(r"\s*\{\{-?\s*(if|with|range|define|block|end)\b\s*([^\s{}|]*)")
_PIPELINE = re.compile(r"\{\{([^{}]*)\}\}")
_WORD = re.compile(r"""\(|\)|"[^"]*"|'[^']*'|[^\s()]+""")
_PLAIN = re.compile(r"[\w./:@ +-]*")
_FUNCTIONS = frozenset({"quote", "squote", "trim", "toString", "toYaml", "nindent", "indent", "int", "int64"})


def is_template(text: str) -> bool:
    """Whether a text has an expression or a statement of a template."""
    return ("{{" in text or "{%" in text) and _ANY_HOLE.search(text) is not None


def hide(text: str) -> str:
    """Make a word of each expression; lines of statements become empty."""
    text = _HIDDEN.sub("\ufffd", text)
    lines = text.split("\n")
    hidden = []
    for index, line in enumerate(lines):
        drop = _STATEMENT.fullmatch(line[:2000]) and not (_INSERTED.search(line) and _is_a_value(lines, index))
        hidden.append("" if drop else _ANY_HOLE.sub(_shifted, line))
    return "\n".join(hidden)


def _is_a_value(lines: list[str], index: int) -> bool:
    """Whether an inserted text is all that a key of YAML has: the line above ends with a colon, and none is deeper."""
    above = lines[index - 1] if index else ""
    following = next((line for line in lines[index + 1 : index + 10] if line.strip()), "")
    return above.rstrip().endswith(":") and _indent(following) <= _indent(above)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


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


# ----------------------------------------------------------------------------------------------------------- Helm


def fill_chart(text: str, include: Include) -> tuple[str, str | None]:
    """Put in what the chart's values.yaml says, and return the name of that file, where there is one."""
    for folder in ("../", "../../", "", "../../../"):
        try:
            values = _yaml(include(f"{folder}values.yaml"))
        except IncludeError:
            continue
        if isinstance(values, dict):
            return _Filling(values, _chart(folder, include)).lines(text), f"{folder}values.yaml"
    return text, None


def _chart(folder: str, include: Include) -> Mapping[str, Any]:
    try:
        found = _yaml(include(f"{folder}Chart.yaml"))
    except IncludeError:
        return {}
    return found if isinstance(found, dict) else {}


def _yaml(text: str) -> Any:
    from tfgpu_doctor.records.yaml_nodes import YamlError, documents, plain

    try:
        return plain(documents(text)[0])
    except (YamlError, IndexError, RecursionError):
        return None


def _words(step: str) -> list[str]:
    """The words of one step of a pipeline, without functions that leave the value as it is."""
    words = [word for word in _WORD.findall(step) if word not in "()"]
    while words and words[0] in _FUNCTIONS:
        words.pop(0)
    return words


class _Filling:
    """Evaluates the simplest expressions of Helm; anything else stays as it is."""

    def __init__(self, values: Mapping[str, Any], chart: Mapping[str, Any]) -> None:
        self._roots: dict[str, Any] = {"Values": values, "Chart": {"AppVersion": chart.get("appVersion")}}
        self._roots["Chart"]["Name"] = chart.get("name")
        self._blocks: list[Any] = []  # the value of each open `with`; None: of if and range

    def lines(self, text: str) -> str:
        return "\n".join(self._line(line[:2000]) if "{{" in line else line for line in text.split("\n"))

    def _line(self, line: str) -> str:
        if block := _BLOCK.match(line):
            if block[1] == "end":
                del self._blocks[-1:]
            else:
                self._blocks = [*self._blocks, self._value(block[2]) if block[1] == "with" else None][:100]
            return line
        whole = _PIPELINE.fullmatch(line.strip())
        if whole and "toYaml" in whole[1]:
            value = self._evaluate(whole[1])
            indent = len(line) - len(line.lstrip())
            return line if value is None else " " * indent + json.dumps(value)
        return _PIPELINE.sub(self._filled, line)

    def _filled(self, found: re.Match[str]) -> str:
        value = self._evaluate(found[1])
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return found[0]
        text = str(value)
        return text if _PLAIN.fullmatch(text) else found[0]

    def _evaluate(self, expression: str) -> Any:
        """The value of ".Values.a | default "x" | quote", also between hyphens; None: not known."""
        expression = expression.removeprefix("-").removesuffix("-").strip()
        value: Any = None
        for index, step in enumerate(expression.split("|")):
            words = _words(step)
            if words[:1] == ["default"] and len(words) == (2 if index else 3):
                given = value if index else self._value(words[2])
                value = given if given not in (None, "") else self._value(words[1])
            elif len(words) == 1 and index == 0:
                value = self._value(words[0])
            elif words and not all(word.isdecimal() for word in words):
                return None
        return value

    def _value(self, word: str) -> Any:
        if word[:1] in "\"'" and len(word) > 1:
            return word[1:-1]
        if re.fullmatch(r"\d{1,9}", word):
            return int(word)
        value: Any = self._roots
        if word == "." or (word.startswith(".") and not word.startswith((".Values", ".Chart"))):
            value = next((one for one in reversed(self._blocks) if one is not None), None)
        for name in filter(None, word.removeprefix("$").split(".")[:20]):
            value = value.get(name) if isinstance(value, Mapping) else None
        return value
