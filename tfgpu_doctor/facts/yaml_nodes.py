"""YAML as PyYAML's nodes, which know their line; nothing is executed, and what is too deep or too large is refused.

Scalars are typed by YAML 1.2's core schema: "no" and 2026-11-21 are text, and 2.10 is a number. This module imports
PyYAML and nothing of the package, since the wheel's matrix is made with it (scripts/build_matrix.py).
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, TypeAlias

from tfgpu_doctor.facts.printable import cut, utf8

Node: TypeAlias = Any  # yaml.Node: `id` ("scalar", "sequence", "mapping"), `tag`, `value`, `start_mark`

DEEPEST = 100  # levels, aliases followed; the files that are read have about ten
MOST_NODES = 500_000  # of a file, aliases followed: a few of them can make a small file endless
LONGEST_QUOTE = 80
_TOO_DEEP = f"nested more than {DEEPEST} levels deep"

_PLAIN = "plain"  # our tag of a scalar that has neither quotes nor a tag
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


@cache
def _loader() -> Any:
    import yaml

    class Loader(getattr(yaml, "CBaseLoader", yaml.BaseLoader)):  # type: ignore[misc]
        """PyYAML's, which tells plain scalars from quoted ones by their tag."""

    Loader.add_implicit_resolver(_PLAIN, re.compile(""), None)
    return Loader


def documents(text: str) -> list[Node]:
    """Return the documents of a YAML text.

    Raises YamlError: not YAML, a key stands twice, nested too deep, too large, or an alias to a node that holds it.
    """
    import yaml

    try:
        _refuse_deep(text)  # first, since composing recurses
        found = list(yaml.compose_all(text, Loader=_loader()))
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
    count = 0
    todo: list[tuple[Node, int]] = [(node, 1) for node in found]
    while todo:  # aliases followed
        node, depth = todo.pop()
        count += 1
        if count > MOST_NODES:
            raise YamlError(line_of(node), f"more than {MOST_NODES} values, counting what aliases repeat")
        if node.id != "scalar" and depth > DEEPEST:
            raise YamlError(line_of(node), _TOO_DEEP)
        todo += [(one, depth + 1) for one in _children(node)]
    return found


def _refuse_deep(text: str) -> None:
    import yaml

    depth = 0
    for event in yaml.parse(text, Loader=_loader()):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise YamlError(event.start_mark.line + 1 if event.start_mark else 1, _TOO_DEEP)


def _children(node: Node) -> list[Node]:
    """The nodes in a list or a mapping. Raises YamlError: a key stands twice."""
    if node.id != "mapping":
        return [] if node.id == "scalar" else node.value
    seen: set[str] = set()
    for key in (key for key, _ in node.value if key.id == "scalar" and not is_merge(key)):
        if key.value in seen:
            raise YamlError(line_of(key), f"duplicate key {shortened(key.value)}")
        seen.add(key.value)
    return [one for pair in node.value for one in pair]


def line_of(node: Node) -> int:
    """Return the line at which a node begins, from 1."""
    return int(node.start_mark.line) + 1


def is_merge(node: Node) -> bool:
    """True if a key means that the keys of another mapping belong to this one."""
    return bool(node.tag == _PLAIN and node.value == "<<")


def is_null(node: Node) -> bool:
    """True if a scalar stands for "nothing"."""
    return node.tag == _NULL or (node.tag == _PLAIN and node.value in _NULLS)


def shortened(text: str, longest: int = LONGEST_QUOTE) -> str:
    """Return at most so many characters of a text, in one line."""
    return cut(" ".join(text[: 2 * longest].split()), longest)


def plain(node: Node) -> Any:
    """Return the lists, dictionaries, texts, numbers, truth values and None that a node stands for.

    Raises YamlError: a key that is no single value, or a tag other than !!str.
    """
    if node.id == "scalar":
        return _value(node)
    if node.id == "sequence":
        return [plain(one) for one in node.value]
    found = {}
    for key, value in node.value:
        if key.id != "scalar":
            raise YamlError(line_of(key), "a list or mapping cannot be a key")
        found[_value(key)] = plain(value)
    return found


def _value(scalar: Node) -> Any:
    text = scalar.value
    if scalar.tag not in (_PLAIN, _STRING):
        raise YamlError(line_of(scalar), f"the tag {shortened(scalar.tag)} is not known here")
    if scalar.tag == _STRING or text[:1] not in _FIRST_OF_OTHERS:
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    return float(text) if _FLOAT.fullmatch(text) else text
