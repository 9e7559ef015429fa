"""Files, folders and standard input → what the nodes of a fleet reported. The only part of fleet/ that reads files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from tfgpu_doctor.files.listing import many_below
from tfgpu_doctor.files.packed import unpacked
from tfgpu_doctor.files.reading import STDIN, chunks, in_mib, shown, why
from tfgpu_doctor.fleet.gathering import Gathering
from tfgpu_doctor.fleet.results import Gathered
from tfgpu_doctor.fleet.unwrapping import LARGEST
from tfgpu_doctor.parsers.lines import utf8

_PLAIN = (".json", ".jsonl", ".ndjson", ".log", ".txt")
ENDINGS = (*_PLAIN, *(f"{one}.gz" for one in _PLAIN))
_BLANK = re.compile(rb"(\n{1000,})")
MOST = 1_000_000  # files and folders below one folder


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
        listing = many_below(path, MOST, MOST)
    except OSError as error:
        gathering.refuse(path, None, why(error))
        return
    found = [file for file in listing.files if file.lower().endswith(ENDINGS)]
    if not found:
        gathering.refuse(path, None, f"no file in it is called {', '.join(f'*{one}' for one in _PLAIN)}")
    yield from found


def _read(file: str, gathering: Gathering) -> None:
    """One file: as one document where it is one, else line by line, however large it is."""
    source = utf8(unpacked(chunks(file)))
    first = next(source, b"")
    second = next(source, None)
    name = shown(file)
    if second is None:
        gathering.take_file(first, name)
        return
    gathering.take_lines(_lines(_joined(first, second, source), name, gathering), name, first)


def _joined(first: bytes, second: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield second
    yield from rest


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
