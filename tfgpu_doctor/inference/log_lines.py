"""Which releases print a message from just this line of a source file: "cpu_feature_guard.cc:193] This TensorFlow ...".

The matrix has the lines that wheels printed. A release is left out only where it is known to print the same message
from other lines, or the releases before and after it are: between them, a file grows from line to line. A message, or a
line, that the matrix does not have says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from packaging.version import Version

from tfgpu_doctor.matrix.schema import LogMessage

WORDS = 5  # of a message that tell it from others
MOST = 400  # messages of one text that are looked at
PRINTED = re.compile(r"\b(?P<file>\w{2,60}\.cc):(?P<line>\d{1,5})\] (?P<message>\S.{0,200})")
_VALUE = re.compile(r"[\d'\"/\\<>@]|^\(")

Series = tuple[int, int]


def message_key(message: str) -> str:
    """The first words of a message, its values left out.

    >>> message_key("Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open")
    'Could not load dynamic library'
    >>> message_key("failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected")
    'failed call to cuInit: CUDA_ERROR'
    """
    words: list[str] = []
    for word in message.split()[:WORDS]:
        if word.startswith("CUDA_ERROR"):
            return " ".join([*words, "CUDA_ERROR"])
        words.append("*" if _VALUE.search(word) else word)
        if (len(words) == 1 and word.endswith(":")) or words == ["Executing", "op"]:
            break
    return " ".join(words)


def printed(texts: Iterable[str]) -> Iterator[tuple[str, int, str]]:
    """Source file, line and key of each message of TensorFlow's log."""
    for text in texts:
        if found := PRINTED.search(text):
            yield found["file"], int(found["line"]), message_key(found["message"])


def by_series(row: LogMessage) -> dict[Series, set[int]]:
    """Minor release → the lines from which its patches print the message."""
    lines: dict[Series, set[int]] = {}
    for line, releases in row.lines.items():
        for release in releases.split():
            version = Version(release)
            lines.setdefault((version.major, version.minor), set()).add(int(line))
    return lines


def places(texts: Iterable[str], rows: Iterable[LogMessage]) -> dict[str, dict[Series, bool]]:
    """ "dso_loader.cc:64" → minor release → whether it prints that message from that line."""
    known = {(row.file, row.message): row for row in rows}
    found: dict[str, dict[Series, bool]] = {}
    for number, (file, line, key) in enumerate(printed(texts)):
        if number >= MOST:
            break
        row = known.get((file, key))
        if row is not None and str(line) in row.lines:
            possible = found.setdefault(f"{file}:{line}", {})
            for series, lines in _with_those_between(by_series(row)).items():
                possible[series] = line in lines or possible.get(series, False)
    return found


def _with_those_between(known: dict[Series, set[int]]) -> dict[Series, range | set[int]]:
    """The lines of each minor release, also of those between two that are known: from the first of theirs to the last.

    >>> _with_those_between({(2, 13): {110}, (2, 15): {113}})
    {(2, 13): {110}, (2, 14): range(110, 114), (2, 15): {113}}
    """
    series = sorted(known)
    lines: dict[Series, range | set[int]] = dict(known)
    for before, after in pairwise(series):
        theirs = known[before] | known[after]
        for number in range(before[1] + 1, after[1]) if before[0] == after[0] else ():
            lines[before[0], number] = range(min(theirs), max(theirs) + 1)
    return dict(sorted(lines.items()))
