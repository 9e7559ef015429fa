"""Whether a computed matrix power is right: against an independent chain of matrix-vector products in float64.

Runs in the worker, with NumPy alone. For vectors x of ±1, y = A(A(... (A x))) costs n·N² instead of n·N³, and C x must
equal y for C = A^n: one wrong element, a zeroed tile, A^(n-1) or A^(n+1), or arithmetic of another type than was asked
for shows in the residual.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

VECTORS = 4
SEED = 20260
# relative rms residual of n products of N(0,1)/√N matrices, nearly independent of N: measured at n = 10 float32
# 1.05e-6, tf32 6e-4 (2.9e-3 where it truncates), bfloat16 5e-3, float16 6e-4; the limits leave room above them.
# TensorFlow 2.21 truncates products in bfloat16 on a CPU without AVX-512 (3.3e-3 for one product, 2.5e-2 for nine):
# what truncates has a bias, so that its error grows with the products and not with their root.
# float64: the limit of float32 scaled by the machine epsilons (2^-53 / 2^-24), doubled as the reference rounds alike
PER_ROOT_N = {"float64": 6.4e-15, "float32": 1.7e-6, "float16": 8e-4}
PER_PRODUCT = {"tf32": 7.5e-4, "bfloat16": 4e-3}
ROW_FACTOR = 8.0  # a single row may be this much worse than the rms of all


class Residual(NamedTuple):
    """Relative errors: rms over all rows, and the worst single row."""

    rms: float
    worst_row: float


def tolerance(dtype: str, power: int) -> float:
    """The largest relative rms residual that arithmetic of `dtype` explains, for `power` ≥ 1."""
    if dtype in PER_PRODUCT:
        return PER_PRODUCT[dtype] * max(power - 1, 1)
    return PER_ROOT_N[dtype] * math.sqrt(power)


def vectors(size: int) -> Any:
    """`VECTORS` vectors of ±1, shape [size, VECTORS], float64."""
    import numpy as np

    return np.random.default_rng(SEED).choice(np.array([-1.0, 1.0]), size=(size, VECTORS))


def reference(matrix: Any, power: int) -> Any:
    """A^power times the vectors, in float64, without ever forming the power; shape [size, VECTORS]."""
    import numpy as np

    y = vectors(matrix.shape[0])
    rows = 1024  # converted a block of rows at a time: a float64 copy of the whole matrix may not fit
    for _ in range(power):
        y = np.concatenate([matrix[i : i + rows].astype(np.float64) @ y for i in range(0, matrix.shape[0], rows)])
    return y


def residual(computed: Any, expected: Any) -> Residual:
    """Compare a computed power, shape [size, size], with :func:`reference`."""
    import numpy as np

    x = vectors(computed.shape[1])
    rows = 1024
    seen = np.concatenate(
        [np.asarray(computed[i : i + rows], dtype=np.float64) @ x for i in range(0, computed.shape[0], rows)]
    )
    scale = math.sqrt(float(np.mean(expected**2)))
    error = seen - expected
    rms = math.sqrt(float(np.mean(error**2))) / scale
    worst = math.sqrt(float(np.max(np.mean(error**2, axis=1)))) / scale
    return Residual(rms, worst)


def is_right(found: Residual, dtype: str, power: int) -> bool:
    """Whether the residual is one that `dtype` explains. Not-a-number is never right."""
    limit = tolerance(dtype, power)
    return found.rms <= limit and found.worst_row <= ROW_FACTOR * limit
