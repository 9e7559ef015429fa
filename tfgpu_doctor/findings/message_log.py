"""The messages of programs, as signs ask for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from tfgpu_doctor.parsers import messages as catalogue
from tfgpu_doctor.records.facts import Message
from tfgpu_doctor.records.report import Evidence

# how a program ends, whatever the reason
OF_ANY_CRASH = ("aborted", "segmentation-fault", "exception", "traceback")


@dataclass(frozen=True)
class MessageLog:
    """Messages by kind."""

    messages: tuple[Message, ...]

    @cached_property
    def _by_kind(self) -> dict[str, list[Message]]:
        kinds: dict[str, list[Message]] = {}
        for message in self.messages:
            kinds.setdefault(message.kind, []).append(message)
        return kinds

    def all(self, *kinds: str) -> tuple[Message, ...]:
        """Every message of these kinds, in the order of the kinds."""
        return tuple(message for kind in kinds for message in self._by_kind.get(kind, ()))

    def first(self, *kinds: str) -> Message | None:
        """The first message of the first kind that was printed."""
        return next(iter(self.all(*kinds)), None)

    def has(self, *kinds: str) -> bool:
        """Whether any of these kinds was printed."""
        return any(kind in self._by_kind for kind in kinds)

    def values(self, kind: str, name: str) -> tuple[str, ...]:
        """A value of every message of a kind that has it."""
        return tuple(m.values[name] for m in self._by_kind.get(kind, ()) if name in m.values)

    @property
    def complains(self) -> bool:
        """Whether any program reports a failure, so that what is merely stated is not the question."""
        return any(map(catalogue.is_failure, self._by_kind))

    def speaks_only_of(self, *kinds: str) -> bool:
        """Whether these kinds are the only failures."""
        return all(kind in kinds or not catalogue.is_failure(kind) for kind in self._by_kind)

    @property
    def stops_import(self) -> bool:
        """Whether TensorFlow could not even be imported or installed."""
        return any(map(catalogue.stops_import, self._by_kind))

    def libraries(self, *kinds: str) -> Iterator[tuple[str, Message]]:
        """File names of the libraries that messages name, without their folders."""
        for message in self.all(*kinds):
            if name := message.values.get("library"):
                yield name.replace("\\", "/").rsplit("/", 1)[-1], message


def message_evidence(*messages: Message | None, need: str | None = None, most: int = 4) -> tuple[Evidence, ...]:
    """Messages as evidence, each line once."""
    found: dict[int, Evidence] = {}
    for message in messages:
        if message is not None:
            times = f", {message.count} times" if message.count > 1 else ""
            source = f"{message.source}, " if message.source else ""
            found.setdefault(message.line, Evidence(message.text, f"{source}line {message.line}{times}", need))
    return tuple(found.values())[:most]
