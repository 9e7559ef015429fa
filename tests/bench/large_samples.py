"""Bench results as they come from large machines and long runs, for pages and charts."""

from __future__ import annotations

import math
from typing import Any

from tests.bench.samples import FLOP, SHAKY, failed, result, run, telemetry, verified
from tests.healthy import gpu, healthy, known, spoil
from tfgpu_doctor.bench.results import BenchResult, Check, Figure, GpuTelemetry, Reading, Run

HOST = {"host.cpu_model": known("AMD EPYC 9654"), "host.cpus": known(2), "host.kernel": known("6.8.0-45-generic")}


def readings(seconds: float, phase: float = 0.0, every: float = 0.05) -> tuple[Reading, ...]:
    """A GPU that warms up and is throttled a little, looked at all the time."""
    return tuple(
        Reading(
            t=round(step * every, 3),
            utilization=99.0 if step % 40 else 71.0,
            power_w=560.0 + 40 * math.sin(step / 17 + phase),
            sm_clock_mhz=1830.0 - 60 * (math.sin(step / 23 + phase) > 0.7),
            temperature_c=45.0 + 20 * (1 - math.exp(-step * every / 6)) + phase,
            memory_used=20 * 2**30 + (step > 3) * 2**30,
        )
        for step in range(min(int(seconds / every), 400))
    )


def watched(count: int, seconds: float = 10.0, **changes: Any) -> tuple[GpuTelemetry, ...]:
    """So many GPUs with what was seen of each."""
    return tuple(
        telemetry(
            f"/GPU:{place}",
            pci_bus_id=f"0000:{17 + place:02x}:00.0",
            readings=readings(seconds, 0.7 * place),
            **changes,
        )
        for place in range(count)
    )


def wavering(count: int, slow: int = 0) -> tuple[float, ...]:
    """Factors around 1: two modes, a drift, and a slow one every `slow` samples."""
    return tuple(
        1.0
        + 0.004 * math.sin(step * 12.9898)
        + (0.02 if step % 5 == 0 else 0.0)
        + 0.01 * step / count
        + (0.6 if slow and step % slow == slow - 1 else 0.0)
        for step in range(count)
    )


def one() -> BenchResult:
    """A CPU alone."""
    cpu_only = spoil(healthy(), {**HOST, "gpus": known(())})
    note = "TensorFlow lists no GPU: only the CPU is measured. tfgpu doctor says what keeps it from the GPU."
    return result(run(steps=SHAKY), notes=(note,), environment=cpu_only)


def four() -> BenchResult:
    """CPU, one GPU, two GPUs in two ways."""
    pair: dict[str, Any] = {"devices": ("/GPU:0", "/GPU:1"), "scaling": "strong"}
    return result(
        run(others_cpus=0.7),
        run("1 GPU", 0.052, gpu=watched(1), percent_of_peak=77.4, peak_is="peak", percent_of_bandwidth=4.2),
        run(
            "2 GPUs, terms",
            0.027,
            spread="terms",
            gpu=watched(2, throttled=("sw_power_cap",)),
            throttled_samples=(3, 4, 9),
            steps=wavering(60, 20),
            **pair,
        ),
        run("2 GPUs, rows", 0.0265, spread="rows", gpu=watched(2), **pair),
        environment=spoil(healthy(), {**HOST, "gpus": known((gpu(0), gpu(1)))}),
        command="tfgpu bench matpow --size 4096 --gpus 2",
    )


def sweep() -> BenchResult:
    """24 runs: eight sizes on three devices, one of which fails at the end."""
    runs: list[Run] = []
    for size in (256, 512, 1024, 2048, 4096, 8192, 16384, 32768):
        flop = 4.0 * size**3 * 9
        for label, best, half in (("CPU", 0.5e12, 300), ("1 GPU", 50e12, 3000), ("2 GPUs, rows", 96e12, 6000)):
            seconds = flop / (best * size**2 / (size**2 + half**2)) + 1e-4
            devices = ("/GPU:0", "/GPU:1") if label.startswith("2") else ("/GPU:0",)
            more: dict[str, Any] = {} if label == "CPU" else {"devices": devices}
            if size == 32768 and label == "CPU":
                runs.append(failed("CPU", "left out: it does not fit", devices=("/CPU:0",), parameters={"size": size}))
            else:
                runs.append(run(label, seconds, flop=flop, parameters={"size": size}, **more))
    return result(
        *runs,
        parameters={"sweep": "size", "power": 10},
        title="A^10 and B^10, 8 sizes from 256 to 32768",
        environment=spoil(healthy(), HOST),
        notes=("1 GPU, float32: faster than the CPU from size = 512 on.",),
        command="tfgpu bench matpow --size auto --gpus 2",
    )


def failures() -> BenchResult:
    """Nothing came of it."""
    return result(
        failed("CPU", "no answer to 'sample' within 120 s", devices=("/CPU:0",)),
        failed(
            "1 GPU",
            "the result is wrong: relative error 0.31 (limit 5.4e-06)",
            verified=verified(ok=False, residual=0.31),
        ),
        failed("2 GPUs, rows", "the worker was killed by SIGSEGV"),
        environment=spoil(healthy(), {**HOST, "tensorflow.version": known("2.16.1")}),
    )


def eight_gpus() -> BenchResult:
    """Training on 1, 2, 4 and 8 GPUs, weak and strong."""
    runs = [training("1 GPU", 0.31, 1)]
    for count in (2, 4, 8):
        runs.append(training(f"{count} GPUs", 0.31 * (1 + 0.03 * count), count, scaling="weak"))
    return result(
        *runs,
        workload="cnn",
        title="training of resnet50, 64 images a replica",
        parameters={"model": "resnet50", "batch_size": 64},
        environment=spoil(healthy(), {**HOST, "gpus": known(tuple(gpu(place) for place in range(8)))}),
        command="tfgpu bench cnn --model resnet50 --gpus all",
    )


def training(label: str, seconds: float, count: int, **changes: Any) -> Run:
    """Blocks of 20 steps on some GPUs, verified by checks, with `fit` beside them."""
    devices = tuple(f"/GPU:{place}" for place in range(count))
    images = 64.0 * 20 * count
    checks = (Check(name="loss falls", ok=True, saw="2.31 to 0.42"), Check(name="replicas alike", ok=True, saw=""))
    return run(
        label,
        seconds,
        devices=devices,
        flop=images,
        unit="images/s",
        steps_of=20,
        step_name="step",
        gpu=watched(count, 20.0),
        verified=verified(residual=None, tolerance=None, checks=checks, method="the loss of one device"),
        figures=(
            Figure(name="fit", value=3812.0, unit="images/s", ci95=(3790.0, 3855.0), note="what most people use"),
        ),
        **changes,
    )


def long() -> BenchResult:
    """2000 samples that waver."""
    return result(
        run(
            "1 GPU", 0.0021, flop=FLOP / 1000, steps=wavering(2000, 150), gpu=watched(1, 4.0), throttled_samples=(7, 8)
        ),
        environment=spoil(healthy(), HOST),
    )


LARGE = {"one": one, "four": four, "sweep": sweep, "failures": failures, "eight": eight_gpus, "long": long}
