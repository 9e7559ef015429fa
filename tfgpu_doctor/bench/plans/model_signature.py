"""What a SavedModel's signature takes, and what has to be made up to call it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

UNMADE = ("string", "resource", "variant")  # types for which no input can be made up


class SignatureError(Exception):
    """No inputs can be made for the signature; the message says why, and what to add."""


class ShapeError(Exception):
    """A shape that cannot be read; the message says what can be written."""


def parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """Read --shape "224,224,3" or "images=224,224,3": the input's name ("" for the only one), the shape of one item.

    Raises ShapeError: what is no shape.
    """
    name, equals, numbers = text.rpartition("=")
    parts = [part.strip() for part in numbers.split(",")] if numbers.strip() else []
    if (equals and not name) or not all(part.isascii() and part.isdecimal() and int(part) > 0 for part in parts):
        raise ShapeError(f"--shape {text}: give the shape of one item, for example 224,224,3 or images=224,224,3")
    return name.strip(), tuple(int(part) for part in parts)


def resolve(described: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> tuple[list[dict[str, Any]], int]:
    """The inputs to be made up, and the only batch that the model takes (0: any).

    Args:
        described: what the worker said of the signature.
        shapes: of one item, by the input's name; "" is the only input.

    Raises SignatureError: there is no such signature, or an input cannot be made up.
    """
    if "unusable" in described:
        raise SignatureError(described["unusable"])
    inputs = described["inputs"]
    wanted = _by_name(inputs, shapes)
    specs = [_spec(entry, wanted.get(entry["name"])) for entry in inputs]
    if not specs or any(map(_any_batch, inputs)):
        return specs, 0
    first = {entry["shape"][0] for entry in inputs if entry["shape"]}
    if len(first) != 1:
        raise SignatureError(f"no input has a batch dimension: the signature takes {_listed(inputs)}")
    batched = [{**spec, "shape": spec["shape"][1:], "batched": True} for spec in specs if spec["shape"]]
    return [*batched, *(spec for spec in specs if not spec["shape"])], int(first.pop())


def _by_name(inputs: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """The shapes by the name of an input that there is."""
    names = [entry["name"] for entry in inputs]
    wanted = {names[0] if name == "" and len(names) == 1 else name: shape for name, shape in shapes.items()}
    for name in wanted:
        if name not in names:
            raise SignatureError(f"--shape names {name or 'no input'}: the signature takes {_listed(inputs)}")
    return wanted


def _any_batch(one: Mapping[str, Any]) -> bool:
    """Whether an input takes any number of items: its first dimension, or its whole shape, is open."""
    return one["shape"] is None or (len(one["shape"]) > 0 and one["shape"][0] is None)


def _spec(one: Mapping[str, Any], wanted: tuple[int, ...] | None) -> dict[str, Any]:
    """What `make_inputs` needs for one input."""
    name, shape = one["name"], one["shape"]
    if one["dtype"] in UNMADE:
        raise SignatureError(f"the input {name} is of type {one['dtype']}, for which no input can be generated")
    batched = _any_batch(one)
    rest = None if shape is None else tuple(shape[1:] if batched else shape)
    if wanted is not None:
        if rest is not None and (
            len(rest) != len(wanted) or any(a not in (None, b) for a, b in zip(rest, wanted, strict=True))
        ):
            raise SignatureError(f"--shape {_dims(wanted)} does not match the input {name}: {_listed([one])}")
        rest = wanted
    if rest is None or None in rest:
        raise SignatureError(f"the shape of the input {name} is unknown ({_listed([one])}): add --shape {name}=…")
    return {"name": name, "shape": list(rest), "dtype": one["dtype"], "batched": batched}


def _listed(inputs: Any) -> str:
    return ", ".join(f"{one['name']} {one['dtype']} {_dims(one['shape'])}" for one in inputs) or "nothing"


def _dims(shape: Any) -> str:
    return "of any shape" if shape is None else f"[{', '.join('?' if n is None else str(n) for n in shape)}]"
