"""What a benchmark found out: raw samples, and what follows from them. JSON and schema are derived by msgspec.

Times are seconds. A run whose result was wrong, unverified, or computed elsewhere carries no speed at all.

The bounds of the numbers hold where a file is read: nothing that was measured lies outside of them, and what computes
with the numbers need not ask again. What one field says of another is held by `contradictions`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from tfgpu_doctor import __version__
from tfgpu_doctor.facts.about import public
from tfgpu_doctor.facts.facts import Document, Facts, Record
from tfgpu_doctor.facts.report import ReportError, Tool, decode_saved, other_kind, schema_of, short

# The workloads, each declared once; the order is that of `tfgpu bench --help`. A name is the command, and names what
# belongs to it: its options and its plan in bench/requests.py, and bench/workloads/NAME.py (the computation, in the
# worker). tests/bench/test_requests.py says what is missing.


@dataclass(frozen=True)
class Workload:
    """One workload, as far as it has to be known without importing it."""

    summary: str  # for `tfgpu bench --help`
    keras: bool = True  # Keras builds the model, so that two results must share its version
    larger: str | None = None  # what makes a step larger; None: steps are too small to fill a GPU by their nature


WORKLOADS = {
    "matpow": Workload("Powers of large matrices: A^n and B^n.", keras=False, larger="a larger --size"),
    "cnn": Workload("Training steps of an image classifier, on any number of GPUs.", larger="a larger --batch-size"),
    "transfer": Workload("Transfer bandwidth between host and GPUs, and between GPUs.", keras=False),
    "inference": Workload(
        "Calls of a SavedModel: latency percentiles and throughput.", larger="a larger batch (--batch-size)"
    ),
    "input": Workload("Input pipeline (tf.data) throughput compared with what training consumes."),
    "gan": Workload("Training steps of a small GAN: generator and discriminator.", larger="a larger --batch-size"),
}

OVERVIEW = "overview"  # several of them: `tfgpu bench` alone; the parameter "workload" of a run says which is its own

SCHEMA: Literal["tfgpu.bench/1"] = "tfgpu.bench/1"

Time: TypeAlias = Annotated[float, Meta(gt=1e-12, lt=1e12)]  # that something took
Pause: TypeAlias = Annotated[float, Meta(ge=0, lt=1e12)]  # time that may be too short for the clock
Positive: TypeAlias = Annotated[float, Meta(gt=0, lt=1e30)]
Amount: TypeAlias = Annotated[float, Meta(ge=0, lt=1e30)]
Number: TypeAlias = Annotated[float, Meta(gt=-1e30, lt=1e30)]
Count: TypeAlias = Annotated[int, Meta(ge=0, lt=2**62)]
AtLeastOne: TypeAlias = Annotated[int, Meta(ge=1, lt=2**62)]
Integer: TypeAlias = Annotated[int, Meta(gt=-(2**62), lt=2**62)]
Parameters: TypeAlias = dict[str, Integer | Number | str | None]


class Throughput(Record, frozen=True):
    """Work per second."""

    value: Positive
    unit: str  # "FLOP/s", "images/s", "B/s"
    ci95: tuple[Positive, Positive]


class Ratio(Record, frozen=True):
    """A quotient of two medians, with the interval that their intervals allow."""

    value: Amount
    low: Amount
    high: Amount


class Check(Record, frozen=True):
    """One thing that was looked at when a result was verified."""

    name: str  # "loss falls"
    ok: bool
    saw: str  # "2.31 to 0.42"


class Verified(Record, frozen=True):
    """Whether the result is right, and how that is known."""

    ok: bool
    residual: float | None  # relative error, of any size where the result is wrong; None: not a number, or none to give
    tolerance: Amount | None
    method: str
    samples: Count = 0  # results that were checked: that of every sample and the last of the warm-up
    checks: tuple[Check, ...] = ()


class Figure(Record, frozen=True):
    """A figure beside the samples: a latency's 99th percentile."""

    name: str
    value: Number
    unit: str  # "s", "images/s", "B", "" for a plain number
    ci95: tuple[Number, Number] | None = None


class GpuTelemetry(Record, frozen=True):
    """What NVML said of one GPU during the timed blocks; medians, None where it said nothing."""

    device: str  # "/GPU:0"
    name: str | None = None
    pci_bus_id: str | None = None
    samples: Count = 0
    utilization: Amount | None = None  # per cent; None, too, where samples leave pauses (bench/runner/telemetry.py)
    power_w: Amount | None = None
    sm_clock_mhz: Amount | None = None
    temperature_c: Number | None = None
    throttled: tuple[str, ...] = ()  # reasons that were active in any sample, idleness aside


class Run(Record, frozen=True):
    """One case: a workload on some devices in one type."""

    label: str  # "CPU", "1 GPU", "2 GPUs, rows"
    devices: Annotated[tuple[str, ...], Meta(min_length=1)]  # asked for: "/GPU:0"
    dtype: str  # asked for
    spread: str  # "one device", "terms", "rows"
    computed_in: str | None = None  # what the residual says: "float32" where "tf32" was asked for and did not happen
    virtual: bool = False  # logical devices: they prove function, never speed
    placed_on: tuple[str, ...] = ()  # device that each part of the result names
    parameters: Parameters = msgspec.field(default_factory=dict)  # unlike those of other runs
    steps: AtLeastOne = 1  # units of work in a sample, which are queued together and waited for once
    step_name: str = "sample"  # what one of them is: "step", "call", "copy"
    scaling: str | None = None  # "strong", "weak": how the work grows with the devices
    flop: Amount | None = None  # of one sample
    bytes_moved: Amount | None = None  # of one sample, at least: what has to be read and written
    cold_start_s: dict[str, Pause] = msgspec.field(default_factory=dict)  # import, devices, inputs, first call
    warmup_s: tuple[Pause, ...] = ()
    samples_s: tuple[Time, ...] = ()
    processes: tuple[Count, ...] = ()  # how many of the samples each process gave, one after the other
    cpu_load: tuple[Amount, ...] = ()  # CPUs that the worker kept busy, for each sample
    cpu_wait: tuple[Amount, ...] = ()  # CPUs that its threads were ready for, while others had them; empty: unknown
    throttled_samples: tuple[Count, ...] = ()  # places in samples_s during whose block heat or the supply slowed a GPU
    left_out: Count = 0  # samples that other programs disturbed, and that the figures below do not count
    median_s: Time | None = None
    ci95_s: tuple[Time, Time] | None = None
    spread_iqr: Amount | None = None  # interquartile range over the median
    throughput: Throughput | None = None
    percent_of_peak: Amount | None = None  # of the hardware: SMs × clock × FLOP per cycle
    percent_of_bandwidth: Amount | None = None  # bytes_moved / median_s against the bandwidth of the GPUs' memory
    others_cpus: Amount | None = None  # CPUs that other programs kept busy on this machine while samples were taken
    verified: Verified | None = None
    speedup_vs_cpu: Ratio | None = None
    speedup_vs_1gpu: Ratio | None = None
    efficiency: Ratio | None = None  # only between physical GPUs
    gpu: tuple[GpuTelemetry, ...] = ()
    figures: tuple[Figure, ...] = ()
    advice: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what is usual and worth knowing
    doubts: tuple[str, ...] = ()  # what makes the figure doubtful (bench/speeds.py); empty: it can be relied on
    stopped: str | None = None  # condition of the stopping rule that was not met; None: all were
    failure: str | None = None  # why there is no result


class BenchResult(Document, frozen=True):
    """A benchmark of one workload."""

    schema: Literal["tfgpu.bench/1"]
    tool: Tool
    created: str
    environment: Facts
    workload: str
    parameters: Parameters
    runs: tuple[Run, ...]
    not_run: tuple[str, ...] = ()  # names of the runs for which there was no time
    unfinished: bool = False  # saved while it was measured; an interrupt leaves it so
    planned: Count = 0  # runs that were announced, of an unfinished result; 0: unknown
    refused: str = ""  # why nothing, or no more, was measured
    conclusions: tuple[str, ...] = ()  # what the runs say together: where the GPU overtakes, whether input waits
    notes: tuple[str, ...] = ()
    title: str = ""  # what was computed, for people: "A^10 and B^10, 3072 × 3072"
    command: str = ""  # what was typed, without where the results go; empty when nobody typed
    # "tensorflow", "numpy", "python"
    software: Annotated[dict[str, str], public("software")] = msgspec.field(default_factory=dict)


# ---------------------------------------------------------------------------------------------------------------------
# Saved results: read back, with a sentence for everything that can be wrong with one. What is read here is believed
# everywhere else: the bounds of each number stand above, and what the fields of a run say of each other is held here.


def no_result(workload: str, command: str) -> BenchResult:
    """Return the result of a benchmark before anything is known."""
    return BenchResult(
        schema=SCHEMA,
        tool=Tool(name="tfgpu", version=__version__),
        created=datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        environment=Facts(),
        workload=workload,
        parameters={},
        runs=(),
        command=command,
    )


def load_result(data: bytes, name: str, command: str = "tfgpu compare") -> BenchResult:
    """Decode a saved bench result; `name` and the `command` that reads it stand in the message.

    Raises ReportError: not JSON, no bench result, one of another schema version, or one that contradicts itself.
    """
    kind = schema_of(data, name)
    if kind != SCHEMA:
        raise ReportError(f"{name} {other_kind(kind, SCHEMA, command, 'a bench result')}")
    result = decode_saved(data, BenchResult, name, "bench result")
    for number, run in enumerate(result.runs, 1):
        for problem in contradictions(run):
            where = f"run {number} ({short(run.label)})"
            raise ReportError(f"{name} is not a valid bench result: {where}: {problem}")
    return result


def contradictions(run: Run) -> Iterator[str]:
    """Yield what the fields of a run say against each other, in half a sentence each."""
    count, middle = len(run.samples_s), run.median_s
    if run.throughput:
        yield from _speed_without_reason(run)
    if run.ci95_s and middle and not run.ci95_s[0] <= middle <= run.ci95_s[1]:
        yield f"median_s ({middle:g}) lies outside of ci95_s"
    lengths = {"cpu_load": len(run.cpu_load), "cpu_wait": len(run.cpu_wait), "processes": sum(run.processes)}
    for title, number in lengths.items():
        if number not in (0, count):
            yield f"{title} has {number} values for {count} samples"
    if run.left_out and run.left_out >= count:
        yield f"left_out is {run.left_out} of {count} samples"
    if any(place >= count for place in run.throttled_samples):
        yield "throttled_samples names a sample that samples_s does not have"


def _speed_without_reason(run: Run) -> Iterator[str]:
    if run.failure:
        yield f"it has a speed, although it failed: {short(run.failure)}"
    if run.verified is None or not run.verified.ok:
        yield "it has a speed, although it was not verified"
    if run.median_s is None or run.ci95_s is None or not run.samples_s:
        yield "it has a speed without median_s, ci95_s and samples_s"
    elif not min(run.samples_s) <= run.median_s <= max(run.samples_s):
        yield f"median_s ({run.median_s:g}) lies outside of samples_s"
