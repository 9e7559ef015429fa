"""Compute the speed of a run from its samples: median, interval, spread, and what makes them doubtful. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from tfgpu_doctor.bench.results import GpuTelemetry, Ratio, Run, Throughput
from tfgpu_doctor.bench.samples import DISTURBED, Samples, interval, samples_of
from tfgpu_doctor.bench.statistics import (
    FEWEST_FOR_INTERVAL,
    iqr_spread,
    median,
    median_interval,
    percent,
    relative_error,
)
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.records.facts import Facts, Gpu, Known, value_or

OLDER = ("noisy: ", "rough: ")  # how it began where the spread of the samples was judged


def settled(run: Run, cpus: float | None) -> Samples:
    """The samples that its speed is the median of."""
    return samples_of(run, cpus).settled()


def with_speed(run: Run, work: float, unit: str, cpus: float | None) -> Run:
    """The run with what its settled samples say: median, interval, spread and speed.

    Args:
        work: of a sample, in `unit` times seconds.
        cpus: that a process may use, where known; without, no sample is known to be disturbed.
    """
    kept = settled(run, cpus)
    samples = kept.all()
    middle, (low, high) = median(samples), interval_of([process for process in kept.processes if process])
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
    """The run with what makes its figure doubtful, also as the first of its advice; virtual devices have no figure."""
    if run.throughput is None or run.ci95_s is None or not run.samples_s:
        return run
    found = () if run.virtual else doubts(settled(run, cpus), run.ci95_s)
    said = (DOUBTFUL + "; ".join(found),) if found else ()
    others = (advice for advice in run.advice if not advice.startswith((DOUBTFUL, *OLDER)))
    return msgspec.structs.replace(run, doubts=found, advice=(*said, *others))


def interval_of(processes: Sequence[Sequence[float]]) -> tuple[float, float]:
    """A 95 % interval for the median: of one process by its samples, which are all there is to go by; else by what the
    processes say, since samples of one process are not independent."""
    low, high = median_interval([sample for process in processes for sample in process])
    if len(processes) < 2:
        return low, high
    least, most = interval(Samples(tuple(map(tuple, processes))))
    return min(low, least), max(high, most)


# ---------------------------------------------------------------------------------------------------------------------
# What makes the figure of a run doubtful, and nothing else: a run is marked for this. Pure.
#
# That samples differ says little about their median: an H100 at its power limit varies by 3 to 5 % from sample to
# sample, and 1,726 samples give its median to 0.7 % (tests/captures/h100/bench). So the median is judged, by what may
# be wrong with it by more than LIMIT:
#
#     too few samples    fewer than six have no 95 % interval
#     interval           one of its ends lies farther from the median than that
#     drift              the second half of the samples differs from the first by more than that, whatever lies within
#                        the intervals of their medians: the figure depends on when it was taken
#     disturbed          other programs had the CPUs in so many samples that the median counts those, too


LIMIT = 0.05  # share of the median
DOUBTFUL = "uncertain: "  # how the advice begins that says them


def doubts(kept: Samples, ci95: tuple[float, float]) -> tuple[str, ...]:
    """Return the reasons, gravest first; none where the figure can be relied on.

    Args:
        kept: the samples that the median is of, in the order of time.
        ci95: its interval.
    """
    return tuple(_reasons(kept, ci95))


def _reasons(kept: Samples, ci95: tuple[float, float]) -> Iterator[str]:
    samples = kept.all()
    if len(samples) < FEWEST_FOR_INTERVAL:
        yield f"only {len(samples)} sample{'s' * (len(samples) != 1)}"
    elif (error := relative_error(median(samples), ci95)) > LIMIT:
        yield f"95 % interval ±{percent(error)} %"
    if change := drift(samples):
        yield f"drift: the second half took {percent(abs(change))} % {'longer' if change > 0 else 'less time'}"
    shares = [share for process in kept.lost or () for share in process]
    if (disturbed := sum(share > DISTURBED for share in shares)) and len(samples) >= FEWEST_FOR_INTERVAL:
        yield f"disturbed by other programs in {disturbed} of {len(samples)} samples"


def drift(samples: Sequence[float]) -> float | None:
    """By how much the median of the second half differs from that of the first, where that is surely above LIMIT."""
    half = len(samples) // 2
    if half < FEWEST_FOR_INTERVAL:
        return None
    first, second = samples[:half], samples[-half:]
    (low, high), (low_after, high_after) = median_interval(first), median_interval(second)
    least = max(low_after / high, low / high_after) - 1  # what both intervals leave of the change
    return median(second) / median(first) - 1 if least > LIMIT else None


# ---------------------------------------------------------------------------------------------------------------------
# Speed-up and efficiency: what the runs say beside each other. Pure.


def ratio(new: Throughput, base: Throughput) -> Ratio:
    """`new` over `base`; the interval is what both intervals allow at worst."""
    return Ratio(value=new.value / base.value, low=new.ci95[0] / base.ci95[1], high=new.ci95[1] / base.ci95[0])


def relate(runs: Sequence[Run]) -> tuple[Run, ...]:
    """Add speed-ups (by throughput, since *terms* gives more devices more work) and efficiency.

    Efficiency is the speed-up over one GPU per GPU. Virtual devices get none of these: they prove no speed. Runs are
    compared within their type; the CPU's float32 run stands beside tf32.
    """
    return tuple(_relate(run, runs) for run in runs)


def _relate(run: Run, runs: Sequence[Run]) -> Run:
    if run.throughput is None or run.virtual:
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
    return msgspec.structs.replace(run, speedup_vs_cpu=vs_cpu, speedup_vs_1gpu=vs_gpu, efficiency=efficiency)


def _base(runs: Sequence[Run], run: Run, label: str) -> Run | None:
    types = {run.dtype, "float32"} if run.dtype == "tf32" and label == "CPU" else {run.dtype}
    alike = (r for r in runs if r.dtype in types and r.parameters == run.parameters)
    return next((r for r in alike if r.label.startswith(label) and len(r.devices) == 1), None)


# ---------------------------------------------------------------------------------------------------------------------
# What a GPU could do at most: multiprocessors × clock × FLOP per cycle. Pure; unknown stays unknown.


def peak_flops(gpu: Gpu, dtype: str, matrix: Matrix) -> float | None:
    """Peak FLOP/s of one GPU in `dtype` at its highest SM clock; None where any factor is unknown.

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
    """Bytes/s that the memory of one GPU can give at its highest clock; None where a factor is unknown.

    Two transfers a cycle of the clock that NVML tells × the width of the bus, as NVIDIA computes it ("How to Implement
    Performance Metrics in CUDA C/C++"): 2 × 2619 MHz × 5120 bit / 8 = 3352 GB/s, the data sheet's of an H100 SXM.
    """
    if not isinstance(gpu.memory_clock_max, Known) or not isinstance(gpu.memory_bus_width, Known):
        return None
    return 2.0 * gpu.memory_clock_max.value * 1e6 * gpu.memory_bus_width.value / 8 or None


def percent_of_bandwidth(moved: float, gpus: list[Gpu]) -> float | None:
    """`moved` bytes/s in per cent of the memory bandwidth of `gpus` together; None where one is unknown."""
    known = [width for gpu in gpus if (width := memory_bandwidth(gpu)) is not None]
    return 100.0 * moved / sum(known) if known and len(known) == len(gpus) else None


def percent_of_peak(achieved: float, gpus: list[Gpu], dtype: str, matrix: Matrix) -> float | None:
    """`achieved` FLOP/s in per cent of the peaks of `gpus` together; None where one is unknown."""
    peaks = [peak_flops(gpu, dtype, matrix) for gpu in gpus]
    known = [peak for peak in peaks if peak is not None]
    return 100.0 * achieved / sum(known) if known and len(known) == len(peaks) else None


def with_peak(run: Run, environment: Facts, matrix: Matrix) -> Run:
    """The run with what it reached in per cent of what its GPUs could do; as it was where one of them is not known."""
    on_gpus = run.computed_in is not None and not run.virtual and run.devices[0].startswith("/GPU")
    if not on_gpus or run.median_s is None or run.computed_in is None:
        return run
    known = {value_or(gpu.pci_bus_id, "").lower(): gpu for gpu in value_or(environment.gpus, ())}
    gpus = [known[bus_id] for one in run.gpu if (bus_id := (one.pci_bus_id or "").lower()) in known]
    if len(gpus) < len(run.devices):
        return run
    percent = moved = None
    if run.flop is not None:
        percent = percent_of_peak(run.flop / run.median_s, gpus, run.computed_in, matrix)
    if run.bytes_moved is not None:
        moved = percent_of_bandwidth(run.bytes_moved / run.median_s, gpus)
    return msgspec.structs.replace(
        run,
        percent_of_peak=percent,
        peak_is=None if percent is None else "peak",
        percent_of_bandwidth=moved,
    )


# ---------------------------------------------------------------------------------------------------------------------
# What the readings of a run say of its GPUs: how busy they were, and what limited their clocks. Pure.
#
# NVML's utilization is the share of its own window, 1/6 to 1 s (nvml.h), in which any kernel ran, with the pauses
# between samples. An H100 at 75 % of its peak read 0 % behind samples of 49 ms, and 67 % at 620 of 700 W. It is a
# statement about the work only where the work went on without a pause for longer than the window; elsewhere it is
# unknown.


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
