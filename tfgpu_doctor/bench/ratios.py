"""Speed-up, efficiency and advice: what the runs say beside each other. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tfgpu_doctor.bench.results import Ratio, Run, Throughput

TINY = 0.002  # seconds; below it the launch of kernels weighs more than the work
IDLE = 70.0  # per cent of utilisation below which a GPU waits more than it should
BUSY_SHARE = 0.7  # of the CPUs; a CPU run that got less was disturbed, or cannot use them


def ratio(new: Throughput, base: Throughput) -> Ratio:
    """`new` over `base`; the interval is what both intervals allow at worst."""
    return Ratio(value=new.value / base.value, low=new.ci95[0] / base.ci95[1], high=new.ci95[1] / base.ci95[0])


def relate(runs: Sequence[Run], cpus: int | None = None) -> tuple[Run, ...]:
    """Add speed-ups (by throughput, since *terms* gives more devices more work), efficiency and advice.

    Efficiency is the speed-up over one GPU per GPU. Virtual devices get none of these: they prove no speed. Runs are
    compared within their type; the CPU's float32 run stands beside tf32.
    """
    return tuple(_relate(run, runs, cpus) for run in runs)


def _relate(run: Run, runs: Sequence[Run], cpus: int | None) -> Run:
    if run.throughput is None:
        return run
    if run.virtual:
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
    changed = msgspec.structs.replace(run, speedup_vs_cpu=vs_cpu, speedup_vs_1gpu=vs_gpu, efficiency=efficiency)
    return msgspec.structs.replace(changed, advice=_advice(changed, cpus))


def _base(runs: Sequence[Run], run: Run, label: str) -> Run | None:
    types = {run.dtype, "float32"} if run.dtype == "tf32" and label == "CPU" else {run.dtype}
    alike = (r for r in runs if r.dtype in types and r.parameters == run.parameters)
    return next((r for r in alike if r.label.startswith(label) and len(r.devices) == 1), None)


def _advice(run: Run, cpus: int | None) -> tuple[str, ...]:
    """A closed list: what the figures of this run give reason to say."""
    said = []
    if run.computed_in != run.dtype:
        said.append(f"{run.dtype} was asked for, and {run.computed_in} was computed: the residual is that small")
    if run.stopped:
        said.append(f"rough: the samples did not settle ({run.stopped})")
    on_gpu = run.devices[0].startswith("/GPU")
    if on_gpu and run.median_s is not None and run.median_s < TINY:
        said.append(
            f"a sample takes {run.median_s * 1e3:.2g} ms, mostly overhead: a larger --size shows the GPU's speed"
        )
    for gpu in run.gpu:
        if gpu.throttled:
            count = f"{len(run.throttled_samples)} of {len(run.samples_s)} samples"
            said.append(f"{gpu.device} was throttled ({', '.join(gpu.throttled)}) during {count}")
        if gpu.utilization is not None and gpu.utilization < IDLE and not run.virtual:
            said.append(f"{gpu.device} was busy {gpu.utilization:.0f} % of the time: a larger --size would fill it")
    if not on_gpu and cpus and run.cpu_load and _middle(run.cpu_load) < BUSY_SHARE * cpus:
        said.append(f"used {_middle(run.cpu_load):.1f} of {cpus} CPUs: something else ran, or threads are limited")
    if run.percent_of_peak is not None and run.percent_of_peak > 100:
        said.append(
            f"{run.percent_of_peak:.0f} % of the peak is implausible: the clock or the type is not what it seems"
        )
    return tuple(said)


def _middle(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]
