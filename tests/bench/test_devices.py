"""Which cases are run: options × devices found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.tables import each, read_rows
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


ROWS = read_rows(Path(__file__).with_name("rows.yaml"))


@each(("count", "options", "expected"), ROWS["devices"])
def test_cases(count: int, options: dict[str, Any], expected: list[str]) -> None:
    found = []
    options = {name: tuple(one) if isinstance(one, list) else one for name, one in options.items()}
    selection = Selection(**{name: value for name, value in options.items() if name != "spreads"})
    for case in selection.cases([H200] * count, options.get("spreads", SPREADS)):
        physical = " of " + " ".join(map(str, case.gpus)) if case.gpus else ""
        found.append(f"{case.label} {' '.join(case.devices)}{physical}{' virtual' if case.virtual else ''}")
    assert found == expected


@each(("count", "options", "message"), ROWS["too few devices"])
def test_gpus_that_are_not_there(count: int, options: dict[str, Any], message: str) -> None:
    with pytest.raises(DeviceError, match=message):
        Selection(**options).cases([H200] * count)
