"""Files, folders and standard input → what the nodes of a fleet reported, and what of it is unreadable."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import msgspec

from tfgpu_doctor.files.reading import STDIN, chunks, files_below, in_mib, shown, unpacked, why
from tfgpu_doctor.fleet.nodes import LONGEST_NAME, NamedBy, NoResult, Result, decode
from tfgpu_doctor.fleet.records import NO_RESULT, NODE_SCHEMA, NodeResult, Unreadable
from tfgpu_doctor.fleet.unwrapping import LARGEST, Absent, Document, LeftOut, documents
from tfgpu_doctor.parsers.lines import utf8 as as_utf8
from tfgpu_doctor.records.printable import cut, utf8
from tfgpu_doctor.records.report import ReportError, schema_of, without_mark
from tfgpu_doctor.records.units import count

_PLAIN = (".json", ".jsonl", ".ndjson", ".log", ".txt")
ENDINGS = (*_PLAIN, *(f"{one}.gz" for one in _PLAIN))
_BLANK = re.compile(rb"(\n{1000,})")
MOST = 1_000_000  # files and folders below one folder
MOST_UNREADABLE = 1_000  # reasons with their files
MOST_REFUSED = 100_000  # documents of one file
_OURS = (b'"tfgpu.', b'"schema"')
_BYTE = re.compile(r" ?\(byte (\d+)\)")
_NO_NAME = re.compile(
    r"(?:tfgpu|report|doctor|smoke|bench|result|results|output|stdout|out)?[-_.]?\d{0,4}", re.IGNORECASE
)
_KIND_OF_FILE = re.compile(r"[._-](?:tfgpu|report|doctor|smoke|bench|result)$", re.IGNORECASE)
_ENDING = re.compile(r"\.(?:jsonl?|ndjson|log|txt)$", re.IGNORECASE)


@dataclass
class Gathered:
    """All that was read."""

    results: list[Result] = field(default_factory=list)
    unreadable: tuple[Unreadable, ...] = ()
    notes: tuple[str, ...] = ()


def read_fleet(paths: Sequence[str]) -> Gathered:
    """Read every result in files, in the files of folders that may hold some, and on standard input (-).

    What cannot be read is in the answer, with its file and line, and the rest goes on.
    """
    gathering = Gathering()
    for path in paths:
        for file in _files(path, gathering):
            try:
                _read(file, gathering)
            except OSError as error:
                gathering.refuse(shown(file), None, why(error))
    return gathering.gathered()


def _files(path: str, gathering: Gathering) -> Iterator[str]:
    """The file itself, or those of a folder."""
    if path == STDIN or not os.path.isdir(path):
        yield path
        return
    try:
        listing = files_below(path, MOST)
    except OSError as error:
        gathering.refuse(path, None, why(error))
        return
    found = [file for file in listing.files if file.lower().endswith(ENDINGS)]
    if not found:
        gathering.refuse(path, None, f"no file in it is called {', '.join(f'*{one}' for one in _PLAIN)}")
    yield from found


def _read(file: str, gathering: Gathering) -> None:
    """One file: as one document where it is one, else line by line, however large it is."""
    source = as_utf8(unpacked(chunks(file)))
    first = next(source, b"")
    second = next(source, None)
    name = shown(file)
    if second is None:
        gathering.take_file(first, name)
        return
    gathering.take_lines(_lines(chain((first, second), source), name, gathering), name, first)


def _lines(source: Iterator[bytes], name: str, gathering: Gathering) -> Iterator[bytes | int]:
    """The lines, without their line breaks; the number of blank ones where very many follow one another. A line that is
    too long is left out.
    """
    begun: list[bytes] = []  # the pieces of a line whose end has not come
    size, is_told = 0, False
    for number, chunk in enumerate(source):
        if not number:
            chunk = chunk.removeprefix(b"\xef\xbb\xbf")
        for place, part in enumerate(_BLANK.split(chunk)):
            if place % 2:
                yield b"".join(begun) if size <= LARGEST else b""
                yield len(part) - 1
                begun, size = [], 0
                continue
            first, *others = part.split(b"\n")
            if others:
                yield b"".join((*begun, first)) if size <= LARGEST else b""
                yield from others[:-1]
                begun, size, first = [], 0, others[-1]
            size += len(first)
            if size <= LARGEST:
                begun.append(first)
            elif not is_told:
                is_told = True
                gathering.refuse(name, None, f"a line of it is longer than {in_mib(LARGEST)}")
    if 0 < size <= LARGEST:
        yield b"".join(begun)


# ------------------------------------------------------------------------------------------------------------ results


class _Header(msgspec.Struct):
    schema: str | None = None
    plays: msgspec.Raw = msgspec.Raw(b"")  # of Ansible's callback "json"; `Raw | None` reads no list


class _Host(msgspec.Struct):
    unreachable: bool = False


class _Task(msgspec.Struct):
    hosts: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)


class _Play(msgspec.Struct):
    tasks: list[_Task] = msgspec.field(default_factory=list)


class Gathering:
    """Collects results, file by file."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._results: list[Result] = []
        self._unreadable: dict[tuple[str, str], tuple[int | None, int]] = {}  # (file, reason) → first line, count
        self._more = 0  # that are not kept
        self._refused = 0

    def gathered(self) -> Gathered:
        """All of it."""
        unreadable = (
            Unreadable(file=file, line=line, reason=reason, count=many)
            for (file, reason), (line, many) in self._unreadable.items()
        )
        notes = (f"{count(self._more, 'more part')} of files cannot be read",) * bool(self._more)
        return Gathered(self._results, tuple(unreadable), notes)

    def refuse(self, file: str, line: int | None, reason: str) -> None:
        """A file, or a part of it, is no result."""
        self._refused += 1
        key = (file, cut(_BYTE.sub("", reason), 400))
        first, many = self._unreadable.get(key, (line, 0))
        if many or len(self._unreadable) < MOST_UNREADABLE:
            self._unreadable[key] = (first, many + 1)
        else:
            self._more += 1

    def take_file(self, data: bytes, file: str) -> None:
        """A file that is in memory as a whole."""
        data = without_mark(data)
        try:
            header = msgspec.json.decode(data, type=_Header)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self.take_lines(data.split(b"\n"), file, data)
            return
        if header.plays and header.schema is None:
            self._take_plays(header.plays, file)
        else:
            self._add(Document(data, 1, "", False), file, whole=True)

    def take_lines(self, lines: Iterable[bytes | int], file: str, begin: bytes) -> None:
        """A file as lines; `begin` is its beginning, which tells what is wrong where nothing of it is a result."""
        before = len(self._results), len(self._unreadable), self._more
        number, most = 0, self._refused + MOST_REFUSED
        for one in documents(lines):
            if self._refused > most:
                reason = f"more than {MOST_REFUSED:,} documents of it cannot be read; what follows is left out"
                self.refuse(file, one.line, reason)
                break
            if isinstance(one, Absent):
                self._absent(one.node, one.reason, file, one.line)
            elif isinstance(one, LeftOut):
                self.refuse(file, one.line, one.reason)
            elif any(mark in one.data for mark in _OURS):
                number += 1
                self._add(one, file, number=number)
        if before == (len(self._results), len(self._unreadable), self._more):
            self.refuse(file, *_why(begin))

    def _take_plays(self, raw: Any, file: str) -> None:
        try:
            plays = msgspec.json.decode(raw, type=list[_Play])
        except (msgspec.DecodeError, RecursionError) as error:
            self.refuse(file, None, f"it looks like a result of Ansible, but is none: {error}")
            return
        hosts = ((host, bytes(one)) for play in plays for task in play.tasks for host, one in task.hosts.items())
        for host, answer in hosts:
            if b'"unreachable"' in answer and _is_unreachable(answer):
                self._absent(host, "Ansible could not reach it", file, None)
            for data in _within(answer):
                self._add(Document(data, 1, host, True), file)

    def _absent(self, node: str, reason: str, file: str, line: int | None, by: NamedBy = "prefix") -> None:
        source = file if line is None else f"{file}, line {line}"
        self._results.append(Result(None, cut(node, LONGEST_NAME), by, source, file, failure=cut(reason, 400)))

    def _add(self, document: Document, file: str, *, whole: bool = False, number: int = 0, inner: bool = False) -> None:
        try:
            envelope, data = "", document.data
            if utf8(NODE_SCHEMA) in data[:200]:
                wrapped = msgspec.json.decode(data, type=NodeResult)
                envelope, data = cut(wrapped.node, LONGEST_NAME) or "unnamed", bytes(wrapped.result)
                if data == bytes(NO_RESULT):
                    self._absent(envelope, wrapped.failure or "it gave no answer", file, document.line, "envelope")
                    return
            found = decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, NoResult) as error:
            if inner or not self._take_inner(document, file, whole=whole, number=number):
                deep = isinstance(error, RecursionError)
                self._refuse_document(document, file, "it is nested too deeply" if deep else str(error))
            return
        source = file if whole else f"{file}, line {document.line}"
        node, by = _name(envelope, document, found.host, file, whole, number)
        found.node, found.named_by, found.source, found.file = node, by, source, file
        self._results.append(found)

    def _take_inner(self, document: Document, file: str, *, whole: bool, number: int) -> bool:
        """Take what stands within a document of another tool; whether something does."""
        if b'"plays"' in document.data and (plays := _plays(document.data)):
            self._take_plays(plays, file)
            return True
        found = _within(document.data)
        for data in found:
            self._add(document._replace(data=data), file, whole=whole, number=number, inner=True)
        return bool(found)

    def _refuse_document(self, document: Document, file: str, reason: str) -> None:
        place = _BYTE.search(reason)
        cut_off = document.is_cut or "truncated" in reason
        end = len(document.data) if cut_off else int(place[1]) if place else 0
        line = document.line + (0 if document.label else document.data.count(b"\n", 0, end))
        if cut_off:
            reason = "it is cut off"
        elif not reason.startswith("it "):
            reason = f"it is not valid: {reason}"
        self.refuse(file, line, reason)


def _plays(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data, type=_Header).plays
    except (msgspec.DecodeError, RecursionError):
        return b""


def _is_unreachable(data: bytes) -> bool:
    try:
        return msgspec.json.decode(data, type=_Host).unreachable
    except (msgspec.DecodeError, RecursionError):
        return False


def _within(data: bytes, depth: int = 4) -> list[bytes]:
    """Our documents in an object of another tool, such as what Ansible tells of a command: its "stdout" is a text."""
    if not depth or _OURS[0] not in data:
        return []
    try:
        if data[:1] == b'"':
            lines = utf8(msgspec.json.decode(data, type=str)).split(b"\n")
            return [one.data for one in documents(lines) if isinstance(one, Document) and _OURS[0] in one.data]
        fields = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    if "schema" in fields:
        return [data]
    found = (bytes(value) for value in fields.values())
    return list(dict.fromkeys(one for value in found for one in _within(value, depth - 1)))


def _name(envelope: str, document: Document, host: str, file: str, whole: bool, number: int) -> tuple[str, NamedBy]:
    """The name of a node, and where it comes from; the surest first."""
    if envelope:
        return envelope, "envelope"
    if document.label and document.is_name:
        return document.label, "prefix"
    if host:
        return host, "host"
    if whole:
        parts = [part for part in re.split(r"[\\/]", file) if part not in ("", ".", "..")]
        stems = [_KIND_OF_FILE.sub("", _ENDING.sub("", part)) for part in reversed(parts[-2:])]
        return next((stem for stem in stems if not _NO_NAME.fullmatch(stem)), file), "file"
    if document.label and not document.label.isdecimal():
        return document.label, "prefix"  # an address
    if document.label:
        return f"task {document.label} of {file}", "place"
    return f"result {number} of {file}", "place"


def _why(begin: bytes) -> tuple[int | None, str]:
    """Where and why a file holds no result."""
    try:
        schema_of(begin[: 1 << 20], "it")
    except ReportError as error:
        reason = str(error).removeprefix("it is not a saved report: ")
    else:
        reason = "no result of tfgpu doctor, smoke or bench is in it"
    if begin.lstrip()[:1] != b"{" and not reason.startswith(("it is empty", "it is UTF-16", "it is not UTF")):
        return None, "no result of tfgpu doctor, smoke or bench is in it"
    place = _BYTE.search(reason)
    return (begin.count(b"\n", 0, int(place[1])) + 1 if place else None), reason
