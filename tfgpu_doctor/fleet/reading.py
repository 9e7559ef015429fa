"""Files, folders and standard input → what the nodes of a fleet reported, and what of it is unreadable.

Many tools put a label before each line, and mix the lines of many nodes: srun, pdsh, clush, kubectl, Ray, docker
compose. What stands before the first "{" of a document is its label; the lines that begin with the same label go on
with it. A document is JSON as `tfgpu` writes it, with indentation, or on one line; other lines are skipped.

>>> lines = [b'gpu-2: {', b'gpu-1: {"schema": "a"}', b'gpu-2:   "schema": "tfgpu.report/1"', b'gpu-2: }', b'bye']
>>> [(one.data, one.label, one.line) for one in documents(lines)]
[(b'{"schema": "a"}', b'gpu-1: ', 2), (b'{  "schema": "tfgpu.report/1"}', b'gpu-2: ', 1)]
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from tfgpu_doctor.facts.printable import cut, utf8
from tfgpu_doctor.facts.reading import STDIN, chunks, files_below, in_mib, shown, why
from tfgpu_doctor.facts.report import ReportError, decode_saved
from tfgpu_doctor.fleet.nodes import LONGEST_NAME, Result, decode, no_answer
from tfgpu_doctor.fleet.records import NO_RESULT, NODE_SCHEMA, NodeResult, Unreadable
from tfgpu_doctor.parsers.lines import utf8 as as_utf8

LARGEST = 64 << 20  # bytes of one document, and of one line
MOST_OPEN = 100_000  # documents whose end has not come; a fleet has a few for each node
MOST_UNREADABLE = 1_000  # reasons with their files
_MOST_FILES = 1_000_000  # files and folders below one folder
_PLAIN = (".json", ".jsonl", ".ndjson", ".log", ".txt")
_ENDINGS = (*_PLAIN, *(f"{one}.gz" for one in _PLAIN))
_ENDING = re.compile(r"(?:[._-](?:tfgpu|report|doctor|smoke|bench|result))?\.(?:jsonl?|ndjson|log|txt)(?:\.gz)?$", re.I)
_NO_NAME = re.compile(r"(?:tfgpu|report|doctor|smoke|bench|results?|output|stdout|out)?[-_.]?\d{0,4}", re.IGNORECASE)
_BEGIN = re.compile(rb'([^{"]{0,300})(\{\s*(?:"(?s:.*))?)')
_NAME = re.compile(r"\W*([A-Za-z0-9_][\w.-]{0,252}?)[\s:|>]*")  # "gpu-1: ", "web-1  | "
_BYTE = re.compile(r" ?\(byte \d+\)")
_OURS = (b'"tfgpu.', b'"schema"')


@dataclass
class Document:
    """A JSON document among lines, which may lack its end."""

    label: bytes
    line: int  # where it begins, 1-based
    pieces: list[bytes]
    size: int = 0

    @property
    def data(self) -> bytes:
        """What there is of it; JSON has no line breaks within its values."""
        return b"".join(self.pieces)

    def goes_on(self, content: bytes) -> bool:
        """True if a line with the same label is of this document."""
        begins = content.startswith(b'{"schema"')
        return content[:1] in (b" ", b"\t", b'"', b"}") or (_is_broken(self.pieces[-1]) and not begins)

    def is_whole(self) -> bool:
        """True if no more lines of it are expected."""
        last = self.pieces[-1]
        if self.pieces[0].strip() == b"{":
            return last.rstrip(b" ,") == b"}" and len(self.pieces) > 1
        return not _is_broken(last)

    def add(self, content: bytes) -> None:
        """Add a line; of what is too long the beginning is kept."""
        self.size += len(content)
        if self.size <= LARGEST or content[:1] == b"}":
            self.pieces.append(content)


def _is_broken(piece: bytes) -> bool:
    """True if srun has broken a long line here: into pieces of 1024 bytes."""
    return 1000 <= len(piece) <= 1024


def documents(lines: Iterable[bytes]) -> Iterator[Document]:
    """Yield every document in some lines when its last line has come, at last those that have no end.

    Raises ReportError: too many have none.
    """
    begun: dict[bytes, Document] = {}
    lengths = Counter[int]()  # of the labels of those
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        line = line.removesuffix(b"\r")
        one = next((begun[line[:size]] for size in lengths if line[:size] in begun and line[:size]), begun.get(b""))
        content = line[len(one.label) :] if one else b""
        if one and one.goes_on(content):
            one.add(content)
        elif found := _BEGIN.fullmatch(line):
            one = Document(found[1], number, [found[2]])
            if one.label in begun:
                yield begun[one.label]  # its end did not come
            lengths[len(one.label)] += one.label not in begun
            begun[one.label] = one
            if len(begun) > MOST_OPEN:
                raise ReportError(f"more than {MOST_OPEN:,} documents have no end; what follows is left out")
        else:
            continue
        if one.is_whole():
            yield begun.pop(one.label)
            lengths[len(one.label)] -= 1
            if not lengths[len(one.label)]:
                del lengths[len(one.label)]
    yield from begun.values()


@dataclass
class Gathered:
    """All that was read, and what is no result of tfgpu by file and reason."""

    results: list[Result] = field(default_factory=list)
    refused: dict[tuple[str, str], Unreadable] = field(default_factory=dict)

    @property
    def unreadable(self) -> tuple[Unreadable, ...]:
        """What is no result of tfgpu, with the reason."""
        return tuple(self.refused.values())

    def refuse(self, file: str, line: int | None, reason: str) -> None:
        """Remember a file, or a part of it, that is no result."""
        reason = cut(_BYTE.sub("", reason), 400)
        if len(self.refused) >= MOST_UNREADABLE and (file, reason) not in self.refused:
            file, line, reason = "further files", None, "no results, for reasons that are left out"
        known = self.refused.get((file, reason), Unreadable(file=file, line=line, reason=reason, count=0))
        self.refused[file, reason] = msgspec.structs.replace(known, count=known.count + 1)

    def take(self, lines: Iterable[bytes], file: str) -> None:
        """Read the results in the lines of a file, which are called after the file where they have no other name."""
        number, taken = 0, list[Result]()
        try:
            for document in documents(lines):
                if not any(mark in document.data for mark in _OURS):
                    continue
                number += 1
                try:
                    taken.append(_result(document))
                    taken[-1].source = f"{file}, line {document.line}"
                except ReportError as error:
                    reason = str(error).removeprefix("it is not a saved report: ")
                    self.refuse(file, document.line, "it is cut off" if "truncated" in reason else reason)
        except ReportError as error:
            self.refuse(file, None, str(error))
        if not number:
            self.refuse(file, None, "no result of tfgpu doctor, smoke or bench is in it")
        for place, result in enumerate(taken, 1):
            if number == 1:
                result.source = file
            result.node = result.node or (_name_of(file) if number == 1 else f"result {place} of {file}")
        self.results += taken


def _result(document: Document) -> Result:
    """Return the result with the name of its node, the surest one; empty: nothing names it. Raises ReportError."""
    data, label = document.data.rstrip(b" ,"), _NAME.fullmatch(document.label.decode("utf-8", "replace"))
    node = label[1] if label and not label[1].isdecimal() else ""  # a number is that of a task
    if utf8(NODE_SCHEMA) in data[:200]:
        line = decode_saved(data, NodeResult, "it", "line of tfgpu fleet collect")
        node, data = cut(line.node, LONGEST_NAME) or "unnamed", bytes(line.result)
        if data == bytes(NO_RESULT):
            return no_answer(node, cut(line.failure or "it gave no answer", 400))
    found = decode(data)
    found.node = node or found.host
    return found


def _name_of(file: str) -> str:
    """Return a name for the only result of a file: that of the file, or of its folder."""
    parts = [part for part in re.split(r"[\\/]", file) if part not in ("", ".", "..")]
    stems = [_ENDING.sub("", part) for part in reversed(parts[-2:])]
    return next((stem for stem in stems if not _NO_NAME.fullmatch(stem)), file)


def read_fleet(paths: Sequence[str]) -> Gathered:
    """Read every result in files, in the files of folders that may hold some, and on standard input (-).

    What cannot be read is in the answer, with its file and line, and the rest goes on.
    """
    gathered = Gathered()
    for path in paths:
        files = [path]
        if path != STDIN and os.path.isdir(path):
            try:
                files = [file for file in files_below(path, _MOST_FILES).files if file.lower().endswith(_ENDINGS)]
            except OSError as error:
                gathered.refuse(shown(path), None, why(error))
                continue
            if not files:
                gathered.refuse(path, None, f"no file in it is called {', '.join(f'*{one}' for one in _PLAIN)}")
        for file in files:
            try:
                gathered.take(_lines(as_utf8(chunks(file))), shown(file))
            except OSError as error:
                gathered.refuse(shown(file), None, why(error))
    return gathered


def _lines(source: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the lines, without their line breaks. Raises ReportError: one is too long; OSError: they are packed."""
    rest = b""
    for number, chunk in enumerate(source):
        if not number and chunk.startswith(b"\x1f\x8b"):
            raise OSError(0, "it is packed with gzip: unpack it first")
        *lines, rest = (rest + (chunk if number else chunk.removeprefix(b"\xef\xbb\xbf"))).split(b"\n")
        yield from lines
        if len(rest) > LARGEST:
            raise ReportError(f"a line of it is longer than {in_mib(LARGEST)}; what follows is left out")
    yield rest
