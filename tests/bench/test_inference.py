"""Inference: percentiles, the plan, the verdict, signatures, and SavedModels of every kind for real."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.bench.live import bench as command
from tests.bench.samples import run
from tests.tables import each, read_rows
from tfgpu_doctor.bench.plans.base import CannotRunError
from tfgpu_doctor.bench.plans.inference import LATENCIES, Inference, RequestError, parse_shape, percentiles, resolve

SIGNATURES = read_rows(Path(__file__).with_name("rows.yaml"))["signatures"]


def test_percentiles_have_intervals_where_the_samples_support_them() -> None:
    found = {figure.name: figure for figure in percentiles([0.001 * place for place in range(1, 401)])}
    assert found["p50"].value == pytest.approx(0.2005) and found["p99"].value == pytest.approx(0.39601)
    assert found["p99"].ci95 == (pytest.approx(0.392), pytest.approx(0.4))
    names = {count: [figure.name for figure in percentiles([1.0] * count)] for count in (3, 35, 36, 367, 368)}
    two = ["p50", "p90"]
    assert names == {3: ["p50"], 35: ["p50"], 36: two, 367: two, 368: [*two, "p99"]}


def test_a_latency_is_sampled_for_its_last_percentile() -> None:
    rule = replace(LATENCIES, deadline=10.0)
    restless = [0.01, 0.05] * 200
    assert [rule.done(restless[:count], 5.0) for count in (367, 368)] == [False, True]
    assert rule.done(restless[:20], 10.0)
    assert not rule.done([0.0001] * 400, 5.0)  # less than half a second


def test_what_the_99th_percentile_needs_is_told() -> None:
    slow = run(seconds=0.1)
    for plan, end in (
        (Inference(batches=(1, 8)), "needs 368 samples, found 11: try --deadline 90"),  # 2 × 36.8 s, and a fifth
        (Inference(wanted=10), "try --min-samples 368"),
    ):
        (said,) = plan.advice(slow, ())
        assert said.endswith(end)
    assert Inference().advice(msgspec.structs.replace(slow, figures=percentiles([0.1] * 400)), ()) == ()


def signature(*inputs: tuple[str, Any, str]) -> dict[str, Any]:
    return {"name": "serving_default", "inputs": [{"name": n, "shape": s, "dtype": d} for n, s, d in inputs]}


def test_a_shape_is_read() -> None:
    shapes = {
        "224,224,3": ("", (224, 224, 3)),
        "images=28, 28": ("images", (28, 28)),
        "a=b=4": ("a=b", (4,)),
        "x=": ("x", ()),
    }
    assert {text: parse_shape(text) for text in shapes} == shapes
    for text in ("0", "x=-1", "x=2,", "2x2", "=3", "٣", "1.5"):
        with pytest.raises(RequestError, match="give the shape of one item, for example 224,224,3"):
            parse_shape(text)


@each(("inputs", "shapes", "expected"), SIGNATURES["right"])
def test_inputs_that_can_be_made_up(inputs: list[Any], shapes: dict[str, Any], expected: list[Any]) -> None:
    specs = resolve(signature(*inputs), {name: tuple(shape) for name, shape in shapes.items()})
    assert [[one["name"], one["shape"]] for one in specs] == expected


@each(("inputs", "shapes", "why"), SIGNATURES["wrong"])
def test_inputs_that_cannot(inputs: list[Any], shapes: dict[str, Any], why: str) -> None:
    with pytest.raises(CannotRunError, match=why):
        resolve(signature(*inputs), {name: tuple(shape) for name, shape in shapes.items()})


# a SavedModel with two inputs, one of an open shape, and a signature that never gives the same twice
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
QUICK = ["inference", "--min-samples", "5", "--deadline", "0.4", "--batch-size", "1,4", "--saved-model"]


@pytest.mark.full
@pytest.mark.tensorflow
@pytest.mark.usefixtures("one_process")
def test_a_users_model_of_two_inputs(tensorflow_python: str, tmp_path: Path) -> None:
    model = str(tmp_path / "several")
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TMPDIR": str(tmp_path)}
    subprocess.run([tensorflow_python, "-c", MAKE, model], check=True, env=environ, capture_output=True)
    done = command(*QUICK, model, "--shape", "ids=7", "--format", "json")
    assert done.exit_code == 0, done.stderr + done.stdout
    result = json.loads(done.stdout)
    assert [run["verified"]["ok"] for run in result["runs"]] == [True, True]
    checks = {check["name"]: check["saw"] for check in result["runs"][1]["verified"]["checks"]}
    assert checks["whole numbers as on the CPU"] == "0 of 4 differ"
    done = command(*QUICK, model, "--signature", "dice")
    assert done.exit_code == 1, "what never gives the same twice is wrong"
    assert "the result is wrong: failed: outputs as on the CPU" in " ".join(done.stdout.split())
    assert "items/s" not in done.stdout
    done = command(*QUICK, model)
    assert done.exit_code == 1
    assert done.stderr.endswith("the shape of the input ids is unknown (ids int32 [?, ?]): add --shape ids=…\n")
