"""How a field of the facts describes itself, in its declaration.

    memory: Annotated[Fact[int], public("memory", unit="bytes")] = NOT_EXAMINED

The comparison, the redaction and the renderers read these descriptions, so that a new field is declared in one place.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

# the stack from the hardware up to TensorFlow
Layer = Literal["Machine", "GPU", "Driver", "CUDA", "cuDNN", "Python", "TensorFlow", "Devices", "Compute"]
Os: TypeAlias = Literal["linux", "windows", "wsl2", "macos"]
Processor: TypeAlias = Literal["x86_64", "aarch64", "arm64"]
OSES: tuple[Os, ...] = get_args(Os)
PROCESSORS: tuple[Processor, ...] = get_args(Processor)
SYSTEMS = {"linux": "Linux", "windows": "Windows", "wsl2": "WSL2", "macos": "macOS"}
LAYERS: tuple[Layer, ...] = get_args(Layer)

# the units of texts that are names, whatever they look like: of a host, of a file that is called after its host, and
# those that people give to what is theirs
HOST, HOST_FILE, OWN_NAME = "host", "host's file", "own name"
NAMES = frozenset({HOST, HOST_FILE, OWN_NAME})

# state: what somebody can change; observation: what was seen when trying; noise: what differs from minute to minute
Grade = Literal["state", "observation", "noise"]


class About(NamedTuple):
    """The description of one field."""

    label: str  # for people: "newest CUDA that the driver supports"
    is_public: bool  # its value names no person, host or place; the source of a value is never public
    layer: Layer | None = None  # None: that of the field above
    # of a number: "bytes", "MHz"; of a long tuple: what it counts, "lines"; of a text: "path", HOST, OWN_NAME
    unit: str = ""
    grade: Grade = "state"  # what it means when the field differs between two reports
    group: str = ""  # fields of one group are changed by one act: a new driver
    key: str = ""  # of a collection: the field that names an element
    element: str = "{}"  # and what such an element is called: "GPU {}"


def public(label: str, **more: Any) -> About:
    """Describe a field whose value can be shown to anybody: a closed vocabulary, a version, a number."""
    return About(label, True, **more)


def private(label: str, **more: Any) -> About:
    """Describe a field whose value is redacted."""
    return About(label, False, **more)


@cache
def described(record: type) -> dict[str, About]:
    """The descriptions of a record's fields, by field; fields without one are left out."""
    hints = ((name, getattr(hint, "__metadata__", ())) for name, hint in _hints(record).items())
    return {name: one for name, metadata in hints for one in metadata if isinstance(one, About)}


@cache
def inner_records(record: type) -> dict[str, type]:
    """The records that the fields of a record hold, or hold collections of, by field."""
    found = ((name, next(_records(hint), None)) for name, hint in _hints(record).items())
    return {name: inner for name, inner in found if inner is not None}


@cache
def closed_fields(record: type) -> frozenset[str]:
    """The fields whose type is a closed list of words."""
    return frozenset(name for name, hint in _hints(record).items() if _is_closed(hint))


@cache
def records_in(record: type) -> tuple[type, ...]:
    """The record and all that its fields hold, however deep."""
    inner = (one for found in inner_records(record).values() for one in records_in(found))
    return tuple(dict.fromkeys((record, *inner)))


def _hints(record: type) -> dict[str, Any]:
    return get_type_hints(record, include_extras=True)


def _is_closed(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        return _is_closed(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return all(one is NoneType or _is_closed(one) for one in get_args(hint))
    return get_origin(hint) is Literal


def _records(hint: Any) -> Iterator[type]:
    """Records in a type: of Annotated[Known[tuple[Gpu, ...]] | Unknown, ...] it is Gpu."""
    if isinstance(hint, type) and issubclass(hint, Struct) and not get_args(hint) and hint.__name__ != "Unknown":
        yield hint
    for inner in get_args(hint):
        yield from _records(inner)
