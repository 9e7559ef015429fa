"""On which line each key and each string of a TOML file stands: the parsers of TOML do not tell."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r'(?P<long>"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\')'
    r'|(?P<string>"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\')'
    r"|(?P<comment>#[^\n]*)"
    r"|(?P<mark>[\n\[\]{}=,])"
    r"|(?P<word>[^\s\[\]{}=,\"'#]+)",
    re.DOTALL,
)


class TomlPlaces:
    """The lines of a TOML file that is known to be valid."""

    def __init__(self, text: str) -> None:
        self._table, self._key = "", ""
        self._depth = 0
        self._in_value = False
        self._head: list[str] = []  # the words of a table's header or of a key
        self._keys: dict[str, int] = {}  # the first line of each key, and of what is below it
        self._strings: dict[tuple[str, str], int] = {}
        line = 1
        for found in _TOKEN.finditer(text):
            token = found[0]
            if found.lastgroup == "mark":
                self._mark(token, line)
            elif found.lastgroup != "comment":
                self._word(token, line)
            line += token.count("\n")

    def _mark(self, token: str, line: int) -> None:
        if token == "\n":
            if self._depth == 0:
                self._in_value, self._head = False, []
        elif self._in_value:
            self._depth += (token in "[{") - (token in "]}")
        elif token == "=":
            self._key = ".".join(filter(None, [self._table, "".join(self._head)]))
            self._in_value = True
            self._note(self._key, line)
        elif token == "]":
            self._table = "".join(self._head)
            self._note(self._table, line)

    def _word(self, token: str, line: int) -> None:
        plain = token
        if token[0] in "\"'":
            plain = token[3:-3] if len(token) > 5 and token[:3] == token[0] * 3 else token[1:-1]
        if not self._in_value:
            self._head.append(plain)
        else:
            for key in (self._key, self._key.rpartition(".")[0]):
                self._strings.setdefault((key, plain), line)

    def _note(self, key: str, line: int) -> None:
        parts = key.split(".")[:10]
        for end in range(1, len(parts) + 1):
            self._keys.setdefault(".".join(parts[:end]), line)

    def line(self, key: str, text: str | None = None) -> int:
        """The line of a string below a dotted key; of the key where it is not found; 1 where neither is."""
        found = self._strings.get((key, text)) if text is not None else None
        return found or self._keys.get(key, 1)
