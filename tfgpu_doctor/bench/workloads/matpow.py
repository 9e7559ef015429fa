"""A^n and B^n: n-1 products of N×N matrices each, a chain in which every product needs the one before.

Work: 2·N³ FLOP a product, n-1 products a term. Memory: each device holds the matrices and two products of its share.
Spread over several devices in two ways:
  terms  one chain a device (A^n here, B^n there, a further matrix for every further device): the classic example. For
         more devices than two the work grows with them (weak scaling).
  rows   every device computes its block of rows of both powers, rows_g(A)·A·A…, without talking to the others: the
         same work on any number of devices (strong scaling).
Entries are N(0,1)/√N, rounded to what bfloat16 can represent: all types start from the same numbers. docs/measuring.md
says why nothing can be left out, and how results are verified; one wrong element, a zeroed tile, A^(n-1) or A^(n+1), or
arithmetic of another type than was asked for shows in the residual.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

from .training import BaseWorkload, Judgement, finite, misplaced, synchronise, unchanged

UNIT = "FLOP/s"
SEED = 7
METHOD = (
    "C x against A(A(... x)) in float64, 4 vectors of ±1; the results of further samples are the same bit by bit, "
    "or were compared in this way themselves"
)
VECTORS = 4
VECTORS_SEED = 20260
BYTES = {"float64": 8, "float32": 4, "tf32": 4, "float16": 2, "bfloat16": 2}


def flop(size: int, power: int, terms: int) -> float:
    """Floating-point operations of one sample: multiplications and additions."""
    return 2.0 * size**3 * (power - 1) * terms


def device_bytes(size: int, dtype: str, devices: int, spread: str) -> int:
    """Memory that one device needs at most: matrices, for each chain the product read and the one written, and the
    verified result that later ones are compared with."""
    matrix = size * size * BYTES[dtype]
    mask = size * size  # a byte for each comparison
    if devices == 1:
        return 2 * (1 + 2 + 1) * matrix + mask
    if spread == "rows":
        return 2 * matrix + 2 * (1 + 2 + 1) * matrix // devices + mask
    return (1 + 2 + 1) * matrix + mask


def host_bytes(size: int, dtype: str, terms: int) -> int:
    """Memory that the worker needs on the host: the inputs in float32, and results as they come back for a check."""
    return size * size * (4 * terms + max(4, BYTES[dtype]) * (terms + 1))


def make_matrix(size: int, index: int) -> Any:
    """Matrix number `index`, shape [size, size], float32 holding bfloat16-representable values (rounded to nearest)."""
    import numpy as np

    rng = np.random.default_rng([SEED, index])
    matrix = rng.standard_normal((size, size), dtype=np.float32)
    matrix *= np.float32(1.0 / np.sqrt(size))
    bits = matrix.view(np.uint32)
    bits += 0x7FFF + ((bits >> 16) & 1)
    bits &= np.uint32(0xFFFF0000)
    return matrix


# relative rms residual of n products of N(0,1)/√N matrices, nearly independent of N: measured at n = 10 float32
# 1.05e-6, tf32 6e-4 (2.9e-3 where it truncates), bfloat16 5e-3, float16 6e-4; the limits leave room above them.
# TensorFlow 2.21 truncates products in bfloat16 on a CPU without AVX-512 (3.3e-3 for one product, 2.5e-2 for nine):
# what truncates has a bias, so that its error grows with the products and not with their root.
# float64: the limit of float32 scaled by the machine epsilons (2^-53 / 2^-24), doubled as the reference rounds alike
PER_ROOT_N = {"float64": 6.4e-15, "float32": 1.7e-6, "float16": 8e-4}
PER_PRODUCT = {"tf32": 7.5e-4, "bfloat16": 4e-3}
ROW_FACTOR = 8.0  # a single row may be this much worse than the rms of all


def tolerance(dtype: str, power: int) -> float:
    """Return the largest relative rms residual that arithmetic of `dtype` explains, for `power` ≥ 1."""
    if dtype in PER_PRODUCT:
        return PER_PRODUCT[dtype] * max(power - 1, 1)
    return PER_ROOT_N[dtype] * math.sqrt(power)


def is_right(rms: float, worst_row: float, dtype: str, power: int) -> bool:
    """True if `dtype` explains a residual: of all rows, and of the worst one. Not-a-number is never right."""
    limit = tolerance(dtype, power)
    return rms <= limit and worst_row <= ROW_FACTOR * limit


def judge(answer: dict[str, Any], dtype: str, parameters: dict[str, Any]) -> Judgement:
    """Say whether a residual is one that the type explains, which the worker is not asked."""
    power, limit = parameters["power"], tolerance(dtype, parameters["power"])
    rms, worst = (math.nan if answer[name] is None else answer[name] for name in ("rms", "worst_row"))
    why = f"relative error {rms:.2g} (limit {limit:.2g}), of the worst row {worst:.2g} (limit {ROW_FACTOR * limit:.2g})"
    right = is_right(rms, worst, dtype, power)
    return Judgement(
        ok=right,
        method=METHOD,
        residual=answer["rms"],
        tolerance=limit,
        why="" if right else why,
        computed_in="float32" if dtype == "tf32" and is_right(rms, worst, "float32", power) else dtype,
    )


def vectors(size: int) -> Any:
    """Return `VECTORS` vectors of ±1, shape [size, VECTORS], float64."""
    import numpy as np

    return np.random.default_rng(VECTORS_SEED).choice(np.array([-1.0, 1.0]), size=(size, VECTORS))


def times(matrix: Any, columns: Any) -> Any:
    """Return the product in float64, a block of rows at a time: a copy of the whole matrix may not fit."""
    import numpy as np

    blocks = range(0, matrix.shape[0], 1024)
    return np.concatenate([np.asarray(matrix[i : i + 1024], dtype=np.float64) @ columns for i in blocks])


def power_times_vectors(matrix: Any, power: int) -> Any:
    """Return A^power times the vectors, in float64, without ever forming the power; shape [size, VECTORS]."""
    y = vectors(matrix.shape[0])
    for _ in range(power):
        y = times(matrix, y)
    return y


def residual(computed: Any, expected: Any) -> tuple[float, float]:
    """Compare a computed power, shape [size, size], with :func:`power_times_vectors`.

    Returns relative errors: rms over all rows, and the worst single row; not a number where one is none.
    """
    import numpy as np

    error = np.mean((times(computed, vectors(computed.shape[1])) - expected) ** 2, axis=1)
    rms, worst = (float(np.sqrt(square / np.mean(expected**2))) for square in (np.mean(error), np.max(error)))
    return rms, worst


def reference(parameters: dict[str, Any], file: str, terms: int) -> None:
    """Write the powers of the first `terms` matrices times the vectors, in float64, one after the other.

    A file, because the numbers of a large matrix are more than a line of text should carry.
    """
    with Path(file).open("wb") as stream:
        for index in range(terms):
            stream.write(power_times_vectors(make_matrix(parameters["size"], index), parameters["power"]).tobytes())


class Workload(BaseWorkload):
    """Inputs on their devices and a compiled function; built for one list of devices, one type, one spread."""

    def __init__(self, parameters: dict[str, Any], dtype: str, devices: list[str], spread: str) -> None:
        import tensorflow as tf

        super().__init__(parameters, dtype, devices, spread)
        self.size, self.power = parameters["size"], parameters["power"]
        self.terms = len(devices) if spread == "terms" and len(devices) > 1 else 2
        with self.starting("inputs"):
            matrices = [make_matrix(self.size, index) for index in range(self.terms)]
        with self.starting("to devices"):
            self.inputs = self._place(getattr(tf, "float32" if dtype == "tf32" else dtype), matrices)
            synchronise(devices)
        self.function = tf.function(self._chains, jit_compile=False, autograph=False)
        self.trusted: list[Any] = []
        self.expected: Any = None  # float64 [terms, size, vectors], once a result has been verified

    def parts(self) -> list[tuple[str, int, int, int]]:
        """Return who computes what, in the order of the outputs: device, which term, first row, row behind the last."""
        if self.spread == "terms" and len(self.devices) > 1:
            return [(device, term, 0, self.size) for term, device in enumerate(self.devices)]
        edges = [self.size * g // len(self.devices) for g in range(len(self.devices) + 1)]
        shares = list(zip(self.devices, edges, edges[1:]))
        return [(device, term, first, last) for device, first, last in shares for term in range(self.terms)]

    def _place(self, kind: Any, matrices: list[Any]) -> list[tuple[Any, Any]]:
        """For each part: the rows it starts from, and the matrix, on its device."""
        import tensorflow as tf

        placed = []
        for device, term, first, last in self.parts():
            with tf.device(device):
                whole = tf.cast(tf.constant(matrices[term]), kind)
                rows = whole if (first, last) == (0, self.size) else tf.identity(whole[first:last])
            placed.append((rows, whole))
        return placed

    def _chains(self, inputs: Any) -> Any:
        import tensorflow as tf

        results = []
        for (device, *_), (rows, whole) in zip(self.parts(), inputs):
            with tf.device(device):
                product = rows
                for _ in range(self.power - 1):
                    product = tf.matmul(product, whole)
                results.append(tf.identity(product))
        return results

    def sample(self, _steps: int) -> float:
        """Seconds of one computation of all powers, from the call to the last device's end; `steps` is always 1."""
        self.outputs = []  # the memory of the last result is free for the next
        started = time.perf_counter()
        self.outputs = self.function(self.inputs)
        synchronise(self.devices, (output[:1, :1] for output in self.outputs))
        return time.perf_counter() - started

    def verify(self, request: dict[str, Any]) -> dict[str, Any]:
        """Residuals of the last result against the file that `reference` wrote; later results must equal this one."""
        import numpy as np

        self.expected = np.fromfile(request["file"]).reshape(-1, self.size, VECTORS)
        self.trusted, self.verified = self.outputs, True
        return self.compare()

    def unchanged(self) -> bool:
        return unchanged([device for device, *_ in self.parts()], self.outputs, self.trusted)

    def compare(self) -> dict[str, Any]:
        """The worst residual of all powers; None where it is no number, which `max` of NumPy hands on."""
        import numpy as np

        computed = self.results()
        assert len(computed) <= len(self.expected), "the reference holds too few powers"
        found = [residual(one, expected) for one, expected in zip(computed, self.expected)]
        rms, worst_row = (finite(float(np.max(column))) for column in zip(*found))
        return {"rms": rms, "worst_row": worst_row}

    def misplaced(self) -> str | None:
        """Say what was computed elsewhere than asked for, by the results and by the graph; None when nothing was."""
        wanted = [device for device, *_ in self.parts()]
        return misplaced(wanted, self.placed_on(), self.function.get_concrete_function(self.inputs).graph)

    def results(self) -> list[Any]:
        """Whole powers, a NumPy array of float32 or float64 for each term, shape [size, size]."""
        import numpy as np
        import tensorflow as tf

        kind = tf.float64 if self.dtype == "float64" else tf.float32
        found: list[list[Any]] = [[] for _ in range(self.terms)]
        with tf.device("/CPU:0"):
            for (_, term, _, _), output in zip(self.parts(), self.outputs):
                found[term].append(tf.cast(output, kind).numpy())
        return [np.concatenate(blocks) if len(blocks) > 1 else blocks[0] for blocks in found]
