"""The instructions of a Dockerfile, as BuildKit splits it: continued lines, comments among them, here-documents.

Nothing is expanded here. Each line is looked at once, so that the time is linear.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TypeAlias

Lines: TypeAlias = "tuple[tuple[int, str], ...]"  # numbered from 1

_DIRECTIVE = re.compile(r"\s*#\s*([A-Za-z]\w*)\s*=(.*)")
# <<EOF, <<-EOF, 3<<"EOF": a word of its own, with no blank inside
_HEREDOC = re.compile(r"(?<!\S)\d*<<-?([\"']?)(?P<name>\w[\w.-]*)\1(?!\S)")
_WITH_HEREDOC = ("RUN", "COPY", "ADD")


@dataclass(frozen=True)
class Instruction:
    """One instruction. Its lines are without comments and without the characters that continue them."""

    verb: str  # upper case
    line: int  # of the verb
    lines: Lines  # from the first character behind the verb
    heredocs: Lines  # the lines of its here-documents, without those that end them

    @cached_property
    def value(self) -> str:
        """Everything behind the verb, in one line."""
        return "".join(text for _, text in self.lines)

    def line_at(self, offset: int) -> int:
        """The line of a character of the value."""
        return self.lines[bisect_right(self._ends, offset)][0]

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(len(text) for _, text in self.lines))


def instructions(text: str) -> Iterator[Instruction]:
    """Split a Dockerfile."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    escape = _escape(lines)
    ends: dict[str, list[int]] = {}  # a line → where it stands; here-documents end at one
    for index, line in enumerate(lines):
        ends.setdefault(line.strip(), []).append(index)
    at = 0
    while at < len(lines):
        pieces, at = _logical_line(lines, at, escape)
        if not pieces:
            continue
        number, first = pieces[0]
        verb = first.split(None, 1)[0]
        pieces[0] = (number, first.lstrip()[len(verb) :].lstrip())
        value = "".join(text for _, text in pieces)
        heredocs: list[tuple[int, str]] = []
        for name in _heredocs(verb.upper(), value):
            found = ends.get(name, [])
            end = bisect_left(found, at)
            if end < len(found):  # Docker refuses one without an end
                heredocs += [(index + 1, lines[index]) for index in range(at, found[end])]
                at = found[end] + 1
        yield Instruction(verb.upper(), number, tuple(pieces), tuple(heredocs))


def _escape(lines: list[str]) -> str:
    r"""The character that continues a line: "\", or "`" by a directive above all else, as in Windows containers."""
    for line in lines:
        directive = _DIRECTIVE.fullmatch(line)
        if directive is None:
            break
        if directive[1].lower() == "escape":
            return "`" if directive[2].strip() == "`" else "\\"
    return "\\"


def _logical_line(lines: list[str], at: int, escape: str) -> tuple[list[tuple[int, str]], int]:
    """The lines of one instruction and where the next one begins. Blank lines and comments among them are skipped."""
    pieces: list[tuple[int, str]] = []
    while at < len(lines):
        line = lines[at]
        at += 1
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        continued = bare.endswith(escape) and not bare.endswith(2 * escape)
        text = line.rstrip()[:-1] if continued else line
        if pieces or text.strip():
            pieces.append((at, text))
        if not continued:
            break
    return pieces, at


def _heredocs(verb: str, value: str) -> list[str]:
    """The words that end the here-documents of an instruction, in order."""
    if verb == "ONBUILD":
        verb, _, value = value.strip().partition(" ")
    if verb.upper() not in _WITH_HEREDOC or value.lstrip().startswith("["):
        return []
    return [found["name"] for found in _HEREDOC.finditer(value)]
