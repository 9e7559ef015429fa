"""The CNN: its verdict against what must not pass, its plan, and the reasons for a poor scaling. No TensorFlow."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.bench.fake_worker import Clock, FakeWorker
from tests.bench.samples import run as sample_run
from tests.healthy import MATRIX, healthy, known, spoil
from tests.tables import each
from tfgpu_doctor.bench.cluster import Cluster, parse
from tfgpu_doctor.bench.devices import DeviceError, GpuFound, Selection
from tfgpu_doctor.bench.plans.cnn import Cnn, largest_batch, why_poor
from tfgpu_doctor.bench.plans.workload_size import TooLargeError
from tfgpu_doctor.bench.results import BenchResult, Figure, Run
from tfgpu_doctor.bench.runner.process import WorkerError
from tfgpu_doctor.bench.session import CannotRunError, Session, TooSlowError
from tfgpu_doctor.bench.statistics import StoppingRule
from tfgpu_doctor.bench.workloads import cnn
from tfgpu_doctor.bench.workloads.models import MODELS, training_flop

QUICK = StoppingRule(deadline=0.2, min_samples=3)
ONE: dict[str, Any] = {
    "losses": [2.3, 2.25, 2.2],
    "compared": [2.3, 2.25, 2.2],
    "expected": [2.3, 2.25, 2.200001],
    "update": 3e-6,
    "replicas": 1,
    "identical": [10, 10],
}
TWO = {**ONE, "replicas": 2}

# ------------------------------------------------------------------------------------------------ the verdict


@each(
    ("answer", "dtype", "why"),
    [
        (ONE, "float32", ""),
        (TWO, "float32", ""),
        ({**ONE, "expected": [2.3, 2.25, 2.201]}, "mixed_bfloat16", ""),
        (
            {**ONE, "expected": [2.3, 2.25, 2.201]},
            "float32",
            "failed: like float64 (losses differ by 0.00045 (limit 1e-05))",
        ),
        ({**TWO, "expected": [2.3, 2.5, 2.2]}, "mixed_bfloat16", "failed: like one device (losses differ by 0.1"),
        ({**ONE, "update": 0.4}, "mixed_bfloat16", "failed: same update (weights differ by 0.4 (limit 0.3))"),
        ({**ONE, "update": None}, "float32", "failed: same update (weights differ by nan"),
        ({**TWO, "identical": [9, 10]}, "float32", "failed: replicas identical (9 of 10 weights in 2 replicas)"),
        ({**ONE, "losses": [2.2, 2.25, 2.3]}, "float32", "failed: loss falls (2.2 to 2.3)"),
        ({**ONE, "losses": [2.2, 2.2, 2.2]}, "float32", "failed: loss falls"),
        ({**ONE, "losses": [2.3, None, 2.2]}, "float32", "failed: loss finite (1 of 3 are not finite)"),
        ({**ONE, "compared": [2.3, None, 2.2]}, "float32", "failed: like float64 (losses differ by nan"),
        ({"block": [2.1, 2.0]}, "float32", ""),
        ({"block": [2.1, None]}, "float32", "failed: loss finite (1 of 2 are not finite)"),
    ],
)
def test_the_verdict(answer: dict[str, Any], dtype: str, why: str) -> None:
    found = cnn.judge(answer, dtype, {})
    assert found.ok is (why == "")
    assert found.why.startswith(why)
    assert len(found.checks) >= 1
    assert found.residual is None or found.residual < 1


def test_every_type_has_its_tolerances_and_none_excuses_a_wrong_update() -> None:
    assert set(cnn.TOLERANCE) == set(cnn.DTYPES)
    assert all(loss <= 5e-3 and update <= 0.3 for loss, update in cnn.TOLERANCE.values())


# ------------------------------------------------------------------------------------------------ the plan


class Workers:
    """Starts fake workers, and remembers what they were asked to prepare."""

    def __init__(self, gpus: int = 0, failing: str = "") -> None:
        self.clock, self.gpus, self.failing = Clock(), gpus, failing
        self.prepared: list[dict[str, Any]] = []

    def __call__(self) -> FakeWorker:
        outer = self

        class One(FakeWorker):
            def _prepare(self, request: dict[str, Any]) -> dict[str, Any]:
                outer.prepared.append(request)
                if outer.failing:
                    raise WorkerError(outer.failing)
                return super()._prepare(request)

            def _verify(self, _request: dict[str, Any]) -> dict[str, Any]:
                return dict(ONE)

        return One(self.clock, 0.01, gpus=self.gpus)


def bench(workers: Workers, **settings: Any) -> BenchResult:
    selected = {name: settings.pop(name) for name in Selection.__dataclass_fields__ if name in settings}
    environment = settings.pop("environment", healthy())
    plan = Cnn(**{"batch": 32, "selection": Selection(**selected), **settings})
    return Session(plan, MATRIX, environment, workers, QUICK).run()


def test_weak_scaling_gives_each_device_its_batch() -> None:
    workers = Workers(gpus=4)
    cpu, one, four = bench(workers, gpus=None).runs
    assert (cpu.label, one.label, four.label) == ("CPU", "1 GPU", "4 GPUs, replicas")
    assert (one.scaling, four.scaling, one.step_name, one.steps) == (None, "weak", "step", 10)
    assert [request["parameters"]["batch"] for request in workers.prepared] == [32, 32, 32]
    assert four.throughput and four.throughput.value == pytest.approx(4 * 32 / 0.01)
    assert one.flop == pytest.approx(10 * 32 * training_flop("mnist"))
    assert four.efficiency and four.efficiency.value == pytest.approx(1.0)


def test_strong_scaling_shares_the_batch() -> None:
    workers = Workers(gpus=4)
    result = bench(workers, gpus=None, batch=None, global_batch=64)
    assert [request["parameters"]["batch"] for request in workers.prepared] == [64, 64, 16]
    assert [run.scaling for run in result.runs] == [None, None, "strong"]
    assert len({run.flop for run in result.runs}) == 1
    assert result.parameters["global_batch"] == 64
    assert "64 images per step" in result.title


def test_images_that_cannot_be_shared_out() -> None:
    with pytest.raises(DeviceError, match="62 cannot be divided evenly over 4 devices; use 60 or 64"):
        bench(Workers(gpus=4), gpus=None, batch=None, global_batch=62)
    with pytest.raises(DeviceError, match="use 4"):
        Cnn(global_batch=3).batch_of(4)


def test_each_network_has_a_batch_of_its_own() -> None:
    assert [Cnn(model).each for model in MODELS] == [256, 128, 32]


def test_the_cpu_stands_once_for_float32_and_tf32() -> None:
    result = bench(Workers(), dtypes=("float32", "tf32", "mixed_bfloat16"))
    assert [run.dtype for run in result.runs] == ["float32", "mixed_bfloat16"]
    assert any("TF32 exists on GPUs" in note for note in result.notes)


def test_virtual_devices_have_no_figures_which_are_speeds() -> None:
    plan = Cnn()
    cpu, virtual = Selection(virtual=2).cases((), ("replicas",))
    assert (plan.job("float32", cpu).figures, plan.job("float32", virtual).figures) == (True, False)


def test_xla_is_one_mode_in_all_cases() -> None:
    workers = Workers(gpus=2)
    result = bench(workers, gpus=2, xla=True)
    assert {request["parameters"]["xla"] for request in workers.prepared} == {True}
    assert result.title.endswith(", XLA") and any("compiles the forward and backward" in note for note in result.notes)


def test_a_cpu_that_would_take_minutes_is_left_out_beside_gpus_and_named() -> None:
    result = bench(Workers(gpus=1), model="resnet50", batch=1024)
    assert [run.label for run in result.runs] == ["1 GPU"]
    assert "The CPU is skipped: a step would take about 29 s. To measure it: --devices cpu,gpu:0 --deadline 180" in (
        result.notes
    )


def test_a_cpu_that_was_asked_for_or_is_alone_is_refused_where_there_is_no_time() -> None:
    workers = Workers(gpus=1)
    with pytest.raises(TooSlowError, match=r"a step of 1024 images on the CPU would take about 29 s") as refused:
        bench(workers, model="resnet50", batch=1024, devices=("/CPU:0", "/GPU:0"))
    assert workers.prepared == []
    fits = int(re.findall(r"--batch-size (\d+)", str(refused.value))[0])
    assert [run.label for run in bench(Workers(), model="resnet50", batch=fits).runs] == ["CPU"]


@each(
    ("why", "told"),
    [
        ("ResourceExhaustedError: OOM when allocating", "32 images per device do not fit into its memory: try"),
        ("the worker was killed by SIGSEGV: RESOURCE_EXHAUSTED", "--batch-size 16 (the worker was killed by SIGSEGV)"),
        ("the worker was killed by SIGKILL", "probably because the machine ran out of memory: try --batch-size 16"),
        ("InternalError: cuDNN\nsecond line", "InternalError: cuDNN\nsecond line"),
    ],
)
def test_a_batch_that_is_too_large_is_told_as_that(why: str, told: str) -> None:
    (run,) = bench(Workers(failing=why)).runs
    assert run.failure is not None and told in run.failure
    assert run.throughput is None


def test_images_that_exceed_the_memory_are_refused_before_they_are_made() -> None:
    workers = Workers()
    tiny = spoil(healthy(), {"host.memory_limit": known(2**30)})
    with pytest.raises(TooLargeError, match=r"1048576 images for CPU need .* try --batch-size \d+"):
        bench(workers, batch=2**20, environment=tiny)
    assert workers.prepared == []


def test_a_slow_gpu_gets_time_and_one_that_hangs_not_for_ever() -> None:
    (one,) = Selection(devices=("/GPU:0",)).cases((GpuFound("T4"),), ("replicas",))
    assert 60 < Cnn("resnet50", 1024).job("float32", one).patience < 1800


# ------------------------------------------------------------------------------------------------ poor scaling


def figures(alone: float, together: float, reduce: float) -> tuple[Figure, ...]:
    return (
        Figure(name="gradients alone", value=alone, unit="s"),
        Figure(name="gradients together", value=together, unit="s"),
        Figure(name="all-reduce", value=reduce, unit="s", note="sum of the gradients, NCCL"),
        Figure(name="all-reduce bus bandwidth", value=3.1e9, unit="B/s"),
    )


@each(
    ("measured", "reasons"),
    [
        (figures(0.6, 0.61, 0.35), ["summing the gradients takes 35% of each step, 3.1 GB/s"]),
        (figures(0.4, 0.8, 0.02), ["the replicas slow each other down: forward and backward pass take 2.00 times"]),
        (figures(0.4, 0.6, 0.3), ["summing the gradients takes 30%", "the replicas slow each other down"]),
        (figures(0.9, 0.95, 0.05), []),
        ((), []),
    ],
)
def test_why_several_gpus_are_not_as_many_times_as_fast(measured: tuple[Figure, ...], reasons: list[str]) -> None:
    poor: Run = sample_run("2 GPUs, replicas", 1.0, figures=measured)
    found = why_poor(poor)
    assert len(found) == len(reasons)
    assert all(text.startswith(start) for text, start in zip(found, reasons, strict=True))


# ------------------------------------------------------------------------------------------------ several machines


def cluster(index: int = 0, hosts: tuple[str, ...] = ("a:1", "b:1")) -> Cluster:
    addresses = ", ".join(f'"{host}"' for host in hosts)
    task = f'{{"type": "worker", "index": {index}}}'
    found = parse(f'{{"cluster": {{"worker": [{addresses}]}}, "task": {task}}}')
    assert found is not None
    return found


def test_the_first_machine_measures_all_together_and_itself_alone() -> None:
    workers = Workers(gpus=2)
    result = bench(workers, gpus=2, explicit=True, cluster=cluster())
    assert [run.label for run in result.runs] == ["2 workers, 2 GPUs each", "1 GPU", "2 GPUs, replicas"]
    together = result.runs[0]
    assert together.devices == ("/GPU:0", "/GPU:1", "/task:1/GPU:0", "/task:1/GPU:1")
    assert together.efficiency and together.efficiency.value == pytest.approx(1.0)
    asked = {"model": "mnist", "batch": 32, "xla": False, "index": 0, "workers": 2, "collectives": "NCCL"}
    assert workers.prepared[0]["parameters"] == asked
    assert workers.prepared[0]["gpus"] == [0, 1]
    assert result.parameters["workers"] == 2


def test_the_others_take_part_in_the_same_and_in_nothing_else() -> None:
    found = (GpuFound("T4"),)
    plan = Cnn(dtypes=("float32", "tf32"), cluster=cluster(1))
    part = plan.part(found)
    assert [(case.label, job.dtype_on(case)) for case, job in part] == [
        ("2 workers, 1 GPU each", "float32"),
        ("2 workers, 1 GPU each", "tf32"),
    ]
    assert part[0][0].devices == ("/GPU:0", "/task:0/GPU:0")
    assert part[0][1].parameters["index"] == 1
    assert [job.dtype for _, job in Cnn(dtypes=("float32", "tf32"), cluster=cluster(1)).part(())] == ["float32"]


def test_workers_that_share_one_cpu_prove_no_speed() -> None:
    result = bench(Workers(), cluster=cluster(hosts=("a:1", "a:2")))
    assert [run.virtual for run in result.runs] == [True, False]
    assert any("Some workers share a machine" in note for note in result.notes)
    apart = bench(Workers(), cluster=cluster())
    assert [run.virtual for run in apart.runs] == [False, False]


def test_workers_that_share_a_machine_share_out_its_gpus() -> None:
    found = (GpuFound("T4"),) * 4
    plan = Cnn(selection=Selection(gpus=2, explicit=True), cluster=cluster(1, ("a:1", "a:2")))
    assert [case.gpus for case in plan.cases(found)] == [(2, 3), (2,), (2, 3)]
    bound = Cnn(selection=Selection(gpus=2, explicit=True), cluster=cluster(1, ("a:1", "a:2")))
    assert [case.gpus for case in bound.cases(found[:2])] == [(0, 1), (0,), (0, 1)]  # each sees its own alone


@each(("gpus", "asked", "used"), [(1, None, "NCCL"), (1, "RING", "RING"), (0, None, "RING"), (0, "NCCL", "RING")])
def test_who_sums_on_several_machines(gpus: int, asked: str | None, used: str) -> None:
    ((_, job),) = Cnn(cluster=cluster(1), collectives=asked).part((GpuFound("T4"),) * gpus)
    assert job.parameters["collectives"] == used


def test_all_machines_share_out_the_images() -> None:
    workers = Workers(gpus=2)
    bench(workers, gpus=2, explicit=True, batch=None, global_batch=64, cluster=cluster())
    assert [request["parameters"]["batch"] for request in workers.prepared] == [16, 64, 32]


# ------------------------------------------------------------------------------------------------ the largest batch


@each(
    ("capacity", "start", "most", "found"),
    [
        (1000, 32, 2**20, (960, 1024)),
        (10, 32, 2**20, (10, 11)),
        (2, 32, 2**20, (2, 3)),
        (1, 32, 2**20, (None, 2)),
        (2**30, 32, 1000, (1000, None)),
        (2**30, 32, 20, (20, None)),
        (2**30, 32, 1, (None, None)),
    ],
)
def test_a_batch_is_doubled_or_halved_and_then_the_gap_is(
    capacity: int, start: int, most: int, found: tuple[int | None, int | None]
) -> None:
    tried: list[int] = []

    def fits(batch: int) -> bool:
        tried.append(batch)
        return batch <= capacity

    assert largest_batch(start, 2, most, fits) == found
    assert len(tried) == len({*tried}) < 20 and all(2 <= batch <= most for batch in tried)


class Small(Workers):
    """Devices that hold so many images; `how` is what is said of more."""

    def __init__(self, capacity: int, how: str, gpus: int = 0) -> None:
        super().__init__(gpus)
        self.capacity, self.how = capacity, how
        self.started: list[FakeWorker] = []

    def __call__(self) -> FakeWorker:
        worker, outer = super().__call__(), self
        self.started.append(worker)
        sample = worker._sample

        def limited(request: dict[str, Any]) -> dict[str, Any]:
            if outer.prepared[-1]["parameters"]["batch"] > outer.capacity:
                raise WorkerError(outer.how)
            return sample(request)

        worker._sample = limited  # type: ignore[method-assign]
        return worker


@each(
    ("how", "why"),
    [
        ("ResourceExhaustedError: OOM when allocating tensor", "ResourceExhaustedError"),
        ("InternalError: Failed to allocate 1.2GiB", "InternalError"),
        ("_ArrayMemoryError: Unable to allocate 12.2 MiB", "_ArrayMemoryError"),
        ("the worker was killed by SIGKILL", "the worker was killed by SIGKILL"),
        ("the worker ended with exit code 134: F0000 xla\nmore", "the worker ended with exit code 134"),
    ],
)
def test_the_largest_batch_is_found_and_measured_on_every_device_in_turn(how: str, why: str) -> None:
    workers = Small(1000, how, gpus=2)
    found = bench(workers, gpus=2, auto=True, batch=None)
    assert [run.label for run in found.runs] == ["1 GPU", "2 GPUs, replicas"], "the CPU may hold less"
    assert found.parameters["batch"] == 960 and all(run.throughput and not run.failure for run in found.runs)
    assert found.title.endswith("960 per device")
    assert f"960 images per device fit into memory; 1024 do not ({why})." in found.notes
    tried = [request for request in workers.prepared if len(request["devices"]) == 2]
    assert [request["parameters"]["batch"] for request in tried] == [256, 512, 1024, 768, 896, 960, 960]
    assert all(worker.closed for worker in workers.started)


def test_on_the_cpu_a_limit_is_set_and_the_deadline_ends_the_search() -> None:
    workers = Small(2**30, "")
    small = spoil(healthy(), {"host.memory_limit": known(4 * 2**30)})
    found = bench(workers, auto=True, batch=None, environment=small)
    limits = [request["parameters"].get("memory_limit") for request in workers.prepared]
    assert set(limits[:-1]) == {2 * 2**30} and limits[-1] is None
    assert any(note.endswith("fit into memory; more take too long for --deadline 0.2.") for note in found.notes)


def test_what_holds_no_batch_or_fails_for_another_reason_is_refused() -> None:
    with pytest.raises(TooLargeError, match=r"not even 2 images per device fit .*\(ResourceExhaustedError\)"):
        bench(Small(1, "ResourceExhaustedError: OOM", gpus=1), auto=True, batch=None)
    with pytest.raises(CannotRunError, match="failed: InvalidArgumentError: no such kernel"):
        bench(Small(1, "InvalidArgumentError: no such kernel", gpus=1), auto=True, batch=None)
