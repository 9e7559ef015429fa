"""Files, folders and standard input → results of tfgpu with the names of their nodes.

A file holds documents of JSON, each on one line, or as the commands print them: from a line { to a line }. Other lines
between them are passed over; a document that is broken is refused with the number of its line.

>>> lines = [b'{"schema": "a"}', b'a line of another program', b'{', b'  "schema": "b"', b'}']
>>> list(documents(lines))
[(1, b'{"schema": "a"}'), (3, b'{  "schema": "b"}')]
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tfgpu_doctor.facts.printable import cut
from tfgpu_doctor.facts.reading import STDIN, chunks, files_below, in_mib, shown, why
from tfgpu_doctor.facts.report import ReportError
from tfgpu_doctor.fleet.nodes import Result, decode
from tfgpu_doctor.fleet.records import Unreadable
from tfgpu_doctor.parsers.lines import utf8 as as_utf8

LARGEST = 64 << 20  # bytes of one document, and of one line
MOST_UNREADABLE = 1_000  # parts of files that are named
_MOST_FILES = 1_000_000  # files and folders below one folder
_ENDINGS = (".json", ".jsonl", ".ndjson", ".log", ".txt")
_BYTE = re.compile(r" ?\(byte \d+\)")
_OURS = (b'"tfgpu.', b'"schema"')


def documents(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield every document with the number of its first line; of what is too long, the beginning."""
    begin, size, pieces = 0, 0, list[bytes]()
    for number, line in enumerate(lines, 1):
        line = line.rstrip(b"\r\n ")
        if line.startswith(b"{"):
            if pieces:
                yield begin, b"".join(pieces)  # its end did not come
            begin, size, pieces = number, 0, [line]
        elif pieces:
            size += len(line)
            pieces += [line] if size <= LARGEST else []
        if pieces and (line == b"}" or (number == begin and line != b"{")):
            yield begin, b"".join(pieces)
            pieces = []
    if pieces:
        yield begin, b"".join(pieces)


@dataclass
class Gathered:
    """All that was read, and what is no result of tfgpu."""

    results: list[Result] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)

    def refuse(self, file: str, line: int | None, reason: str) -> None:
        """Remember a file, or a part of it, that is no result."""
        if len(self.unreadable) < MOST_UNREADABLE:
            self.unreadable.append(Unreadable(file=file, line=line, reason=cut(_BYTE.sub("", reason), 400)))

    def take(self, lines: Iterable[bytes], file: str) -> None:
        """Read the results in the lines of a file; a node that has no name is called after its place."""
        number = 0
        try:
            for line, data in documents(lines):
                if not any(mark in data for mark in _OURS):
                    continue
                number += 1
                try:
                    result = decode(data)
                    result.source = file if line == 1 else f"{file}, line {line}"
                    result.node = result.node or result.source
                    self.results.append(result)
                except ReportError as error:
                    reason = str(error).removeprefix("it is not a saved report: ")
                    self.refuse(file, line, "it is cut off" if "truncated" in reason else reason)
        except ReportError as error:
            self.refuse(file, None, str(error))
        if not number:
            self.refuse(file, None, "no result of tfgpu doctor, smoke or bench is in it")


def read_fleet(paths: Sequence[str]) -> Gathered:
    """Read every result in files, in the files of folders that may hold some, and on standard input (-).

    What cannot be read is in the answer, with its file and line, and the rest goes on.
    """
    gathered = Gathered()
    for path in paths:
        try:
            files = [path]
            if path != STDIN and os.path.isdir(path):
                files = [file for file in files_below(path, _MOST_FILES).files if file.lower().endswith(_ENDINGS)]
            if not files:
                gathered.refuse(path, None, f"no file in it is called {', '.join(f'*{one}' for one in _ENDINGS)}")
        except OSError as error:
            gathered.refuse(shown(path), None, why(error))
            continue
        for file in files:
            try:
                gathered.take(_lines(as_utf8(chunks(file))), shown(file))
            except OSError as error:
                gathered.refuse(shown(file), None, why(error))
    return gathered


def _lines(source: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the lines, without their line breaks. Raises ReportError: one is too long."""
    rest = b""
    for number, chunk in enumerate(source):
        *lines, rest = (rest + (chunk if number else chunk.removeprefix(b"\xef\xbb\xbf"))).split(b"\n")
        yield from lines
        if len(rest) > LARGEST:
            raise ReportError(f"a line of it is longer than {in_mib(LARGEST)}; what follows is left out")
    yield rest
