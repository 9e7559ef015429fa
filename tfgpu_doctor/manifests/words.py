"""Shell code → commands, each as words that know their line. No expansion: only quotes, comments and separators."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

# in order: what joins lines, what ends a command, a comment, blanks, and the pieces that make up a word
_TOKEN = re.compile(
    r"(?P<join>\\[ \t]*\n)"
    r"|(?P<end>&&|\|\||;|(?<![<>])&(?![>])|\||\n)"
    r"|(?P<blank>[ \t\r\f\v]+)"
    r"|(?P<single>'[^']*')"
    r'|(?P<double>"(?:\\.|[^"\\])*")'
    r"|(?P<escape>\\.)"
    r"|(?P<plain>[^\s'\"\\;|&]+|.)",
    re.DOTALL,
)


@dataclass(frozen=True)
class Word:
    """A word of a command, without its quotes."""

    text: str
    line: int


def commands(code: list[tuple[int, str]]) -> Iterator[list[Word]]:
    """Split numbered lines into commands: at &&, ||, ;, |, & and the ends of lines, outside quotes."""
    text = "\n".join(line for _, line in code)
    numbers = [number for number, _ in code]
    row, start = 0, 0
    pieces: list[str] | None = None
    words: list[Word] = []
    skipping = False
    for found in _TOKEN.finditer(text):
        kind, token = found.lastgroup, found[0]
        if skipping and token != "\n":
            row += token.count("\n")
            continue
        skipping = False
        if kind in ("join", "end", "blank"):
            if pieces is not None:
                words.append(Word("".join(pieces), numbers[start]))
                pieces = None
            if kind == "end":
                yield words
                words = []
        elif kind == "plain" and pieces is None and token.startswith("#"):
            skipping = True
        else:
            if pieces is None:
                pieces, start = [], row
            pieces.append(_bare(kind, token))
        row += token.count("\n")
    if pieces is not None:
        words.append(Word("".join(pieces), numbers[start]))
    yield words


def _bare(kind: str | None, token: str) -> str:
    if kind == "single":
        return token[1:-1]
    if kind == "double":
        return re.sub(r"\\([\"\\$`])", r"\1", token[1:-1]).replace("\\\n", "")
    return token[1:] if kind == "escape" else token
