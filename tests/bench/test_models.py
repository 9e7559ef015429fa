"""The networks: their constants against the real Keras models, the same weights always, data that can be learned."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import tfgpu_doctor
from tests.tables import each
from tfgpu_doctor.bench.workloads.models import MODELS, training_flop

BENCH = Path(tfgpu_doctor.__file__).parent / "bench"
SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from worker import load
models = load("models")
import numpy as np
import tensorflow as tf

def flop(layer):
    if isinstance(layer, tf.keras.layers.Conv2D):
        return 2 * int(np.prod(layer.get_weights()[0].shape)) * layer.output.shape[1] * layer.output.shape[2]
    return 2 * int(np.prod(layer.get_weights()[0].shape)) if isinstance(layer, tf.keras.layers.Dense) else 0

def look(name):
    images, labels = models.batch(name, 4, 3)
    net = models.build(name, "float32")
    again = models.build(name, "mixed_bfloat16")
    logits = again(images)
    counted = [flop(layer) for layer in net.layers if flop(layer)]
    return {
        "flop": sum(counted), "first": counted[0], "parameters": net.count_params(),
        "image": list(net.input_shape[1:]), "classes": int(net.output_shape[-1]),
        "same": all(np.array_equal(a, b) for a, b in zip(net.get_weights(), again.get_weights())),
        "bfloat16": any(layer.compute_dtype == "bfloat16" for layer in again.layers),
        "logits": [logits.dtype.name, list(logits.shape), float(np.std(logits))],
        "images": [images.dtype.name, list(images.shape), float(images.std())],
        "labels": [labels.dtype.name, list(labels.shape), int(labels.max())],
        "policy": tf.keras.mixed_precision.global_policy().name,
    }

print(json.dumps({name: look(name) for name in models.MODELS}))
"""


@pytest.fixture(scope="module")
def looked(tensorflow_python: str) -> dict[str, Any]:
    """What the real models say of themselves."""
    done = subprocess.run(
        [tensorflow_python, "-c", SCRIPT, str(BENCH)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"},
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.full
@pytest.mark.tensorflow
@each("name", MODELS)
def test_the_constants_are_those_of_the_real_network(name: str, looked: dict[str, Any]) -> None:
    model, found = MODELS[name], looked[name]
    assert (model.forward_flop, model.first_flop) == (found["flop"], found["first"])
    assert model.parameters == found["parameters"]
    assert (list(model.image), model.classes) == (found["image"], found["classes"])


@pytest.mark.full
@pytest.mark.tensorflow
@each("name", MODELS)
def test_weights_are_the_same_in_every_type_and_logits_are_float32(name: str, looked: dict[str, Any]) -> None:
    found = looked[name]
    assert found["same"] and found["bfloat16"]
    kind, shape, spread = found["logits"]
    assert (kind, shape) == ("float32", [4, MODELS[name].classes])
    assert 0 < spread < 10
    assert found["policy"] == "float32"  # as it was


@pytest.mark.full
@pytest.mark.tensorflow
@each("name", MODELS)
def test_data_have_the_shape_of_the_network(name: str, looked: dict[str, Any]) -> None:
    kind, shape, spread = looked[name]["images"]
    assert (kind, shape) == ("float32", [4, *MODELS[name].image])
    assert 0.5 < spread < 2
    kind, shape, most = looked[name]["labels"]
    assert (kind, shape) == ("int32", [4])
    assert most < MODELS[name].classes


def test_a_step_is_three_times_forward_less_what_nobody_needs() -> None:
    assert training_flop("mnist") == 3 * 5_588_480 - 389_376
    assert all(model.first_flop < model.forward_flop for model in MODELS.values())


def test_batches_are_the_same_for_the_same_seed_and_share_their_patterns() -> None:
    np = pytest.importorskip("numpy")
    from tfgpu_doctor.bench.workloads.models import batch

    images, labels = batch("mnist", 64, 1)
    again, _ = batch("mnist", 64, 1)
    other, others = batch("mnist", 64, 2)
    assert np.array_equal(images, again)
    assert not np.array_equal(images, other)
    for number in set(labels) & set(others):
        mean, elsewhere = images[labels == number].mean(axis=0), other[others == number].mean(axis=0)
        assert np.corrcoef(mean.ravel(), elsewhere.ravel())[0, 1] > 0.7  # noise apart, the same pattern
