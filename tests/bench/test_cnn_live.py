"""`tfgpu bench cnn` as a user starts it, and the verification against trainings that are wrong on purpose."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tfgpu_doctor
from tests.bench.live import WORKER_PROCESS, Shared, bench, refuses
from tests.tables import each
from tfgpu_doctor.bench.devices import Selection
from tfgpu_doctor.bench.plans.cnn import SPREAD, Cnn, trial_error
from tfgpu_doctor.bench.results import BenchResult
from tfgpu_doctor.bench.runner.process import WorkerProcess
from tfgpu_doctor.bench.workloads import cnn

BENCH = Path(tfgpu_doctor.__file__).parent / "bench"


# ------------------------------------------------------------------------- without TensorFlow


def test_help_has_examples() -> None:
    page = bench("cnn", "--help")
    assert page.exit_code == 0
    text = " ".join(page.stdout.split())
    assert "tfgpu bench cnn --model resnet50 --gpus all" in text
    assert "default: 20.0" in text  # seconds: a CPU alone is done within a minute


@each(
    ("arguments", "message"),
    [
        (["--model", "vgg"], "'mnist', 'cifar', 'resnet50'"),
        (["--batch-size", "1"], "--batch-size"),
        (["--batch-size", "32", "--global-batch-size", "64"], "cannot be combined"),
        (["--batch-size", "auto", "--global-batch-size", "64"], "cannot be combined"),
        (["--batch-size", "aut"], "'aut' is not a number such as 512, 4k (4096) or 1MiB, and not auto"),
        (["--global-batch-size", "33", "--virtual-gpus", "2"], "over 2 devices; use 32 or 34"),
        (["--global-batch-size", "33", "--gpus", "4"], "over 4 devices; use 32 or 36"),
        (["--dtype", "float64"], "'float32', 'tf32', 'mixed_float16', 'mixed_bfloat16'"),
        (["--join-timeout", "0"], "--join-timeout"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_measured(arguments: list[str], message: str) -> None:
    refuses(["cnn", *arguments], message)


@each(
    ("arguments", "config", "message"),
    [
        ([], "{", "TF_CONFIG is not JSON"),
        ([], '{"cluster": {"ps": ["a:1"], "worker": ["b:1"]}, "task": {"type": "worker", "index": 0}}', "job ps"),
        (["--virtual-gpus", "2"], None, "need a single machine; TF_CONFIG or Slurm lists 2 workers"),
        (["--processes", "3"], None, "need a single machine"),
        (["--global-batch-size", "33"], None, "over 2 devices"),
    ],
)
def test_several_machines_are_checked_before_anything_is_measured(
    arguments: list[str], config: str | None, message: str
) -> None:
    two = '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}'
    refuses(["cnn", *arguments], message, TF_CONFIG=config or two)


# ---------------------------------------------------------------------------- with TensorFlow


@pytest.fixture(scope="module")
def measured(shared: Shared, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One run over two logical devices: what it printed, and what it wrote."""
    folder = tmp_path_factory.mktemp("cnn")
    sizes = ["--global-batch-size", "16", "--virtual-gpus", "2", "--min-samples", "3", "--deadline", "1"]
    files = ["--output", str(folder / "result.json")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*WORKER_PROCESS, shared)
        done = bench("cnn", *sizes, *files)
    assert done.exit_code == 0, done.output
    result = msgspec.json.decode((folder / "result.json").read_bytes(), type=BenchResult)
    return {"text": done.stdout, "result": result}


@pytest.mark.tensorflow
def test_training_is_verified_on_one_device_and_on_several(measured: dict[str, Any]) -> None:
    one, two = measured["result"].runs
    for run in (one, two):
        assert run.verified and run.verified.ok and run.verified.residual is not None
        assert set(run.placed_on) == set(run.devices)
        assert run.step_name == "step" and len(run.samples_s) >= 3
    assert [check.name for check in one.verified.checks] == ["loss finite", "loss falls", "like float64", "same update"]
    assert [check.name for check in two.verified.checks][2:] == ["like one device", "same update", "replicas identical"]
    assert two.scaling == "strong" and two.flop / two.steps == one.flop / one.steps
    assert (two.speedup_vs_1gpu, two.efficiency) == (None, None)


@pytest.mark.tensorflow
def test_fit_stands_beside_the_custom_loop(measured: dict[str, Any]) -> None:
    one, two = measured["result"].runs
    (fit,) = one.figures
    assert (fit.name, fit.unit) == ("fit", "images/s")
    assert fit.ci95 is not None and fit.ci95[0] <= fit.value <= fit.ci95[1]
    assert two.figures == ()  # virtual devices prove no speed
    assert "model.fit" in measured["text"]


SCRIPT = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from worker import load
cnn, training = load("cnn"), load("training")
import numpy as np
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
tf.config.set_soft_device_placement(False)
TWO = ["/CPU:0", "/CPU:1"]

def answer(devices, dtype="float32", model="mnist", xla=False, spoil=None):
    work = cnn.Workload({"model": model, "batch": 8, "xla": xla}, dtype, devices, "")
    if spoil:
        spoil(work.training)
        work.data = work.training.data(8)
    work.sample(1)
    return {**work.verify({}), "placed": [work.placed_on(), work.misplaced()], "work": work}

def no_sum(training):  # each replica goes its own way
    def replica(images, labels):
        loss, gradients = training.passes(images, labels)
        for gradient, weight in zip(gradients, training.model.trainable_variables):
            held = weight.value if not callable(weight.value) else weight
            held.values[int(training.turn)].assign_sub(gradient * 0.02)
        training.turn += 1
        return loss
    training.turn = 0
    training._replica_step = replica

def not_averaged(training):
    training.passes = lambda images, labels: training_gradients(training, images, labels, 1)

def training_gradients(training, images, labels, replicas):
    return training_module.gradients_of(training.model, images, labels, 1.0, replicas)

def other_images(training):
    plain = training.data
    training.data = lambda each: tuple(reversed_shards(training, value) for value in plain(each))

def reversed_shards(training, value):
    parts = training.strategy.experimental_local_results(value)
    place = load("training").place
    return place(training.strategy, training.devices, lambda index: tf.zeros_like(parts[0]))

def one_part_lost(training):  # the last layer is never updated
    weights = training.model.trainable_variables
    plain = training._gradients
    def passes(images, labels):
        loss, gradients = plain(images, labels)
        return loss, [g if index < len(weights) - 2 else g * 0 for index, g in enumerate(gradients)]
    training.passes = passes

training_module = training
CASES = {
    "one": dict(devices=TWO[1:]),
    "two": dict(devices=TWO),
    "bfloat16": dict(devices=TWO[:1], dtype="mixed_bfloat16"),
    "float16": dict(devices=TWO[:1], dtype="mixed_float16"),
    "cifar": dict(devices=TWO, dtype="mixed_bfloat16", model="cifar"),
    "xla": dict(devices=TWO, xla=True),
    "no sum": dict(devices=TWO, spoil=no_sum),
    "not averaged": dict(devices=TWO, spoil=not_averaged),
    "other images": dict(devices=TWO, spoil=other_images),
    "a layer without update": dict(devices=TWO[:1], spoil=one_part_lost),
    "bfloat16 for float32": dict(devices=TWO[:1], dtype="mixed_bfloat16"),
}
found = {name: answer(**CASES[name]) for name in sys.argv[2].split(",")}
two = found.get("two")
shares = load("training").shares(two["work"].training, two["work"].data) if two else []
for one in found.values():
    del one["work"]
print(json.dumps({"answers": found, "shares": shares}))
"""


def run_script(python: str, names: str) -> dict[str, Any]:
    done = subprocess.run(
        [python, "-c", SCRIPT, str(BENCH), names],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


RIGHT = {
    "one": "float32",
    "two": "float32",
    "bfloat16": "mixed_bfloat16",
    "float16": "mixed_float16",
    "cifar": "mixed_bfloat16",
    "xla": "float32",
}
WRONG = {
    "no sum": "replicas identical",
    "not averaged": "same update",
    "other images": "like one device",
    "a layer without update": "same update",
    "bfloat16 for float32": "like float64",
}


QUICK = ("two", "no sum", "not averaged")  # without the marker full


@pytest.fixture(scope="module")
def trained(tensorflow_python: str) -> dict[str, Any]:
    """What the worker answers for a right training and for wrong ones."""
    return run_script(tensorflow_python, ",".join(QUICK))


@pytest.fixture(scope="module")
def others_trained(tensorflow_python: str) -> dict[str, Any]:
    """The same for all others.

    Networks of different shapes need processes of their own: MirroredStrategies share the keys of their collectives.
    """
    mnist = ",".join(name for name in (*RIGHT, *WRONG) if name not in ("cifar", *QUICK))
    found = run_script(tensorflow_python, mnist)
    found["answers"].update(run_script(tensorflow_python, "cifar")["answers"])
    return found


def check_training(name: str, answer: dict[str, Any]) -> None:
    """Judge what the worker answers for one of the trainings."""
    found = cnn.judge(answer, RIGHT.get(name, "float32"), {})
    if name in WRONG:
        assert not found.ok
        assert f"failed: {WRONG[name]}" in found.why
        return
    assert found.ok, found.why
    placed, misplaced = answer["placed"]
    assert misplaced is None
    assert placed == {"one": ["/CPU:1"], "bfloat16": ["/CPU:0"], "float16": ["/CPU:0"]}.get(name, ["/CPU:0", "/CPU:1"])


@pytest.mark.full
@pytest.mark.tensorflow
@each("name", QUICK)
def test_a_right_training_passes_and_wrong_ones_do_not(name: str, trained: dict[str, Any]) -> None:
    check_training(name, trained["answers"][name])


@pytest.mark.full
@pytest.mark.tensorflow
@each("name", [name for name in (*RIGHT, *WRONG) if name not in QUICK])
def test_so_do_the_others(name: str, others_trained: dict[str, Any]) -> None:
    check_training(name, others_trained["answers"][name])


@pytest.mark.full
@pytest.mark.tensorflow
def test_where_the_time_of_several_replicas_goes(trained: dict[str, Any]) -> None:
    found = {figure["name"]: figure for figure in trained["shares"]}
    assert set(found) == {"gradients alone", "gradients together", "all-reduce", "all-reduce bus bandwidth"}
    seconds = found["all-reduce"]["value"]
    size = 4 * 93_322  # float32 for each weight of the mnist network
    assert found["all-reduce bus bandwidth"]["value"] == pytest.approx(size / seconds)  # 2(n-1)/n is 1 for two
    assert found["all-reduce"]["note"] == "sum of the gradients, TensorFlow's ring"


@pytest.mark.full
@pytest.mark.tensorflow
@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA is counted so on Linux only")
@each(("batch", "fits"), [(64, True), (4096, False)])
def test_a_batch_fits_within_a_limit_of_memory_or_its_process_ends(
    batch: int, fits: bool, tensorflow_python: str
) -> None:
    (case,) = Selection().cases((), (SPREAD,))
    job = Cnn("mnist", batch).job("float32", case)
    job = replace(job, parameters={**job.parameters, "memory_limit": 1500 * 2**20})
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
    why = trial_error(lambda: WorkerProcess(tensorflow_python, environ), case, job)
    assert (why == "") is fits, why
