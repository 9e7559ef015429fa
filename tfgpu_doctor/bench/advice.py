"""A closed list of advice: what the figures of a run give reason to say, with the figures in it. Pure.

Each piece looks at one run and says one sentence or nothing; what a single workload knows of itself (how long a step
waits for its input) is said by its plan. A warning that a figure is implausible stands here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from tfgpu_doctor.bench.results import GpuTelemetry, Run
from tfgpu_doctor.records.facts import Gpu, Known

TINY = 0.002  # seconds of a step; below it the launch of kernels (some µs each) weighs more than the work
IDLE = 70.0  # per cent of utilisation below which a GPU waits more than it should
BUSY_SHARE = 0.7  # of the CPUs; a CPU run that got less was disturbed, or cannot use them
OTHERS_SHARE = 0.1  # of the CPUs; other programs that took more than this disturb
OUTLIER, MANY_OUTLIERS = 1.25, 0.05  # times the median, and the share of the samples from which on it is worth a word
SLOW_CLOCK = 0.8  # of the highest SM clock
POOR = 0.7  # efficiency below which a reason is looked for
SLOW_START = 20.0  # seconds of the first call that only compiling explains
COMPILES = 50  # times the median, likewise

# what makes the work of one step larger; workloads that are not here compute too little to fill a GPU by their nature
_LARGER = {
    "matpow": "a larger --size",
    "cnn": "a larger --batch-size",
    "gan": "a larger --batch-size",
    "inference": "a larger batch (--batch-sizes)",
}
_TRY = {  # by throttle reason: the first that is known is told
    "hw_thermal_slowdown": "check the cooling (nvidia-smi -q -d TEMPERATURE)",
    "sw_thermal_slowdown": "check the cooling (nvidia-smi -q -d TEMPERATURE)",
    "hw_power_brake_slowdown": "the power supply asks it to slow down",
    "hw_slowdown": "heat or the power supply: nvidia-smi -q -d PERFORMANCE",
    "sw_power_cap": "nvidia-smi -q -d POWER shows the limit",
}


@dataclass(frozen=True)
class About:
    """What is known beside the runs."""

    workload: str
    cpus: int | None = None  # that the benchmark may use
    gpus: Mapping[str, Gpu] = field(default_factory=dict)  # by PCI bus id, in lower case


def advise(runs: Sequence[Run], about: About) -> tuple[Run, ...]:
    """Add to each run with a speed what its figures give reason to say. Virtual devices prove no speed."""
    return tuple(
        msgspec.structs.replace(run, advice=(*run.advice, *_advice(run, runs, about)))
        if run.throughput and not run.virtual
        else run
        for run in runs
    )


def _advice(run: Run, runs: Sequence[Run], about: About) -> Iterator[str]:
    for one in _LIST:
        yield from one(run, runs, about)


def _type(run: Run, runs: Sequence[Run], about: About) -> Iterator[str]:
    if run.computed_in != run.dtype:
        yield f"{run.dtype} was asked for, and {run.computed_in} was computed: the residual is that small"


def _unsettled(run: Run, runs: Sequence[Run], about: About) -> Iterator[str]:
    if run.stopped:
        yield f"rough: the samples did not settle ({run.stopped})"


def _outliers(run: Run, runs: Sequence[Run], about: About) -> Iterator[str]:
    slow = sum(sample > OUTLIER * (run.median_s or 0.0) for sample in run.samples_s)
    count = len(run.samples_s)
    if slow > max(1, MANY_OUTLIERS * count):
        yield f"{slow} of {count} samples took more than {OUTLIER:g} times the median: something interferes"


def _tiny(run: Run, runs: Sequence[Run], about: About) -> Iterator[str]:
    step = (run.median_s or 0.0) / run.steps
    if _on_gpu(run) and step < TINY and _is_best(run, runs) and (larger := _LARGER.get(about.workload)):
        yield f"a {run.step_name} takes {step * 1e3:.2g} ms, mostly overhead: {larger} shows the GPU's speed"


def _throttled(run: Run, runs: Sequence[Run], about: About) -> Iterator[str]:
    count = f"{len(run.throttled_samples)} of {len(run.samples_s)} samples"
    for reasons in dict.fromkeys(gpu.throttled for gpu in run.gpu if gpu.throttled):
        alike = [gpu for gpu in run.gpu if gpu.throttled == reasons]
        was = "was" if len(alike) == 1 else "were"
        hint = next((f": {_TRY[reason]}" for reason in _TRY if reason in reasons), "")
        yield f"{_named(alike)} {was} throttled ({', '.join(reasons)}) during {count}{hint}"


def _slow_clock(run: Run, runs: Sequence[Run], about: About) -> Iterator[str]:
    for gpu in run.gpu:
        known = about.gpus.get((gpu.pci_bus_id or "").lower())
        if gpu.sm_clock_mhz is None or known is None or not isinstance(known.sm_clock_max, Known) or gpu.throttled:
            continue
        most = known.sm_clock_max.value
        if gpu.sm_clock_mhz < SLOW_CLOCK * most and _busy(gpu):
            yield (
                f"{gpu.device} ran at {gpu.sm_clock_mhz:.0f} of {most} MHz, and named no reason: clocks that are "
                "locked show in nvidia-smi -q -d CLOCK"
            )


def _idle(run: Run, runs: Sequence[Run], about: About) -> Iterator[str]:
    larger = _LARGER.get(about.workload)
    waiting = [gpu for gpu in run.gpu if not _busy(gpu)]
    if larger and waiting and _is_best(run, runs) and not list(_poor_scaling(run, runs, about)):
        told = _range([gpu.utilization for gpu in waiting if gpu.utilization is not None])
        yield f"utilisation {told} % of {_named(waiting)}, which wait{'s' * (len(waiting) == 1)} for work: try {larger}"


def _poor_scaling(run: Run, runs: Sequence[Run], about: About) -> Iterator[str]:
    if run.efficiency is None or run.efficiency.high >= POOR:
        return
    told = [gpu.utilization for gpu in run.gpu if gpu.utilization is not None]
    percent = f"efficiency {100 * run.efficiency.value:.0f} %"
    if told and min(told) < IDLE:
        yield f"{percent}: the GPUs were busy {_range(told)} % of the time, and waited for each other"
    elif told:
        yield f"{percent}, though the GPUs were busy {_range(told)} % of the time: they share power, heat or a link"
    elif run.scaling == "strong" and (larger := _LARGER.get(about.workload)):
        yield f"{percent}: the share of each GPU may be too small; try {larger}"


def _cpus(run: Run, runs: Sequence[Run], about: About) -> Iterator[str]:
    """A CPU run that did not get the CPUs, by its own use and by that of others."""
    if not about.cpus:
        return
    others = run.others_cpus or 0.0
    if others > OTHERS_SHARE * about.cpus:
        yield f"other programs kept {others:.1f} of {about.cpus} CPUs busy meanwhile: end them, and repeat"
    elif run.cpu_wait and (waited := _middle(run.cpu_wait)) > OTHERS_SHARE * about.cpus:
        yield f"its threads were ready for {waited:.1f} more CPUs than they got: end other programs, and repeat"
    elif not _on_gpu(run) and run.cpu_load and (used := _middle(run.cpu_load)) < BUSY_SHARE * about.cpus:
        why = (
            "something else ran, or threads are limited" if run.others_cpus is None else "threads are limited, or wait"
        )
        yield f"used {used:.1f} of {about.cpus} CPUs: {why}"


def _slow_start(run: Run, runs: Sequence[Run], about: About) -> Iterator[str]:
    first = run.warmup_s[0] if run.warmup_s else 0.0
    if _on_gpu(run) and first > SLOW_START and first > COMPILES * (run.median_s or first):
        yield (
            f"the first call took {first:.0f} s: kernels were compiled for this card; CUDA_CACHE_MAXSIZE=4294967296 "
            "lets the driver keep them"
        )


def _implausible(run: Run, runs: Sequence[Run], about: About) -> Iterator[str]:
    if run.percent_of_peak is not None and run.percent_of_peak > 100:
        yield f"{run.percent_of_peak:.0f} % of the peak is implausible: the clock or the type is not what it seems"
    if run.percent_of_bandwidth is not None and run.percent_of_bandwidth > 100:
        yield (
            f"{run.percent_of_bandwidth:.0f} % of the memory bandwidth is implausible: not all that was asked for was "
            "read and written, or it stayed in a cache"
        )


_LIST: tuple[Callable[[Run, Sequence[Run], About], Iterator[str]], ...] = (
    *(_implausible, _type, _unsettled, _outliers, _tiny, _throttled, _slow_clock, _idle, _poor_scaling, _cpus),
    _slow_start,
)


def _on_gpu(run: Run) -> bool:
    return run.devices[0].startswith("/GPU")


def _busy(gpu: GpuTelemetry) -> bool:
    return gpu.utilization is None or gpu.utilization >= IDLE


def _is_best(run: Run, runs: Sequence[Run]) -> bool:
    """Whether no other point of the same case is faster: at the others, the smaller work is what was asked for."""
    alike = [one for one in runs if (one.label, one.dtype) == (run.label, run.dtype) and one.throughput]
    return all(one.throughput.value <= run.throughput.value for one in alike if one.throughput and run.throughput)


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.0f}", f"{max(values):.0f}"
    return low if low == high else f"{low} to {high}"


def _named(gpus: Sequence[GpuTelemetry]) -> str:
    return ", ".join(gpu.device for gpu in gpus) if len(gpus) <= 3 else f"{len(gpus)} GPUs"


def _middle(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]
