"""Lines as many tools print them → JSON documents, each with the node it is of where the tool names it. Pure.

Srun, kubectl, Ray, pdsh, clush and docker compose put a label before each line, and mix the lines of many nodes;
Ansible puts a header above the output of a host, or all of it on one line; dshbak and clush -b put the name between
rules. A document is collected by its label. It is JSON as `tfgpu` writes it, with indentation, or on one line; what is
no JSON is another program's line, and skipped.

>>> lines = [b'12: {', b' 7: {"schema": "a"}', b'12:   "schema": "tfgpu.report/1"', b'12: }', b'bye']
>>> [(one.data, one.label, one.line) for one in documents(lines)]
[(b'{"schema": "a"}', '7', 2), (b'{\\n  "schema": "tfgpu.report/1"\\n}', '12', 1)]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from tfgpu_doctor.fleet import labels

LARGEST = 64 << 20  # bytes of one document, and of one line
_ENDS_AT = re.compile(r"trailing characters \(byte (\d+)\)")
_BETWEEN = re.compile(rb"[\s,]*")
# nodes without an answer, of a line and of all: a few bytes name very many
_MOST_ABSENT = 20_000
# documents whose end has not come, and those that are cut off; a fleet has a few for each node
MOST_OPEN, MOST_CUT = 100_000, 100_000
_TRIES = 16
_MOST_ON_A_LINE = 100_000  # documents


class Document(NamedTuple):
    """A JSON document, whole or cut off."""

    data: bytes
    line: int  # where it begins, 1-based
    label: str  # what the tool put before or above it; empty: nothing
    is_name: bool  # the label is a node's name, and not the number of a task
    is_cut: bool = False


class Absent(NamedTuple):
    """A node that a tool says gave no answer."""

    node: str
    reason: str
    line: int


class LeftOut(NamedTuple):
    """A tool did not print all that it was given."""

    reason: str
    line: int


@dataclass
class _Open:
    """A document whose end has not come."""

    key: bytes  # by which it is known
    prefix: bytes  # of its lines, exactly; where times stand in it, they differ
    closing: bytes
    line: int
    label: str
    is_name: bool
    pieces: list[bytes] = field(default_factory=list)
    size: int = 0
    on_one_line: bool = False  # srun breaks a long line into pieces of 1024 bytes
    tried: int = 0  # bytes that were read to see whether they are all

    def is_whole(self) -> bool:
        """Whether the pieces of a line are all there; tried a few times only, since each try reads all of them."""
        if self.tried > _TRIES * self.size:
            return False
        self.tried += self.size
        return _is_whole(b"".join(self.pieces))

    def document(self, is_cut: bool = False) -> Document:
        """What there is of it."""
        joint = b"" if self.on_one_line else b"\n"
        return Document(joint.join(self.pieces), self.line, self.label, self.is_name, is_cut)


def documents(lines: Iterable[bytes | int]) -> Iterator[Document | Absent | LeftOut]:
    """Every document in some lines, which have no line breaks, when its last line has come; at last what is cut off. A
    number stands for so many blank lines.
    """
    return _Scanner().scan(lines)


class _Scanner:
    """Where the reading of one stream stands."""

    def __init__(self) -> None:
        self.open: dict[bytes, _Open] = {}  # by label
        self.indented: dict[bytes, _Open] = {}  # by what stands before their lines
        self.last: _Open | None = None
        self.section = ""  # the host that a header names
        self.rule = False  # a rule of dashes came, and perhaps a name after it
        self.between = ""
        self.absent = self.cut = 0  # nodes of which tools said so; documents that were cut off

    def scan(self, lines: Iterable[bytes | int]) -> Iterator[Document | Absent | LeftOut]:
        for number, raw in _numbered(lines):
            line = raw[:-1] if raw.endswith(b"\r") else raw
            last = self.last
            if last is None or not line.startswith(last.prefix):
                last = self.indented.get(_prefix(line))
            if last is not None and not last.on_one_line:
                content = line[len(last.prefix) :] if last.prefix else line
                first = content[:1]
                if first in (b" ", b"\t", b'"') and last.size <= LARGEST:
                    last.pieces.append(content)
                    last.size += len(content)
                    self.last = last
                    continue
                if first == last.closing:
                    yield self._closed(last)
                    continue
            if line:
                yield from self._other(line, number)
                if self._has_too_many():
                    yield LeftOut(f"more than {MOST_OPEN:,} documents have no end; what follows is left out", number)
                    return
        yield from (self.open[key].document(is_cut=True) for key in self.open)

    def _has_too_many(self) -> bool:
        return self.cut > MOST_CUT or len(self.open) > MOST_OPEN

    def _closed(self, last: _Open) -> Document:
        last.pieces.append(last.closing)
        return self._ended(last.key)

    def _other(self, line: bytes, number: int) -> Iterator[Document | Absent | LeftOut]:
        """A line that does not go on with the document that the line before belongs to."""
        line = labels.plain(line)
        if self.rule or labels.is_rule(line):
            if self._between_rules(line):
                return
        elif (said := labels.said(line)) is not None:
            yield from self._said(said, number)
            return
        label = labels.label_of(line)
        content = line[len(label.prefix) :]
        if label.key and (once := labels.without_count(content)) is not None:
            yield LeftOut("Ray printed one line for several that look alike: set RAY_DEDUP_LOGS=0", number)
            content = once
        here = self.open.get(label.key)
        if here is not None and self._goes_on(here, content):
            self.indented.pop(here.prefix, None)
            here.prefix, self.last = label.prefix, here
            if here.on_one_line or content[:1] != here.closing:
                here.pieces.append(content)
                here.size += len(content)
                if here.on_one_line and content.rstrip().endswith(b"}") and here.is_whole():
                    yield self._ended(label.key)
            else:
                yield self._closed(here)
            return
        yield from self._begun(label, content, number)

    def _ended(self, key: bytes, *, is_cut: bool = False) -> Document:
        one = self.open.pop(key)
        self.indented.pop(one.prefix, None)
        self.last = None
        return one.document(is_cut)

    def _goes_on(self, here: _Open, content: bytes) -> bool:
        if here.size > LARGEST:
            return False
        if here.on_one_line:
            return not content.startswith(b'{"schema"')
        return content[:1] in (b" ", b"\t", b'"', here.closing)

    def _begun(self, label: labels.Label, content: bytes, number: int) -> Iterator[Document | Absent]:
        """A document begins in this line, or nothing does."""
        text = content.strip()
        if text[:1] not in (b"{", b"[") or text in (b"[", b"[]"):
            return
        if label.key in self.open:
            self.cut += 1
            yield self._ended(label.key, is_cut=True)
        name, is_name = (label.name, label.is_name) if label.key else (self.section, bool(self.section))
        text = text.removesuffix(b",")
        if text == b"{":
            indentation = content[: len(content) - len(content.lstrip())]  # of an element of an array
            self._opened(label._replace(name=name, is_name=is_name), indentation, number)
        elif label.key and not _is_whole(text):
            one = _Open(label.key, label.prefix, b"}", number, name, is_name, [content], len(content), on_one_line=True)
            self.open[label.key] = self.last = one
        else:
            yield from _on_a_line(text, number, name, is_name)

    def _opened(self, label: labels.Label, indentation: bytes, number: int) -> None:
        one = _Open(label.key, label.prefix + indentation, b"}", number, label.name, label.is_name, [b"{"])
        self.open[label.key] = self.last = one
        if label.prefix:
            self.indented[one.prefix] = one

    def _said(self, said: labels.Said, number: int) -> Iterator[Document | Absent | LeftOut]:
        """What a tool says of a node in a line of its own."""
        if said.heads or said.text:
            self.section = said.node if said.heads else ""
        if said.problem:
            nodes = labels.unfolded(said.node, _MOST_ABSENT + 1 - self.absent)
            self.absent += len(nodes)
            if self.absent > _MOST_ABSENT and nodes:
                nodes.pop()
                yield LeftOut(f"more than {_MOST_ABSENT:,} nodes gave no answer; the others are left out", number)
            yield from (Absent(node, said.problem, number) for node in nodes)
        if said.text == b"{":
            self._opened(labels.Label(b"", b"", said.node, True), b"", number)
        elif said.text[:1] == b"{":
            yield from _on_a_line(said.text, number, said.node, True)

    def _between_rules(self, line: bytes) -> bool:
        """Whether the line is a rule of dashes, or a name between two of them."""
        if labels.is_rule(line):
            self.section = self.between or self.section
            self.rule, self.between = not self.between, ""
            return True
        self.between = labels.section_of(line) if not self.between else ""
        self.rule = bool(self.between)
        return self.rule


def _numbered(lines: Iterable[bytes | int]) -> Iterator[tuple[int, bytes]]:
    """The lines with their numbers, 1-based; a number among them stands for so many blank ones."""
    number = 0
    for line in lines:
        if isinstance(line, int):
            number += line
        else:
            number += 1
            yield number, line


def _prefix(line: bytes) -> bytes:
    """What most labels are: a word and a space, with spaces before a number. A guess, which a dictionary checks."""
    begin = len(line) - len(line.lstrip(b" ")) if line[:1] == b" " else 0
    return line[: line.find(b" ", begin) + 1]


def _is_whole(data: bytes) -> bool:
    return _end(memoryview(data)) == len(data)


def _end(data: memoryview) -> int:
    """Where the first JSON document of some bytes ends; 0: there is none."""
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError) as error:
        found = _ENDS_AT.search(str(error))
        return int(found[1]) - 1 if found else 0  # msgspec counts the character that it did not expect
    return len(data)


def _on_a_line(text: bytes, line: int, label: str, is_name: bool) -> Iterator[Document]:
    """Documents one after another, or an array of them."""
    at, view = 0, memoryview(text)
    for _ in range(_MOST_ON_A_LINE):
        if text[at : at + 1] not in (b"{", b"["):
            return
        end = at + _end(view[at:])
        data = bytes(view[at : end if end > at else len(text)]).rstrip()
        if data[:1] == b"[":
            yield from _elements(data, line, label, is_name)
        elif b'"' in data:
            yield Document(data, line, label, is_name)
        if end == at:
            return
        at = _BETWEEN.match(text, end).end()  # type: ignore[union-attr]


def _elements(data: bytes, line: int, label: str, is_name: bool) -> Iterator[Document]:
    try:
        found = msgspec.json.decode(data, type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        if b'"tfgpu.' in data:
            yield Document(data, line, label, is_name)
        return
    yield from (Document(bytes(one), line, label, is_name) for one in found)
