"""A closed list of advice: sentences that the figures of a run give reason for, with the figures in them. Pure.

Each rule looks at one run and yields sentences or nothing; what only one workload knows (how long a step waits for its
input) is in its plan. Warnings about implausible figures belong to the list, too. What is usual and worth knowing is a
note of the run, not advice: nothing is to be done about it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from tfgpu_doctor.bench.results import BenchResult, GpuTelemetry, Parameters, Run
from tfgpu_doctor.bench.samples import usable_cpus
from tfgpu_doctor.bench.speeds import DOUBTFUL, POWER_CAP, revised, slowdowns
from tfgpu_doctor.bench.statistics import median
from tfgpu_doctor.bench.workload_registry import WORKLOADS
from tfgpu_doctor.records.facts import Facts, Gpu, Known, value_or
from tfgpu_doctor.records.units import seconds

TINY = 0.002  # seconds of a step; below it the launch of kernels (some µs each) weighs more than the work
LOW_SHARE = 20.0  # per cent of the peak; above it, the GPU computes for most of the time
LOW_POWER = 0.5  # of the limit; what is limited by memory or arithmetic draws more (an H100 that waits: 169 of 700 W)
AT_LIMIT = 0.9  # of the limit
AT_WORK = 40.0  # per cent of what the clock at hand allows; above it, the GPU had reason to raise its clock
RESIDENT = ("matpow", "cnn", "gan")  # whose steps copy nothing between host and GPU
BUSY_SHARE = 0.7  # of the CPUs; a CPU run that got less was disturbed, or cannot use them
OTHERS_SHARE = 0.1  # of the CPUs; other programs that took more than this disturb
SLOW_CLOCK = 0.8  # of the highest SM clock
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
    gpus: Mapping[str, Gpu] = field(default_factory=dict)  # by PCI bus id, in lower case
    parameters: Parameters = field(default_factory=dict)

    @classmethod
    def of(cls, workload: str, environment: Facts, parameters: Parameters) -> About:
        """Collect it from what a result holds."""
        gpus = {value_or(gpu.pci_bus_id, "").lower(): gpu for gpu in value_or(environment.gpus, ())}
        return cls(workload, usable_cpus(environment), gpus, parameters)

    def gpu(self, telemetry: GpuTelemetry) -> Gpu | None:
        """Return the facts about a GPU that was watched."""
        return self.gpus.get((telemetry.pci_bus_id or "").lower())

    def power_limit(self, telemetry: GpuTelemetry) -> float | None:
        """Return its power limit in watts; None where it is not known."""
        gpu = self.gpu(telemetry)
        return (value_or(gpu.power_limit, None) or None) if gpu else None


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
    def remedies(self) -> str | None:
        """What leaves fewer or larger kernels: XLA, where it is off and can be turned on, and a larger step."""
        is_off = self.about.parameters.get("xla") in (0, "off")
        return " or ".join(filter(None, ("--xla" if is_off else None, self.larger))) if self.larger else None

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
    founded = [revised(run) for run in runs]
    return tuple(_advised(_Subject(run, founded, about)) for run in founded)


# Statements of older versions that the figures do not support, and those that today's rules make anew in other words.
_WITHDRAWN = re.compile(
    r"low GPU utilization, |.* (?:was|were) throttled \(|efficiency .* the GPUs were busy|"
    r"a \w+ takes .*, mostly overhead|\d+ of \d+ samples took more than "
)


def advise_anew(result: BenchResult) -> BenchResult:
    """Return a saved result with what today's rules say of its figures, and without what they say no longer."""
    runs = [
        msgspec.structs.replace(run, advice=tuple(text for text in run.advice if not _WITHDRAWN.match(text)))
        for run in result.runs
    ]
    about = About.of(result.workload, result.environment, result.parameters)
    return msgspec.structs.replace(result, runs=advise(runs, about))


def _advised(subject: _Subject) -> Run:
    """The run with notes and advice: what is doubtful about it, what the rules say, what else was said before."""
    run = subject.run
    if not run.throughput or run.virtual:
        return run
    advice = [text for rule in _RULES for text in rule(subject)]
    made = set(map(_without_figures, advice))
    doubtful = [text for text in run.advice if text.startswith(DOUBTFUL)]
    others = [text for text in run.advice if text not in doubtful and _without_figures(text) not in made]
    return msgspec.structs.replace(run, advice=(*doubtful, *advice, *others), notes=tuple(_power_limited(subject)))


def _without_figures(text: str) -> str:
    return re.sub(r"[\d.]+", "#", text)


def _type(subject: _Subject) -> Iterator[str]:
    run = subject.run
    if run.computed_in != run.dtype:
        yield f"{run.dtype} was requested, but {run.computed_in} was computed: the error is too small for {run.dtype}"


def _launches(subject: _Subject) -> Iterator[str]:
    """Many small kernels: the GPU computes little and draws little power, or its steps are very short."""
    run, share = subject.run, subject.run.percent_of_peak
    step = (run.median_s or 0.0) / run.steps
    if not (subject.on_gpu and subject.is_best and subject.remedies) or (share is not None and share >= LOW_SHARE):
        return
    saw = [f"{share:.0f} % of peak"] if share is not None else []
    power = _low_power(subject) if share is not None else None
    if step < TINY:
        saw.append(f"{seconds(step)} per {run.step_name}")
    elif power is None or subject.about.workload not in RESIDENT:
        return
    if power:
        saw.append(power)
    limit = "probably limited by kernel launches" if subject.about.workload in RESIDENT else "mostly overhead"
    yield f"{limit} ({', '.join(saw)}): try {subject.remedies}"


def _low_power(subject: _Subject) -> str | None:
    """The power of the GPU that drew most, where all are far below their limits: "169 of 700 W"."""
    found = [(gpu.power_w, subject.about.power_limit(gpu)) for gpu in subject.run.gpu]
    known = [(power, limit) for power, limit in found if power is not None and limit is not None]
    if not known or len(known) < len(found) or any(power >= LOW_POWER * limit for power, limit in known):
        return None
    power, limit = max(known)
    return f"{power:.0f} of {limit:.0f} W"


def _throttled(subject: _Subject) -> Iterator[str]:
    run = subject.run
    count = f"{len(run.throttled_samples)} of {len(run.samples_s)} samples"
    for reasons in dict.fromkeys(filter(None, map(slowdowns, run.gpu))):
        alike = [gpu for gpu in run.gpu if slowdowns(gpu) == reasons]
        was = "was" if len(alike) == 1 else "were"
        hint = next((f": {_THROTTLE_HINTS[reason]}" for reason in _THROTTLE_HINTS if reason in reasons), "")
        yield f"{_named(alike)} {was} throttled ({', '.join(reasons)}) during {count}{hint}"


def _power_limited(subject: _Subject) -> Iterator[str]:
    """A note: a GPU at its power limit is at full load."""
    capped = [gpu for gpu in subject.run.gpu if POWER_CAP in gpu.throttled]
    if not capped:
        return
    # the highest reading: NVML averages the power over a second, too
    power = [(max((one.power_w or 0.0 for one in gpu.readings), default=gpu.power_w or 0.0), gpu) for gpu in capped]
    highest, gpu = max(power, key=lambda pair: pair[0])
    limit = subject.about.power_limit(gpu)
    shown = f" (up to {highest:.0f} of {limit:.0f} W)" if limit and highest >= AT_LIMIT * limit else ""
    yield f"power-limited{shown}, as usual for this load"


def _slow_clock(subject: _Subject) -> Iterator[str]:
    share = subject.run.percent_of_peak
    for gpu in subject.run.gpu:
        known = subject.about.gpu(gpu)
        if gpu.sm_clock_mhz is None or known is None or not isinstance(known.sm_clock_max, Known) or gpu.throttled:
            continue
        most = known.sm_clock_max.value
        if gpu.sm_clock_mhz < SLOW_CLOCK * most and share is not None and share >= AT_WORK * gpu.sm_clock_mhz / most:
            yield (
                f"{gpu.device} ran at {gpu.sm_clock_mhz:.0f} of {most} MHz and reported no throttling: nvidia-smi -q "
                "-d CLOCK shows whether its clocks are locked"
            )


def _poor_scaling(subject: _Subject) -> Iterator[str]:
    run = subject.run
    if run.efficiency is None or run.efficiency.high >= POOR:
        return
    if run.scaling == "strong" and subject.larger:
        percent = f"efficiency {100 * run.efficiency.value:.0f} %"
        yield f"{percent}: the work of each GPU may be too small: try {subject.larger}"


def _cpus(subject: _Subject) -> Iterator[str]:
    """A CPU run that did not get the CPUs, by its own use and by that of others."""
    run, cpus = subject.run, subject.about.cpus
    if not cpus:
        return
    others = run.others_cpus or 0.0
    if others > OTHERS_SHARE * cpus:
        yield f"other programs used {others:.1f} of {cpus:g} CPUs during the run: stop them and repeat"
    elif run.cpu_wait and (waited := median(run.cpu_wait)) > OTHERS_SHARE * cpus:
        yield f"the run waited for {waited:.1f} CPUs that other programs used: stop them and repeat"
    elif not subject.on_gpu and run.cpu_load and (used := median(run.cpu_load)) < BUSY_SHARE * cpus:
        limited = "its threads are limited or wait"
        why = f"other programs ran, or {limited}" if run.others_cpus is None else limited
        yield f"used {used:.1f} of {cpus:g} CPUs: {why}"


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
    *(_implausible, _type, _launches, _throttled, _slow_clock, _poor_scaling, _cpus),
    _slow_start,
)


def _named(gpus: Sequence[GpuTelemetry]) -> str:
    return ", ".join(gpu.device for gpu in gpus) if len(gpus) <= 3 else f"{len(gpus)} GPUs"
