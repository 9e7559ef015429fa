"""The closed list of advice: one sentence for each figure that gives reason to it, none for a run in order."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.bench.samples import SHAKY, failed, run, telemetry
from tfgpu_doctor.bench.advice import About, advise
from tfgpu_doctor.bench.results import Run
from tfgpu_doctor.bench.speeds import relate

BUS_ID = "0000:65:00.0"
ABOUT = About("matpow", 2, {BUS_ID: 700.0})
IDLE = telemetry(power_w=169.0)
TWO: dict[str, Any] = {"devices": ("/GPU:0", "/GPU:1"), "scaling": "strong"}


def advice(*runs: Run, about: About = ABOUT) -> list[str]:
    """What is said of the last run."""
    return list(advise(relate(runs), about)[-1].advice)


def gpu(seconds: float = 0.1, *cards: Any, **changes: Any) -> Run:
    return run("1 GPU", seconds, gpu=cards, **changes)


def hot(*reasons: str) -> Run:
    return gpu(0.1, telemetry(throttled=reasons), throttled_samples=(0, 1, 2))


LAUNCHES, AGAIN = "probably limited by kernel launches", "stop them and repeat"
ROWS: list[tuple[Run, str]] = [
    (run(), ""),
    (gpu(0.1, telemetry(), percent_of_peak=77.0, percent_of_bandwidth=12.0), ""),
    (run(steps=SHAKY), "uncertain: 95 % interval ±9.1 %"),
    (run(cpu_load=(0.9,) * 11), "used 0.9 of 2 CPUs: other programs ran, or its threads are limited or wait"),
    (run(cpu_load=(0.9,) * 11, others_cpus=0.0), "used 0.9 of 2 CPUs: its threads are limited or wait"),
    (run(others_cpus=0.19), ""),
    (run(cpu_wait=(0.5,) * 11), f"the run waited for 0.5 CPUs that other programs used: {AGAIN}"),
    (run(cpu_load=(0.9,) * 11, others_cpus=1.06), f"other programs used 1.1 of 2 CPUs during the run: {AGAIN}"),
    (gpu(0.0004, telemetry()), f"{LAUNCHES} (0.4 ms per sample): try a larger --size"),
    (msgspec.structs.replace(gpu(), steps=100, step_name="step"), f"{LAUNCHES} (1 ms per step): try a larger --size"),
    (gpu(0.1, IDLE, percent_of_peak=3.2), f"{LAUNCHES} (3 % of peak, 169 of 700 W): try a larger --size"),
    (gpu(0.0004, telemetry(), percent_of_peak=60.0), ""),
    (gpu(0.1, IDLE, percent_of_peak=24.0), ""),
    (gpu(0.1, telemetry(), percent_of_peak=3.2), ""),  # it draws power: not launches
    (gpu(0.1, IDLE), ""),
    (gpu(0.1, telemetry(utilization=0.0)), ""),  # of pauses between samples
    (hot("sw_power_cap"), ""),
    (
        hot("hw_slowdown", "sw_power_cap"),
        "/GPU:0 was throttled (hw_slowdown) during 3 of 11 samples: nvidia-smi -q -d PERFORMANCE shows whether heat or "
        "the power supply is the reason",
    ),
    (
        hot("hw_thermal_slowdown"),
        "/GPU:0 was throttled (hw_thermal_slowdown) during 3 of 11 samples: check the cooling (nvidia-smi -q -d "
        "TEMPERATURE)",
    ),
    (hot("a_reason_of_2030"), "/GPU:0 was throttled (a_reason_of_2030) during 3 of 11 samples"),
    (
        gpu(dtype="tf32", computed_in="float32"),
        "tf32 was requested, but float32 was computed: the error is too small for tf32",
    ),
    (
        gpu(percent_of_peak=140.0),
        "140 % of the peak is implausible: the clock or the type differs from what was assumed",
    ),
    (
        gpu(percent_of_bandwidth=130.0),
        "130 % of the memory bandwidth is implausible: part of the data was not read and written, or stayed in a cache",
    ),
    (
        gpu(warmup_s=(95.0, 0.1)),
        "the first call took 95 s: kernels were compiled for this GPU. With CUDA_CACHE_MAXSIZE=4294967296, the driver "
        "keeps them",
    ),
    (gpu(10.0, warmup_s=(25.0, 10.0)), ""),
    (gpu(steps=(1.0,) * 18 + (1.6, 1.7)), ""),  # which the median does not notice
    (run("2 virtual CPUs, rows", 0.0001, devices=("/CPU:0", "/CPU:1"), virtual=True, steps=SHAKY), ""),
    (failed("1 GPU", "it died"), ""),
]


def test_advice() -> None:
    assert [(advice(one), said) for one, said in ROWS if advice(one) != ([said] if said else [])] == []


def test_another_workload_has_other_options_or_none() -> None:
    idle = run("1 GPU", 0.1, gpu=(IDLE,), percent_of_peak=3.2)

    def of(workload: str, **parameters: int | str) -> list[str]:
        return [
            text.rpartition(": ")[2] for text in advice(idle, about=About(workload, 2, ABOUT.power_limits, parameters))
        ]

    assert of("cnn") == of("cnn", xla=1) == ["try a larger --batch-size"]
    assert of("cnn", xla=0) == ["try --xla or a larger --batch-size"]
    assert of("transfer") == of("inference", xla="off") == []  # what it waits for is not known
    short = msgspec.structs.replace(idle, steps=100, step_name="call")
    assert advice(short, about=About("inference", 2, ABOUT.power_limits)) == [
        "mostly overhead (3 % of peak, 1 ms per call, 169 of 700 W): try a larger batch (--batch-size)"
    ]


def test_a_small_point_of_a_sweep_is_small_on_purpose() -> None:
    small = run("1 GPU", 0.0004, parameters={"size": 64}, flop=1e9, gpu=(IDLE,))
    large = run("1 GPU", 0.1, parameters={"size": 4096}, flop=1e13)
    assert advice(large, small) == []
    assert len(advice(small)) == 1


def test_poor_scaling_gets_a_reason() -> None:
    one = run("1 GPU", 0.11, gpu=(telemetry(),))
    assert advice(one, run("2 GPUs, rows", 0.1, spread="rows", gpu=(telemetry(), telemetry("/GPU:1")), **TWO)) == [
        "efficiency 55 %: the work of each GPU may be too small: try a larger --size"
    ]
    assert advice(run("1 GPU", 0.2), run("2 GPUs, rows", 0.11, spread="rows", **TWO)) == []


def test_many_gpus_are_told_in_one_sentence() -> None:
    many = tuple(telemetry(f"/GPU:{place}", throttled=("hw_slowdown", "sw_power_cap")) for place in range(8))
    (one,) = advise([run("8 GPUs, rows", 0.1, gpu=many, throttled_samples=(2,))], ABOUT)
    assert [text.partition(": ")[0] for text in one.advice] == [
        "8 GPUs were throttled (hw_slowdown) during 1 of 11 samples"
    ]
    assert one.notes == ("power-limited, as usual for this load",)
