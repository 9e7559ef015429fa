"""`tfgpu bench input` with the real TensorFlow: every pipeline gives the right images, and wrong ones are seen."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.bench.live import Shared, bench, refuses
from tests.healthy import MATRIX, healthy
from tests.tables import each
from tfgpu_doctor.bench.plans.input import Input
from tfgpu_doctor.bench.session import Session
from tfgpu_doctor.bench.statistics import StoppingRule
from tfgpu_doctor.bench.workloads import input as workload

SHORT = ["--model", "mnist", "--batch-size", "8", "--images", "16", "--min-samples", "3", "--deadline", "0.1"]


def test_wrong_usage(tmp_path: Path) -> None:
    missing = ["input", "--dataset", str(tmp_path / "nothing")]
    refuses(missing, "no such folder; give a folder with images, or synthetic")
    (tmp_path / "readme.txt").write_text("no image")
    refuses(["input", "--dataset", str(tmp_path)], "no .jpg, .jpeg, .png, .bmp files found in it or its subfolders")


@pytest.mark.full
@pytest.mark.tensorflow
def test_a_whole_run(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    """With little memory, so that one process measures all pipelines, and not as many as there are."""
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=3 * 2**30))
    plan = Input(model="mnist", batch=8, images=16)
    rule = StoppingRule(min_samples=3, deadline=0.1)
    result = Session(plan, MATRIX, healthy(), shared, rule).run()
    measured = [(one.parameters["measured"], one.parameters["input"]) for one in result.runs]
    assert len(measured) == len(set(measured)) == 6 + 1 + 5
    for one in result.runs:
        assert one.verified and one.verified.ok and one.throughput and one.throughput.unit == "images/s", one.failure
        names = [check.name for check in one.verified.checks]
        assert ("no image other pixels" in names) == (one.parameters["measured"] != "training alone")
        assert ("loss finite" in names) == (one.parameters["measured"] != "pipeline alone")
    assert result.title.startswith("16 synthetic JPEG images of ")
    assert result.conclusions[0].startswith("CPU: ")
    assert any(text.startswith("options of the pipeline alone: ") for text in result.conclusions)


@pytest.mark.full
@pytest.mark.tensorflow
@pytest.mark.usefixtures("one_process")
def test_an_image_that_cannot_be_decoded_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 no image")
    done = bench("input", *SHORT, "--dataset", str(tmp_path))
    assert done.exit_code == 1
    assert "tfgpu: broken.jpg in the data set cannot be decoded: " in done.stderr
    assert done.stdout == "" and "Traceback" not in done.stderr


# Pipelines of the real workload, one of which is right, and others lose, repeat or change images.
SPOIL = """
import tempfile
import tensorflow as tf
work, pipelines = load("input"), load("input")
answers = {}

def measure(name, pipeline, trains, devices):
    parameters = {"folder": folder, "count": 20, "model": "mnist", "batch": 8, "pipeline": pipeline, "trains": trains}
    one = work.Workload(parameters, "float32", devices, "together")
    one.sample(1)
    first = one.verify({})
    one.sample(2)
    answers[name] = [first, one.recheck(), one.placed_on(), one.misplaced()]

with tempfile.TemporaryDirectory() as folder:
    work.reference(folder, [28, 28, 1], 20, True)
    for name in pipelines.PIPELINES:
        measure(name, name, False, ["/CPU:0"])
    measure("to another device", "prefetch to device", True, ["/CPU:1"])
    measure("shares", "everything", True, ["/CPU:0", "/CPU:1"])
    build = pipelines.build
    ways = {
        "a pixel": lambda found: found.map(lambda x, y, i: (tf.tensor_scatter_nd_add(x, [[7, 5, 5, 0]], [1e-3]), y, i)),
        "skips": lambda found: found.unbatch().filter(lambda x, y, i: i != 3).batch(8),
        "repeats": lambda found: found.unbatch().flat_map(
            lambda x, y, i: tf.data.Dataset.from_tensors((x, y, i)).repeat(tf.cast(i == 3, tf.int64) + 1)
        ).batch(8),
        "another type": lambda found: found.map(lambda x, y, i: (tf.cast(x, tf.float64), y, i)),
    }
    for name, way in ways.items():
        pipelines.build = lambda *arguments, way=way: way(build(*arguments))
        measure(name, "sequential", False, ["/CPU:0"])
    pipelines.build = build
"""


@pytest.fixture(scope="module")
def answers(shared: Shared) -> dict[str, Any]:
    """What the workload answers of every pipeline, right and spoiled."""
    found: dict[str, Any] = shared.run(SPOIL)
    return found


@pytest.mark.full
@pytest.mark.tensorflow
def test_every_pipeline_gives_every_image_once_and_unchanged(answers: dict[str, Any]) -> None:
    spoiled = {"a pixel", "skips", "repeats", "another type"}
    right = {name: answer for name, answer in answers.items() if name not in spoiled}
    assert len(right) == 9 + 2
    for name, (first, later, placed, misplaced) in right.items():
        assert workload.judge(first, "float32", {}).ok, (name, first)
        assert (later, misplaced) == (None, None), name
        assert first["images"] == 20
        expected = {"to another device": ["/CPU:1"], "shares": ["/CPU:0", "/CPU:1"]}.get(name, ["/CPU:0"])
        assert placed == expected
    assert len(right["shares"][0]["losses"]) == 2


@pytest.mark.tensorflow
@each(
    ("name", "what"),
    [("a pixel", "other pixels"), ("skips", "missing"), ("repeats", "more than once"), ("another type", "other shape")],
)
def test_images_that_are_not_right_are_seen(name: str, what: str, answers: dict[str, Any]) -> None:
    first, later, _, _ = answers[name]
    assert not workload.judge(first, "float32", {}).ok or later is not None
    assert max(found[what] for found in (first, later) if found) > 0
