"""Results of benchmarks that never ran, for tests of what is made of them."""

from __future__ import annotations

from statistics import median
from typing import Any

import msgspec

from tests.healthy import healthy, known, spoil
from tfgpu_doctor.bench.results import SCHEMA, BenchResult, GpuTelemetry, Run, Throughput, Verified
from tfgpu_doctor.bench.speeds import About, advise, judged, relate
from tfgpu_doctor.bench.statistics import iqr_spread, median_interval
from tfgpu_doctor.facts.report import Tool

FLOP = 4.0 * 4096**3 * 9
SHAKY = (1.0, 1.2) * 6
CPUS = 2
STEADY = tuple(1.0 + 0.001 * step for step in (0, 3, 1, -2, 2, -1, 0, 1, -3, 2, 0))


def verified(**changes: Any) -> Verified:
    """A result that is right."""
    right = Verified(ok=True, residual=9.4e-7, tolerance=5.4e-6, method="test", worst_row=2e-6, row_tolerance=4.3e-5)
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
    """A run without a speed."""
    fields: dict[str, Any] = {"devices": ("/GPU:0",), "dtype": "float32", "spread": "one device", **changes}
    return Run(label=label, failure=why, **fields)


def telemetry(device: str = "/GPU:0", **changes: Any) -> GpuTelemetry:
    """A GPU at work."""
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
    about = About.of(fields["workload"], fields["environment"], fields["parameters"])
    return BenchResult(
        schema=SCHEMA,
        tool=Tool(name="tfgpu", version="1.2.3"),
        created="2026-11-21T08:00:00Z",
        runs=advise(relate(runs), about),
        notes=notes,
        **fields,
    )
