"""What can be exchanged between two machines: a fact, an element of it, a field of that element. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

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


def exchange(base: Facts, source: Facts, paths: Iterable[FactPath]) -> Facts:
    """Return `base` with the values of `source` at `paths`."""
    by_fact: dict[str, list[FactPath]] = {}
    for path in dict.fromkeys(paths):
        by_fact.setdefault(path.path, []).append(path)
    for fact, wanted in by_fact.items():
        base = _set(base, fact.split("."), _exchanged(base, source, fact, wanted))
    return base


def _exchanged(base: Facts, source: Facts, fact: str, paths: list[FactPath]) -> Any:
    old, new = look_up(base, fact), look_up(source, fact)
    if any(path.key is None for path in paths):
        return new
    items, wanted = elements(base, fact), elements(source, fact)
    if items is None or wanted is None:
        return new
    for path in paths:
        _exchange_element(items, wanted, path)
    if fact == "messages":
        return Known(tuple(line for lines in items.values() for line in lines), old.source)
    if not isinstance(old, Known):
        return tuple(items.values())
    return Known(items if isinstance(old.value, dict) else tuple(items.values()), old.source, old.grade)


def _exchange_element(items: dict[str, Any], wanted: dict[str, Any], path: FactPath) -> None:
    key = path.key or ""
    if path.field is None and key in wanted:
        items[key] = wanted[key]
    elif path.field is None:
        items.pop(key, None)
    elif key in items and key in wanted:
        items[key] = replace(items[key], **{path.field: getattr(wanted[key], path.field)})


def _set(record: Any, path: list[str], value: Any) -> Any:
    head, *rest = path
    return replace(record, **{head: _set(getattr(record, head), rest, value) if rest else value})
