"""What stands for a private value: ``<user>``, ``<host-1>``. The same value gets the same one everywhere. Pure."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable

_KINDS = "user|host|path|name|secret|email|uuid|serial|mac|address|phone"
PLACEHOLDER = re.compile(rf"<(?:{_KINDS})(?:-\d+)?>")


class Placeholders:
    """Gives them out, in the order in which values are met; those of an earlier redaction are never given again."""

    def __init__(self, taken: Iterable[str], uuids: Iterable[str]) -> None:
        """Begin with the placeholders that the texts hold already, and all their UUIDs."""
        self._taken = set(taken)
        self._uuids = sorted(uuid.lower() for uuid in uuids)
        self._given: dict[tuple[str, str], str] = {}
        self._last: dict[str, int] = {}

    def of(self, kind: str, value: str) -> str:
        """The placeholder of a value."""
        if PLACEHOLDER.fullmatch(value):
            return value
        key = (kind, value.lower())
        if key not in self._given:
            self._given[key] = self._next(kind)
        return self._given[key]

    def has(self, kind: str, value: str) -> bool:
        """Whether the value was met before."""
        return (kind, value.lower()) in self._given

    def of_uuid(self, start: str) -> str:
        """That of the UUID that begins so: CUDA_VISIBLE_DEVICES may name a GPU by its first characters."""
        start = start.lower()
        place = bisect_left(self._uuids, start)
        whole = self._uuids[place] if place < len(self._uuids) else ""
        return self.of("uuid", whole if whole.startswith(start) else start)

    def _next(self, kind: str) -> str:
        while True:
            number = self._last[kind] = self._last.get(kind, 0) + 1
            one = f"<{kind}>" if kind == "user" and number == 1 else f"<{kind}-{number}>"
            if one not in self._taken:
                return one
