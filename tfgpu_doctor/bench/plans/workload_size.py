"""How large the matrices are: chosen by speed, bounded by memory, and by what can still be verified. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tfgpu_doctor.bench.devices import Case
from tfgpu_doctor.bench.verification import tolerance
from tfgpu_doctor.bench.workloads import matpow

TARGET = 1.0  # seconds that a sample of the slowest device shall take
SMALLEST, LARGEST = 256, 16384
SHARE = 0.8  # of the free memory that the benchmark may take
# What a process needs besides matrices, roughly: TensorFlow itself (0.5 GiB resident after a product), and on a GPU its
# CUDA context with the kernels that it loads and the workspace of cuBLAS.
PROCESS = 2**29
CONTEXT = 3 * 2**28
VERIFIABLE = 0.1  # tolerance above which a wrong power could pass: that of another matrix has a residual of 1.4
HOST = "the host's memory"


class TooLargeError(Exception):
    """The matrices do not fit into a memory; the message says which, and what would fit."""


def sane_size(flop: float, power: int) -> int:
    """The round size whose sample (two powers) takes about `flop` operations.

    Multiples of 256 up to 4096 and of 1024 above, which suit the tiles of every BLAS.
    """
    exact: float = (flop / (4.0 * max(power - 1, 1))) ** (1 / 3)
    step = 256 if exact < 4096 else 1024
    return min(max(round(exact / step) * step, SMALLEST), LARGEST)


def too_high_a_power(power: int, dtypes: Sequence[str]) -> str | None:
    """Say up to which power each type can be verified where `power` is beyond; None when all can."""
    for dtype in dtypes:
        if tolerance(dtype, power) > VERIFIABLE:
            highest = next(n for n in range(power, 1, -1) if tolerance(dtype, n) <= VERIFIABLE)
            return f"--power {power} cannot be verified in {dtype}, whose rounding errors add up; use at most {highest}"
    return None


def demands(cases: Sequence[Case], size: int, dtype: str) -> Iterator[tuple[str | int, int]]:
    """Yield (memory, bytes) of what the cases need, which are all there at once: HOST, or a GPU by its index."""
    for case in cases:
        each = matpow.device_bytes(size, dtype, len(case.devices), case.spread)
        yield HOST, PROCESS
        if not case.gpus:
            yield HOST, each * len(case.devices)
        for gpu in case.gpus:
            yield gpu, each * (len(case.devices) // len(case.gpus)) + CONTEXT
    terms = max(case.terms for case in cases)
    yield HOST, matpow.host_bytes(size, dtype, terms)  # one case at a time makes its inputs or is verified


def shortage(
    cases: Sequence[Case], size: int, dtype: str, free: Mapping[str | int, int]
) -> tuple[str | int, int] | None:
    """The first memory that does not hold what `cases` need, and the need; None when all fit. Unknown memory does."""
    needs: dict[str | int, int] = {}
    for memory, need in demands(cases, size, dtype):
        needs[memory] = needs.get(memory, 0) + need
    return next(((memory, need) for memory, need in needs.items() if need > SHARE * free.get(memory, 2**62)), None)


def largest_fit(cases: Sequence[Case], dtype: str, free: Mapping[str | int, int], below: int) -> int | None:
    """The largest multiple of 256 up to `below` that fits; None when even the smallest does not."""
    sizes = range(below // SMALLEST * SMALLEST, 0, -SMALLEST)
    return next((size for size in sizes if shortage(cases, size, dtype, free) is None), None)


def fit(
    cases: Sequence[Case],
    dtypes: Sequence[str],
    wanted: int | None,
    chosen: int,
    free: Mapping[str | int, int],
    names: Mapping[int, str],
) -> int:
    """The size to run: `wanted` when the user named one, else `chosen` or the largest that fits below it.

    Raises TooLargeError: `wanted` does not fit, or nothing does.
    """
    size = wanted or chosen
    for dtype in dtypes:
        short = shortage(cases, size, dtype, free)
        if short is None:
            continue
        fits = largest_fit(cases, dtype, free, size)
        if wanted is None and fits is not None:
            size = fits
            continue
        memory, need = short
        where = HOST if memory == HOST else f"GPU {memory} ({names.get(int(memory), 'unknown model')})"
        advice = f"--size {fits} fits" if fits else "no size fits"
        raise TooLargeError(
            f"size {size} in {dtype} needs {need / 2**30:.1f} GiB of {where}, of which {free[memory] / 2**30:.1f} GiB "
            f"are free; {advice}"
        )
    return size
