"""The text of a matrix → its rows, strictly typed. A refusal names the file and the line."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from tfgpu_doctor.matrix.schema import MatrixFile
from tfgpu_doctor.records.yaml_nodes import Mapping, Node, Scalar, Sequence, YamlError, documents, plain, shortened

_PATH = re.compile(r" - at (?P<key>`key` in )?`(?P<path>\$[^`]*)`$")
_STEP = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")
_NO_TEXT = re.compile(r"Expected `str(?: \| null)?`, got `(?:int|float|bool)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>.*?)`(?: - at `\$[^`]*`)?", re.DOTALL)
_QUOTED = re.compile(r"((?:unknown field|enum value) ([`']).{80}).+\2", re.DOTALL)  # what msgspec quotes of the file
_LONGEST = 240  # of its message; the longest of our patterns fits


class MatrixError(Exception):
    """The matrix cannot be read, or contradicts itself; each message names the file and the row."""

    def __str__(self) -> str:
        """All messages, a line each."""
        return "\n".join(self.args)


def parse(text: str, path: str) -> MatrixFile:
    """Read the text of a matrix; `path` is for messages.

    Raises MatrixError: no valid YAML, or not of the schema; the message has the place.
    """
    try:
        found = documents(text)
        if len(found) != 1:
            raise YamlError(1, "several YAML documents; a matrix is one" if found else "an empty file")
        values = plain(found[0])
    except YamlError as error:
        raise MatrixError(f"{path}:{error.line}: {error.reason}") from error
    try:
        return msgspec.convert(values, MatrixFile)
    except msgspec.ValidationError as error:
        line, reason = _explained(found[0], str(error))
        raise MatrixError(f"{path}:{line}: {reason}") from error


def _explained(matrix: Node, message: str) -> tuple[int, str]:
    """The line of what msgspec refuses, and its message, shortened, with what to do about a value without quotes."""
    reason = shortened(_QUOTED.sub(r"\1…\2", message), _LONGEST)
    found = _refused(matrix, message)
    if _NO_TEXT.match(message):
        found = [one for one in found if type(one) is Scalar and not isinstance(plain(one), str)] or found
        if found and type(found[0]) is Scalar:
            return found[0].line, f'{reason}; put it in quotes: "{shortened(found[0].value)}"'
    if unknown := _UNKNOWN.fullmatch(message):
        found = [key for key in _keys(found) if type(key) is Scalar and key.value == unknown["name"]]
    return (found[0].line if found else matrix.line), reason


def _refused(matrix: Node, message: str) -> list[Node]:
    """The nodes that a message is about."""
    here = _PATH.search(message)
    found = list(_at(matrix, _STEP.findall(here["path"]))) if here else [matrix]
    return _keys(found) if here and here["key"] else found


def _keys(nodes: list[Node]) -> list[Node]:
    return [key for one in nodes if type(one) is Mapping for key, _ in one.pairs()]


def _at(node: Node, steps: list[tuple[str, str]]) -> Iterator[Node]:
    """The nodes at a path of msgspec's: `$.tensorflow[2].wheels[...].python`; [...] is any value of a mapping."""
    if not steps:
        yield node
        return
    (name, index), *rest = steps
    if type(node) is Mapping:
        for key, value in node.pairs():
            if index or (type(key) is Scalar and key.value == name):
                yield from _at(value, rest)
    elif type(node) is Sequence and index:
        for one in node.items[int(index) : int(index) + 1] if index.isdecimal() else node.items:
            yield from _at(one, rest)
