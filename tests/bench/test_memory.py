"""The largest batch: what counts as no room, what becomes of processes that die, what is said; and a real process."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from tests.bench.fake_worker import Clock, FakeWorker
from tests.bench.live import Shared
from tests.healthy import MATRIX, healthy, known, spoil
from tfgpu_doctor.bench.devices import Selection
from tfgpu_doctor.bench.plans.batch_search import points
from tfgpu_doctor.bench.plans.cnn import SPREAD
from tfgpu_doctor.bench.plans.memory import VIRTUAL_MIB, Memory, no_room
from tfgpu_doctor.bench.results import BenchResult
from tfgpu_doctor.bench.runner.process import Worker, WorkerError, WorkerProcess
from tfgpu_doctor.bench.session import Session
from tfgpu_doctor.bench.statistics import StoppingRule
from tfgpu_doctor.bench.workloads import memory

FULL = "NoRoomError: not enough memory for a batch"
RIGHT: dict[str, Any] = {"losses": [2.3, 2.2], "compared": [2.3, 2.2], "expected": [2.3, 2.2], "replicas": 1}

# ------------------------------------------------------------------------------------------------ the verdict


@pytest.mark.parametrize(
    ("answer", "dtype", "why"),
    [
        (RIGHT, "float32", ""),
        ({**RIGHT, "replicas": 2}, "float32", ""),
        ({"losses": [2.3]}, "float32", ""),
        ({"losses": [None]}, "float32", "failed: finite losses"),
        ({**RIGHT, "losses": [2.3, 2.3]}, "float32", "failed: falling loss (2.3 to 2.3)"),
        ({**RIGHT, "losses": [2.3, None]}, "float32", "failed: finite losses"),
        ({**RIGHT, "compared": [2.3, 2.21]}, "float32", "failed: losses as in float64 (0.0043 relative difference)"),
        ({**RIGHT, "compared": [2.3, 0.0102], "expected": [2.3, 0.01]}, "mixed_bfloat16", ""),
        ({**RIGHT, "compared": [2.3, None]}, "float32", "failed: losses as in float64 (inf relative difference)"),
        ({**RIGHT, "compared": [2.3, 2.9], "replicas": 2}, "mixed_bfloat16", "failed: losses as in one device"),
    ],
)
def test_the_verdict(answer: dict[str, Any], dtype: str, why: str) -> None:
    found = memory.judge(answer, dtype, {})
    assert found.ok is (why == "")
    assert found.why.startswith(why)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (FULL, "out of memory"),
        ("_ArrayMemoryError: Unable to allocate 12.2 MiB", "out of memory"),
        ("the worker was killed by SIGKILL", "the worker was killed by SIGKILL"),
        ("the worker ended with exit code 1: F0000 xla\nmore", "the worker ended with exit code 1"),
        (
            "the worker was killed by SIGSEGV: W0000 op_kernel.cc:1858] RESOURCE_EXHAUSTED: OOM when allocating tensor",
            "the worker was killed by SIGSEGV, out of memory",
        ),
        ("InvalidArgumentError: shapes", None),
        ("no answer to 'sample' within 60 s", None),
    ],
)
def test_what_counts_as_no_room(said: str, why: str | None) -> None:
    assert no_room(said) == why


# ------------------------------------------------------------------------------------------------ the search


class Workers:
    """Fake processes on a device that holds so many images; `refuse` says how, by batch and whether others were tried.

    A peak is 500 MB and 1 MB for each image.
    """

    def __init__(self, refuse: Callable[[int, bool], str | None], gpus: int = 0) -> None:
        self.clock, self.refuse, self.gpus = Clock(), refuse, gpus
        self.started: list[FakeWorker] = []
        self.tried: list[int] = []
        self.alive = 0  # most at a time

    def __call__(self) -> FakeWorker:
        outer = self

        class Small(FakeWorker):
            batch, prepared = 0, 0

            def ask(self, timeout: float, **request: Any) -> dict[str, Any]:
                if request["do"] == "prepare":
                    self.batch = request["parameters"]["batch"]
                    self.prepared += 1
                    outer.tried.append(self.batch)
                if request["do"] in ("prepare", "sample") and (why := outer.refuse(self.batch, self.prepared > 1)):
                    raise WorkerError(why)
                if request["do"] == "figures":
                    return {"figures": [], "peak": int(5e8 + 1e6 * self.batch)}
                if request["do"] == "verify":
                    return RIGHT
                return super().ask(timeout, **request)

        self.started.append(Small(self.clock, 1e-5, gpus=self.gpus))
        self.alive = max(self.alive, sum(not one.closed for one in self.started))
        return self.started[-1]


def bench(workers: Workers, **settings: Any) -> BenchResult:
    selected = {name: settings.pop(name) for name in Selection.__dataclass_fields__ if name in settings}
    limit = settings.pop("limit", 64 * 2**30)
    plan = Memory(selection=Selection(**selected), **settings)
    environment = spoil(healthy(), {"host.memory_limit": known(limit)})
    result = Session(plan, MATRIX, environment, workers, StoppingRule(deadline=0.4, min_samples=3)).run()
    assert all(worker.closed for worker in workers.started)
    return result


def holds(capacity: int, how: str = FULL) -> Callable[[int, bool], str | None]:
    return lambda batch, _used: how if batch > capacity else None


def said(result: BenchResult, label: str) -> str:
    return next(note for note in result.notes if note.startswith(f"{label}, float32: "))


def test_a_search_keeps_to_its_time_and_each_batch_is_measured() -> None:
    class Slow(Workers):
        def __call__(self) -> FakeWorker:
            found = super().__call__()
            found.seconds = iter(lambda: 0.3, None)
            return found

    workers = Slow(lambda _batch, _used: None)
    clock = workers.clock
    plan = Memory(selection=Selection())
    rule = StoppingRule(deadline=0.4, min_samples=3)
    result = Session(plan, MATRIX, healthy(), workers, rule, clock=clock).run()
    assert clock.now < 10 and len(result.runs) == len(points(largest(plan)))
    assert "would exceed --deadline" in said(result, "CPU")


def largest(plan: Memory) -> int:
    found = plan.found[0].search.largest
    assert found is not None
    return found.batch


@pytest.mark.parametrize(
    "how", [FULL, "the worker was killed by SIGKILL", "the worker ended with exit code 134: F0000"]
)
def test_a_process_that_dies_is_an_answer_and_another_goes_on(how: str) -> None:
    result = bench(Workers(holds(1000, how), gpus=1), devices=("/GPU:0",))
    largest = result.runs[0]
    assert largest.failure is None
    assert largest.parameters == {"batch": 992}
    figures = {figure.name: figure for figure in largest.figures}
    assert figures["largest batch"].value == 992
    assert figures["peak memory"].value == pytest.approx(5e8 + 992e6)
    assert figures["memory an image"].value == pytest.approx(1e6)
    reason = "out of memory" if how == FULL else how.partition(":")[0]
    assert said(result, "1 GPU") == f"1 GPU, float32: a batch of 992 fits, with 1.39 GiB; 1008 does not ({reason})."


def test_speed_is_measured_from_the_largest_batch_down_in_one_process() -> None:
    workers = Workers(holds(1000), gpus=1)
    result = bench(workers, devices=("/GPU:0",))
    assert [run.parameters["batch"] for run in result.runs] == [992, 256, 64, 16, 4]
    assert workers.tried[-5:] == [992, 256, 64, 16, 4]
    assert all(run.throughput and run.verified and run.verified.ok for run in result.runs)
    assert [figure.name for figure in result.runs[1].figures] == ["peak memory"]
    assert any(note.startswith("Speed: 1 GPU, float32: ") for note in result.notes)


def test_what_fails_in_a_used_process_is_tried_in_a_fresh_one() -> None:
    def fragmented(batch: int, used: bool) -> str | None:
        return FULL if batch > (500 if used else 1000) else None

    workers = Workers(fragmented, gpus=1)
    result = bench(workers, devices=("/GPU:0",))
    assert result.runs[0].parameters["batch"] == 992
    assert workers.tried.count(512) == 2


def test_on_the_cpu_the_budget_ends_the_search_before_memory_does() -> None:
    result = bench(Workers(holds(2**60)), limit=4 * 2**30)
    largest = result.runs[0]
    peak = next(figure.value for figure in largest.figures if figure.name == "peak memory")
    assert 1.7 * 2**30 < peak <= 2 * 2**30
    assert "more than half of the free host memory (2 GiB of 4 GiB)" in said(result, "CPU")


def test_a_worker_is_told_to_guard_the_machine_and_what_fits() -> None:
    guards: list[int] = []
    largest: list[int] = []

    class Listens(Workers):
        def __call__(self) -> FakeWorker:
            worker = super().__call__()
            ask = worker.ask

            def listen(timeout: float, **request: Any) -> dict[str, Any]:
                if request["do"] == "prepare":
                    guards.append(request["parameters"]["guard"])
                    largest.append(request["parameters"].get("largest", 0))
                return ask(timeout, **request)

            worker.ask = listen  # type: ignore[method-assign]
            return worker

    bench(Listens(holds(2**60)), limit=4 * 2**30)
    assert set(guards) == {int(0.8 * 4 * 2**30)}
    assert len(set(largest[-5:])) == 1 and largest[-1] > 1000  # what is known to fit, for the verification


def test_nothing_fits_and_the_run_says_why() -> None:
    result = bench(Workers(holds(0), gpus=1), devices=("/GPU:0",))
    assert [run.failure for run in result.runs] == [FULL]
    assert said(result, "1 GPU") == "1 GPU, float32: even a batch of 1 does not fit: out of memory."


def test_an_error_of_another_kind_is_no_answer_about_memory() -> None:
    result = bench(Workers(holds(100, "InvalidArgumentError: no such kernel\nat"), gpus=1), devices=("/GPU:0",))
    assert "the search ended early (InvalidArgumentError: no such kernel)" in said(result, "1 GPU")
    assert result.runs[0].parameters["batch"] == 64


def test_logical_gpus_are_bounded_by_their_limit() -> None:
    result = bench(Workers(holds(100), gpus=1), virtual=2)
    told = said(result, f"2 virtual GPUs, {SPREAD}")
    assert f"(out of memory, {VIRTUAL_MIB} MiB per logical GPU)" in told


def test_cases_take_the_memory_one_after_the_other() -> None:
    workers = Workers(holds(20), gpus=2)
    result = bench(workers, dtypes=("float32", "tf32"), gpus=2)
    assert [f"{run.label} {run.dtype} {run.parameters['batch']}" for run in result.runs] == [
        *("CPU float32 20", "CPU float32 4", "CPU float32 1"),
        *("1 GPU float32 20", "1 GPU float32 4", "1 GPU float32 1"),
        *(f"2 GPUs, {SPREAD} float32 20", f"2 GPUs, {SPREAD} float32 4", f"2 GPUs, {SPREAD} float32 1"),
        *("1 GPU tf32 20", "1 GPU tf32 4", "1 GPU tf32 1"),
        *(f"2 GPUs, {SPREAD} tf32 20", f"2 GPUs, {SPREAD} tf32 4", f"2 GPUs, {SPREAD} tf32 1"),
    ]
    assert workers.alive == 2  # one at work, and the one that was asked which devices there are


# ------------------------------------------------------------------------------------------------ for real


@pytest.fixture(scope="module")
def worker(tensorflow_python: str) -> Iterator[WorkerProcess]:
    """A real process, greeted."""
    with WorkerProcess(tensorflow_python, {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}) as process:
        process.ask(120, do="hello")
        yield process


def prepare(worker: Worker, batch: int, guard: int = 0) -> dict[str, Any]:
    return worker.ask(
        120,
        do="prepare",
        workload="memory",
        parameters={"model": "mnist", "batch": batch, "guard": guard},
        dtype="float32",
        devices=["/CPU:0", "/CPU:1"],
        gpus=[],
        spread="MirroredStrategy",
        virtual=True,
        virtual_memory_mib=0,
    )


@pytest.mark.full
@pytest.mark.tensorflow
def test_a_real_batch_is_trained_verified_and_weighed(shared: Shared) -> None:
    worker, peaks = shared(), []
    for batch in (16, 512):
        assert "to devices" in prepare(worker, batch)["cold"]
        answer = worker.ask(120, do="sample", count=1, steps=2)
        assert (answer["placed_on"], answer["misplaced"]) == (["/CPU:0", "/CPU:1"], None)
        peaks.append(worker.ask(120, do="figures")["peak"])
    judged = memory.judge(worker.ask(120, do="verify"), "float32", {})
    assert judged.ok, judged.why
    assert 1e8 < peaks[0] < peaks[1] < 4e9
    assert worker.ask(120, do="sample", count=1, steps=1)["rechecked"] == []


@pytest.mark.full
@pytest.mark.tensorflow
@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA is counted so on Linux only")
def test_memory_that_is_refused_is_an_answer(worker: WorkerProcess) -> None:
    for batch in (16, 512):  # threads are started before memory is refused
        prepare(worker, batch)
        worker.ask(120, do="sample", count=1, steps=2)
    with pytest.raises(WorkerError) as refused:
        prepare(worker, 16, guard=200 * 2**20)
        worker.ask(120, do="sample", count=1, steps=1)
        prepare(worker, 8192)
        worker.ask(120, do="sample", count=1, steps=1)
    assert no_room(str(refused.value)) is not None


def test_the_result_is_kept_as_json() -> None:
    result = bench(Workers(holds(100), gpus=1), devices=("/GPU:0",))
    again = msgspec.json.decode(result.to_json(), type=BenchResult)
    assert again.runs[0].figures[0].note == "102 does not (out of memory)"
