"""What the verification lets pass, and the errors that it must catch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.tables import each
from tfgpu_doctor.bench.workloads.matpow import is_right, make_matrix, power_times_vectors, residual, tolerance, vectors

SIZE, POWER = 256, 10
A, B = make_matrix(SIZE, 0), make_matrix(SIZE, 1)
EXPECTED = power_times_vectors(A, POWER)


def chain(matrix: Any, power: int = POWER, rounded: Callable[[Any], Any] = lambda array: array) -> Any:
    """A power as a device computes it: products summed in the matrix's type, operands rounded before each."""
    product, factor = rounded(matrix), rounded(matrix)
    for _ in range(power - 1):
        product = rounded(product) @ factor
    return product


def to_mantissa(bits: int, *, truncate: bool = False) -> Callable[[Any], Any]:
    """Keep `bits` bits of a float32's mantissa: 10 is TF32, 7 is bfloat16."""
    drop = 23 - bits

    def rounded(array: Any) -> Any:
        raw = array.astype(np.float32).view(np.uint32)
        raw = raw if truncate else raw + (1 << (drop - 1)) - 1 + ((raw >> drop) & 1)
        return (raw & np.uint32(0xFFFFFFFF << drop & 0xFFFFFFFF)).view(np.float32)

    return rounded


GOOD = chain(A)
TF32 = chain(A, rounded=to_mantissa(10))
TF32_TRUNCATED = chain(A, rounded=to_mantissa(10, truncate=True))
BFLOAT16 = to_mantissa(7)(chain(A, rounded=to_mantissa(7)))
BFLOAT16_TRUNCATED = to_mantissa(7, truncate=True)(chain(A, rounded=to_mantissa(7, truncate=True)))


def judged(computed: Any, dtype: str = "float32") -> bool:
    return is_right(*residual(computed, EXPECTED), dtype, POWER)


@each(
    ("computed", "dtype"),
    [
        (GOOD, "float32"),
        (chain(A.astype(np.float64)), "float64"),
        (TF32, "tf32"),
        (TF32_TRUNCATED, "tf32"),
        (BFLOAT16, "bfloat16"),
        (BFLOAT16_TRUNCATED, "bfloat16"),
    ],
)
def test_right_results_pass(computed: Any, dtype: str) -> None:
    assert judged(computed, dtype)


def planted(place: Any, value: Any) -> Any:
    computed = GOOD.copy()
    computed[place] = value
    return computed


# an element of the usual size
USUAL = np.unravel_index(np.argmin(np.abs(np.abs(GOOD) - np.sqrt(np.mean(GOOD**2)))), GOOD.shape)
FLIPPED = (GOOD[USUAL].view(np.uint32) ^ np.uint32(1 << 22)).view(np.float32)
SMALL = {
    "one per cent off": planted(USUAL, 1.01 * GOOD[USUAL]),
    "a bit": planted(USUAL, FLIPPED),
}  # short types hide it
GROSS = {
    "zeroed tile": planted(np.s_[64:80, 128:144], 0),
    "not a number": planted((3, 5), np.nan),
    "infinite": planted((3, 5), np.inf),
    "swapped rows": planted([10, 11], GOOD[[11, 10]]),
}
OTHERS = (chain(A, POWER - 1), chain(A, POWER + 1), chain(B), GOOD.T, np.zeros_like(GOOD), -GOOD)
SHORTER = ((TF32, "float32"), (TF32_TRUNCATED, "float32"), (BFLOAT16, "float32"), (GOOD, "float64"))


def test_planted_errors_other_computations_and_shorter_types_are_caught() -> None:
    assert [name for name, one in (SMALL | GROSS).items() if judged(one)] == []
    short = ("tf32", "bfloat16", "float16")
    assert [(name, dtype) for name, one in GROSS.items() for dtype in short if judged(one, dtype)] == []
    types = ("float32", *short)
    assert [(number, dtype) for number, one in enumerate(OTHERS) for dtype in types if judged(one, dtype)] == []
    assert [number for number, (computed, dtype) in enumerate(SHORTER) if judged(computed, dtype)] == []


def test_limits() -> None:
    assert tolerance("float32", 10) == pytest.approx(1.7e-6 * 10**0.5)
    assert tolerance("tf32", 10) == pytest.approx(7.5e-4 * 9)
    assert tolerance("bfloat16", 4) == pytest.approx(0.012)
    assert tolerance("float16", 4) == pytest.approx(1.6e-3)


def test_reference_is_the_power_times_the_vectors() -> None:
    power = np.linalg.matrix_power(A.astype(np.float64), POWER)
    np.testing.assert_allclose(EXPECTED, power @ vectors(SIZE), rtol=1e-9, atol=1e-12)
    assert set(np.unique(vectors(SIZE))) == {-1.0, 1.0}


@each("size", [64, 1000])
def test_matrices_hold_what_every_type_can_represent(size: int) -> None:
    matrix, other = make_matrix(size, 0), make_matrix(size, 1)
    assert matrix.dtype == np.float32
    assert not np.any(matrix.view(np.uint32) & 0xFFFF)  # the mantissa of bfloat16
    assert np.std(matrix) == pytest.approx(size**-0.5, rel=0.1)
    assert not np.array_equal(matrix, other)
    np.testing.assert_array_equal(matrix, make_matrix(size, 0))
