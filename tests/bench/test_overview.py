"""`tfgpu bench` alone: what it measures and says with and without GPUs, in its time; references of real cards."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.bench.fake_worker import WRONG, Clock, FakeWorker
from tests.bench.live import WORKER_PROCESS, bench
from tests.bench.samples import run
from tests.findings.rows_over_facts import FIRES
from tests.healthy import MATRIX, gpu, healthy, known, spoil
from tests.render.showing import check_goldens, printed
from tests.tables import each
from tfgpu_doctor.bench.devices import RequestError, Selection
from tfgpu_doctor.bench.plans.overview import Overview, in_time
from tfgpu_doctor.bench.references import FOLDER, Reference, make_reference, references
from tfgpu_doctor.bench.results import OVERVIEW, BenchResult, load_result
from tfgpu_doctor.bench.runner.process import WorkerError
from tfgpu_doctor.bench.runner.runner import Session
from tfgpu_doctor.bench.workloads import matpow

H100 = Path(__file__).parents[1] / "captures" / "h100" / "bench"
# seconds of a step on an H100, and of the CPU beside it (H100); two are 1.9 times as fast
STEPS = {"cnn /CPU:0": 0.139, "float32": 0.049, "bfloat16": 0.00376, "cnn": 0.0151}


class Card(FakeWorker):
    """A machine with H100s."""

    def _prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        size = request["parameters"].get("size", 0)
        self.steps = {**STEPS, "matpow /CPU:0": matpow.flop(size, 10, 2) / 1.54e12, "matpow": STEPS[request["dtype"]]}
        return super()._prepare(request)

    def _sample(self, request: dict[str, Any]) -> dict[str, Any]:
        step = self.steps.get(f"{self.workload} {self.devices[0]}", self.steps[self.workload])
        several = {1: 1.0, 2: (2 if self.workload == "cnn" else 1) / 1.9}[len(self.devices)]
        self.seconds = iter(lambda: step * several, None)
        return super()._sample(request)


class Hangs(Card):
    """Gives no answer once the network is to be built."""

    def ask(self, timeout: float, **request: Any) -> dict[str, Any]:
        if request["do"] == "prepare" and request["workload"] == "cnn":
            self.clock.now += timeout
            raise WorkerError(f"no answer within {timeout} s")
        return super().ask(timeout, **request)


def overview(gpus: int, kind: type[FakeWorker] = Card, name: str = "NVIDIA H100 80GB HBM3", **more: Any) -> BenchResult:
    clock, cards = Clock(), tuple(gpu(place, name=name) for place in range(gpus))
    plan, facts = Overview(selection=Selection(gpus=None), end=45.0), spoil(healthy(), {"gpus": known(cards)})
    start = lambda: kind(clock, gpus=gpus, **more)  # noqa: E731
    return in_time(Session(plan, MATRIX, facts, start, clock=clock, shared=True, created="2026-11-21T08:00:00Z"))


def measured_on_an_h100() -> BenchResult:
    """Two saved results put together, as far as an overview has them."""
    products, cnn = (load_result((H100 / f"{name}.json").read_bytes(), name) for name in ("matpow", "cnn"))
    chosen = [run for run in products.runs if run.dtype == "float32" or (run.dtype, run.label) == ("bfloat16", "1 GPU")]
    runs = [replace(run, parameters={"workload": "matpow", "size": 4096}) for run in chosen]
    runs += [replace(run, parameters={"workload": "cnn"}) for run in cnn.runs]
    return replace(cnn, unfinished=False, workload=OVERVIEW, runs=tuple(runs), conclusions=Overview().conclusions(runs))


@each(("name", "width"), [("overview", 80), ("overview.60", 60), ("h100-overview", 80)])
def test_first_screens(name: str, width: int) -> None:
    shown = printed("bench", overview(2) if name[0] == "o" else measured_on_an_h100(), width)
    check_goldens({f"{name}.txt": shown}, Path(__file__).parent / "golden")
    assert not any(word in shown for word in ("scaling", "samples", "terms", "rows", "interval", "None"))


def test_what_is_wrong_has_no_speed_and_what_hangs_is_not_run() -> None:
    assert not any("measured with" in note for note in overview(1, name="NVIDIA H200").notes)
    assert not any("None" in advice for run in overview(2).runs for advice in run.advice)
    result = overview(1, trouble=lambda verb, _: WRONG if verb == "verify" else None)
    assert all(run.failure and not run.throughput for run in result.runs if run.parameters["workload"] == "matpow")
    result = overview(1, Hangs)
    assert {run.parameters["workload"] for run in result.runs} == {"matpow"}
    assert result.not_run == ("cnn float32 on CPU", "cnn float32 on 1 GPU")
    assert "Not run, for lack of time: cnn float32 on CPU" in " ".join(printed("bench", result).split())


def test_without_a_gpu_it_says_why_and_what_to_type(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    facts, file = spoil(healthy(), FIRES["gpu.none"][0][1]), tmp_path / "r.json"
    monkeypatch.setattr("tfgpu_doctor.probes.examine.examine", lambda *_, **__: SimpleNamespace(facts=facts))
    monkeypatch.setattr(*WORKER_PROCESS, lambda _executable: FakeWorker(Clock(), 0.05))
    done = bench("--output", str(file))
    why = "No GPU was measured: This machine has no NVIDIA GPU (gpu.none). Next: tfgpu doctor"
    assert done.exit_code == 0 and f"{why}. Every result is verified." in " ".join(done.stdout.split())
    assert msgspec.json.decode(file.read_bytes(), type=BenchResult).conclusions == (why,)
    assert (bench("--gpus", "2").exit_code, bench("--save-reference", str(tmp_path / "x.json")).exit_code) == (1, 3)


def test_references_are_made_of_reliable_results_and_read_again() -> None:
    one = overview(1)
    shaky = run("1 GPU", steps=(1.0, 1.2) * 6, parameters={"workload": "matpow", "size": 4096})
    for result, why in (
        (overview(0), "not have a run on one GPU"),
        (replace(one, runs=(shaky,)), "is no reliable speed: 95 % interval"),
        (replace(one, software={}), "not have tensorflow"),
        (replace(one, unfinished=True), "the result is unfinished"),
    ):
        with pytest.raises(RequestError, match=why):
            make_reference(result)
    made, left_out = make_reference(replace(one, runs=(shaky, *one.runs)))
    assert len(left_out) == 1 and left_out[0].startswith("1 GPU float32 is no reliable speed: 95 % interval")
    assert msgspec.json.decode(msgspec.json.encode(made), type=Reference) == made and len(made.speeds) == 3
    assert len(references()) == len(list(FOLDER.glob("*.json"))) > 0
    page = (Path(__file__).parents[2] / "docs" / "measuring.md").read_text(encoding="utf-8")
    assert all(f"{one.gpu.removeprefix('NVIDIA ')}." in page for one in references()), "it says which there are"
