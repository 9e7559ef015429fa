"""Advice about runs: a closed list of what their figures give reason to do, and nothing for a run in order. Pure.

What only one workload knows (how long a step waits for its input) is in its plan. What is usual and worth knowing is a
note of the run, not advice: nothing is to be done about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

import msgspec

from tfgpu_doctor.bench.results import WORKLOADS, Parameters, Run
from tfgpu_doctor.bench.samples import usable_cpus
from tfgpu_doctor.bench.speeds import DOUBTFUL, POWER_CAP, slowdowns
from tfgpu_doctor.facts.facts import Facts, value_or
from tfgpu_doctor.facts.units import seconds

TINY = 0.002  # seconds of a step; below it the launch of kernels (some µs each) weighs more than the work
LOW_SHARE = 20.0  # per cent of the peak; above it, the GPU computes for most of the time
LOW_POWER = 0.5  # of the limit; what is limited by memory or arithmetic draws more (an H100 that waits: 169 of 700 W)
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
        gpus = value_or(environment.gpus, ())
        limits = {value_or(gpu.pci_bus_id, "").lower(): value_or(gpu.power_limit, 0.0) for gpu in gpus}
        return cls(workload, usable_cpus(environment), limits, parameters)

    def low_power(self, run: Run) -> str:
        """Return the power of the GPU that drew most, where all are far below their limits: "169 of 700 W"."""
        found = [(gpu.power_w, self.power_limits.get((gpu.pci_bus_id or "").lower())) for gpu in run.gpu]
        known = [(power, limit) for power, limit in found if power is not None and limit]
        is_low = len(known) == len(found) and all(power < LOW_POWER * limit for power, limit in known)
        return "{:.0f} of {:.0f} W".format(*max(known)) if known and is_low else ""


def advise(runs: Sequence[Run], about: About) -> tuple[Run, ...]:
    """Add to each run with a speed what its figures give reason to say. Virtual devices prove no speed."""
    return tuple(_advised(run, runs, about) if run.throughput and not run.virtual else run for run in runs)


def _advised(run: Run, runs: Sequence[Run], about: About) -> Run:
    doubtful = [text for text in run.advice if text.startswith(DOUBTFUL)]
    others = [text for text in run.advice if text not in doubtful]
    on_gpu, known = run.devices[0].startswith("/GPU"), WORKLOADS.get(about.workload)
    larger = known.larger if known else None
    advice = [*_figures(run, larger if run.scaling == "strong" else None, on_gpu), *_cpus(run, about.cpus, on_gpu)]
    if on_gpu:
        advice += [*_launches(run, runs, about, larger), *_throttled(run)]
    capped = any(POWER_CAP in gpu.throttled for gpu in run.gpu)
    notes = ("power-limited, as usual for this load",) if capped else ()
    return msgspec.structs.replace(run, advice=(*doubtful, *advice, *others), notes=notes)


def _figures(run: Run, larger: str | None, on_gpu: bool) -> Iterator[str]:
    """Yield what a figure says alone; `larger` is what gives each of several GPUs more work."""
    for share, what, why in (
        (run.percent_of_peak, "peak", "the clock or the type differs from what was assumed"),
        (
            *(run.percent_of_bandwidth, "memory bandwidth"),
            "part of the data was not read and written, or stayed in a cache",
        ),
    ):
        if (share or 0.0) > 100:
            yield f"{share:.0f} % of the {what} is implausible: {why}"
    if run.computed_in != run.dtype:
        yield f"{run.dtype} was requested, but {run.computed_in} was computed: the error is too small for {run.dtype}"
    if run.efficiency and run.efficiency.high < POOR and larger:
        value = 100 * run.efficiency.value
        yield f"efficiency {value:.0f} %: the work of each GPU may be too small: try {larger}"
    first = run.warmup_s[0] if run.warmup_s else 0.0
    if on_gpu and first > max(SLOW_START, COMPILES * (run.median_s or first)):
        yield (
            f"the first call took {first:.0f} s: kernels were compiled for this GPU. With "
            "CUDA_CACHE_MAXSIZE=4294967296, the driver keeps them"
        )


def _launches(run: Run, runs: Sequence[Run], about: About, larger: str | None) -> Iterator[str]:
    """Many small kernels: the GPU computes little and draws little power, or its steps are very short."""
    share, step, resident = run.percent_of_peak, (run.median_s or 0.0) / run.steps, about.workload in RESIDENT
    if not larger or not _is_best(run, runs) or (share is not None and share >= LOW_SHARE):
        return
    power = "" if share is None else about.low_power(run)
    if step >= TINY and not (power and resident):
        return
    time = f"{seconds(step)} per {run.step_name}" if step < TINY else ""
    saw = filter(None, ("" if share is None else f"{share:.0f} % of peak", time, power))
    xla = "--xla or " if about.parameters.get("xla") in (0, "off") else ""
    limit = "probably limited by kernel launches" if resident else "mostly overhead"
    yield f"{limit} ({', '.join(saw)}): try {xla}{larger}"


def _is_best(run: Run, runs: Sequence[Run]) -> bool:
    """True if no other point of the same case is faster: at the others, the smaller work is what was asked for."""
    alike = (one.throughput for one in runs if (one.label, one.dtype) == (run.label, run.dtype))
    return run.throughput is not None and all(speed.value <= run.throughput.value for speed in alike if speed)


def _throttled(run: Run) -> Iterator[str]:
    count = f"{len(run.throttled_samples)} of {len(run.samples_s)} samples"
    for reasons in dict.fromkeys(filter(None, map(slowdowns, run.gpu))):
        alike = [gpu.device for gpu in run.gpu if slowdowns(gpu) == reasons]
        named = ", ".join(alike) if len(alike) <= 3 else f"{len(alike)} GPUs"
        was = "was" if len(alike) == 1 else "were"
        hint = next((f": {_THROTTLE_HINTS[reason]}" for reason in _THROTTLE_HINTS if reason in reasons), "")
        yield f"{named} {was} throttled ({', '.join(reasons)}) during {count}{hint}"


def _cpus(run: Run, cpus: float | None, on_gpu: bool) -> Iterator[str]:
    """A run that did not get the CPUs, by its own use and by that of others."""
    others = run.others_cpus or 0.0
    if not cpus:
        return
    if others > OTHERS_SHARE * cpus:
        yield f"other programs used {others:.1f} of {cpus:g} CPUs during the run: stop them and repeat"
    elif run.cpu_wait and (waited := median(run.cpu_wait)) > OTHERS_SHARE * cpus:
        yield f"the run waited for {waited:.1f} CPUs that other programs used: stop them and repeat"
    elif not on_gpu and run.cpu_load and (used := median(run.cpu_load)) < BUSY_SHARE * cpus:
        ran = "other programs ran, or " if run.others_cpus is None else ""
        yield f"used {used:.1f} of {cpus:g} CPUs: {ran}its threads are limited or wait"
