"""Advice about runs: a closed list of what their figures give reason to do, and nothing for a run in order. Pure.

What only one workload knows (how long a step waits for its input) is in its plan. What is usual and worth knowing is a
note of the run, not advice: nothing is to be done about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from tfgpu_doctor.bench.results import WORKLOADS, GpuTelemetry, Parameters, Run
from tfgpu_doctor.bench.samples import usable_cpus
from tfgpu_doctor.bench.speeds import DOUBTFUL, POWER_CAP, slowdowns
from tfgpu_doctor.bench.statistics import median
from tfgpu_doctor.facts.facts import Facts, value_or
from tfgpu_doctor.facts.units import seconds

TINY = 0.002  # seconds of a step; below it the launch of kernels (some µs each) weighs more than the work
LOW_SHARE = 20.0  # per cent of the peak; above it, the GPU computes for most of the time
LOW_POWER = 0.5  # of the limit; what is limited by memory or arithmetic draws more (an H100 that waits: 169 of 700 W)
AT_LIMIT = 0.9  # of the limit
RESIDENT = ("matpow", "cnn", "gan")  # whose steps copy nothing between host and GPU
BUSY_SHARE = 0.7  # of the CPUs; a CPU run that got less was disturbed, or cannot use them
OTHERS_SHARE = 0.1  # of the CPUs; other programs that took more than this disturb
POOR = 0.7  # efficiency below which a reason is looked for
SLOW_START = 20.0  # seconds of the first call that only compiling explains
COMPILES = 50  # times the median, likewise

_THROTTLE_HINTS = {  # by throttle reason: the first that applies is shown
    "hw_thermal_slowdown": "check the cooling (nvidia-smi -q -d TEMPERATURE)",
    "sw_thermal_slowdown": "check the cooling (nvidia-smi -q -d TEMPERATURE)",
    "hw_power_brake_slowdown": "the power supply requests a slowdown",
    "hw_slowdown": "nvidia-smi -q -d PERFORMANCE shows whether heat or the power supply is the reason",
}
_IMPLAUSIBLE = "{:.0f} % of the {} is implausible: {}"
_WRONG_PEAK = "the clock or the type differs from what was assumed"
_CACHED = "part of the data was not read and written, or stayed in a cache"


@dataclass(frozen=True)
class About:
    """What is known beside the runs."""

    workload: str
    cpus: float | None = None  # that the benchmark may use
    power_limits: Mapping[str, float] = field(default_factory=dict)  # watts, by PCI bus id, in lower case
    parameters: Parameters = field(default_factory=dict)

    @classmethod
    def of(cls, workload: str, environment: Facts, parameters: Parameters) -> About:
        """Collect it from what a result holds."""
        limits = {
            value_or(gpu.pci_bus_id, "").lower(): limit
            for gpu in value_or(environment.gpus, ())
            if (limit := value_or(gpu.power_limit, 0.0))
        }
        return cls(workload, usable_cpus(environment), limits, parameters)

    def power_limit(self, telemetry: GpuTelemetry) -> float | None:
        """Return the power limit of a GPU that was watched, in watts; None where it is not known."""
        return self.power_limits.get((telemetry.pci_bus_id or "").lower())

    @property
    def larger(self) -> str | None:
        """What makes a step of this workload larger."""
        workload = WORKLOADS.get(self.workload)
        return workload.larger if workload else None


def advise(runs: Sequence[Run], about: About) -> tuple[Run, ...]:
    """Add to each run with a speed what its figures give reason to say. Virtual devices prove no speed."""
    return tuple(_advised(run, runs, about) if run.throughput and not run.virtual else run for run in runs)


def _advised(run: Run, runs: Sequence[Run], about: About) -> Run:
    doubtful = [text for text in run.advice if text.startswith(DOUBTFUL)]
    others = [text for text in run.advice if text not in doubtful]
    on_gpu = run.devices[0].startswith("/GPU")
    advice = [*_figures(run, about), *_cpus(run, about, on_gpu)]
    if on_gpu:
        advice += [*_launches(run, runs, about), *_throttled(run)]
    return msgspec.structs.replace(run, advice=(*doubtful, *advice, *others), notes=tuple(_power_limited(run, about)))


def _figures(run: Run, about: About) -> Iterator[str]:
    """Yield what a figure says alone."""
    if (run.percent_of_peak or 0.0) > 100:
        yield _IMPLAUSIBLE.format(run.percent_of_peak, "peak", _WRONG_PEAK)
    if (run.percent_of_bandwidth or 0.0) > 100:
        yield _IMPLAUSIBLE.format(run.percent_of_bandwidth, "memory bandwidth", _CACHED)
    if run.computed_in != run.dtype:
        yield f"{run.dtype} was requested, but {run.computed_in} was computed: the error is too small for {run.dtype}"
    if run.efficiency and run.efficiency.high < POOR and run.scaling == "strong" and about.larger:
        share = f"efficiency {100 * run.efficiency.value:.0f} %"
        yield f"{share}: the work of each GPU may be too small: try {about.larger}"
    first = run.warmup_s[0] if run.warmup_s else 0.0
    if run.devices[0].startswith("/GPU") and first > max(SLOW_START, COMPILES * (run.median_s or first)):
        yield (
            f"the first call took {first:.0f} s: kernels were compiled for this GPU. With "
            "CUDA_CACHE_MAXSIZE=4294967296, the driver keeps them"
        )


def _launches(run: Run, runs: Sequence[Run], about: About) -> Iterator[str]:
    """Many small kernels: the GPU computes little and draws little power, or its steps are very short."""
    share, step, resident = run.percent_of_peak, (run.median_s or 0.0) / run.steps, about.workload in RESIDENT
    if not about.larger or not _is_best(run, runs) or (share is not None and share >= LOW_SHARE):
        return
    power = _low_power(run, about) if share is not None else None
    if step >= TINY and (power is None or not resident):
        return
    saw = [
        "" if share is None else f"{share:.0f} % of peak",
        f"{seconds(step)} per {run.step_name}" if step < TINY else "",
        power or "",
    ]
    xla = "--xla or " if about.parameters.get("xla") in (0, "off") else ""
    limit = "probably limited by kernel launches" if resident else "mostly overhead"
    yield f"{limit} ({', '.join(filter(None, saw))}): try {xla}{about.larger}"


def _is_best(run: Run, runs: Sequence[Run]) -> bool:
    """True if no other point of the same case is faster: at the others, the smaller work is what was asked for."""
    speeds = [
        one.throughput.value for one in runs if (one.label, one.dtype) == (run.label, run.dtype) and one.throughput
    ]
    return run.throughput is not None and run.throughput.value >= max(speeds)


def _low_power(run: Run, about: About) -> str | None:
    """The power of the GPU that drew most, where all are far below their limits: "169 of 700 W"."""
    found = [(gpu.power_w, about.power_limit(gpu)) for gpu in run.gpu]
    known = [(power, limit) for power, limit in found if power is not None and limit is not None]
    if not known or len(known) < len(found) or any(power >= LOW_POWER * limit for power, limit in known):
        return None
    power, limit = max(known)
    return f"{power:.0f} of {limit:.0f} W"


def _throttled(run: Run) -> Iterator[str]:
    count = f"{len(run.throttled_samples)} of {len(run.samples_s)} samples"
    for reasons in dict.fromkeys(filter(None, map(slowdowns, run.gpu))):
        alike = [gpu.device for gpu in run.gpu if slowdowns(gpu) == reasons]
        named = ", ".join(alike) if len(alike) <= 3 else f"{len(alike)} GPUs"
        was = "was" if len(alike) == 1 else "were"
        hint = next((f": {_THROTTLE_HINTS[reason]}" for reason in _THROTTLE_HINTS if reason in reasons), "")
        yield f"{named} {was} throttled ({', '.join(reasons)}) during {count}{hint}"


def _power_limited(run: Run, about: About) -> Iterator[str]:
    """A note: a GPU at its power limit is at full load."""
    # the highest reading: NVML averages the power over a second, too
    capped = [
        (gpu.power_max_w or gpu.power_w or 0.0, about.power_limit(gpu)) for gpu in run.gpu if POWER_CAP in gpu.throttled
    ]
    if capped:
        power, limit = max(capped, key=lambda pair: pair[0])
        shown = f" (up to {power:.0f} of {limit:.0f} W)" if limit and power >= AT_LIMIT * limit else ""
        yield f"power-limited{shown}, as usual for this load"


def _cpus(run: Run, about: About, on_gpu: bool) -> Iterator[str]:
    """A run that did not get the CPUs, by its own use and by that of others."""
    cpus, others = about.cpus, run.others_cpus or 0.0
    if not cpus:
        return
    if others > OTHERS_SHARE * cpus:
        yield f"other programs used {others:.1f} of {cpus:g} CPUs during the run: stop them and repeat"
    elif run.cpu_wait and (waited := median(run.cpu_wait)) > OTHERS_SHARE * cpus:
        yield f"the run waited for {waited:.1f} CPUs that other programs used: stop them and repeat"
    elif not on_gpu and run.cpu_load and (used := median(run.cpu_load)) < BUSY_SHARE * cpus:
        ran = "other programs ran, or " if run.others_cpus is None else ""
        yield f"used {used:.1f} of {cpus:g} CPUs: {ran}its threads are limited or wait"
