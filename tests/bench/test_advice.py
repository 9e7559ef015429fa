"""The closed list of advice: one sentence for each figure that gives reason to it, none for a run in order."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.bench.samples import SHAKY, failed, run, telemetry
from tests.healthy import gpu
from tfgpu_doctor.bench.advice import _RULES, About, _Subject, advise
from tfgpu_doctor.bench.ratios import relate
from tfgpu_doctor.bench.results import Run

BUS_ID = "0000:65:00.0"
ABOUT = About("matpow", 2, {BUS_ID: gpu(0, sm_clock_max=1830)})
TWO: dict[str, Any] = {"devices": ("/GPU:0", "/GPU:1"), "scaling": "strong"}


def advice(*runs: Run, about: About = ABOUT) -> list[str]:
    """What is said of the last run."""
    return list(advise(relate(runs), about)[-1].advice)


ROWS: list[tuple[Run, list[str]]] = [
    (run(), []),
    (run("1 GPU", 0.1, gpu=(telemetry(),), percent_of_peak=77.0, percent_of_bandwidth=12.0), []),
    (run(steps=SHAKY), ["uncertain: 95 % interval ±9.1 %"]),
    (run(cpu_load=(0.9,) * 11), ["used 0.9 of 2 CPUs: other programs ran, or its threads are limited or wait"]),
    (run(cpu_load=(0.9,) * 11, others_cpus=0.0), ["used 0.9 of 2 CPUs: its threads are limited or wait"]),
    (run(others_cpus=0.19), []),
    (
        run(cpu_wait=(0.5,) * 11),
        ["the run waited for 0.5 CPUs that other programs used: stop them and repeat"],
    ),
    (
        run(cpu_load=(0.9,) * 11, others_cpus=1.06),
        ["other programs used 1.1 of 2 CPUs during the run: stop them and repeat"],
    ),
    (
        run("1 GPU", 0.0004, gpu=(telemetry(),)),
        ["a sample takes 0.4 ms, mostly overhead: a larger --size shows the GPU's speed"],
    ),
    (
        msgspec.structs.replace(run("1 GPU", 0.1), steps=100, step_name="step"),
        ["a step takes 1 ms, mostly overhead: a larger --size shows the GPU's speed"],
    ),
    (
        run("1 GPU", 0.1, gpu=(telemetry(utilization=31.0),)),
        ["low GPU utilization, 31 % (/GPU:0): try a larger --size"],
    ),
    (
        run("1 GPU", 0.1, gpu=(telemetry(throttled=("hw_thermal_slowdown",)),), throttled_samples=(0, 1, 2)),
        [
            "/GPU:0 was throttled (hw_thermal_slowdown) during 3 of 11 samples: check the cooling "
            "(nvidia-smi -q -d TEMPERATURE)"
        ],
    ),
    (
        run("1 GPU", 0.1, gpu=(telemetry(throttled=("a_reason_of_2030",)),), throttled_samples=(0,)),
        ["/GPU:0 was throttled (a_reason_of_2030) during 1 of 11 samples"],
    ),
    (
        run("1 GPU", 0.1, gpu=(telemetry(sm_clock_mhz=900.0),)),
        [
            "/GPU:0 ran at 900 of 1830 MHz and reported no throttling: nvidia-smi -q -d CLOCK shows whether its "
            "clocks are locked"
        ],
    ),
    (run("1 GPU", 0.1, gpu=(telemetry(sm_clock_mhz=900.0, pci_bus_id="0000:99:00.0"),)), []),
    (
        run("1 GPU", 0.1, dtype="tf32", computed_in="float32"),
        ["tf32 was requested, but float32 was computed: the error is too small for tf32"],
    ),
    (
        run("1 GPU", 0.1, percent_of_peak=140.0),
        ["140 % of the peak is implausible: the clock or the type differs from what was assumed"],
    ),
    (
        run("1 GPU", 0.1, percent_of_bandwidth=130.0),
        [
            "130 % of the memory bandwidth is implausible: part of the data was not read and written, or "
            "stayed in a cache"
        ],
    ),
    (
        run("1 GPU", 0.1, warmup_s=(95.0, 0.1)),
        [
            "the first call took 95 s: kernels were compiled for this GPU. With "
            "CUDA_CACHE_MAXSIZE=4294967296, the driver keeps them"
        ],
    ),
    (run("1 GPU", 10.0, warmup_s=(25.0, 10.0)), []),
    (
        run("1 GPU", 0.1, steps=(1.0,) * 18 + (1.6, 1.7)),
        ["2 of 20 samples took more than 1.25 times the median: other programs may interfere"],
    ),
    (run("1 GPU", 0.1, steps=(1.0,) * 19 + (1.7,)), []),
    (run("2 virtual CPUs, rows", 0.0001, devices=("/CPU:0", "/CPU:1"), virtual=True, steps=SHAKY), []),
    (failed("1 GPU", "it died"), []),
]


@pytest.mark.parametrize(("one", "said"), ROWS)
def test_advice(one: Run, said: list[str]) -> None:
    assert advice(one) == said


def test_every_rule_has_a_row() -> None:
    fired = {rule.__name__ for rule in _RULES for one, _ in ROWS if list(rule(_Subject(one, (one,), ABOUT)))}
    # of several runs: test_poor_scaling_gets_a_reason
    assert {rule.__name__ for rule in _RULES} - fired == {"_poor_scaling"}


def test_another_workload_has_other_options_or_none() -> None:
    idle = run("1 GPU", 0.1, gpu=(telemetry(utilization=31.0),))
    assert advice(idle, about=About("cnn")) == ["low GPU utilization, 31 % (/GPU:0): try a larger --batch-size"]
    assert advice(idle, about=About("transfer")) == []


def test_a_small_point_of_a_sweep_is_small_on_purpose() -> None:
    small = run("1 GPU", 0.0004, parameters={"size": 64}, flop=1e9, gpu=(telemetry(utilization=9.0),))
    large = run("1 GPU", 0.1, parameters={"size": 4096}, flop=1e13)
    assert advice(large, small) == []
    assert len(advice(small)) == 2


@pytest.mark.parametrize(
    ("utilization", "said"),
    [
        (
            40.0,
            "efficiency 55 %: the GPUs were busy 40 to 60 % of the time and otherwise waited for each other",
        ),
        (
            80.0,
            "efficiency 55 %, although the GPUs were busy 80 to 100 % of the time: they share power, cooling or a link",
        ),
        (None, "efficiency 55 %: the work of each GPU may be too small: try a larger --size"),
    ],
)
def test_poor_scaling_gets_a_reason(utilization: float | None, said: str) -> None:
    pair = (telemetry(utilization=utilization), telemetry("/GPU:1", utilization=utilization and utilization + 20))
    one = run("1 GPU", 0.11, gpu=(telemetry(),))
    assert advice(one, run("2 GPUs, rows", 0.1, spread="rows", gpu=pair, **TWO)) == [said]


def test_good_scaling_gets_none() -> None:
    assert advice(run("1 GPU", 0.2), run("2 GPUs, rows", 0.11, spread="rows", **TWO)) == []


def test_many_gpus_are_told_in_one_sentence() -> None:
    many = tuple(
        telemetry(f"/GPU:{place}", utilization=30.0 + place, throttled=("sw_power_cap",)) for place in range(8)
    )
    assert advice(run("8 GPUs, rows", 0.1, gpu=many, throttled_samples=(2,))) == [
        "8 GPUs were throttled (sw_power_cap) during 1 of 11 samples: nvidia-smi -q -d POWER shows the limit",
        "low GPU utilization, 30 to 37 % (8 GPUs): try a larger --size",
    ]
