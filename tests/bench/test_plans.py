"""What each plan measures, by what is asked for and the devices that there are.

The rows stand in plans.yaml; what comes of each stands in golden/plans.txt, which TFGPU_UPDATE_GOLDEN=1 writes anew.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.bench.fake_worker import ANSWERS, ROWS, FakeWorker, Workers, measured
from tests.healthy import healthy, known, spoil
from tfgpu_doctor.bench.cluster import config, parse
from tfgpu_doctor.bench.requests import make_plan, read_request
from tfgpu_doctor.bench.results import BenchResult
from tfgpu_doctor.bench.runner.process import WorkerError
from tfgpu_doctor.bench.statistics import StoppingRule
from tfgpu_doctor.bench.workloads import matpow

HERE = Path(__file__).parent
RULE = ("min_samples", "deadline_s", "processes")
GOLDEN = HERE / "golden" / "plans.txt"


class Prepares(FakeWorker):
    """Makes images and models as a worker does, and describes a model; its time may grow with the work."""

    described: Any = None
    rate = gpu_rate = 0.0  # FLOP/s of products on the CPU and on a GPU; 0: all take the same time
    fails_at = 0  # the size that fails
    holds, more = 10**9, ""  # images that fit into its memory, and how a larger batch ends

    def _reference(self, request: dict[str, Any]) -> dict[str, Any]:
        if request.get("task") == "export":
            Path(request["folder"]).mkdir()
        for index in range(request["count"] if request.get("make") else 0):
            (Path(request["folder"]) / f"{index}.jpg").write_bytes(b"x" * 100)
        return (self.described or {}) if request.get("task") == "describe" else {}

    def _prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        size, self.batch = request["parameters"].get("size", 0), request["parameters"].get("batch", 0)
        if self.fails_at and size == self.fails_at:
            raise WorkerError("ResourceExhaustedError: out of memory")
        if rate := self.gpu_rate if request["gpus"] else self.rate:
            seconds = 1e-4 + matpow.flop(size, 10, 2) / rate
            self.seconds = iter(lambda: seconds, None)
        return super()._prepare(request)

    def _sample(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.batch > self.holds:
            raise WorkerError(self.more)
        return super()._sample(request)


def shown(found: BenchResult, workers: Workers) -> list[str]:
    """Return all that a plan decides: the runs with their work and speed, the sentences, and the processes."""
    shared = {name: value for name, value in found.parameters.items() if name not in RULE}
    lines = [found.title, f"parameters: {shared}"]
    for run in found.runs:
        works = {"FLOP": run.flop, "bytes": run.bytes_moved}
        work = [f"{name} {value / run.steps:g}" for name, value in works.items() if value]
        speed = f"{run.throughput.value:.4g} {run.throughput.unit}" if run.throughput else str(run.failure)
        about = [*run.devices, "virtual" * run.virtual, run.scaling or "", f"{run.steps} {run.step_name}"]
        ratios = {"CPU": run.speedup_vs_cpu, "1 GPU": run.speedup_vs_1gpu, "efficiency": run.efficiency}
        work += [f"{ratio.value:.3g} of {of}" for of, ratio in ratios.items() if ratio]
        name = " ".join(map(str, (run.label, run.dtype, *run.parameters.values())))
        lines.append(f"  {name} | {' '.join(filter(None, about))} | {', '.join([*work, speed])}")
    for name in ("not_run", "conclusions", "notes"):
        lines += [f"{name}: {text}" for text in getattr(found, name)]
    parts = ("size", "batch", "xla", "index", "workers", "route")
    prepared = [
        [*request["gpus"], *(request["parameters"][name] for name in parts if name in request["parameters"])]
        for request in workers.asked("prepare")
    ]
    last = len(workers.asked("farewell"))
    references = [request.get("dtype", request.get("task", "")) for request in workers.asked("reference")]
    return [*lines, f"{len(workers.started)} processes: {prepared}, {references}, {last} compared at the end"]


def outcome(row: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    plan, ask = row["plan"], {"min_samples": 3, "deadline": 1.0, **row.get("rule", {})}
    worker = type("Worker", (Prepares,), {"described": row.get("described"), **row.get("worker", {})})

    def trouble(verb: str, _sample: int) -> None:
        if verb in row.get("raises", {}):
            raise WorkerError(row["raises"][verb])

    seconds = row.get("seconds", 0.01)
    workers = Workers(row.get("gpus", 0), worker, ANSWERS[plan], seconds=seconds, trouble=trouble)
    memory = int(row.get("memory", 64) * 2**30)
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=memory))
    settings = {name: tuple(value) if isinstance(value, list) else value for name, value in row.get("ask", {}).items()}
    if "cluster" in settings:
        settings["cluster"] = parse(config({"worker": settings["cluster"]}, 0))
    environment = spoil(healthy(), {"host.memory_limit": known(memory)})
    try:
        kind = type(make_plan(read_request(plan, sys.executable, {}, {})))
        return shown(measured(kind, workers, environment, StoppingRule(**ask), **settings), workers)
    except Exception as error:
        sizes = sorted({size for worker in workers.started for size in worker.sizes if size})
        return [f"{type(error).__name__}: {error}", f"prepared before: {sizes}"]


def test_what_each_plan_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for row in ROWS["rows"]:
        name = f"# {row['plan']}: {row['is']}"
        found.append("\n".join([name, *outcome(row, monkeypatch)]))
    text = "\n\n".join(found) + "\n"
    if os.environ.get("TFGPU_UPDATE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")
