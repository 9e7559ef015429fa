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

LARGEST = 64 << 20  # bytes of one document, and of one line
_NAME = rb"[A-Za-z0-9_][\w.-]{0,252}"
# what stands before each line of a node; named groups say what it names
_LABEL = re.compile(
    rb"\[pod/(?P<pod>[\w.-]{1,253})(?:/[\w.-]{1,253})?\] "  # kubectl logs --prefix
    rb"|\([^()\n]{0,200}pid=\d{1,9}(?:, ip=(?P<ip>[\w.:-]{1,100}))?\) "  # Ray
    rb"|[ ]{0,9}(?P<task>\d{1,9}): "  # srun --label
    rb"|(?P<node>" + _NAME + rb"): "  # pdsh, clush
    rb"|(?P<service>" + _NAME + rb") {1,40}\| "  # docker compose
)
_TIME = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S{0,30} ")  # kubectl logs --timestamps
_COLOUR = re.compile(rb"\x1b\[[\d;]{0,20}m")
_ANSIBLE = re.compile(
    rb"(?P<host>[^\s|]{1,253}) \| (?P<how>[A-Z]{4,20})!? ?(?:\| rc=(?P<rc>-?\d{1,5}) (?P<then>>>|\| \(stdout\) ?)|=>|:)"
)
_PLAY = re.compile(rb"(?:fatal|failed|unreachable): \[(?P<host>[^\s\]]{1,253})\]: UNREACHABLE!")
_SLURM = re.compile(
    rb"(?:[ ]{0,9}\d{1,9}: )?srun: error: (?:(?P<node>" + _NAME + rb"): tasks? [\d,-]{1,200}: (?P<how>[A-Z][^\n]{0,99})"
    rb"|Node failure on (?P<failed>" + _NAME + rb"))"
)
_RULE = re.compile(rb"-{8,}\s*")
_IN_ONE_LINE = re.compile(rb'("(?:[^"\\]|\\.)*")|\\n|\\r')  # the line breaks that ansible -o writes as two characters
_ENDS_AT = re.compile(r"trailing characters \(byte (\d+)\)")
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


@dataclass
class _Open:
    """A document whose end has not come."""

    prefix: bytes  # of its lines, exactly; where times stand in it, they differ
    closing: bytes
    line: int
    label: str
    is_name: bool
    pieces: list[bytes] = field(default_factory=list)
    size: int = 0
    on_one_line: bool = False  # srun breaks a long line into pieces of 1024 bytes

    def document(self, is_cut: bool = False) -> Document:
        """What there is of it."""
        joint = b"" if self.on_one_line else b"\n"
        return Document(joint.join(self.pieces), self.line, self.label, self.is_name, is_cut)


class _Label(NamedTuple):
    key: bytes  # the label itself, without a time
    prefix: bytes  # all that stands before the content
    name: str
    is_name: bool


_NONE = _Label(b"", b"", "", False)


def documents(lines: Iterable[bytes]) -> Iterator[Document | Absent]:
    """Every document in some lines, which have no line breaks, when its last line has come; at last what is cut off."""
    return _Scanner().scan(lines)


class _Scanner:
    """Where the reading of one stream stands."""

    def __init__(self) -> None:
        self.open: dict[bytes, _Open] = {}  # by label
        self.last: _Open | None = None
        self.section = ""  # the host that a header names
        self.failed: Absent | None = None  # its command failed, and nothing was printed yet
        self.rule = 0  # lines since a rule of dashes, plus one

    def scan(self, lines: Iterable[bytes]) -> Iterator[Document | Absent]:
        for number, raw in enumerate(lines, 1):
            line = raw[:-1] if raw.endswith(b"\r") else raw
            last = self.last
            if last is not None and not last.on_one_line and line.startswith(last.prefix):
                content = line[len(last.prefix) :] if last.prefix else line
                first = content[:1]
                if first in (b" ", b"\t", b'"') and last.size <= LARGEST:
                    last.pieces.append(content)
                    last.size += len(content)
                    continue
                if first == last.closing:
                    yield self._closed(last)
                    continue
            yield from self._other(line, number)
        yield from (self.open[key].document(is_cut=True) for key in self.open)
        if self.failed:
            yield self.failed

    def _closed(self, last: _Open) -> Document:
        last.pieces.append(last.closing)
        self.open = {key: one for key, one in self.open.items() if one is not last}
        self.last = None
        return last.document()

    def _other(self, line: bytes, number: int) -> Iterator[Document | Absent]:
        """A line that does not go on with the document that the line before belongs to."""
        if b"\x1b" in line:
            line = _COLOUR.sub(b"", line)
        said = self._said(line, number)
        if said is not None:
            yield from said
            return
        label = _label(line)
        content = line[len(label.prefix) :]
        here = self.open.get(label.key)
        if here is not None and self._goes_on(here, content):
            here.prefix = label.prefix
            self.last = here
            if here.on_one_line or content[:1] != here.closing:
                here.pieces.append(content)
                here.size += len(content)
                if here.on_one_line and content.rstrip().endswith(b"}") and _is_whole(b"".join(here.pieces)):
                    yield self._ended(label.key)
            else:
                yield self._closed(here)
            return
        yield from self._begun(label, content, number)

    def _ended(self, key: bytes) -> Document:
        self.last = None
        return self.open.pop(key).document()

    def _goes_on(self, here: _Open, content: bytes) -> bool:
        if here.size > LARGEST:
            return False
        if here.on_one_line:
            return not content.startswith(b'{"schema"')
        return content[:1] in (b" ", b"\t", b'"', here.closing)

    def _begun(self, label: _Label, content: bytes, number: int) -> Iterator[Document | Absent]:
        """A document begins in this line, or nothing does."""
        text = content.strip()
        if text[:1] not in (b"{", b"[") or text in (b"[", b"[]"):
            return
        if label.key in self.open:
            yield self.open.pop(label.key).document(is_cut=True)
        name, is_name = (label.name, label.is_name) if label.key else (self.section, bool(self.section))
        self.failed = None
        text = text.removesuffix(b",")
        one = _Open(label.prefix, b"}", number, name, is_name)
        if text == b"{":
            indentation = content[: len(content) - len(content.lstrip())]  # of an element of an array
            one.prefix, one.pieces = label.prefix + indentation, [b"{"]
            self.open[label.key] = self.last = one
        elif label.key and not _is_whole(text):
            one.pieces, one.size, one.on_one_line = [content], len(content), True
            self.open[label.key] = self.last = one
        else:
            yield from _on_a_line(text, number, name, is_name)

    def _said(self, line: bytes, number: int) -> list[Document | Absent] | None:
        """What a tool says of a node in a line of its own; None where it says nothing."""
        if not (self.rule or line[:3] == b"---" or b"|" in line[:600] or b"rror: " in line[:600] or b"!" in line[:600]):
            return None
        if self.rule or _RULE.fullmatch(line):
            return self._between_rules(line)
        if found := _ANSIBLE.match(line):
            return self._of_ansible(found, line, number)
        if found := _PLAY.match(line):
            return [Absent(_text(found["host"]), "Ansible could not reach it", number)]
        if found := _SLURM.search(line[:600]):
            if found["failed"]:
                return [Absent(_text(found["failed"]), "Slurm reports that the node failed", number)]
            return [Absent(_text(found["node"]), f"Slurm: {_text(found['how'])}", number)]
        return None

    def _between_rules(self, line: bytes) -> list[Document | Absent] | None:
        """A name between two rules of dashes, as dshbak and clush -b print it."""
        if _RULE.fullmatch(line):
            self.rule = 1 if self.rule == 0 else 0
            return []
        name, self.rule = line.strip(), self.rule + 1 if self.rule < 2 else 0
        if self.rule == 2 and re.fullmatch(_NAME, name):
            self.section = _text(name)
            return []
        self.rule = 0
        return None

    def _of_ansible(self, found: re.Match[bytes], line: bytes, number: int) -> list[Document | Absent]:
        host, how, code = _text(found["host"]), found["how"], _text(found["rc"] or b"")
        before: list[Document | Absent] = [self.failed] if self.failed else []
        self.failed, self.section = None, ""
        if how == b"UNREACHABLE":
            return [*before, Absent(host, "Ansible could not reach it", number)]
        failed = Absent(host, f"its command ended with exit code {code}, and printed no report", number)
        if (found["then"] or b"").startswith(b"|"):
            text, _, _ = line[found.end() :].partition(b" (stderr) ")
            text = _IN_ONE_LINE.sub(lambda part: part[1] or b"\n", text).strip()
            if text[:1] == b"{":
                return [*before, *_on_a_line(text, number, host, True)]
            return [*before, failed] if code not in ("", "0") else before
        self.section, self.failed = host, failed if code not in ("", "0") else None
        return before


def _label(line: bytes) -> _Label:
    found = _LABEL.match(line)
    end = found.end() if found else 0
    time = _TIME.match(line, end)
    if found is None:
        return _Label(b"", time[0], "", False) if time else _NONE
    name, kind = found[found.lastgroup or 0], found.lastgroup
    return _Label(
        found[0], line[: time.end() if time else end], _text(name) if kind else "", kind not in (None, "task")
    )


def _is_whole(data: bytes) -> bool:
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _on_a_line(text: bytes, line: int, label: str, is_name: bool) -> Iterator[Document]:
    """Documents one after another, or an array of them."""
    for _ in range(_MOST_ON_A_LINE):
        try:
            msgspec.json.decode(text, type=msgspec.Raw)
            end = len(text)
        except (msgspec.DecodeError, RecursionError) as error:
            found = _ENDS_AT.search(str(error))
            end = int(found[1]) if found else len(text)
        data, text = text[:end], text[end:].lstrip(b" ,")
        if data[:1] == b"[":
            yield from _elements(data, line, label, is_name)
        elif data:
            yield Document(data, line, label, is_name)
        if text[:1] not in (b"{", b"["):
            return


def _elements(data: bytes, line: int, label: str, is_name: bool) -> Iterator[Document]:
    try:
        found = msgspec.json.decode(data, type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        if b'"tfgpu.' in data:
            yield Document(data, line, label, is_name)
        return
    yield from (Document(bytes(one), line, label, is_name) for one in found)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
