"""The closed list of advice: one sentence for each figure that gives reason to it, none for a run in order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from tests.bench.samples import run, telemetry
from tests.tables import each, read_rows
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


ROWS = read_rows(Path(__file__).with_name("rows.yaml"))["advice"]


@each(("label", "seconds", "changes", "cards", "said"), ROWS)
def test_advice(label: str, seconds: float, changes: dict[str, Any], cards: list[Any] | None, said: str) -> None:
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in changes.items()}
    fields |= {name: (fields[name],) * 11 for name in ("cpu_load", "cpu_wait") if name in fields}
    fields |= {} if cards is None else {"gpu": tuple(telemetry(**card) for card in cards)}
    assert advice(run(label, seconds, **fields)) == ([said] if said else [])


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
