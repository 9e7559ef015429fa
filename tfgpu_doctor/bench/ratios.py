"""Speed-up and efficiency: what the runs say beside each other. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tfgpu_doctor.bench.results import Ratio, Run, Throughput


def ratio(new: Throughput, base: Throughput) -> Ratio:
    """`new` over `base`; the interval is what both intervals allow at worst."""
    return Ratio(value=new.value / base.value, low=new.ci95[0] / base.ci95[1], high=new.ci95[1] / base.ci95[0])


def relate(runs: Sequence[Run]) -> tuple[Run, ...]:
    """Add speed-ups (by throughput, since *terms* gives more devices more work) and efficiency.

    Efficiency is the speed-up over one GPU per GPU. Virtual devices get none of these: they prove no speed. Runs are
    compared within their type; the CPU's float32 run stands beside tf32.
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
    return msgspec.structs.replace(run, speedup_vs_cpu=vs_cpu, speedup_vs_1gpu=vs_gpu, efficiency=efficiency)


def _base(runs: Sequence[Run], run: Run, label: str) -> Run | None:
    types = {run.dtype, "float32"} if run.dtype == "tf32" and label == "CPU" else {run.dtype}
    alike = (r for r in runs if r.dtype in types and r.parameters == run.parameters)
    return next((r for r in alike if r.label.startswith(label) and len(r.devices) == 1), None)
