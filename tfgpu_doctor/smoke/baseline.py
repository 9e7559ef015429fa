"""An earlier result of `tfgpu smoke` or `tfgpu bench`, and how `tfgpu compare` judges a run against it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from tfgpu_doctor.bench.comparison import RunChange, compare_benches
from tfgpu_doctor.bench.results import SCHEMA as BENCH
from tfgpu_doctor.bench.results import BenchResult, Run
from tfgpu_doctor.bench.saved import check_runs, load_result
from tfgpu_doctor.records.facts import Facts
from tfgpu_doctor.records.report import ReportError, Tool, decode_saved, other_kind, schema_of
from tfgpu_doctor.smoke.records import SCHEMA, Smoke, SmokeRun

_COMMAND = "--baseline"
_READS = "a result of tfgpu smoke or tfgpu bench"


@dataclass(frozen=True)
class Origin:
    """Where runs were measured, and with what."""

    tool: Tool
    created: str
    facts: Facts
    software: Mapping[str, str]

    def result_of(self, run: SmokeRun, **changes: Any) -> BenchResult:
        """The run alone, as a result of the benchmark of its workload."""
        return BenchResult(
            schema=BENCH,
            tool=self.tool,
            created=self.created,
            environment=self.facts,
            workload=run.workload,
            parameters=dict(run.parameters),
            runs=(msgspec.structs.replace(run.run, **changes),),
            software=dict(self.software),
        )


@dataclass(frozen=True)
class Baseline:
    """Runs to compare with."""

    name: str
    origin: Origin
    runs: tuple[SmokeRun, ...]
    only: str | None = None  # the one workload of a benchmark; nothing is expected of the others

    def compare(self, new: SmokeRun, here: Origin, factor: float) -> RunChange | str | None:
        """The run beside its counterpart, or why there is none; None where none is expected."""
        if self.only not in (None, new.workload):
            return None
        alike = [old for old in self.runs if old.workload == new.workload and _devices(old.run) == _devices(new.run)]
        typed = [old for old in alike if old.run.dtype == new.run.dtype]
        if not typed:
            what = f"{new.workload} on {new.run.label}"
            return f"it has {what} in {alike[0].run.dtype}, not in {new.run.dtype}" if alike else f"it has no {what}"
        # a card is compared with itself where it can be, and the same size with the same
        old = max(typed, key=lambda old: (_size(old) == _size(new), old.run.devices == new.run.devices))
        same_names = {"label": new.run.label, "spread": new.run.spread, "parameters": new.run.parameters}
        where = {"devices": new.run.devices, "placed_on": new.run.placed_on}
        base = self.origin.result_of(old, **same_names, **where)
        (found,) = compare_benches(base, here.result_of(new), here.created, factor=factor).runs
        return found


def _devices(run: Run) -> tuple[str, int, bool, str]:
    alone = len(run.devices) == 1
    return run.devices[0][:4], len(run.devices), run.virtual, "" if alone else run.spread


def _size(run: SmokeRun) -> object:
    return {**run.parameters, **run.run.parameters}.get("size")


def read(data: bytes, name: str) -> Baseline:
    """Read a saved result. Raises ReportError: it is none, or holds no speed; the message says why."""
    kind = schema_of(data, name)
    if kind == SCHEMA:
        smoke = decode_saved(data, Smoke, name, "result of tfgpu smoke")
        check_runs((one.run for one in smoke.runs), name, "result of tfgpu smoke")
        found = _of_smoke(smoke, name)
    elif kind.startswith(BENCH.partition("/")[0] + "/"):
        found = _of_bench(load_result(data, name, _COMMAND), name)
    else:
        raise ReportError(f"{name} {other_kind(kind, SCHEMA, _COMMAND, _READS)}")
    if not found.runs:
        raise ReportError(f"{name} holds no speed to compare with: none of its runs was measured and verified")
    return found


def _of_smoke(smoke: Smoke, name: str) -> Baseline:
    origin = Origin(smoke.tool, smoke.created, smoke.report.facts, smoke.software)
    return Baseline(name, origin, _with_speed(smoke.runs))


def _of_bench(result: BenchResult, name: str) -> Baseline:
    runs = [
        SmokeRun(workload=result.workload, round=1, parameters={**result.parameters, **run.parameters}, run=run)
        for run in result.runs
    ]
    origin = Origin(result.tool, result.created, result.environment, result.software)
    return Baseline(name, origin, _with_speed(runs), only=result.workload)


def _with_speed(runs: list[SmokeRun] | tuple[SmokeRun, ...]) -> tuple[SmokeRun, ...]:
    return tuple(run for run in runs if run.run.throughput is not None)
