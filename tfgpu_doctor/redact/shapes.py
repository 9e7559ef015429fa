"""An expression for private values, with what it takes to try it. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

Match = re.Match[str]


class Shape(NamedTuple):
    """Every group of the expression is a private value (without groups: all of it); `kinds` says of which kinds."""

    kinds: tuple[str, ...]
    needles: tuple[str, ...]  # lower case; one of them stands in the text, else it is not searched
    pattern: re.Pattern[str]
    accepts: Callable[[Match], bool] | None = None

    def found_in(self, text: str) -> Iterator[Match]:
        """The matches in a text."""
        return (match for match in self.pattern.finditer(text) if self.accepts is None or self.accepts(match))

    def replaced(self, text: str, name: Callable[[str, str], str]) -> str:
        """The text with `name(kind, value)` for every value."""
        pieces, done = [], 0
        for match in self.found_in(text):
            for kind, start, end in self.values(match):
                pieces += [text[done:start], name(kind, text[start:end])]
                done = end
        return "".join([*pieces, text[done:]]) if pieces else text

    def values(self, match: Match) -> Iterator[tuple[str, int, int]]:
        """(kind, start, end) of each value of a match, in order."""
        for group in range(1, self.pattern.groups + 1) if self.pattern.groups else (0,):
            if match[group]:
                yield self.kinds[max(group - 1, 0) % len(self.kinds)], *match.span(group)


def shape(
    kinds: str, needles: str, pattern: str, flags: int = 0, accepts: Callable[[Match], bool] | None = None
) -> Shape:
    """Build a shape; kinds and needles are separated by blanks, and ␣ in a needle is one."""
    words = tuple(needle.replace("␣", " ") for needle in needles.split())
    return Shape(tuple(kinds.split()), words or ("",), re.compile(pattern, flags), accepts)


class Shapes(tuple[Shape, ...]):
    """Shapes in their order, of which only those are tried that a text may hold."""

    def __init__(self, _shapes: Iterable[Shape]) -> None:
        """Collect them by their needles."""
        self._table = tuple((needle, one) for one in self for needle in one.needles)

    def in_text(self, text: str) -> Iterable[Shape]:
        """Those of which a needle stands in the text."""
        lower = text.lower()
        return dict.fromkeys([one for needle, one in self._table if needle in lower])

    def replaced(self, text: str, name: Callable[[str, str], str]) -> str:
        """The text with `name(kind, value)` for every value."""
        for one in self.in_text(text):
            text = one.replaced(text, name)
        return text
