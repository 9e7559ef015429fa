"""The parent's side of matpow: which cases and types, which size, what is kept. No process, no time."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.bench.fake_worker import Clock, FakeWorker
from tests.healthy import MATRIX, gpu, healthy, known, spoil
from tests.tables import each
from tfgpu_doctor.bench.devices import DeviceError, Selection
from tfgpu_doctor.bench.plans.matpow import MatPow
from tfgpu_doctor.bench.plans.workload_size import TooLargeError
from tfgpu_doctor.bench.results import BenchResult
from tfgpu_doctor.bench.runner.process import WorkerError
from tfgpu_doctor.bench.session import NoTensorFlowError, Session, TooSlowError
from tfgpu_doctor.bench.statistics import StoppingRule
from tfgpu_doctor.records.facts import Facts
from tfgpu_doctor.render.outlines.bench import verdict

QUICK = StoppingRule(deadline=1.0, min_samples=3)  # the runner's own clock is the real one here
BUS_ID = "0000:65:00.0"
CREATED = f"Created device /job:localhost/replica:0/task:0/device:GPU:0 with 9 MB memory:  -> pci bus id: {BUS_ID}, x\n"


class Workers:
    """Starts fake workers and remembers them."""

    def __init__(self, gpus: int = 0, **options: Any) -> None:
        self.clock, self.gpus, self.options = Clock(), gpus, options
        self.started: list[FakeWorker] = []

    def __call__(self) -> FakeWorker:
        self.started.append(FakeWorker(self.clock, gpus=self.gpus, **self.options))
        return self.started[-1]


def bench(workers: Callable[[], FakeWorker], environment: Facts | None = None, **settings: Any) -> BenchResult:
    selected = {name: settings.pop(name) for name in Selection.__dataclass_fields__ if name in settings}
    plan = MatPow(**{"size": 512, "selection": Selection(**selected), **settings})
    return Session(plan, MATRIX, environment or healthy(), workers, QUICK).run()


def names(result: BenchResult) -> list[str]:
    return [f"{run.label} {run.dtype}" for run in result.runs]


def test_one_process_a_case_and_every_one_ended() -> None:
    workers = Workers(gpus=2)
    result = bench(workers, gpus=2, explicit=True)
    assert names(result) == ["CPU float32", "1 GPU float32", "2 GPUs, terms float32", "2 GPUs, rows float32"]
    assert len(workers.started) == 4
    assert all(worker.closed for worker in workers.started)
    assert all(run.throughput for run in result.runs)


def test_the_cpu_is_measured_in_float32_once_for_float32_and_tf32() -> None:
    result = bench(Workers(gpus=1), dtypes=("float32", "tf32", "bfloat16"))
    assert names(result) == [
        *("CPU float32", "1 GPU float32", "1 GPU tf32"),
        *("CPU bfloat16", "1 GPU bfloat16"),
    ]
    assert result.runs[2].speedup_vs_cpu is not None


def test_tf32_without_a_gpu_is_said_to_be_float32() -> None:
    result = bench(Workers(), dtypes=("tf32",))
    assert names(result) == ["CPU float32"]
    assert any("TF32 exists on GPUs" in note for note in result.notes)
    assert any("TensorFlow lists no GPU: only the CPU is measured" in note for note in result.notes)


@each(("rule", "size"), [(StoppingRule(), 1536), (StoppingRule(deadline=3.0), 1024)])
def test_the_size_is_chosen_by_speed_and_by_the_deadline(rule: StoppingRule, size: int) -> None:
    workers = Workers(seconds=0.1)  # for whatever size: 16 GFLOP in 0.1 s
    result = Session(MatPow(), MATRIX, healthy(), workers, rule).run()
    assert result.parameters["size"] == size
    assert workers.started[0].sizes == [768, size]


def test_a_size_that_takes_too_long_is_refused_with_one_that_fits() -> None:
    """10000 at 330 GFLOP/s; nothing of it is computed."""
    workers = Workers(seconds=0.05)
    with pytest.raises(TooSlowError, match=r"size 10000: a sample on the CPU would take about 110 s, too") as refused:
        bench(workers, size=10000)
    assert max(workers.started[0].sizes) < 10000 and all(worker.closed for worker in workers.started)
    fits = int(re.findall(r"--size (\d+)", str(refused.value))[0])
    assert bench(Workers(seconds=0.05), size=fits).runs[0].throughput
    with pytest.raises(TooSlowError, match="a sample on 1 GPU would take about 110 s"):
        bench(Workers(gpus=1, seconds=0.05), size=10000, devices=("/GPU:0",))


def test_beside_gpus_the_cpu_is_left_out_instead_unless_it_was_asked_for() -> None:
    result = bench(Workers(gpus=1, seconds=0.05), size=10000)
    assert [run.label for run in result.runs] == ["1 GPU"] and not result.not_run
    note = "The CPU is skipped: a sample would take about 110 s. To measure it: --deadline 450"
    assert note in result.notes
    with pytest.raises(TooSlowError):
        bench(Workers(gpus=1, seconds=0.05), size=10000, devices=("/CPU:0", "/GPU:0"))


def test_gpus_are_also_measured_at_a_size_of_their_own() -> None:
    """The CPU at 16 GFLOP in 0.1 s; a GPU is a thousand times as fast."""
    workers = Workers(gpus=1, seconds=0.1)

    def start() -> FakeWorker:
        worker = workers()
        if len(workers.started) == 2:
            worker.seconds = iter(lambda: 1e-4, None)
        return worker

    plan = MatPow(own_sizes=True, dtypes=("float32", "bfloat16"))
    result = Session(plan, MATRIX, healthy(), start, StoppingRule()).run()
    points = [(run.label, run.dtype, run.parameters) for run in result.runs]
    assert points[:3] == [
        *(("CPU", "float32", {"size": 1536}), ("1 GPU", "float32", {"size": 1536})),
        ("1 GPU", "float32", {"size": 8192}),
    ]
    assert result.runs[1].speedup_vs_cpu and result.runs[2].speedup_vs_cpu is None
    assert workers.started[1].sizes == [1536, 8192], "in the same process"
    assert len(points) == 5, "a GPU that is no faster than the CPU has no larger one"
    assert verdict(result).startswith("1 GPU, float32, size 8192: ")


def test_a_device_that_is_too_quick_to_tell_is_asked_for_more() -> None:
    workers = Workers(seconds=0.001)
    bench(workers, size=None)
    assert workers.started[0].sizes[:4] == [768, 1536, 3072, 6144]


def test_what_does_not_fit_is_refused_before_it_is_allocated() -> None:
    tiny = spoil(healthy(), {"host.memory_limit": known(2**30)})
    workers = Workers()
    with pytest.raises(TooLargeError, match=r"size 16384 in float32 needs .* GiB of the host's memory"):
        bench(workers, tiny, size=16384)
    assert max(workers.started[0].sizes) < 16384
    assert all(worker.closed for worker in workers.started)


def test_more_gpus_than_there_are() -> None:
    workers = Workers(gpus=1)
    with pytest.raises(DeviceError, match="2 GPUs requested, but TensorFlow lists 1: NVIDIA H200"):
        bench(workers, gpus=2, explicit=True)
    assert [worker.closed for worker in workers.started] == [True]


def test_a_tensorflow_that_dies_on_import() -> None:
    def trouble(_verb: str, _sample: int) -> None:
        raise WorkerError("the worker was killed by SIGILL")

    workers = Workers(trouble=trouble)
    with pytest.raises(NoTensorFlowError, match="the worker was killed by SIGILL"):
        bench(workers)
    assert all(worker.closed for worker in workers.started)


def test_a_worker_whose_tensorflow_dies_later_is_ended_too() -> None:
    workers = Workers(gpus=1)

    def start() -> FakeWorker:
        worker = workers()
        if len(workers.started) == 2:
            worker.trouble = lambda _verb, _sample: (_ for _ in ()).throw(WorkerError("gone"))
        return worker

    result = bench(start)
    assert [run.failure for run in result.runs] == [None, "gone"]
    assert all(worker.closed for worker in workers.started)


def test_per_cent_of_peak_is_that_of_the_card_that_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeWorker, "log", lambda _worker: CREATED)
    other = gpu(0, name="NVIDIA T4", pci_bus_id="0000:17:00.0", compute_capability="7.5", multiprocessors=40)
    ours = gpu(1, pci_bus_id=BUS_ID.upper(), multiprocessors=132, sm_clock_max=1980)
    environment = spoil(healthy(), {"gpus": known((other, ours), "NVML")})
    (run,) = bench(Workers(gpus=1, seconds=0.001), environment, devices=("/GPU:0",)).runs
    assert run.throughput and run.percent_of_peak
    peak = 132 * 1980e6 * 256  # float32: 128 fused multiply-adds a cycle and multiprocessor
    assert run.percent_of_peak == pytest.approx(100 * run.throughput.value / peak)


def test_what_was_measured_is_saved_while_it_goes_on() -> None:
    saved: list[BenchResult] = []
    plan = MatPow(size=512, dtypes=("float32", "float64"))
    final = Session(plan, MATRIX, healthy(), Workers(), QUICK, save=saved.append).run()
    assert saved[0].runs[0].throughput is None  # warmed up only
    assert len(saved[-1].runs) == 2
    assert saved[-1] == final
    assert [one.unfinished for one in saved] == [True] * (len(saved) - 1) + [False]  # an interrupt leaves one of these
    sizes = [len(result.runs) for result in saved]
    assert sizes == sorted(sizes)


def test_the_reference_is_computed_once() -> None:
    workers = Workers(gpus=2)
    bench(workers, gpus=2, explicit=True, spreads=("terms",))
    assert [worker.asked.count("reference") for worker in workers.started] == [1, 0, 0]


def test_the_title_names_the_size() -> None:
    assert bench(Workers()).title == "A^10 and B^10, 512 × 512"
