"""What a benchmark found out: raw samples, and what follows from them. JSON and schema are derived by msgspec.

Times are seconds. A run whose result was wrong, unverified, or computed elsewhere carries no speed at all.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from tfgpu_doctor.records.fact import Document
from tfgpu_doctor.records.facts import Facts, Record
from tfgpu_doctor.records.report import Tool

SCHEMA: Literal["tfgpu.bench/1"] = "tfgpu.bench/1"


class Throughput(Record, frozen=True):
    """Work per second."""

    value: float
    unit: str  # "FLOP/s", "images/s", "B/s"
    ci95: tuple[float, float]


class Ratio(Record, frozen=True):
    """A quotient of two medians, with the interval that their intervals allow."""

    value: float
    low: float
    high: float


class Check(Record, frozen=True):
    """One thing that was looked at when a result was verified."""

    name: str  # "loss falls"
    ok: bool
    saw: str  # "2.31 to 0.42"


class Verified(Record, frozen=True):
    """Whether the result is right, and how that is known."""

    ok: bool
    residual: float | None  # relative error; None when it is not a number, or there is none to give
    tolerance: float | None
    method: str
    worst_row: float | None = None  # largest relative error of a single row
    row_tolerance: float | None = None
    samples: int = 0  # results that were checked: that of every sample and the last of the warm-up
    checks: tuple[Check, ...] = ()


class Figure(Record, frozen=True):
    """A figure beside the samples: what `fit` needs, a latency's 99th percentile, the largest batch that fits."""

    name: str
    value: float
    unit: str  # "s", "images/s", "B", "" for a plain number
    ci95: tuple[float, float] | None = None
    note: str | None = None


class Reading(Record, frozen=True):
    """One look at a GPU."""

    t: float  # seconds since the first timed block of the case
    utilization: float | None = None  # per cent
    power_w: float | None = None
    sm_clock_mhz: float | None = None
    temperature_c: float | None = None
    memory_used: int | None = None  # bytes


class GpuTelemetry(Record, frozen=True):
    """What NVML said of one GPU during the timed blocks; medians, None where it said nothing."""

    device: str  # "/GPU:0"
    name: str | None = None
    pci_bus_id: str | None = None
    samples: int = 0
    utilization: float | None = None  # per cent
    power_w: float | None = None
    sm_clock_mhz: float | None = None
    temperature_c: float | None = None
    throttled: tuple[str, ...] = ()  # reasons that were active in any sample, idleness aside
    readings: tuple[Reading, ...] = ()  # thinned to some hundreds, in the order of time


class Run(Record, frozen=True):
    """One case: a workload on some devices in one type."""

    label: str  # "CPU", "1 GPU", "2 GPUs, rows"
    devices: tuple[str, ...]  # asked for: "/GPU:0"
    dtype: str  # asked for
    spread: str  # "one device", "terms", "rows"
    computed_in: str | None = None  # what the residual says: "float32" where "tf32" was asked for and did not happen
    virtual: bool = False  # logical devices: they prove function, never speed
    placed_on: tuple[str, ...] = ()  # device that each part of the result names
    parameters: dict[str, int | float | str | None] = msgspec.field(default_factory=dict)  # unlike those of other runs
    steps: int = 1  # units of work in a sample, which are queued together and waited for once
    step_name: str = "sample"  # what one of them is: "step", "call", "copy"
    scaling: str | None = None  # "strong", "weak": how the work grows with the devices
    flop: float | None = None  # of one sample
    bytes_moved: float | None = None  # of one sample, at least: what has to be read and written
    cold_start_s: dict[str, float] = msgspec.field(default_factory=dict)  # import, devices, inputs, first call
    warmup_s: tuple[float, ...] = ()
    samples_s: tuple[float, ...] = ()
    processes: tuple[int, ...] = ()  # how many of the samples each process gave, one after the other
    cpu_load: tuple[float, ...] = ()  # CPUs that the worker kept busy, for each sample
    cpu_wait: tuple[float, ...] = ()  # CPUs that its threads were ready for, while others had them; empty: unknown
    throttled_samples: tuple[int, ...] = ()  # places in samples_s during whose block a GPU was throttled
    median_s: float | None = None
    ci95_s: tuple[float, float] | None = None
    spread_iqr: float | None = None  # interquartile range over the median
    throughput: Throughput | None = None
    percent_of_peak: float | None = None
    peak_is: str | None = None  # what the per cent are of: "peak" (SMs × clock × FLOP per cycle), "its best size" (CPU)
    percent_of_bandwidth: float | None = None  # bytes_moved / median_s against the bandwidth of the GPUs' memory
    others_cpus: float | None = None  # CPUs that other programs kept busy on this machine while samples were taken
    verified: Verified | None = None
    speedup_vs_cpu: Ratio | None = None
    speedup_vs_1gpu: Ratio | None = None
    efficiency: Ratio | None = None  # only between physical GPUs
    gpu: tuple[GpuTelemetry, ...] = ()
    figures: tuple[Figure, ...] = ()
    advice: tuple[str, ...] = ()
    stopped: str | None = None  # condition of the stopping rule that was not met; None: all were
    failure: str | None = None  # why there is no result


class BenchResult(Document, frozen=True):
    """A benchmark of one workload."""

    schema: Literal["tfgpu.bench/1"]
    tool: Tool
    created: str
    environment: Facts
    workload: str
    parameters: dict[str, int | float | str | None]
    runs: tuple[Run, ...]
    conclusions: tuple[str, ...] = ()  # what the runs say together: where the GPU overtakes, whether input waits
    notes: tuple[str, ...] = ()
    title: str = ""  # what was computed, for people: "A^10 and B^10, 3072 × 3072"
    command: str = ""  # what was typed, without where the results go; empty when nobody typed
    load_average: float | None = None  # of the minute before; above the number of CPUs, others waited for them, too
    software: dict[str, str] = msgspec.field(default_factory=dict)  # "tensorflow", "numpy", "python"
