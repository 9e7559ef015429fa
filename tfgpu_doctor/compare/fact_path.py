"""Where two machines differ: a fact, an element of it, a field of that element. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tfgpu_doctor.records.facts import Facts, Known, Unknown, about, look_up


@dataclass(frozen=True)
class FactPath:
    """A fact by its path; with `key`, one element of its collection; with `field`, that field of the element."""

    path: str
    key: str | None = None
    field: str | None = None

    @property
    def id(self) -> str:
        """The path as one text: "gpus.0.name"."""
        return ".".join(part for part in (self.path, self.key, self.field) if part is not None)


def elements(facts: Facts, path: str) -> dict[str, Any] | None:
    """The elements of a collection by the key that its declaration names; None when it is unknown."""
    found = look_up(facts, path)
    if isinstance(found, Unknown):
        return None
    value, key = found.value if isinstance(found, Known) else found, about(path).key
    if path == "messages":  # the lines of one kind go together: their numbers differ from run to run
        kinds = dict.fromkeys(message.kind for message in value)
        return {kind: tuple(message for message in value if message.kind == kind) for kind in kinds}
    return dict(value) if isinstance(value, dict) else {str(getattr(item, key)): item for item in value}


def value_at(facts: Facts, where: FactPath) -> Any:
    """The fact or plain value; None for an element that is not in the collection."""
    found = look_up(facts, where.path)
    if where.key is None or isinstance(found, Unknown):
        return found
    element = (elements(facts, where.path) or {}).get(where.key)
    return element if where.field is None else getattr(element, where.field, None)
