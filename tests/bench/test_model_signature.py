"""What a SavedModel's signature takes, and what cannot be made up."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tables import each
from tfgpu_doctor.bench.plans.inference import RequestError, SignatureError, parse_shape, resolve


def signature(*inputs: tuple[str, Any, str]) -> dict[str, Any]:
    return {"name": "serving_default", "inputs": [{"name": n, "shape": s, "dtype": d} for n, s, d in inputs]}


@each(
    ("text", "expected"),
    [
        ("224,224,3", ("", (224, 224, 3))),
        ("images=28, 28", ("images", (28, 28))),
        ("a=b=4", ("a=b", (4,))),
        ("x=", ("x", ())),
    ],
)
def test_a_shape_is_read(text: str, expected: tuple[str, tuple[int, ...]]) -> None:
    assert parse_shape(text) == expected


@each("text", ["0", "x=-1", "x=2,", "2x2", "=3", "٣", "1.5"])
def test_what_is_no_shape(text: str) -> None:
    with pytest.raises(RequestError, match="give the shape of one item, for example 224,224,3"):
        parse_shape(text)


@each(
    ("inputs", "shapes", "expected", "fixed"),
    [
        ([("x", [None, 4], "float32")], {}, [("x", [4], True)], 0),
        ([("x", [None, None, 3], "float32")], {"": (8, 3)}, [("x", [8, 3], True)], 0),
        ([("x", None, "float32")], {"x": (2,)}, [("x", [2], True)], 0),
        ([("x", None, "float32")], {"x": ()}, [("x", [], True)], 0),
        ([("x", [None, 4], "float32"), ("t", [], "bool")], {}, [("x", [4], True), ("t", [], False)], 0),
        ([("x", [None, 4], "float32"), ("k", [2], "int32")], {}, [("x", [4], True), ("k", [2], False)], 0),
        ([("x", [8, 4], "float32"), ("y", [8], "int64")], {}, [("x", [4], True), ("y", [], True)], 8),
        ([("x", [1, 4], "float32"), ("t", [], "bool")], {}, [("x", [4], True), ("t", [], False)], 1),
        ([], {}, [], 0),
    ],
)
def test_inputs_that_can_be_made_up(
    inputs: list[Any], shapes: dict[str, Any], expected: list[tuple[str, list[int], bool]], fixed: int
) -> None:
    specs, batch = resolve(signature(*inputs), shapes)
    assert [(one["name"], one["shape"], one["batched"]) for one in specs] == expected
    assert batch == fixed


@each(
    ("inputs", "shapes", "why"),
    [
        (
            [("x", [None, None], "float32")],
            {},
            r"the shape of the input x is unknown \(x float32 \[\?, \?\]\): add --shape",
        ),
        ([("x", None, "float32")], {}, "add --shape x=…"),
        ([("x", [None], "string")], {}, "is of type string, for which no input can be generated"),
        ([("x", [None, 4], "float32")], {"x": (5,)}, "does not match the input x"),
        ([("x", [None, 4], "float32")], {"": (4, 4)}, "does not match the input x"),
        ([("x", [None, 4], "float32")], {"y": (4,)}, r"--shape names y: the signature takes x float32 \[\?, 4\]"),
        ([("x", [None], "float32"), ("y", [None], "float32")], {"": (4,)}, "--shape names no input"),
        ([("x", [2, 4], "float32"), ("y", [3], "float32")], {}, "no input has a batch dimension"),
    ],
)
def test_inputs_that_cannot(inputs: list[Any], shapes: dict[str, Any], why: str) -> None:
    with pytest.raises(SignatureError, match=why):
        resolve(signature(*inputs), shapes)


def test_a_signature_that_is_not_there() -> None:
    with pytest.raises(SignatureError, match="there is no signature x"):
        resolve({"unusable": "there is no signature x: it has y"}, {})
