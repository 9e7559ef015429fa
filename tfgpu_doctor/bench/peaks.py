"""What a GPU could do at most: multiprocessors × clock × FLOP per cycle. Pure; unknown stays unknown."""

from __future__ import annotations

import msgspec

from tfgpu_doctor.bench.results import Run
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.records.facts import Facts, Gpu, Known, value_or


def peak_flops(gpu: Gpu, dtype: str, matrix: Matrix) -> float | None:
    """Peak FLOP/s of one GPU in `dtype` at its highest SM clock; None where any factor is unknown.

    The FLOP per cycle and multiprocessor are the matrix's (NVIDIA's architecture whitepapers, dense).
    """
    capability = value_or(gpu.compute_capability, None)
    row = matrix.peak(capability, value_or(gpu.name, None)) if capability else None
    if row is None or not isinstance(gpu.multiprocessors, Known) or not isinstance(gpu.sm_clock_max, Known):
        return None
    per_cycle: float | None = getattr(row, dtype.removeprefix("mixed_"), None)
    if dtype == "float64" and row.float64_tensor:
        per_cycle = row.float64_tensor  # cuBLAS uses the tensor cores for float64 where there are some
    return per_cycle * gpu.multiprocessors.value * gpu.sm_clock_max.value * 1e6 if per_cycle else None


def memory_bandwidth(gpu: Gpu) -> float | None:
    """Bytes/s that the memory of one GPU can give at its highest clock; None where a factor is unknown.

    Two transfers a cycle of the clock that NVML tells × the width of the bus, as NVIDIA computes it ("How to Implement
    Performance Metrics in CUDA C/C++"): 2 × 2619 MHz × 5120 bit / 8 = 3352 GB/s, the data sheet's of an H100 SXM.
    """
    if not isinstance(gpu.memory_clock_max, Known) or not isinstance(gpu.memory_bus_width, Known):
        return None
    return 2.0 * gpu.memory_clock_max.value * 1e6 * gpu.memory_bus_width.value / 8 or None


def percent_of_bandwidth(moved: float, gpus: list[Gpu]) -> float | None:
    """`moved` bytes/s in per cent of the memory bandwidth of `gpus` together; None where one is unknown."""
    known = [width for gpu in gpus if (width := memory_bandwidth(gpu)) is not None]
    return 100.0 * moved / sum(known) if known and len(known) == len(gpus) else None


def percent_of_peak(achieved: float, gpus: list[Gpu], dtype: str, matrix: Matrix) -> float | None:
    """`achieved` FLOP/s in per cent of the peaks of `gpus` together; None where one is unknown."""
    peaks = [peak_flops(gpu, dtype, matrix) for gpu in gpus]
    known = [peak for peak in peaks if peak is not None]
    return 100.0 * achieved / sum(known) if known and len(known) == len(peaks) else None


def with_peak(run: Run, environment: Facts, matrix: Matrix) -> Run:
    """The run with what it reached in per cent of what its GPUs could do; as it was where one of them is not known."""
    on_gpus = run.computed_in is not None and not run.virtual and run.devices[0].startswith("/GPU")
    if not on_gpus or run.median_s is None or run.computed_in is None:
        return run
    known = {value_or(gpu.pci_bus_id, "").lower(): gpu for gpu in value_or(environment.gpus, ())}
    gpus = [known[bus_id] for one in run.gpu if (bus_id := (one.pci_bus_id or "").lower()) in known]
    if len(gpus) < len(run.devices):
        return run
    percent = moved = None
    if run.flop is not None:
        percent = percent_of_peak(run.flop / run.median_s, gpus, run.computed_in, matrix)
    if run.bytes_moved is not None:
        moved = percent_of_bandwidth(run.bytes_moved / run.median_s, gpus)
    return msgspec.structs.replace(
        run,
        percent_of_peak=percent,
        peak_is=None if percent is None else "peak",
        percent_of_bandwidth=moved,
    )
