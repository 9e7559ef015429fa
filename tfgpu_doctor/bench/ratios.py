"""Speed-up and efficiency: what the runs say beside each other. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tfgpu_doctor.bench.results import Ratio, Run, Throughput

BEST_OF = 3  # sizes that a CPU must have been measured at for the best of them to stand for what its BLAS can do


def ratio(new: Throughput, base: Throughput) -> Ratio:
    """`new` over `base`; the interval is what both intervals allow at worst."""
    return Ratio(value=new.value / base.value, low=new.ci95[0] / base.ci95[1], high=new.ci95[1] / base.ci95[0])


def relate(runs: Sequence[Run]) -> tuple[Run, ...]:
    """Add speed-ups (by throughput, since *terms* gives more devices more work) and efficiency.

    Efficiency is the speed-up over one GPU per GPU. Virtual devices get none of these: they prove no speed. Runs are
    compared within their type; the CPU's float32 run stands beside tf32.

    A CPU has no peak that anybody publishes; in a sweep its best size stands for what its BLAS can do, and the other
    sizes are told in per cent of it.
    """
    return tuple(_relate(run, runs) for run in runs)


def _relate(run: Run, runs: Sequence[Run]) -> Run:
    if run.throughput is None or run.virtual:
        return run
    cpu = _base(runs, run, "CPU")
    gpu = _base(runs, run, "1 GPU")
    on_gpus = run.devices[0].startswith("/GPU")
    vs_cpu = ratio(run.throughput, cpu.throughput) if cpu and cpu is not run and cpu.throughput else None
    vs_gpu = ratio(run.throughput, gpu.throughput) if gpu and gpu is not run and gpu.throughput and on_gpus else None
    efficiency = None
    if vs_gpu and len(run.devices) > 1:
        count = len(run.devices)
        efficiency = Ratio(value=vs_gpu.value / count, low=vs_gpu.low / count, high=vs_gpu.high / count)
    related = msgspec.structs.replace(run, speedup_vs_cpu=vs_cpu, speedup_vs_1gpu=vs_gpu, efficiency=efficiency)
    best = _best_of_cpu(run, runs)
    if best is None:
        return related
    return msgspec.structs.replace(
        related, percent_of_peak=100 * (run.throughput.value / best), peak_is="the CPU's best size"
    )


def _base(runs: Sequence[Run], run: Run, label: str) -> Run | None:
    types = {run.dtype, "float32"} if run.dtype == "tf32" and label == "CPU" else {run.dtype}
    alike = (r for r in runs if r.dtype in types and r.parameters == run.parameters)
    return next((r for r in alike if r.label.startswith(label) and len(r.devices) == 1), None)


def _best_of_cpu(run: Run, runs: Sequence[Run]) -> float | None:
    """FLOP/s of the CPU at its best size, in this type; None where it was not measured at several."""
    if run.label != "CPU" or not run.throughput or run.throughput.unit != "FLOP/s":
        return None
    alike = [one for one in runs if (one.label, one.dtype, one.computed_in) == ("CPU", run.dtype, run.computed_in)]
    found = [one.throughput.value for one in alike if one.throughput]
    return max(found) if len(found) >= BEST_OF else None
