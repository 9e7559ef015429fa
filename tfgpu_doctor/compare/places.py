"""Places in the facts that can be exchanged between two machines: a fact, an element of it, a field of that. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from tfgpu_doctor.records.facts import Facts, Known, Unknown, look_up


@dataclass(frozen=True)
class Place:
    """A fact by its path; with `key`, one element of its collection; with `field`, that field of the element."""

    path: str
    key: str | None = None
    field: str | None = None


# collections whose elements have names of their own
KEYS: dict[str, Callable[[Any], str]] = {
    "python.packages": lambda item: item.name,
    "cuda.conda_packages": lambda item: item.name,
    "cuda.toolkits": lambda item: item.path,
    "cudnn.installed": lambda item: item.path,
    "loader.sonames": lambda item: item.soname,
    "host.pci_gpus": lambda item: item.address,
    "gpus": lambda item: str(item.index),
    "tensorflow.phases": lambda item: item.name,
}


def elements(facts: Facts, path: str) -> dict[str, Any] | None:
    """The elements of a collection by name; None when it is unknown."""
    found = look_up(facts, path)
    if isinstance(found, Unknown):
        return None
    value = found.value if isinstance(found, Known) else found
    if path == "messages":  # the lines of one kind go together: their numbers differ from run to run
        return {kind: tuple(one for one in value if one.kind == kind) for kind in dict.fromkeys(m.kind for m in value)}
    return dict(value) if isinstance(value, dict) else {KEYS[path](item): item for item in value}


def exchange(base: Facts, source: Facts, places: Iterable[Place]) -> Facts:
    """Return `base` with the values of `source` at `places`."""
    by_path: dict[str, list[Place]] = {}
    for place in dict.fromkeys(places):
        by_path.setdefault(place.path, []).append(place)
    for path, wanted in by_path.items():
        base = _set(base, path.split("."), _exchanged(base, source, path, wanted))
    return base


def _exchanged(base: Facts, source: Facts, path: str, places: list[Place]) -> Any:
    theirs, mine = look_up(source, path), look_up(base, path)
    if any(place.key is None for place in places):
        return theirs
    ours, wanted = elements(base, path), elements(source, path)
    if ours is None or wanted is None:
        return theirs
    for place in places:
        _exchange_element(ours, wanted, place)
    if path == "messages":
        return Known(tuple(one for lines in ours.values() for one in lines), mine.source)
    if not isinstance(mine, Known):
        return tuple(ours.values())
    return Known(ours if isinstance(mine.value, dict) else tuple(ours.values()), mine.source)


def _exchange_element(ours: dict[str, Any], wanted: dict[str, Any], place: Place) -> None:
    key = place.key or ""
    if place.field is None and key in wanted:
        ours[key] = wanted[key]
    elif place.field is None:
        ours.pop(key, None)
    elif key in ours and key in wanted:
        ours[key] = replace(ours[key], **{place.field: getattr(wanted[key], place.field)})


def _set(record: Any, path: list[str], value: Any) -> Any:
    head, *rest = path
    return replace(record, **{head: _set(getattr(record, head), rest, value) if rest else value})
