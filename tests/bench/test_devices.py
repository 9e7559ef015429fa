"""Which cases are run: options × devices found."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tables import each
from tfgpu_doctor.bench.devices import (
    SPREADS,
    DeviceError,
    GpuFound,
    RequestError,
    Selection,
    parse_devices,
    parse_gpus,
)

H200 = GpuFound("NVIDIA H200", "9.0")


def test_options_are_read() -> None:
    named = {
        "cpu": ("/CPU:0",),
        "gpu": ("/GPU:0",),
        "GPU:1, cpu": ("/GPU:1", "/CPU:0"),
        "gpu:0,gpu:00": ("/GPU:0",),
        "/device:GPU:1": ("/GPU:1",),
    }
    assert {text: parse_devices(text) for text in named} == named
    for text in ("", "cpu,", "tpu", "gpu:-1", "cpu:1", "gpu:x", "gpu 1", "[red]"):
        with pytest.raises(RequestError, match="--devices"):
            parse_devices(text)
    assert [parse_gpus(text) for text in ("1", "8", "all", "ALL")] == [1, 8, None, None]
    for text in ("0", "-1", "", "two", "1.5", "²"):
        with pytest.raises(RequestError, match="must be a number from 1 up, or all"):
            parse_gpus(text)


CASES: list[Any] = [
    (0, {}, ["CPU /CPU:0"]),
    (1, {}, ["CPU /CPU:0", "1 GPU /GPU:0 of 0"]),
    (2, {}, ["CPU /CPU:0", "1 GPU /GPU:0 of 0"]),
    (
        2,
        {"gpus": 2, "explicit": True},
        ["CPU /CPU:0", "1 GPU /GPU:0 of 0", "2 GPUs, terms /GPU:0 /GPU:1 of 0 1", "2 GPUs, rows /GPU:0 /GPU:1 of 0 1"],
    ),
    (
        3,
        {"gpus": None, "explicit": True, "spreads": ("rows",)},
        ["CPU /CPU:0", "1 GPU /GPU:0 of 0", "3 GPUs, rows /GPU:0 /GPU:1 /GPU:2 of 0 1 2"],
    ),
    (1, {"gpus": None, "explicit": True}, ["CPU /CPU:0", "1 GPU /GPU:0 of 0"]),
    (
        0,
        {"virtual": 2},
        ["CPU /CPU:0", "2 virtual CPUs, terms /CPU:0 /CPU:1 virtual", "2 virtual CPUs, rows /CPU:0 /CPU:1 virtual"],
    ),
    (
        1,
        {"virtual": 2, "spreads": ("rows",)},
        ["CPU /CPU:0", "1 GPU /GPU:0 of 0", "2 virtual GPUs, rows /GPU:0 /GPU:1 of 0 virtual"],
    ),
    (2, {"devices": ("/GPU:1",)}, ["1 GPU (GPU 1) /GPU:0 of 1"]),
    (
        3,
        {"devices": ("/CPU:0", "/GPU:2", "/GPU:0"), "spreads": ("rows",)},
        ["CPU /CPU:0", "1 GPU (GPU 2) /GPU:0 of 2", "1 GPU (GPU 0) /GPU:0 of 0", "2 GPUs, rows /GPU:0 /GPU:1 of 2 0"],
    ),
]


@each(("count", "options", "expected"), CASES)
def test_cases(count: int, options: dict[str, Any], expected: list[str]) -> None:
    found = []
    selection = Selection(**{name: value for name, value in options.items() if name != "spreads"})
    for case in selection.cases([H200] * count, options.get("spreads", SPREADS)):
        physical = " of " + " ".join(map(str, case.gpus)) if case.gpus else ""
        found.append(f"{case.label} {' '.join(case.devices)}{physical}{' virtual' if case.virtual else ''}")
    assert found == expected


@each(
    ("count", "options", "message"),
    [
        (1, {"gpus": 2, "explicit": True}, "2 GPUs requested, but TensorFlow lists 1: NVIDIA H200"),
        (0, {"gpus": 1, "explicit": True}, r"1 GPU requested, but TensorFlow lists no GPU \(tfgpu doctor explains"),
        (0, {"gpus": None, "explicit": True}, "all GPUs requested, but TensorFlow lists no GPU"),
        (2, {"devices": ("/GPU:2",)}, "GPU 2 requested, but TensorFlow lists 2: NVIDIA H200, NVIDIA H200"),
    ],
)
def test_gpus_that_are_not_there(count: int, options: dict[str, Any], message: str) -> None:
    with pytest.raises(DeviceError, match=message):
        Selection(**options).cases([H200] * count)
