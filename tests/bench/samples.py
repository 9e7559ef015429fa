"""Results of benchmarks that never ran, small and large, for tests of what is made of them."""

from __future__ import annotations

import math
from statistics import median
from typing import Any

import msgspec

from tests.healthy import gpu, healthy, known, spoil
from tfgpu_doctor.bench.results import SCHEMA, BenchResult, Check, Figure, GpuTelemetry, Run, Throughput, Verified
from tfgpu_doctor.bench.speeds import advise, judged, relate
from tfgpu_doctor.bench.statistics import iqr_spread, median_interval
from tfgpu_doctor.facts.report import Tool

FLOP = 4.0 * 4096**3 * 9
SHAKY = (1.0, 1.2) * 6
CPUS = 2
STEADY = tuple(1.0 + 0.001 * step for step in (0, 3, 1, -2, 2, -1, 0, 1, -3, 2, 0))


def verified(**changes: Any) -> Verified:
    right = Verified(ok=True, residual=9.4e-7, tolerance=5.4e-6, method="test")
    return msgspec.structs.replace(right, **changes)


def run(label: str = "CPU", seconds: float = 5.0, **changes: Any) -> Run:
    """A run whose samples scatter by some per mille around `seconds`, each of `steps_of` units of work."""
    fields: dict[str, Any] = {
        "devices": ("/CPU:0",) if "CPU" in label else ("/GPU:0",),
        "dtype": "float32",
        "spread": "one device",
        "flop": FLOP,
        **changes,
    }
    samples = tuple(seconds * step for step in fields.pop("steps", STEADY))
    fields["steps"] = fields.pop("steps_of", 1)
    unit = fields.pop("unit", "FLOP/s")
    low, high = median_interval(samples)
    middle = median(samples)
    measured: dict[str, Any] = {
        "computed_in": fields["dtype"],
        "placed_on": fields["devices"],
        "cold_start_s": {"import": 1.73, "list devices": 0.0005, "inputs": 0.36, "to devices": 0.0123},
        "warmup_s": (2 * seconds, seconds),
        "samples_s": samples,
        "cpu_load": (1.98,) * len(samples),
        "median_s": middle,
        "ci95_s": (low, high),
        "spread_iqr": iqr_spread(samples),
        "throughput": Throughput(
            value=fields["flop"] / middle, unit=unit, ci95=(fields["flop"] / high, fields["flop"] / low)
        ),
        "verified": verified(),
    }
    return judged(Run(label=label, **{**measured, **fields}), CPUS)


def failed(label: str, why: str, **changes: Any) -> Run:
    fields: dict[str, Any] = {"devices": ("/GPU:0",), "dtype": "float32", "spread": "one device", **changes}
    return Run(label=label, failure=why, **fields)


def telemetry(device: str = "/GPU:0", **changes: Any) -> GpuTelemetry:
    fields: dict[str, Any] = {
        "name": "NVIDIA H200",
        "pci_bus_id": "0000:65:00.0",
        "samples": 40,
        "utilization": 99.0,
        "power_w": 610.5,
        "sm_clock_mhz": 1830.0,
        "temperature_c": 61.0,
    }
    return GpuTelemetry(device=device, **{**fields, **changes})


def result(*runs: Run, notes: tuple[str, ...] = (), **changes: Any) -> BenchResult:
    """A benchmark of 4096 × 4096 matrices."""
    fields: dict[str, Any] = {
        "environment": spoil(healthy(), {"host.cpus": known(CPUS)}),
        "parameters": {"size": 4096, "power": 10, "seed": 7, "min_samples": 10, "deadline_s": 120.0},
        "software": {"tensorflow": "2.21.0", "numpy": "2.4.6", "python": "3.12.3"},
        "workload": "matpow",
        "title": "A^10 and B^10, 4096 × 4096",
        **changes,
    }
    return BenchResult(
        schema=SCHEMA,
        tool=Tool(name="tfgpu", version="1.2.3"),
        created="2026-11-21T08:00:00Z",
        runs=advise(relate(runs), fields["workload"], fields["environment"], fields["parameters"]),
        notes=notes,
        **fields,
    )


HOST = {"host.cpu_model": known("AMD EPYC 9654"), "host.cpus": known(2), "host.kernel": known("6.8.0-45-generic")}


def watched(count: int, **changes: Any) -> tuple[GpuTelemetry, ...]:
    buses = [f"0000:{17 + place:02x}:00.0" for place in range(count)]
    return tuple(telemetry(f"/GPU:{place}", pci_bus_id=bus, **changes) for place, bus in enumerate(buses))


def wavering(count: int, slow: int = 0) -> tuple[float, ...]:
    """Factors around 1: two modes, a drift, and a slow one every `slow` samples."""
    modes = (0.004 * math.sin(step * 12.9898) + 0.02 * (step % 5 == 0) + 0.01 * step / count for step in range(count))
    return tuple(1.0 + one + 0.6 * bool(slow and step % slow == slow - 1) for step, one in enumerate(modes))


def on(gpus: int = 1, **changes: Any) -> dict[str, Any]:
    cards = tuple(gpu(place) for place in range(gpus))
    return {"environment": spoil(healthy(), {**HOST, "gpus": known(cards), **changes})}


def one() -> BenchResult:
    return result(run(steps=SHAKY), notes=("TensorFlow lists no GPU: only the CPU is measured.",), **on(0))


def four() -> BenchResult:
    pair: dict[str, Any] = {"devices": ("/GPU:0", "/GPU:1"), "scaling": "strong"}
    hot = watched(2, throttled=("sw_power_cap",))
    return result(
        run(others_cpus=0.7),
        run("1 GPU", 0.052, gpu=watched(1), percent_of_peak=77.4, percent_of_bandwidth=4.2),
        run("2 GPUs, terms", 0.027, spread="terms", gpu=hot, throttled_samples=(3, 4), steps=wavering(60, 20), **pair),
        run("2 GPUs, rows", 0.0265, spread="rows", gpu=watched(2), **pair),
        command="tfgpu bench matpow --size 4096 --gpus 2",
        **on(2),
    )


def sweep() -> BenchResult:
    """24 runs: eight sizes on three devices, one of which fails at the end."""
    runs: list[Run] = []
    for size in (256, 512, 1024, 2048, 4096, 8192, 16384, 32768):
        flop, point = 4.0 * size**3 * 9, {"size": size}
        for label, best, half in (("CPU", 0.5e12, 300), ("1 GPU", 50e12, 3000), ("2 GPUs, rows", 96e12, 6000)):
            seconds = flop / (best * size**2 / (size**2 + half**2)) + 1e-4
            devices = {"CPU": ("/CPU:0",), "1 GPU": ("/GPU:0",)}.get(label, ("/GPU:0", "/GPU:1"))
            runs.append(run(label, seconds, flop=flop, parameters=point, devices=devices))
    runs[-3] = failed("CPU", "left out: it does not fit", devices=("/CPU:0",), parameters={"size": 32768})
    return result(*runs, parameters={"sweep": "size", "power": 10}, title="A^10 and B^10, 8 sizes", **on())


def failures() -> BenchResult:
    wrong = verified(ok=False, residual=0.31)
    return result(
        failed("CPU", "no answer to 'sample' within 120 s", devices=("/CPU:0",)),
        failed("1 GPU", "the result is wrong: relative error 0.31 (limit 5.4e-06)", verified=wrong),
        failed("2 GPUs, rows", "the worker was killed by SIGSEGV"),
        **on(**{"tensorflow.version": known("2.16.1")}),
    )


def eight_gpus() -> BenchResult:
    more = (training(f"{count} GPUs", 0.31 * (1 + 0.03 * count), count, scaling="weak") for count in (2, 4, 8))
    return result(
        *(training("1 GPU", 0.31, 1), *more),
        workload="cnn",
        parameters={"model": "resnet50", "batch_size": 64},
        **on(8),
    )


def training(label: str, seconds: float, count: int, **changes: Any) -> Run:
    """Blocks of 20 steps on some GPUs, verified by checks, with a figure beside them."""
    checks = (Check(name="loss falls", ok=True, saw="2.31 to 0.42"), Check(name="replicas alike", ok=True, saw=""))
    fit = Figure(name="fit", value=3812.0, unit="images/s", ci95=(3790.0, 3855.0))
    return run(
        label,
        seconds,
        devices=tuple(f"/GPU:{place}" for place in range(count)),
        flop=64.0 * 20 * count,
        unit="images/s",
        steps_of=20,
        step_name="step",
        gpu=watched(count),
        verified=verified(residual=None, tolerance=None, checks=checks, method="the loss of one device"),
        figures=(fit,),
        **changes,
    )


def long() -> BenchResult:
    steps, seen = wavering(2000, 150), watched(1)
    return result(run("1 GPU", 0.0021, flop=FLOP / 1000, steps=steps, gpu=seen, throttled_samples=(7, 8)), **on())


LARGE = {"one": one, "four": four, "sweep": sweep, "failures": failures, "eight": eight_gpus, "long": long}
