"""What the children that ask the driver may print: objects of JSON, a line each. Pure.

A child shares its output with the libraries that it loads, so that a line can be anything; one that is none of ours, or
has another shape, is no answer.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

Index = Annotated[int, Meta(ge=0, lt=4096)]
Number = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Described = tuple[int, str, str]  # code, name, message
# key → shape of its value, where it is not a number
_VALUES: dict[str, Any] = {
    **dict.fromkeys(("name", "uuid", "pci_bus_id", "driver_version"), str),
    "count": Index,
    "compute_capability": tuple[int, int],
    "memory": tuple[Number, Number, Number],
    "compute_processes": tuple[tuple[Number, Number | None], ...],
    "graphics_processes": tuple[tuple[Number, Number | None], ...],
    "mig_instances": tuple[str, ...],
    "nvlinks": tuple[tuple[int, bool, str | None], ...],
    "remapped_rows": Annotated[tuple[Number, ...], Meta(min_length=4)],
}


class _Line(Struct):
    """Everything that any of them says; a heading (gpu, pair, system) has a key with a value or an error."""

    begin: str | None = None
    load: str | None = None
    error: Described | str | None = None
    init: Described | None = None
    key: str | None = None
    value: Any = None
    gpu: Index | None = None
    pair: tuple[Index, Index] | None = None
    system: bool = False
    device: Index | None = None
    name: str | None = None
    pci_bus_id: str | None = None
    multiprocessors: Number | None = None
    compute_capability: str | None = None
    memory_total: Number | None = None


def parse(line: str) -> dict[str, Any] | None:
    """An answer of a child; None for anything else."""
    if not line.startswith("{"):
        return None
    try:
        found: dict[str, Any] = json.loads(line)
    except (ValueError, RecursionError):
        return None
    try:
        known = msgspec.convert(found, _Line)
        if known.begin is None and (known.gpu is not None or known.pair or known.system):
            key = found["key"]
            if "error" in found:
                msgspec.convert(known.error, Described)
            else:
                msgspec.convert(found["value"], _VALUES.get(key, Number))
    except (msgspec.ValidationError, KeyError):
        return None
    return (
        found if all(found[name] is not None for name in ("gpu", "device", "pair", "init") if name in found) else None
    )
