"""Compute the speed of a run from its samples, what makes it doubtful, and what it is beside others and at most. Pure.

The median is judged, and not the samples, by what may make it wrong by more than LIMIT (docs/measuring.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import median

import msgspec

from tfgpu_doctor import __version__
from tfgpu_doctor.bench.results import WORKLOADS, BenchResult, GpuTelemetry, Parameters, Ratio, Run, Throughput
from tfgpu_doctor.bench.samples import DISTURBED, Samples, interval, samples_of, usable_cpus
from tfgpu_doctor.bench.statistics import FEWEST_FOR_INTERVAL, iqr_spread, median_interval, percent, relative_error
from tfgpu_doctor.facts.facts import Facts, Gpu, Known, value_or
from tfgpu_doctor.facts.units import count, seconds
from tfgpu_doctor.matrix.loader import Matrix

LIMIT = 0.05  # share of the median
# Of the median: what is assumed of fewer samples than an interval needs, where they lie closer together. Two runs of
# one sample each, a minute apart on a busy CPU, differed by that much (2026-11-29): their speed has two digits.
FEW_SPREAD = 0.1


def with_speed(run: Run, work: float, unit: str, cpus: float | None) -> Run:
    """Return the run with what its settled samples say: median, interval, spread and speed.

    Args:
        work: of a sample, in `unit` times seconds.
        cpus: that a process may use, where known; without, no sample is known to be disturbed.
    """
    kept = samples_of(run, cpus).settled()
    samples = kept.all()
    middle, (low, high) = median(samples), median_interval(samples)
    if len(processes := tuple(filter(None, kept.processes))) > 1:  # samples of one process are not independent
        least, most = interval(Samples(processes))
        low, high = min(low, least), max(high, most)
    if len(samples) < FEWEST_FOR_INTERVAL:
        low, high = min(low, middle * (1 - FEW_SPREAD)), max(high, middle * (1 + FEW_SPREAD))
    measured = msgspec.structs.replace(
        run,
        left_out=len(run.samples_s) - len(kept),
        median_s=middle,
        ci95_s=(low, high),
        spread_iqr=iqr_spread(samples),
        throughput=Throughput(value=work / middle, unit=unit, ci95=(work / high, work / low)),
    )
    return judged(measured, cpus)


def judged(run: Run, cpus: float | None) -> Run:
    """Return the run with what makes its figure doubtful, also as the first of its advice; not of virtual devices."""
    if run.throughput is None or run.ci95_s is None or run.virtual:
        return run
    found = tuple(_doubts(samples_of(run, cpus).settled(), run.ci95_s))
    advice = (f"uncertain: {'; '.join(found)}",) if found else ()
    return msgspec.structs.replace(run, doubts=found, advice=(*advice, *run.advice))


def _doubts(kept: Samples, ci95: tuple[float, float]) -> Iterator[str]:
    """Yield the reasons to doubt a median, gravest first; none where it can be relied on.

    Args:
        kept: the samples that the median is of, in the order of time.
        ci95: its interval.
    """
    samples = kept.all()
    if len(samples) < FEWEST_FOR_INTERVAL:
        yield f"only {count(len(samples), 'sample')}"
    elif (error := relative_error(median(samples), ci95)) > LIMIT:
        yield f"95 % interval ±{percent(error)} %"
    if change := drift(samples):
        yield f"drift: the second half took {percent(abs(change))} % {'longer' if change > 0 else 'less time'}"
    disturbed = sum(share > DISTURBED for process in kept.lost or () for share in process)
    if disturbed and len(samples) >= FEWEST_FOR_INTERVAL:
        yield f"disturbed by other programs in {disturbed} of {len(samples)} samples: the speed is too low"


def drift(samples: Sequence[float]) -> float | None:
    """Return by how much the median of the second half differs from the first's, where that is surely above LIMIT."""
    half = len(samples) // 2
    if half < FEWEST_FOR_INTERVAL:
        return None
    first, second = samples[:half], samples[-half:]
    (low, high), (low_after, high_after) = median_interval(first), median_interval(second)
    least = max(low_after / high, low / high_after) - 1  # what both intervals leave of the change
    return median(second) / median(first) - 1 if least > LIMIT else None


# ---------------------------------------------------------------------------------------------------------------------
# Speed-up and efficiency: what the runs say beside each other.


def ratio(new: Throughput, base: Throughput) -> Ratio:
    """Return `new` over `base`; the interval is what both intervals allow at worst."""
    return Ratio(value=new.value / base.value, low=new.ci95[0] / base.ci95[1], high=new.ci95[1] / base.ci95[0])


def relate(runs: Sequence[Run]) -> tuple[Run, ...]:
    """Add speed-ups (by throughput, since *terms* gives more devices more work) and efficiency.

    Efficiency is the speed-up over one GPU per GPU. Virtual devices get none of these: they prove no speed. Runs are
    compared within their type; the CPU's float32 run stands beside tf32.
    """

    def related(run: Run) -> Run:
        vs_cpu, count = _over(run, runs, "CPU"), len(run.devices)
        vs_gpu = _over(run, runs, "1 GPU") if _on_gpu(run) else None
        efficiency = None
        if vs_gpu and count > 1:
            efficiency = Ratio(value=vs_gpu.value / count, low=vs_gpu.low / count, high=vs_gpu.high / count)
        return msgspec.structs.replace(run, speedup_vs_cpu=vs_cpu, speedup_vs_1gpu=vs_gpu, efficiency=efficiency)

    return tuple(related(run) if run.throughput and not run.virtual else run for run in runs)


def _over(run: Run, runs: Sequence[Run], label: str) -> Ratio | None:
    """The speed of a run over that of one device of the same work and type; None for itself."""
    types = {run.dtype, "float32"} if run.dtype == "tf32" and label == "CPU" else {run.dtype}
    alike = (one for one in runs if one.dtype in types and one.parameters == run.parameters and len(one.devices) == 1)
    base = next((one for one in alike if one.label.startswith(label)), run)
    if base is run or base.throughput is None or run.throughput is None:
        return None
    return ratio(run.throughput, base.throughput)


# ---------------------------------------------------------------------------------------------------------------------
# What GPUs could do at most; unknown stays unknown.


def peak_flops(gpu: Gpu, dtype: str, matrix: Matrix) -> float | None:
    """Return the peak FLOP/s of a GPU in `dtype`: multiprocessors × highest clock × FLOP per cycle; None where unknown.

    The FLOP per cycle and multiprocessor are the matrix's (NVIDIA's architecture whitepapers, dense).
    """
    capability = value_or(gpu.compute_capability, None)
    row = matrix.peak(capability, value_or(gpu.name, None)) if capability else None
    if row is None or not isinstance(gpu.multiprocessors, Known) or not isinstance(gpu.sm_clock_max, Known):
        return None
    per_cycle: float | None = getattr(row, dtype.removeprefix("mixed_"), None)
    if dtype == "float64" and row.float64_tensor:
        per_cycle = row.float64_tensor  # cuBLAS uses the tensor cores for float64 where there are some
    return per_cycle * gpu.multiprocessors.value * gpu.sm_clock_max.value * 1e6 if per_cycle else None


def memory_bandwidth(gpu: Gpu) -> float | None:
    """Return the bytes/s that the memory of a GPU can give at its highest clock; None where a factor is unknown.

    Two transfers a cycle of the clock that NVML tells × the width of the bus, as NVIDIA computes it ("How to Implement
    Performance Metrics in CUDA C/C++"): 2 × 2619 MHz × 5120 bit / 8 = 3352 GB/s, the data sheet's of an H100 SXM.
    """
    if not isinstance(gpu.memory_clock_max, Known) or not isinstance(gpu.memory_bus_width, Known):
        return None
    return 2.0 * gpu.memory_clock_max.value * 1e6 * gpu.memory_bus_width.value / 8 or None


def percent_of(achieved: float, gpus: Sequence[Gpu], most: Callable[[Gpu], float | None]) -> float | None:
    """Return what GPUs achieved together in per cent of what they can do at `most`; None where one is unknown."""
    known = [limit for gpu in gpus if (limit := most(gpu)) is not None]
    return 100.0 * achieved / sum(known) if known and len(known) == len(gpus) else None


def gpus_of(run: Run, environment: Facts) -> list[Gpu]:
    """Return what is known of the GPUs that were watched during a run, told by their PCI bus id."""
    known = {value_or(gpu.pci_bus_id, "").lower(): gpu for gpu in value_or(environment.gpus, ())}
    return [known[bus_id] for one in run.gpu if (bus_id := (one.pci_bus_id or "").lower()) in known]


def with_peak(run: Run, environment: Facts, matrix: Matrix) -> Run:
    """Return the run with what it reached of what its GPUs could do; as it was where one of them is not known."""
    dtype = run.computed_in
    if dtype is None or run.virtual or not run.devices[0].startswith("/GPU") or run.median_s is None:
        return run
    gpus = gpus_of(run, environment)
    if len(gpus) < len(run.devices):
        return run
    share = moved = None
    if run.flop is not None:
        share = percent_of(run.flop / run.median_s, gpus, lambda gpu: peak_flops(gpu, dtype, matrix))
    if run.bytes_moved is not None:
        moved = percent_of(run.bytes_moved / run.median_s, gpus, memory_bandwidth)
    return msgspec.structs.replace(run, percent_of_peak=share, percent_of_bandwidth=moved)


POWER_CAP = "sw_power_cap"  # the normal state of a GPU under full load; heat and the power supply are slowdowns


def slowdowns(gpu: GpuTelemetry) -> tuple[str, ...]:
    """Return the reasons for lower clocks that a healthy GPU does not have: heat, the power supply."""
    return tuple(reason for reason in gpu.throttled if reason != POWER_CAP)


# ---------------------------------------------------------------------------------------------------------------------
# Advice about runs: a closed list of what their figures give reason to do, and nothing for a run in order.
#
# What only one workload knows (how long a step waits for its input) is in its plan. What is usual and worth knowing is
# a note of the run, not advice: nothing is to be done about it.

TINY = 0.002  # seconds of a step; below it the launch of kernels (some µs each) weighs more than the work
LOW_SHARE = 20.0  # per cent of the peak; above it, the GPU computes for most of the time
LOW_POWER = 0.5  # of the limit; what is limited by memory or arithmetic draws more (an H100 that waits: 169 of 700 W)
RESIDENT = ("matpow", "cnn", "gan")  # whose steps copy nothing between host and GPU
BUSY_SHARE = 0.7  # of the CPUs; a CPU run that got less was disturbed, or cannot use them
OTHERS_SHARE = 0.1  # of the CPUs; other programs that took more than this disturb
POOR = 0.7  # efficiency below which a reason is looked for
SLOW_START = 20.0  # seconds of the first call that only compiling explains
COMPILES = 50  # times the median, likewise
ADVISED_BY_PLAN = ("inference", "transfer")


def advise(runs: Sequence[Run], workload: str, environment: Facts, parameters: Parameters) -> tuple[Run, ...]:
    """Add to each run with a speed what its figures give reason to say. Virtual devices prove no speed."""
    known = WORKLOADS.get(workload)
    larger = known.larger if known else None
    smaller = f"--xla or {larger}" if larger and parameters.get("xla") in (0, "off") else larger

    def advised(run: Run) -> Run:
        advice = [*_figures(run, larger if run.scaling == "strong" else None), *_cpus(run, usable_cpus(environment))]
        if _on_gpu(run):
            if smaller and _is_best(run, runs):
                advice += _launches(run, smaller, environment, is_resident=workload in RESIDENT)
            advice += _throttled(run)
        capped = any(POWER_CAP in gpu.throttled for gpu in run.gpu)
        notes = ("power-limited, as usual for this load",) if capped else ()
        return msgspec.structs.replace(run, advice=(*run.advice, *advice), notes=notes)

    return tuple(advised(run) if run.throughput and not run.virtual else run for run in runs)


def reassess(result: BenchResult) -> BenchResult:
    """Return a saved result with the doubts and advice of this version; it may be that of another one.

    What only a plan could advise is shown as that of the version that measured.
    """
    version, cpus = result.tool.version, usable_cpus(result.environment)
    if version == __version__:
        return result

    def anew(run: Run) -> Run:
        own = run.advice if result.workload in ADVISED_BY_PLAN else ()
        said = tuple(f"{text} (advice of tfgpu {version})" for text in own)
        slowed = run.throttled_samples if any(map(slowdowns, run.gpu)) else ()  # those of the power limit do not count
        # utilization is not known where samples leave pauses (bench/runner/telemetry.py)
        gpus = (msgspec.structs.replace(one, utilization=one.utilization if run.steps > 1 else None) for one in run.gpu)
        again = msgspec.structs.replace(run, advice=said, doubts=(), throttled_samples=slowed, gpu=tuple(gpus))
        return judged(again, cpus)

    runs = tuple(map(anew, result.runs))
    if result.workload not in ADVISED_BY_PLAN:
        runs = advise(runs, result.workload, result.environment, result.parameters)
    return msgspec.structs.replace(result, runs=runs)


def _on_gpu(run: Run) -> bool:
    return run.devices[0].startswith("/GPU")


def _figures(run: Run, larger: str | None) -> Iterator[str]:
    """Yield what a figure says alone; `larger` is what gives each of several GPUs more work."""
    for share, what in ((run.percent_of_peak, "peak"), (run.percent_of_bandwidth, "memory bandwidth")):
        if (share or 0.0) > 100:
            yield f"{share:.0f} % of the {what} is implausible: clock, type or amount of data differ from the assumed"
    if run.computed_in != run.dtype:
        yield f"{run.dtype} was requested, but {run.computed_in} was computed: the error is too small for {run.dtype}"
    if run.efficiency and run.efficiency.high < POOR and larger:
        value = 100 * run.efficiency.value
        yield f"efficiency {value:.0f} %: the work of each GPU may be too small: try {larger}"
    first = run.warmup_s[0] if run.warmup_s else 0.0
    if _on_gpu(run) and first > max(SLOW_START, COMPILES * (run.median_s or first)):
        yield (
            f"the first call took {first:.0f} s: kernels were compiled for this GPU. With "
            "CUDA_CACHE_MAXSIZE=4294967296, the driver keeps them"
        )


def _launches(run: Run, options: str, environment: Facts, *, is_resident: bool) -> Iterator[str]:
    """Many small kernels: the GPU computes little and draws little power, or its steps are very short."""
    share, step = run.percent_of_peak, (run.median_s or 0.0) / run.steps
    power = "" if share is None else _low_power(run, environment)
    if (share or 0.0) < LOW_SHARE and (step < TINY or (power and is_resident)):
        saw = ["" if share is None else f"{share:.0f} % of peak"]
        saw += [f"{seconds(step)} per {run.step_name}" if step < TINY else "", power]
        limit = "probably limited by kernel launches" if is_resident else "mostly overhead"
        yield f"{limit} ({', '.join(filter(None, saw))}): try {options}"


def _low_power(run: Run, environment: Facts) -> str:
    """Return the power of the GPU that drew most, where all are far below their limits: "169 of 700 W"."""
    limits = [value_or(gpu.power_limit, 0.0) for gpu in gpus_of(run, environment)]
    powers = [gpu.power_w for gpu in run.gpu if gpu.power_w is not None]
    if len(limits) == len(powers) == len(run.gpu) > 0:
        pairs = list(zip(powers, limits, strict=True))
        if all(power < LOW_POWER * limit for power, limit in pairs):
            return "{:.0f} of {:.0f} W".format(*max(pairs))
    return ""


def _is_best(run: Run, runs: Sequence[Run]) -> bool:
    """True if no other point of the same case is faster: at the others, the smaller work is what was asked for."""
    alike = (one.throughput for one in runs if (one.label, one.dtype) == (run.label, run.dtype))
    return run.throughput is not None and all(speed.value <= run.throughput.value for speed in alike if speed)


def _throttled(run: Run) -> Iterator[str]:
    during = f"during {len(run.throttled_samples)} of {len(run.samples_s)} samples"
    for reasons in dict.fromkeys(filter(None, map(slowdowns, run.gpu))):
        devices = ", ".join(gpu.device for gpu in run.gpu if slowdowns(gpu) == reasons)
        yield f"{devices} throttled ({', '.join(reasons)}) {during}: check cooling and power (nvidia-smi -q)"


def _cpus(run: Run, cpus: float | None) -> Iterator[str]:
    """A run that did not get the CPUs, by its own use and by that of others."""
    others = run.others_cpus or 0.0
    if not cpus:
        return
    if others > OTHERS_SHARE * cpus:
        yield f"other programs used {others:.1f} of {cpus:g} CPUs during the run: stop them and repeat"
    elif not _on_gpu(run) and run.cpu_load and (used := median(run.cpu_load)) < BUSY_SHARE * cpus:
        yield f"used {used:.1f} of {cpus:g} CPUs: its threads are limited or wait, or other programs ran"
