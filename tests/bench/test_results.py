"""Bench JSON: there and back, strict, and as its schema says."""

from __future__ import annotations

import json

import jsonschema
import msgspec
import pytest

from tests.bench.samples import failed, result, run, telemetry
from tests.tables import each
from tfgpu_doctor.bench.results import BenchResult
from tfgpu_doctor.records.schemas import FOLDER

RESULT = result(
    run(),
    run("1 GPU", 0.05, gpu=(telemetry(throttled=("sw_power_cap",)),), throttled_samples=(3, 4)),
    failed("2 GPUs, rows", "the result is wrong: residual 0.5"),
    notes=("a note",),
)


def test_json_and_back_is_the_identity() -> None:
    assert msgspec.json.decode(RESULT.to_json(), type=BenchResult) == RESULT


def test_schema_accepts_it() -> None:
    schema = json.loads((FOLDER / "bench-1.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(json.loads(RESULT.to_json()))


def test_contract_of_other_tools() -> None:
    data = json.loads(RESULT.to_json())
    assert data["schema"] == "tfgpu.bench/1"
    assert {"environment", "workload", "parameters", "runs"} <= set(data)
    gpu = data["runs"][1]
    assert {
        *("label", "devices", "placed_on", "dtype", "samples_s", "warmup_s", "median_s", "ci95_s", "throughput"),
        *("percent_of_peak", "verified", "speedup_vs_cpu", "speedup_vs_1gpu", "efficiency", "gpu", "advice"),
    } <= set(gpu)
    assert set(gpu["throughput"]) >= {"value", "unit"}
    assert set(gpu["verified"]) >= {"ok", "residual", "tolerance", "method"}
    assert set(gpu["gpu"][0]) >= {"utilization", "power_w", "sm_clock_mhz", "throttled"}


@each("change", [{"schema": "tfgpu.bench/2"}, {"runs": [{"label": "x"}]}])
def test_another_shape_is_refused(change: dict[str, object]) -> None:
    data = {**json.loads(RESULT.to_json()), **change}
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(json.dumps(data), type=BenchResult)
