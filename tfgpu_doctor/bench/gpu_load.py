"""What the readings of a run say of its GPUs: how busy they were, and what limited their clocks. Pure.

NVML's utilization is the share of its own window, 1/6 to 1 s (nvml.h), in which any kernel ran, with the pauses between
samples. An H100 at 75 % of its peak read 0 % behind samples of 49 ms, and 67 % at 620 of 700 W. It is a statement about
the work only where the work went on without a pause for longer than the window; elsewhere it is unknown.
"""

from __future__ import annotations

import msgspec

from tfgpu_doctor.bench.results import GpuTelemetry, Run
from tfgpu_doctor.bench.statistics import median

WINDOW = 1.0  # seconds
GAPLESS = 0.95  # share of the time that the samples have to cover
POWER_CAP = "sw_power_cap"  # the normal state of a GPU under full load; heat and the power supply are slowdowns


def slowdowns(gpu: GpuTelemetry) -> tuple[str, ...]:
    """Return the reasons for lower clocks that a healthy GPU does not have: heat, the power supply."""
    return tuple(reason for reason in gpu.throttled if reason != POWER_CAP)


def revised(run: Run) -> Run:
    """Return the run without what its readings do not support: utilization of pauses, throttling by the power limit."""
    gpus = tuple(msgspec.structs.replace(gpu, utilization=_utilization(gpu, run)) for gpu in run.gpu)
    throttled = run.throttled_samples if not gpus or any(map(slowdowns, gpus)) else ()
    return msgspec.structs.replace(run, gpu=gpus, throttled_samples=throttled)


def _utilization(gpu: GpuTelemetry, run: Run) -> float | None:
    """The median of the readings whose window lies within the samples; None where samples leave pauses."""
    if gpu.utilization is None or len(gpu.readings) < 2:
        return None
    began = gpu.readings[0].t
    time = gpu.readings[-1].t - began
    if time < 2 * WINDOW or not GAPLESS <= sum(run.samples_s) / time <= 1 / GAPLESS:
        return None
    found = [one.utilization for one in gpu.readings if one.t - began > WINDOW and one.utilization is not None]
    return median(found) if found else None
