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

import msgspec

from tfgpu_doctor.facts.printable import cut
from tfgpu_doctor.facts.reading import STDIN, chunks, files_below, in_mib, shown, why
from tfgpu_doctor.facts.report import ReportError
from tfgpu_doctor.fleet.nodes import Result, decode
from tfgpu_doctor.fleet.records import Unreadable
from tfgpu_doctor.parsers.lines import utf8 as as_utf8

LARGEST = 64 << 20  # bytes of one document, and of one line
MOST_UNREADABLE = 1_000  # reasons with their files
_MOST_FILES = 1_000_000  # files and folders below one folder
_ENDINGS = (".json", ".jsonl", ".ndjson", ".log", ".txt")
_ENDING = re.compile(r"(?:[._-](?:tfgpu|report|doctor|smoke|bench|result))?\.(?:jsonl?|ndjson|log|txt)$", re.IGNORECASE)
_NO_NAME = re.compile(r"(?:tfgpu|report|doctor|smoke|bench|results?|output|stdout|out)?[-_.]?\d{0,4}", re.IGNORECASE)
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
            for line, data in documents(lines):
                if not any(mark in data for mark in _OURS):
                    continue
                number += 1
                try:
                    taken.append(decode(data))
                    taken[-1].source = f"{file}, line {line}"
                except ReportError as error:
                    reason = str(error).removeprefix("it is not a saved report: ")
                    self.refuse(file, line, "it is cut off" if "truncated" in reason else reason)
        except ReportError as error:
            self.refuse(file, None, str(error))
        if not number:
            self.refuse(file, None, "no result of tfgpu doctor, smoke or bench is in it")
        for place, result in enumerate(taken, 1):
            if number == 1:
                result.source = file
            result.node = result.node or (_name_of(file) if number == 1 else f"result {place} of {file}")
        self.results += taken


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
