"""YAML as nodes that know their line: read from libyaml's events, so that nothing recurses and nothing is executed.

Scalars are typed by YAML 1.2's core schema: "no" and 2026-11-21 are text, and 2.10 is a number. This module imports
PyYAML and nothing of the package, since the wheel's matrix is made with it (scripts/build_matrix.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from tfgpu_doctor.records.printable import utf8

DEEPEST = 100  # levels, aliases followed; the files that are read have about ten
MOST_NODES = 500_000  # of a file, aliases followed: a few of them can make a small file endless
LONGEST_QUOTE = 80
_TOO_DEEP = f"nested more than {DEEPEST} levels deep"

_STRING = "tag:yaml.org,2002:str"
_NULL = "tag:yaml.org,2002:null"
_NULLS = ("", "~", "null", "Null", "NULL")
_CONSTANTS = {
    **dict.fromkeys(_NULLS),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_FIRST_OF_OTHERS = frozenset((*"0123456789+-.~nNtTfF", ""))  # than text
_INTEGER = re.compile(r"[-+]?[0-9]{1,100}|0o[0-7]{1,100}|0x[0-9a-fA-F]{1,100}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]{1,100}|[0-9]{1,100}(\.[0-9]{0,100})?)([eE][-+]?[0-9]{1,3})?")


class YamlError(ValueError):
    """The text is not usable YAML; `line` counts from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


@dataclass(eq=False, slots=True)
class Scalar:
    """A text, number, truth value or null."""

    value: str
    line: int
    plain: bool  # written without quotes, and not as a block
    tag: str | None
    height: ClassVar[int] = 0
    size: ClassVar[int] = 1

    @property
    def is_merge(self) -> bool:
        """Whether, as a key, it means that the keys of another mapping belong to this one."""
        return self.plain and self.value == "<<"

    @property
    def is_null(self) -> bool:
        """Whether it stands for "nothing"."""
        return self.tag == _NULL or (self.plain and self.tag is None and self.value in _NULLS)


@dataclass(eq=False, slots=True)
class Sequence:
    """A list."""

    line: int
    items: list[Node] = field(default_factory=list)
    height: int = 1  # levels below it, itself included
    size: int = 1  # nodes below it, itself included


@dataclass(eq=False, slots=True)
class Mapping:
    """Keys and values, in order; a key that is a scalar stands once, save the merge key."""

    line: int
    items: list[Node] = field(default_factory=list)  # key, value, key, value ...
    height: int = 1
    size: int = 1

    def pairs(self) -> Iterator[tuple[Node, Node]]:
        """Its keys with their values."""
        return zip(self.items[::2], self.items[1::2], strict=True)


Node: TypeAlias = "Scalar | Sequence | Mapping"


def documents(text: str) -> list[Node]:
    """The documents of a YAML text.

    Raises YamlError: not YAML, a key stands twice, nested too deep, too large, or an alias to a node that holds it.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _Composer().compose(yaml.parse(text, Loader=loader))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        problem = error.problem or str(error)
        # libyaml 0.2.6 has a limit of its own, far above ours, and reads ahead
        too_deep = "nesting depth" in problem
        raise YamlError(line, _TOO_DEEP if too_deep else f"invalid YAML: {shortened(problem)}") from error
    except yaml.reader.ReaderError as error:
        line = utf8(text)[: error.position].count(b"\n") + 1
        raise YamlError(line, f"invalid YAML: {shortened(error.reason)}") from error
    except UnicodeError as error:  # half a surrogate pair
        raise YamlError(1, "not valid Unicode") from error


def shortened(text: str, longest: int = LONGEST_QUOTE) -> str:
    """At most so many characters of a text, in one line."""
    line = " ".join(text[: 2 * longest].split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


class _Composer:
    """Puts events together. What is open is a list of its own, so that deep nesting costs no stack."""

    def __init__(self) -> None:
        self.done: list[Node] = []
        self.open: list[tuple[Sequence | Mapping, str | None]] = []  # with their anchors
        self.anchors: dict[str, Node | None] = {}  # None: not yet complete
        self.nodes = 0

    def compose(self, events: Any) -> list[Node]:
        from yaml import events as kinds

        for event in events:
            kind = type(event)
            if kind is kinds.ScalarEvent:
                scalar = Scalar(event.value, event.start_mark.line + 1, not event.style, event.tag)
                self._add(scalar, event.anchor)
            elif kind is kinds.MappingStartEvent or kind is kinds.SequenceStartEvent:
                line = event.start_mark.line + 1
                self._open(Mapping(line) if kind is kinds.MappingStartEvent else Sequence(line), event.anchor)
            elif kind is kinds.MappingEndEvent or kind is kinds.SequenceEndEvent:
                self._close()
            elif kind is kinds.AliasEvent:
                self._alias(event.anchor, event.start_mark.line + 1)
            elif kind is kinds.DocumentStartEvent:
                self.anchors.clear()
        return self.done

    def _open(self, node: Sequence | Mapping, anchor: str | None) -> None:
        self.open.append((node, anchor))
        if anchor:
            self.anchors[anchor] = None
        self._not_too_deep(0, node.line)

    def _close(self) -> None:
        node, anchor = self.open.pop()
        if node.items:
            node.height = 1 + max([one.height for one in node.items])
            node.size = 1 + sum([one.size for one in node.items])
        if type(node) is Mapping:
            keys = [key.value for key in node.items[::2] if type(key) is Scalar and not key.is_merge]
            if len(set(keys)) < len(keys):
                _refuse_the_second(node)
        self._add(node, anchor)

    def _alias(self, name: str, line: int) -> None:
        if name not in self.anchors:
            raise YamlError(line, f"no anchor &{shortened(name)} before this alias")
        node = self.anchors[name]
        if node is None:
            raise YamlError(line, f"the alias *{shortened(name)} stands inside the node that it repeats")
        self._not_too_deep(node.height, line)
        self.nodes += node.size - 1
        self._add(node, None)

    def _add(self, node: Node, anchor: str | None) -> None:
        """Put a complete node into the one that is open."""
        if anchor:
            self.anchors[anchor] = node
        self.nodes += 1
        if self.nodes > MOST_NODES:
            raise YamlError(node.line, f"more than {MOST_NODES} values, counting what aliases repeat")
        (self.open[-1][0].items if self.open else self.done).append(node)

    def _not_too_deep(self, below: int, line: int) -> None:
        if len(self.open) + below > DEEPEST:
            raise YamlError(line, _TOO_DEEP)


def _refuse_the_second(mapping: Mapping) -> None:
    seen: set[str] = set()
    for key in mapping.items[::2]:
        if type(key) is Scalar and not key.is_merge:
            if key.value in seen:
                raise YamlError(key.line, f"duplicate key {shortened(key.value)}")
            seen.add(key.value)


def plain(node: Node) -> Any:
    """The lists, dictionaries, texts, numbers, truth values and None that a node stands for.

    Raises YamlError: a key that is no single value, or a tag other than !!str.
    """
    if type(node) is Scalar:
        return _value(node)
    if type(node) is Sequence:
        return [plain(one) for one in node.items]
    assert type(node) is Mapping
    found = {}
    for key, value in node.pairs():
        if type(key) is not Scalar:
            raise YamlError(key.line, "a list or mapping cannot be a key")
        found[_value(key)] = plain(value)
    return found


def _value(scalar: Scalar) -> Any:
    text = scalar.value
    if scalar.tag is not None:
        if scalar.tag in ("!", _STRING):
            return text
        raise YamlError(scalar.line, f"the tag {shortened(scalar.tag)} is not known here")
    if not scalar.plain or text[:1] not in _FIRST_OF_OTHERS:
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    return float(text) if _FLOAT.fullmatch(text) else text
