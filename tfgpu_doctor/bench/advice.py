"""A closed list of advice: sentences that the figures of a run give reason for, with the figures in them. Pure.

Each rule looks at one run and yields sentences or nothing; what only one workload knows (how long a step waits for its
input) is in its plan. Warnings about implausible figures belong to the list, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from tfgpu_doctor.bench.results import GpuTelemetry, Run
from tfgpu_doctor.bench.statistics import median
from tfgpu_doctor.bench.workload_registry import WORKLOADS
from tfgpu_doctor.records.facts import Gpu, Known
from tfgpu_doctor.records.units import seconds

TINY = 0.002  # seconds of a step; below it the launch of kernels (some µs each) weighs more than the work
IDLE = 70.0  # per cent of utilisation below which a GPU waits more than it should
BUSY_SHARE = 0.7  # of the CPUs; a CPU run that got less was disturbed, or cannot use them
OTHERS_SHARE = 0.1  # of the CPUs; other programs that took more than this disturb
OUTLIER, MANY_OUTLIERS = 1.25, 0.05  # times the median, and the share of the samples from which on it is reported
SLOW_CLOCK = 0.8  # of the highest SM clock
POOR = 0.7  # efficiency below which a reason is looked for
SLOW_START = 20.0  # seconds of the first call that only compiling explains
COMPILES = 50  # times the median, likewise

_THROTTLE_HINTS = {  # by throttle reason: the first that applies is shown
    "hw_thermal_slowdown": "check the cooling (nvidia-smi -q -d TEMPERATURE)",
    "sw_thermal_slowdown": "check the cooling (nvidia-smi -q -d TEMPERATURE)",
    "hw_power_brake_slowdown": "the power supply requests a slowdown",
    "hw_slowdown": "nvidia-smi -q -d PERFORMANCE shows whether heat or the power supply is the reason",
    "sw_power_cap": "nvidia-smi -q -d POWER shows the limit",
}


@dataclass(frozen=True)
class About:
    """What is known beside the runs."""

    workload: str
    cpus: int | None = None  # that the benchmark may use
    gpus: Mapping[str, Gpu] = field(default_factory=dict)  # by PCI bus id, in lower case


@dataclass(frozen=True)
class _Subject:
    """The run that a rule looks at, and what is known beside it."""

    run: Run
    runs: Sequence[Run]
    about: About

    @property
    def larger(self) -> str | None:
        """What makes a step of this workload larger."""
        workload = WORKLOADS.get(self.about.workload)
        return workload.larger if workload else None

    @property
    def on_gpu(self) -> bool:
        """Whether it was computed on GPUs."""
        return self.run.devices[0].startswith("/GPU")

    @property
    def is_best(self) -> bool:
        """Whether no other point of the same case is faster: at the others, the smaller work is what was asked for."""
        run = self.run
        alike = [other for other in self.runs if (other.label, other.dtype) == (run.label, run.dtype)]
        return all(
            other.throughput.value <= run.throughput.value for other in alike if other.throughput and run.throughput
        )


def advise(runs: Sequence[Run], about: About) -> tuple[Run, ...]:
    """Add to each run with a speed what its figures give reason to say. Virtual devices prove no speed."""
    return tuple(
        msgspec.structs.replace(run, advice=(*run.advice, *_advice(_Subject(run, runs, about))))
        if run.throughput and not run.virtual
        else run
        for run in runs
    )


def _advice(subject: _Subject) -> Iterator[str]:
    for rule in _RULES:
        yield from rule(subject)


def _type(subject: _Subject) -> Iterator[str]:
    run = subject.run
    if run.computed_in != run.dtype:
        yield f"{run.dtype} was requested, but {run.computed_in} was computed: the error is too small for {run.dtype}"


def _outliers(subject: _Subject) -> Iterator[str]:
    run = subject.run
    slow = sum(sample > OUTLIER * (run.median_s or 0.0) for sample in run.samples_s)
    count = len(run.samples_s)
    if slow > max(1, MANY_OUTLIERS * count):
        yield f"{slow} of {count} samples took more than {OUTLIER:g} times the median: other programs may interfere"


def _tiny(subject: _Subject) -> Iterator[str]:
    run = subject.run
    step = (run.median_s or 0.0) / run.steps
    if subject.on_gpu and step < TINY and subject.is_best and subject.larger:
        yield f"a {run.step_name} takes {seconds(step)}, mostly overhead: {subject.larger} shows the GPU's speed"


def _throttled(subject: _Subject) -> Iterator[str]:
    run = subject.run
    count = f"{len(run.throttled_samples)} of {len(run.samples_s)} samples"
    for reasons in dict.fromkeys(gpu.throttled for gpu in run.gpu if gpu.throttled):
        alike = [gpu for gpu in run.gpu if gpu.throttled == reasons]
        was = "was" if len(alike) == 1 else "were"
        hint = next((f": {_THROTTLE_HINTS[reason]}" for reason in _THROTTLE_HINTS if reason in reasons), "")
        yield f"{_named(alike)} {was} throttled ({', '.join(reasons)}) during {count}{hint}"


def _slow_clock(subject: _Subject) -> Iterator[str]:
    for gpu in subject.run.gpu:
        known = subject.about.gpus.get((gpu.pci_bus_id or "").lower())
        if gpu.sm_clock_mhz is None or known is None or not isinstance(known.sm_clock_max, Known) or gpu.throttled:
            continue
        most = known.sm_clock_max.value
        if gpu.sm_clock_mhz < SLOW_CLOCK * most and _busy(gpu):
            yield (
                f"{gpu.device} ran at {gpu.sm_clock_mhz:.0f} of {most} MHz and reported no throttling: nvidia-smi -q "
                "-d CLOCK shows whether its clocks are locked"
            )


def _idle(subject: _Subject) -> Iterator[str]:
    waiting = [gpu for gpu in subject.run.gpu if not _busy(gpu)]
    if subject.larger and waiting and subject.is_best and not list(_poor_scaling(subject)):
        percent = _range([gpu.utilization for gpu in waiting if gpu.utilization is not None])
        yield f"low GPU utilization, {percent} % ({_named(waiting)}): try {subject.larger}"


def _poor_scaling(subject: _Subject) -> Iterator[str]:
    run = subject.run
    if run.efficiency is None or run.efficiency.high >= POOR:
        return
    used = [gpu.utilization for gpu in run.gpu if gpu.utilization is not None]
    percent = f"efficiency {100 * run.efficiency.value:.0f} %"
    if used and min(used) < IDLE:
        yield f"{percent}: the GPUs were busy {_range(used)} % of the time and otherwise waited for each other"
    elif used:
        busy = f"{percent}, although the GPUs were busy {_range(used)} % of the time"
        yield f"{busy}: they share power, cooling or a link"
    elif run.scaling == "strong" and subject.larger:
        yield f"{percent}: the work of each GPU may be too small: try {subject.larger}"


def _cpus(subject: _Subject) -> Iterator[str]:
    """A CPU run that did not get the CPUs, by its own use and by that of others."""
    run, cpus = subject.run, subject.about.cpus
    if not cpus:
        return
    others = run.others_cpus or 0.0
    if others > OTHERS_SHARE * cpus:
        yield f"other programs used {others:.1f} of {cpus} CPUs during the run: stop them and repeat"
    elif run.cpu_wait and (waited := median(run.cpu_wait)) > OTHERS_SHARE * cpus:
        yield f"the run waited for {waited:.1f} CPUs that other programs used: stop them and repeat"
    elif not subject.on_gpu and run.cpu_load and (used := median(run.cpu_load)) < BUSY_SHARE * cpus:
        limited = "its threads are limited or wait"
        why = f"other programs ran, or {limited}" if run.others_cpus is None else limited
        yield f"used {used:.1f} of {cpus} CPUs: {why}"


def _slow_start(subject: _Subject) -> Iterator[str]:
    run = subject.run
    first = run.warmup_s[0] if run.warmup_s else 0.0
    if subject.on_gpu and first > SLOW_START and first > COMPILES * (run.median_s or first):
        yield (
            f"the first call took {first:.0f} s: kernels were compiled for this GPU. With "
            "CUDA_CACHE_MAXSIZE=4294967296, the driver keeps them"
        )


def _implausible(subject: _Subject) -> Iterator[str]:
    peak, bandwidth = subject.run.percent_of_peak, subject.run.percent_of_bandwidth
    if peak is not None and peak > 100:
        yield f"{peak:.0f} % of the peak is implausible: the clock or the type differs from what was assumed"
    if bandwidth is not None and bandwidth > 100:
        yield (
            f"{bandwidth:.0f} % of the memory bandwidth is implausible: part of the data was not read and written, or "
            "stayed in a cache"
        )


_RULES: tuple[Callable[[_Subject], Iterator[str]], ...] = (
    *(_implausible, _type, _outliers, _tiny, _throttled, _slow_clock, _idle, _poor_scaling, _cpus),
    _slow_start,
)


def _busy(gpu: GpuTelemetry) -> bool:
    return gpu.utilization is None or gpu.utilization >= IDLE


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.0f}", f"{max(values):.0f}"
    return low if low == high else f"{low} to {high}"


def _named(gpus: Sequence[GpuTelemetry]) -> str:
    return ", ".join(gpu.device for gpu in gpus) if len(gpus) <= 3 else f"{len(gpus)} GPUs"
