"""The result of `tfgpu smoke`: a line for each check, their runs, the doctor's report. Schema tfgpu.smoke/1."""

from __future__ import annotations

from typing import Annotated, Literal

from tfgpu_doctor.bench.results import Run, Throughput
from tfgpu_doctor.facts.about import public
from tfgpu_doctor.facts.facts import Document, Record
from tfgpu_doctor.facts.report import EXIT_OK, EXIT_PROBLEM, EXIT_UNKNOWN, Report, Tool

SCHEMA: Literal["tfgpu.smoke/1"] = "tfgpu.smoke/1"

Status = Literal["ok", "failed", "not run", "unknown"]
Verdict = Literal["ok", "failed", "unknown"]


class SmokeCheck(Record, frozen=True):
    """One line: what was checked, on what, and how it ended."""

    name: str  # "doctor", "import", "GPUs", "matpow", "cnn"
    on: str  # "GPU 0", "2 GPUs", "CPU"; empty for what is about the machine as a whole
    status: Status
    saw: str = ""  # what was found: "52.1 TFLOP/s in float32, verified"
    why: str = ""  # why it is not ok; empty where it is
    seconds: float = 0.0
    throughput: Throughput | None = None


class SmokeRun(Record, frozen=True):
    """One measurement, as the benchmarks keep it."""

    workload: str
    parameters: dict[str, int | float | str | bool | None]
    run: Run


class Smoke(Document, frozen=True):
    """All of it. `verdict` is "unknown" where nothing failed, and something could not be determined or was not run."""

    schema: Literal["tfgpu.smoke/1"]
    tool: Tool
    created: str
    verdict: Verdict
    budget_s: float
    seconds: float
    parameters: dict[str, int | float | str | None]  # what was asked for
    software: Annotated[dict[str, str], public("software")]  # "tensorflow", "python"
    gpus: tuple[str, ...]  # those that TensorFlow lists
    checks: tuple[SmokeCheck, ...]
    runs: tuple[SmokeRun, ...]
    report: Report


def verdict_of(checks: tuple[SmokeCheck, ...]) -> Verdict:
    """Failed where anything did; ok only where everything was run and is."""
    statuses = {check.status for check in checks}
    if "failed" in statuses:
        return "failed"
    return "ok" if statuses <= {"ok"} else "unknown"


def exit_code(verdict: Verdict) -> int:
    """The exit code of the contract."""
    return {"ok": EXIT_OK, "failed": EXIT_PROBLEM, "unknown": EXIT_UNKNOWN}[verdict]
