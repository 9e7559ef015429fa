"""Lines as many tools print them → JSON documents, each with the node it is of where the tool names it. Pure.

Srun, kubectl, Ray, pdsh, clush and docker compose put a label before each line, and mix the lines of many nodes;
Ansible puts a header above the output of a host, or all of it on one line; dshbak and clush -b put the name between
rules. A document is collected by its label. It is JSON as `tfgpu` writes it, with indentation, or on one line; what is
no JSON is another program's line, and skipped.

Where the forms come from: srun, src/common/write_labelled_message.c of Slurm; kubectl, `addPrefixIfNeeded` of its logs
command; Ray, `print_worker_logs`; pdsh 2.34, dshbak and ClusterShell 1.10 as they print; Ansible 2.19, its callbacks
minimal, oneline and default; Open MPI and PRRTE, `--tag-output`.

>>> lines = [b'12: {', b' 7: {"schema": "a"}', b'12:   "schema": "tfgpu.report/1"', b'12: }', b'bye']
>>> [(one.data, one.label, one.line) for one in documents(lines)]
[(b'{"schema": "a"}', '7', 2), (b'{\\n  "schema": "tfgpu.report/1"\\n}', '12', 1)]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import msgspec

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
        line = plain(line)
        if self.rule or is_rule(line):
            if self._between_rules(line):
                return
        elif (message := message_of(line)) is not None:
            yield from self._take_message(message, number)
            return
        label = label_of(line)
        content = line[len(label.prefix) :]
        if label.key and (once := without_count(content)) is not None:
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

    def _begun(self, label: Label, content: bytes, number: int) -> Iterator[Document | Absent]:
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

    def _opened(self, label: Label, indentation: bytes, number: int) -> None:
        one = _Open(label.key, label.prefix + indentation, b"}", number, label.name, label.is_name, [b"{"])
        self.open[label.key] = self.last = one
        if label.prefix:
            self.indented[one.prefix] = one

    def _take_message(self, message: Message, number: int) -> Iterator[Document | Absent | LeftOut]:
        """What a tool says of a node in a line of its own."""
        if message.heads or message.text:
            self.section = message.node if message.heads else ""
        if message.problem:
            nodes = unfolded(message.node, _MOST_ABSENT + 1 - self.absent)
            self.absent += len(nodes)
            if self.absent > _MOST_ABSENT and nodes:
                nodes.pop()
                yield LeftOut(f"more than {_MOST_ABSENT:,} nodes gave no answer; the others are left out", number)
            yield from (Absent(node, message.problem, number) for node in nodes)
        if message.text == b"{":
            self._opened(Label(b"", b"", message.node, True), b"", number)
        elif message.text[:1] == b"{":
            yield from _on_a_line(message.text, number, message.node, True)

    def _between_rules(self, line: bytes) -> bool:
        """Whether the line is a rule of dashes, or a name between two of them."""
        if is_rule(line):
            self.section = self.between or self.section
            self.rule, self.between = not self.between, ""
            return True
        self.between = section_of(line) if not self.between else ""
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


# --------------------------------------------------------------------------------------- what stands before a line

NAME = rb"[A-Za-z0-9_][\w.-]{0,252}"
_LABEL = re.compile(
    rb"\[pod/(?P<pod>[\w.-]{1,253})(?:/[\w.-]{1,253})?\] "  # kubectl logs --prefix
    rb"|\([^()\n]{0,200}pid=\d{1,9}(?:, ip=(?P<ip>[\w.:-]{1,100}))?\) "  # Ray
    rb"|[ ]{0,9}(?P<task>\d{1,9}): "  # srun --label
    rb"|\[\d{1,9},(?P<rank>\d{1,9})\]<std(?:out|err)>:(?: (?=\S))?"  # mpirun --tag-output
    rb"|(?P<node>" + NAME + rb"): "  # pdsh, clush
    rb"|(?P<service>" + NAME + rb") {1,40}\| "  # docker compose
)
_NO_NAMES = (None, "task", "rank", "ip")  # groups that are no name of a node
_TIME = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S{0,30} ")  # kubectl logs --timestamps
_COLOUR = re.compile(rb"\x1b\[[\d;]{0,20}m")
_AD_HOC = re.compile(
    rb"(?P<host>[^\s|]{1,253}) \| (?P<how>[A-Z]{4,20})!? ?"
    rb"(?:\| rc=(?P<rc>-?\d{1,5}) (?P<then>>>|\| \(stdout\) ?)|=> ?|:)"
)
_PLAY = re.compile(
    rb"(?:ok|changed|fatal|failed|unreachable): \[(?P<host>[^\s\]]{1,253})(?: -> [^\]\n]{1,253})?\]:? ?"
    rb"(?:(?P<how>[A-Z]{4,20})! )?=> ?"
)
_SLURM = re.compile(
    rb"(?:[ ]{0,9}\d{1,9}: )?srun: error: (?:(?P<node>" + NAME + rb"): tasks? [\d,-]{1,200}: (?P<how>[A-Z][^\n]{0,99})"
    rb"|Node failure on (?P<failed>" + NAME + rb"))"
)
_SHELL = re.compile(  # pdsh@HERE: NODE: ssh exited with exit code 255; clush: NODE: command timeout
    rb"(?P<tool>pdsh)(?:@[\w.-]{1,253})?: (?P<node>" + NAME + rb"): (?P<how>[^\n]{1,200})"
    rb"|(?P<other>clush): (?P<several>[\w.,\[\]-]{1,253})(?: \(\d{1,9}\))?: (?P<why>[^\n]{1,200})"
)
_RULE = re.compile(rb"-{8,}\s*")
_SECTION = re.compile(
    rb"([\w.,\[\]-]{1,253})(?: \(\d{1,9}\))?"
)  # a node between rules, or several that printed the same
_IN_ONE_LINE = re.compile(rb'("(?:[^"\\]|\\.)*")|\\n|\\r')  # the line breaks that ansible -o writes as two characters
_LEFT_OUT = re.compile(rb" \[repeated \d{1,9}x across cluster\]")
_NODES = re.compile(r"(?:[\w.-]|\[[0-9,-]{1,250}\])+")  # "r[1-2]n[08-10,12]"
_PIECE = re.compile(r"([\w.-]+)|\[([0-9,-]+)\]")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_MOST_FOLDED = 20_000  # nodes


class Label(NamedTuple):
    """What stands before a line."""

    key: bytes  # the label itself, without a time
    prefix: bytes  # all that stands before the content
    name: str
    is_name: bool  # of a node, and not its address or the number of a task


class Message(NamedTuple):
    """What a tool says of a node."""

    node: str = ""
    problem: str = ""  # why it gave no answer; a result of it counts for more
    text: bytes = b""  # what it printed, which stands on the same line
    heads: bool = False  # what comes next is of this node


_NONE = Label(b"", b"", "", False)


def plain(line: bytes) -> bytes:
    """A line without colours."""
    return _COLOUR.sub(b"", line) if b"\x1b" in line else line


def label_of(line: bytes) -> Label:
    """What stands before a line, and before the time that may follow it."""
    found = _LABEL.match(line)
    end = found.end() if found else 0
    time = _TIME.match(line, end)
    if found is None:
        return Label(b"", time[0], "", False) if time else _NONE
    kind = found.lastgroup
    return Label(
        found[0], line[: time.end() if time else end], text(found[kind]) if kind else "", kind not in _NO_NAMES
    )


def without_count(content: bytes) -> bytes | None:
    """What Ray printed once in place of lines that differ in their numbers alone; None: the line is no such one."""
    if b"x across cluster]" not in content or content[:1] not in (b" ", b"{", b"}", b"[", b"]", b'"'):
        return None
    found = _LEFT_OUT.search(content)
    return content[: found.start()] if found else None


def unfolded(names: str, most: int = _MOST_FOLDED) -> list[str]:
    """Return the nodes of a list as ClusterShell and Slurm fold it, at most so many.

    >>> unfolded("gpu-[08-09,11],r[1-2]n[0-1],login")
    ['gpu-08', 'gpu-09', 'gpu-11', 'r1n0', 'r1n1', 'r2n0', 'r2n1', 'login']
    """
    found: list[str] = []
    for one in _NODES.findall(names):
        nodes = [""]
        for word, ranges in _PIECE.findall(one):
            ends = [word] if word else list(islice(_padded(ranges), most))
            nodes = list(islice((node + end for node in nodes for end in ends), most))
        found += nodes
        if len(found) >= most:
            break
    return found[:most]


def _padded(ranges: str) -> Iterator[str]:
    """ "08-09,11" → 08, 09, 11."""
    for first, last in _RANGE.findall(ranges):
        yield from (f"{number:0{len(first)}}" for number in range(int(first), int(last or first) + 1))


def is_rule(line: bytes) -> bool:
    """A line of dashes."""
    return line[:8] == b"--------" and _RULE.fullmatch(line) is not None


def section_of(line: bytes) -> str:
    """The name between two rules, as dshbak and clush -b print it; empty: it is none."""
    found = _SECTION.fullmatch(line.strip())
    return text(found[1]) if found else ""


def message_of(line: bytes) -> Message | None:
    """What a tool says of a node in a line of its own; None where it says nothing."""
    begin = line[:600]
    if b" | " in begin and (found := _AD_HOC.match(line)):
        return _ad_hoc(found, line)
    if b"=>" in begin and (found := _PLAY.match(line)):
        return _of_ansible(text(found["host"]), found["how"] or b"", line[found.end() :])
    if b"srun: error: " in begin and (found := _SLURM.search(begin)):
        if found["failed"]:
            return Message(text(found["failed"]), "Slurm reports that the node failed")
        return Message(text(found["node"]), f"Slurm: {text(found['how'])}")
    if begin[:5] in (b"pdsh@", b"pdsh:", b"clush") and (found := _SHELL.match(line)):
        how, name = (found["how"], found["node"]) if found["tool"] else (found["why"], found["several"])
        return Message(text(name), f"{text(found['tool'] or found['other'])}: {text(how)}")
    return None


def _ad_hoc(found: re.Match[bytes], line: bytes) -> Message:
    """A header of the commands `ansible` and `ansible -o`."""
    host, code, then = text(found["host"]), text(found["rc"] or b""), found["then"] or b""
    failed = f"its command ended with exit code {code}, and printed no report" if code not in ("", "0") else ""
    if then.startswith(b"|"):
        printed, _, _ = line[found.end() :].partition(b" (stderr) ")
        printed = _IN_ONE_LINE.sub(lambda part: part[1] or b"\n", printed).strip()
        return Message(host, "" if printed[:1] == b"{" else failed, printed)
    if then:
        return Message(host, failed, heads=True)
    return _of_ansible(host, found["how"], line[found.end() :])


def _of_ansible(host: str, how: bytes, rest: bytes) -> Message:
    if how == b"UNREACHABLE":
        return Message(host, "Ansible could not reach it")
    return Message(
        host, "its command failed, and printed no report" if how == b"FAILED" else "", rest.strip(), heads=True
    )


def text(data: bytes) -> str:
    """For messages and names."""
    return data.decode("utf-8", "replace")
