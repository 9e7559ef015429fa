"""What a GPU could do at most: multiprocessors × clock × FLOP per cycle. Pure; unknown stays unknown."""

from __future__ import annotations

from tfgpu_doctor.facts import Gpu, Known, value_or
from tfgpu_doctor.matrix import Matrix


def peak_flops(gpu: Gpu, dtype: str, matrix: Matrix) -> float | None:
    """Peak FLOP/s of one GPU in `dtype` at its highest SM clock; None where any factor is unknown.

    The FLOP per cycle and multiprocessor are the matrix's (NVIDIA's architecture whitepapers, dense).
    """
    capability = value_or(gpu.compute_capability, None)
    row = matrix.peak(capability, value_or(gpu.name, None)) if capability else None
    if row is None or not isinstance(gpu.multiprocessors, Known) or not isinstance(gpu.sm_clock_max, Known):
        return None
    per_cycle: float | None = getattr(row, dtype)
    if dtype == "float64" and row.float64_tensor:
        per_cycle = row.float64_tensor  # cuBLAS uses the tensor cores for float64 where there are some
    return per_cycle * gpu.multiprocessors.value * gpu.sm_clock_max.value * 1e6 if per_cycle else None


def percent_of_peak(achieved: float, gpus: list[Gpu], dtype: str, matrix: Matrix) -> float | None:
    """`achieved` FLOP/s in per cent of the peaks of `gpus` together; None where one is unknown."""
    peaks = [peak_flops(gpu, dtype, matrix) for gpu in gpus]
    known = [peak for peak in peaks if peak is not None]
    return 100.0 * achieved / sum(known) if known and len(known) == len(peaks) else None
