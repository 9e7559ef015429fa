"""The GAN: its constants against the real networks, its verification against what must not pass, its plan."""

from __future__ import annotations

import json
import math
import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tfgpu_doctor
from tests.bench.fake_worker import Clock, FakeWorker
from tests.healthy import MATRIX, healthy
from tests.tables import each
from tfgpu_doctor.bench.devices import Selection
from tfgpu_doctor.bench.plans.cnn import SPREAD
from tfgpu_doctor.bench.plans.gan import Gan
from tfgpu_doctor.bench.results import BenchResult
from tfgpu_doctor.bench.session import Session
from tfgpu_doctor.bench.statistics import StoppingRule
from tfgpu_doctor.bench.workloads import gan

QUICK = StoppingRule(deadline=0.2, min_samples=3)
ONE: dict[str, Any] = {
    "losses": [0.682, 1.404],
    "expected_losses": [0.682, 1.404],
    "residual": 6e-7,
    "steps": 2,
    "moved": [0.002, 0.008],
    "replicas": 1,
    "identical": True,
}
TWO = {**ONE, "replicas": 2}

# ------------------------------------------------------------------------------------------------ the verdict


@each(
    ("answer", "dtype", "why"),
    [
        (ONE, "float32", ""),
        (TWO, "float32", ""),
        ({**ONE, "residual": 0.05}, "mixed_bfloat16", ""),
        ({"losses": [0.7, 1.4]}, "float32", ""),
        ({"losses": [None, 1.4]}, "float32", "failed: finite losses (nan and 1.4)"),
        ({**ONE, "losses": [0.682, 1.405]}, "float32", "failed: losses as in float64 (0.0007 relative difference)"),
        (
            {**ONE, "losses": [None, 1.404]},
            "float32",
            "failed: finite losses (nan and 1.4); failed: losses as in float64",
        ),
        ({**ONE, "residual": 0.05}, "float32", "failed: gradients as in float64 (0.05 relative difference)"),
        ({**ONE, "residual": None}, "mixed_bfloat16", "failed: gradients as in float64 (None relative difference)"),
        ({**TWO, "residual": 1.0}, "mixed_bfloat16", "failed: gradients as in one device (1.0 relative difference)"),
        ({**TWO, "identical": False}, "float32", "failed: replicas identical (all 2)"),
        ({**ONE, "moved": [0.002, 0.0]}, "float32", "failed: learning of both networks (their weights did not change)"),
        ({**ONE, "moved": [0.002, math.nan]}, "float32", "failed: learning of both networks"),
    ],
)
def test_the_verdict(answer: dict[str, Any], dtype: str, why: str) -> None:
    found = gan.judge(answer, dtype, {})
    assert found.ok is (why == "")
    assert found.why.startswith(why)
    assert len(found.checks) >= 1


def test_every_type_has_its_tolerances() -> None:
    assert set(gan.TOLERANCE) == set(gan.LOSS_TOLERANCE) == set(gan.DTYPES)
    assert all(limit < 0.5 for limit in gan.TOLERANCE.values())  # a gradient that is twice as long is 1 away


# ------------------------------------------------------------------------------------------------ the plan


def bench(**settings: Any) -> BenchResult:
    def verified(verb: str, _sample: int) -> dict[str, Any] | None:
        return ONE if verb == "verify" else None

    selected = {name: settings.pop(name) for name in Selection.__dataclass_fields__ if name in settings}
    gpus = settings.pop("found", 0)
    clock = Clock()
    plan = Gan(**{"batch": 32, "selection": Selection(**selected), **settings})
    return Session(plan, MATRIX, healthy(), lambda: FakeWorker(clock, 0.01, verified, gpus), QUICK).run()


def test_each_device_has_its_batch_and_the_work_grows_with_the_devices() -> None:
    cpu, one, four = bench(found=4, gpus=None).runs
    assert (cpu.label, one.label, four.label) == ("CPU", "1 GPU", f"4 GPUs, {SPREAD}")
    assert (one.scaling, four.scaling) == (None, "weak")
    assert one.steps == 10 and one.step_name == "step"
    assert one.throughput and one.throughput.value == pytest.approx(32 / 0.01)
    assert four.throughput and four.throughput.value == pytest.approx(4 * 32 / 0.01)
    assert one.flop == pytest.approx(10 * 32 * gan.training_flop())
    assert four.efficiency and four.efficiency.value == pytest.approx(1.0)


def test_the_cpu_stands_once_for_float32_and_tf32() -> None:
    result = bench(dtypes=("float32", "tf32", "mixed_bfloat16"))
    assert [run.dtype for run in result.runs] == ["float32", "mixed_bfloat16"]
    assert any("TF32 exists on GPUs" in note for note in result.notes)


# ------------------------------------------------------------------------------------------------ the real one

SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from worker import load
gan = load("gan")
import numpy as np
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
tf.config.set_soft_device_placement(False)
BOTH = ["/CPU:0", "/CPU:1"]

def flop(layer):
    shape = layer.get_weights()[0].shape if layer.get_weights() else ()
    if isinstance(layer, tf.keras.layers.Conv2DTranspose):  # each input pixel meets the whole kernel
        return 2 * int(np.prod(shape)) * layer.input.shape[1] * layer.input.shape[2]
    if isinstance(layer, tf.keras.layers.Conv2D):
        return 2 * int(np.prod(shape)) * layer.output.shape[1] * layer.output.shape[2]
    return 2 * int(np.prod(shape)) if isinstance(layer, tf.keras.layers.Dense) else 0

def walk(model):
    for layer in model.layers:
        yield from walk(layer) if hasattr(layer, "layers") else [layer]

def counted(model):
    found = [flop(layer) for layer in walk(model) if flop(layer)]
    return [sum(found), found[0]]

def run(devices, batch=4, sabotage=lambda work: None, file=None):
    work = gan.Workload({"batch": batch}, "float32", devices, "replicas")
    sabotage(work.training)
    work.sample(1)
    work.sample(1)
    answer = work.verify({"file": file})
    return {**answer, "placed": work.placed_on(), "misplaced": work.misplaced(), "later": work.recheck(),
            "seconds": work.sample(2), "count": work.training.count, "cold": sorted(work.cold)}

def other_images(training):
    training.images = gan.place(training.strategy, training.devices, lambda index: gan.images(4, 7 + index))

def twice_as_long(training):
    training.images_in_all /= 2

def no_learning(training):
    for optimiser in training.optimisers:
        optimiser.learning_rate.assign(0.0)

generator, discriminator = gan.networks("float32")
gan.reference({"batch": 4}, sys.argv[2])
print(json.dumps({
    "generator": counted(generator), "discriminator": counted(discriminator.model),
    "one": run(BOTH[1:], file=sys.argv[2]), "two": run(BOTH),
    "other images": run(BOTH, sabotage=other_images),
    "twice as long": run(BOTH[:1], sabotage=twice_as_long, file=sys.argv[2]),
    "failed: learning": run(BOTH[:1], sabotage=no_learning, file=sys.argv[2]),
}))
"""


@pytest.fixture(scope="module")
def real(tensorflow_python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the real networks and trainings answer, right ones and spoilt ones."""
    file = tmp_path_factory.mktemp("gan") / "reference.npz"
    folder = Path(tfgpu_doctor.__file__).parent / "bench"
    done = subprocess.run(
        [tensorflow_python, "-c", SCRIPT, str(folder), str(file)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.full
@pytest.mark.tensorflow
def test_the_constants_are_those_of_the_real_networks(real: dict[str, Any]) -> None:
    assert real["generator"] == [gan.GENERATOR_FLOP, gan.GENERATOR_FIRST_FLOP]
    assert real["discriminator"] == [gan.DISCRIMINATOR_FLOP, gan.DISCRIMINATOR_FIRST_FLOP]


@pytest.mark.full
@pytest.mark.tensorflow
@each(("case", "devices"), [("one", ["/CPU:1"]), ("two", ["/CPU:0", "/CPU:1"])])
def test_a_right_training_is_found_right(case: str, devices: list[str], real: dict[str, Any]) -> None:
    answer = real[case]
    judged = gan.judge(answer, "float32", {})
    assert judged.ok, judged.why
    assert judged.residual is not None and judged.residual < judged.tolerance
    assert (answer["placed"], answer["misplaced"]) == (devices, None)
    assert (answer["later"], answer["count"]) == (None, 4)
    assert answer["seconds"] > 0
    assert answer["cold"] == ["networks", "to devices"]


@pytest.mark.full
@pytest.mark.tensorflow
@each(
    ("case", "why"),
    [
        ("other images", "failed: losses as in one device"),
        ("twice as long", "failed: losses as in float64"),
        ("failed: learning", "failed: learning of both networks"),
    ],
)
def test_a_wrong_training_is_found_wrong(case: str, why: str, real: dict[str, Any]) -> None:
    judged = gan.judge(real[case], "float32", {})
    assert not judged.ok
    assert why in judged.why


@pytest.mark.full
@pytest.mark.tensorflow
def test_gradients_that_are_twice_as_long_are_1_away(real: dict[str, Any]) -> None:
    assert real["twice as long"]["residual"] == pytest.approx(1.0, rel=0.01)


def test_the_result_is_kept_as_json() -> None:
    result = bench(devices=("/CPU:0",))
    again = msgspec.json.decode(result.to_json(), type=BenchResult)
    assert again.runs[0].verified and again.runs[0].verified.checks[0].name == "finite losses"
