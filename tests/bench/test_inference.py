"""Inference: percentiles and their samples, the plan, the verdict, and SavedModels of every kind for real."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.bench.fake_worker import Clock, FakeWorker
from tests.bench.live import bench as command
from tests.bench.live import refuses
from tests.bench.samples import run
from tests.healthy import MATRIX, healthy
from tests.tables import each
from tfgpu_doctor.bench.devices import Case, Selection
from tfgpu_doctor.bench.plans.inference import Inference, LatencyRule, percentiles
from tfgpu_doctor.bench.results import BenchResult
from tfgpu_doctor.bench.runner.process import WorkerError
from tfgpu_doctor.bench.session import CannotRunError, Session
from tfgpu_doctor.bench.statistics import StoppingRule
from tfgpu_doctor.bench.workloads import inference
from tfgpu_doctor.bench.workloads.models import MODELS

CPU = Case("CPU", ("/CPU:0",), ())
OURS = {"reference": "float64"}
THEIRS = {"reference": "float32"}
RIGHT: dict[str, Any] = {"unlike": "", "floats": 1, "finite": True, "residual": 4e-7, "others": 0, "differing": 0}

# ------------------------------------------------------------------------------------------------ percentiles


def test_percentiles_have_intervals_where_the_samples_support_them() -> None:
    found = {figure.name: figure for figure in percentiles(CPU, [0.001 * place for place in range(1, 401)])}
    assert list(found) == ["p50", "p90", "p99"]
    assert found["p50"].value == pytest.approx(0.2005)
    assert found["p99"].value == pytest.approx(0.39601)
    assert found["p99"].ci95 == (pytest.approx(0.392), pytest.approx(0.4))
    assert all(figure.unit == "s" for figure in found.values())


@each(("count", "names"), [(3, ["p50"]), (35, ["p50"]), (36, ["p50", "p90"]), (367, ["p50", "p90"])])
def test_a_percentile_without_an_interval_is_not_told(count: int, names: list[str]) -> None:
    assert [figure.name for figure in percentiles(CPU, [1.0] * count)] == names


def test_a_latency_is_sampled_for_its_last_percentile() -> None:
    rule = LatencyRule(deadline=10.0)
    restless = [0.01, 0.05] * 200
    assert not rule.done(restless[:367], 5.0)
    assert rule.done(restless[:368], 5.0)
    assert rule.done(restless[:20], 10.0)
    assert rule.unmet(restless[:20]) == "20 samples" or rule.unmet(restless[:20]) is None
    assert not rule.done([0.0001] * 400, 5.0)  # less than half a second


# ------------------------------------------------------------------------------------------------ the verdict


@each(
    ("answer", "dtype", "parameters", "why"),
    [
        (RIGHT, "float32", OURS, ""),
        ({**RIGHT, "residual": 5e-5}, "float32", THEIRS, ""),
        (
            {**RIGHT, "residual": 5e-5},
            "float32",
            OURS,
            "failed: outputs as on the CPU in float64 (5e-05 relative difference)",
        ),
        (
            {**RIGHT, "residual": 1e-3},
            "float32",
            THEIRS,
            "failed: outputs as on the CPU in float32 (0.001 relative difference)",
        ),
        ({**RIGHT, "residual": 6e-3}, "mixed_bfloat16", OURS, ""),
        (
            {**RIGHT, "residual": 0.5},
            "mixed_bfloat16",
            OURS,
            "failed: outputs as on the CPU in float64 (0.5 relative difference)",
        ),
        ({**RIGHT, "residual": None}, "float32", OURS, "failed: outputs as on the CPU in float64 (NaN)"),
        ({**RIGHT, "finite": False}, "float32", OURS, "failed: finite outputs (some are infinite or NaN)"),
        ({**RIGHT, "unlike": "other shapes"}, "float32", OURS, "other shapes"),
        ({**RIGHT, "others": 1000, "differing": 5}, "float32", THEIRS, ""),
        (
            {**RIGHT, "others": 1000, "differing": 50},
            "float32",
            THEIRS,
            "failed: whole numbers as on the CPU (50 of 1000",
        ),
        ({**RIGHT, "floats": 0, "residual": None, "others": 9}, "float32", THEIRS, ""),
    ],
)
def test_the_verdict(answer: dict[str, Any], dtype: str, parameters: dict[str, Any], why: str) -> None:
    found = inference.judge(answer, dtype, parameters)
    assert found.ok is (why == "")
    assert found.why.startswith(why)


@each(("residual", "computed"), [(4e-7, "float32"), (8e-4, "tf32")])
def test_which_of_tf32_and_float32_ran(residual: float, computed: str) -> None:
    assert inference.judge({**RIGHT, "residual": residual}, "tf32", OURS).computed_in == computed


# ------------------------------------------------------------------------------------------------ the plan


class Workers:
    """Starts fake workers and remembers what they were asked."""

    def __init__(self, gpus: int = 0, described: dict[str, Any] | None = None, seconds: float = 0.01) -> None:
        self.clock, self.gpus, self.described, self.seconds = Clock(), gpus, described or {}, seconds
        self.started: list[FakeWorker] = []
        self.tasks: list[tuple[str, Any]] = []

    def __call__(self) -> FakeWorker:
        outer = self

        class Listens(FakeWorker):
            def ask(self, timeout: float, **request: Any) -> dict[str, Any]:
                if request["do"] == "reference":
                    outer.tasks.append((request["task"], request))
                    if request["task"] == "export":
                        Path(request["folder"]).mkdir()
                    return outer.described if request["task"] == "describe" else {}
                if request["do"] == "verify":
                    return RIGHT
                return super().ask(timeout, **request)

        self.started.append(Listens(self.clock, self.seconds, gpus=self.gpus))
        return self.started[-1]


def bench(workers: Workers, **settings: Any) -> BenchResult:
    selected = {name: settings.pop(name) for name in Selection.__dataclass_fields__ if name in settings}
    plan = Inference(**{"batches": (1, 8), "wanted": 10, "selection": Selection(**selected), **settings})
    return Session(plan, MATRIX, healthy(), workers, StoppingRule(deadline=0.4, min_samples=3)).run()


def points(result: BenchResult) -> list[str]:
    return [f"{run.label} {run.dtype} {run.parameters['batch']}" for run in result.runs]


def test_a_process_a_device_stays_over_the_batches() -> None:
    workers = Workers(gpus=2)
    result = bench(workers, gpus=2, explicit=True)
    assert points(result) == [
        *("CPU float32 1", "1 GPU float32 1"),
        *("CPU float32 8", "1 GPU float32 8", "2 GPUs, replicas float32 8"),
    ]
    assert len(workers.started) == 3 + 1  # one prepares; that which looked at the devices first is the CPU's
    assert all(worker.closed for worker in workers.started)
    assert "Skipped: batch 1 cannot be split over 2 devices." in result.notes


def test_throughput_and_flop_are_those_of_the_batch() -> None:
    small, large = bench(Workers(), model="cifar").runs
    assert small.throughput and small.throughput.value == pytest.approx(1 / 0.01)
    assert large.throughput and large.throughput.value == pytest.approx(8 / 0.01)
    assert large.flop == 8 * MODELS["cifar"].forward_flop
    assert (large.step_name, large.steps) == ("call", 1)


def test_one_export_serves_float32_and_tf32_and_the_reference_is_float64() -> None:
    workers = Workers(gpus=1)
    bench(workers, dtypes=("float32", "tf32", "mixed_float16"))
    exported = [request["dtype"] for task, request in workers.tasks if task == "export"]
    assert exported == ["float64", "float32", "mixed_float16"]
    (right,) = [request["parameters"] for task, request in workers.tasks if task == "answers"]
    assert right["folder"].endswith("float64")


def test_saturation_and_latencies_are_told() -> None:
    result = bench(Workers())
    assert any(note.startswith("Throughput: CPU, float32: fastest at batch = ") for note in result.notes)
    assert any(
        note == "Latency and throughput by batch, CPU, float32: 1: 10 ms, 100/s; 8: 10 ms, 800/s."
        for note in result.notes
    )


def test_a_slow_call_is_told_in_seconds() -> None:
    result = bench(Workers(seconds=1.5), batches=(1, 2))
    assert any("CPU, float32: 1: 1.5 s, 0.667/s; 2: 1.5 s, 1.33/s." in note for note in result.notes)


def test_what_the_99th_percentile_needs_is_told() -> None:
    slow = run(seconds=0.1)
    (said,) = Inference(batches=(1, 8)).advice(slow, ())
    assert said.endswith("needs 368 samples, found 11: try --deadline 90")  # 2 × 36.8 s, and a fifth
    (said,) = Inference(wanted=10).advice(slow, ())
    assert said.endswith("try --min-samples 368")
    enough = msgspec.structs.replace(slow, figures=percentiles(CPU, [0.1] * 400))
    assert Inference().advice(enough, ()) == ()


THEIR_INPUT = {"name": "x", "shape": [None, 4], "dtype": "float32"}


def test_a_users_model() -> None:
    described = {"name": "serve", "inputs": [THEIR_INPUT]}
    workers = Workers(described=described)
    result = bench(workers, model=None, saved_model="/models/mine")
    assert result.title == "mine (serve), consecutive calls"
    assert [task for task, _ in workers.tasks] == ["describe", "answers"]
    assert result.runs[0].flop is None
    assert "/models" not in result.to_json().decode()


def test_a_model_that_takes_one_batch_only() -> None:
    described = {"name": "serve", "inputs": [{**THEIR_INPUT, "shape": [8, 4]}]}
    result = bench(Workers(described=described), model=None, saved_model="/models/mine", virtual=2)
    assert points(result) == ["CPU float32 8"]
    assert "Skipped: batch 1: the model only takes 8." in result.notes
    with pytest.raises(CannotRunError, match="only takes batches of 8: use --batch-size 8"):
        bench(Workers(described=described), model=None, saved_model="/models/mine", batches=(1, 2))


def test_a_model_that_kills_its_process() -> None:
    class Dies(Workers):
        def __call__(self) -> FakeWorker:
            worker = super().__call__()
            if len(self.started) == 2:

                def die(_timeout: float, **request: Any) -> dict[str, Any]:
                    if request["do"] == "hello":
                        return {"tensorflow": "2.21.0", "numpy": "2", "python": "3.12.3", "gpus": []}
                    raise WorkerError("the worker was killed by SIGSEGV: what\nelse")

                worker.ask = die  # type: ignore[method-assign]
            return worker

    workers = Dies()
    with pytest.raises(CannotRunError, match=r"^/models/mine cannot be used: .* by SIGSEGV: what$"):
        bench(workers, model=None, saved_model="/models/mine")
    assert all(worker.closed for worker in workers.started)


# ------------------------------------------------------------------------------------------------ for real

MAKE = """
import sys
import tensorflow as tf

class Several(tf.Module):
    def __init__(self):
        self.table = tf.Variable(tf.random.stateless_normal([50, 8], [1, 2]))

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, name="ids"),
                                  tf.TensorSpec([None, 3], tf.float32, name="more")])
    def serve(self, ids, more):
        x = tf.concat([tf.reduce_mean(tf.gather(self.table, ids), 1), more], -1)
        return {"score": x, "best": tf.argmax(x, -1)}

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])
    def dice(self, x):
        return {"y": x + tf.random.uniform(tf.shape(x))}

model = Several()
tf.saved_model.save(model, sys.argv[1], signatures={"serving_default": model.serve, "dice": model.dice})
"""
QUICK = ["--min-samples", "5", "--deadline", "1", "--batch-size", "1,4"]


@each(
    ("arguments", "message"),
    [
        (["--batch-size", "1,x"], "'x' is not a number such as 512"),
        (["--batch-size", "0"], "0 is not a number from 1 to 65536"),
        (["--model", "vgg"], "'mnist', 'cifar', 'resnet50'"),
        (["--saved-model", "/no/such/folder"], "does not exist"),
        (["--saved-model", "."], "no saved_model.pb found; save one with model.export(DIR)"),
        (["--signature", "x"], "--signature and --shape need --saved-model DIR"),
        (["--shape", "2"], "--signature and --shape need --saved-model DIR"),
        (["--model", "mnist", "--saved-model", "."], "cannot be combined"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    refuses(["inference", *arguments], message)


def test_types_and_shapes_of_a_users_model(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"no model")
    for arguments, message in (
        (["--dtype", "mixed_float16"], "--dtype mixed_float16: the types of a SavedModel are fixed"),
        (["--shape", "2x3"], "--shape 2x3: give the shape of one item"),
    ):
        refuses(["inference", "--saved-model", str(tmp_path), *arguments], message)


@pytest.fixture(scope="module")
def several(tensorflow_python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A SavedModel with two inputs, one of an open shape, and a signature that never gives the same twice."""
    folder = tmp_path_factory.mktemp("models") / "several"
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
    subprocess.run([tensorflow_python, "-c", MAKE, str(folder)], check=True, env=environ, capture_output=True)
    yield str(folder)


@pytest.mark.tensorflow
@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize(
    "options", [[], pytest.param(["--dtype", "float32", "--dtype", "mixed_bfloat16", "--xla"], marks=pytest.mark.full)]
)
def test_ours_over_logical_devices(options: list[str], tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    done = command("inference", *QUICK, *options, "--virtual-gpus", "2", "--output", str(file))
    assert done.exit_code == 0, done.output
    result = msgspec.json.decode(file.read_bytes(), type=BenchResult)
    assert points(result) == [
        f"{label} {dtype} {batch}"
        for dtype in ("float32", "mixed_bfloat16")[: 2 if options else 1]
        for label, batch in (("CPU", 1), ("CPU", 4), ("2 virtual CPUs, replicas", 4))
    ]
    for one in result.runs:
        assert one.verified and one.verified.residual and 0 < one.verified.residual <= (one.verified.tolerance or 0)
        assert set(one.placed_on) == set(one.devices)
    assert result.parameters["xla"] == ("on" if options else "off")


@pytest.mark.full
@pytest.mark.tensorflow
@pytest.mark.usefixtures("one_process")
def test_a_users_model_of_two_inputs(several: str) -> None:
    done = command(*("inference", *QUICK, "--saved-model", several, "--shape", "ids=7", "--format", "json"))
    assert done.exit_code == 0, done.stderr + done.stdout
    result = json.loads(done.stdout)
    assert [run["verified"]["ok"] for run in result["runs"]] == [True, True]
    checks = {check["name"]: check["saw"] for check in result["runs"][1]["verified"]["checks"]}
    assert checks["whole numbers as on the CPU"] == "0 of 4 differ"


@pytest.mark.full
@pytest.mark.tensorflow
@pytest.mark.usefixtures("one_process")
def test_what_never_gives_the_same_twice_is_wrong(several: str) -> None:
    done = command("inference", *QUICK, "--saved-model", several, "--signature", "dice")
    assert done.exit_code == 1
    assert "the result is wrong: failed: outputs as on the CPU" in " ".join(done.stdout.split())
    assert "items/s" not in done.stdout


@pytest.mark.full
@pytest.mark.tensorflow
@pytest.mark.usefixtures("one_process")
def test_an_open_shape_is_asked_for(several: str) -> None:
    done = command("inference", *QUICK, "--saved-model", several)
    assert done.exit_code == 1
    assert done.stderr.endswith("the shape of the input ids is unknown (ids int32 [?, ?]): add --shape ids=…\n")
