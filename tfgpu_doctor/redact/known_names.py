"""Names that were learned, found wherever they stand, in one pass over a text however many there are. Pure.

A text is read token by token: a run of ASCII letters and digits, or one other character. The names are a tree of
their tokens, so that a place in the text is compared with all of them at once; the longest wins. No name has more than
LONGEST tokens (a longer one is cut into such pieces), which bounds the work for a place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tfgpu_doctor.redact.placeholders import PLACEHOLDER

LONGEST = 24
_TOKEN = re.compile(r"[A-Za-z0-9]+|[^A-Za-z0-9]")
_END = ""  # the key under which a node holds the kind of the name that ends there
_SEPARATORS = ("\\", "/")


class KnownNames:
    """A set of names with their kinds."""

    def __init__(self, names: Iterable[tuple[str, str]], *, parts_of_paths: bool = False) -> None:
        """`names`: (name, kind), of which the first kind counts. `parts_of_paths`: found between separators only."""
        self._parts = parts_of_paths
        self._root: dict[str, Any] = {}
        for name, kind in names:
            for tokens in _pieces(name):
                node = self._root
                for token in tokens:
                    node = node.setdefault(token, {})
                node.setdefault(_END, kind)
        others = "".join(re.escape(first) for first in self._root if not first.isascii() or not first.isalnum())
        either = rf"[A-Za-z0-9]+|[{others}]" if others else "[A-Za-z0-9]+"
        self._start = re.compile(rf"{PLACEHOLDER.pattern}|{either}")

    def replaced(self, text: str, name: Callable[[str, str], str]) -> str:
        """The text with `name(kind, value)` for every value."""
        if not self._root:
            return text
        pieces, done = [], 0
        for match in self._start.finditer(text):
            if match.start() < done:
                continue
            node = self._root.get(match[0].lower())
            if node is None or (self._parts and not text.endswith(_SEPARATORS, 0, match.start())):
                continue
            kind, end = self._longest(text, match.end(), node)
            if kind:
                pieces += [text[done : match.start()], name(kind, text[match.start() : end])]
                done = end
        return "".join([*pieces, text[done:]])

    def _longest(self, text: str, end: int, node: dict[str, Any]) -> tuple[str, int]:
        """(kind, end) of the longest name that goes on at `end`; an empty kind for none."""
        found = ("", end)
        while True:
            if _END in node and (not self._parts or text[end : end + 1] in (*_SEPARATORS, ".", "")):
                found = (node[_END], end)
            token = _TOKEN.match(text, end)
            node = node.get(token[0].lower()) if token else None  # type: ignore[assignment]
            if node is None or token is None:
                return found
            end = token.end()


def _pieces(name: str) -> Iterator[list[str]]:
    tokens = [token.lower() for token in _TOKEN.findall(name)]
    for start in range(0, len(tokens), LONGEST):
        if piece := tokens[start : start + LONGEST]:
            yield piece
