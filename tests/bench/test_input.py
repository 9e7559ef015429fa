"""`tfgpu bench input`: which runs, what they say beside each other, and every pipeline with the real TensorFlow."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.bench.fake_worker import ANSWERS, Workers, measured
from tests.bench.live import Shared, refuses
from tests.bench.live import bench as command
from tests.bench.samples import run
from tests.tables import each, read_rows
from tfgpu_doctor.bench.plans import input as reading
from tfgpu_doctor.bench.plans.input import Input
from tfgpu_doctor.bench.results import Run, Throughput
from tfgpu_doctor.bench.workloads import input as workload


def test_the_users_own_folder_is_read_and_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=64 * 2**30))
    for index in range(20):
        (tmp_path / f"{index:02}.JPG").write_bytes(b"x" * 3000)
    workers = Workers(answer=ANSWERS["input"])
    found = measured(Input, workers, folder=str(tmp_path), images=512)
    assert found.title.startswith("20 of your images of 3 kB into mnist")
    assert len(workers.asked("reference")) == 1 and len(list(tmp_path.iterdir())) == 20
    assert found.parameters["dataset"] == "folder" and str(tmp_path) not in str(found.parameters)


def test_images_are_found_in_the_order_of_their_paths(tmp_path: Path) -> None:
    for name in ("b/2.png", "b/1.jpeg", "a/9.bmp", "z.jpg", "a/readme.txt", "b/c/0.JPG"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    found = [Path(file).relative_to(tmp_path).as_posix() for file in workload.find(str(tmp_path), 100)]
    assert found == ["z.jpg", "a/9.bmp", "b/1.jpeg", "b/2.png", "b/c/0.JPG"]
    assert len(workload.find(str(tmp_path), 2)) == 2
    assert workload.find(str(tmp_path / "nothing"), 5) == []
    (tmp_path / "odd" / "folder.jpg").mkdir(parents=True)
    os.mkfifo(tmp_path / "odd" / "pipe.jpg")
    assert workload.find(str(tmp_path / "odd"), 5) == [], "reading a pipe would wait for ever"


def runs(measured: dict[str, dict[str, Any]]) -> list[Run]:
    """Runs on a GPU, and pipelines alone on the CPU, each with its speed or more about it."""
    found = []
    for kind, given in measured.items():
        for pipeline, about in given.items():
            more = {"noise": 0.01, **(about if isinstance(about, dict) else {"speed": about})}
            speed, noise = more.pop("speed"), more.pop("noise")
            rate = Throughput(value=speed, unit="images/s", ci95=((1 - noise) * speed, (1 + noise) * speed))
            changes = {"throughput": rate, "parameters": {"measured": kind, "input": pipeline}, **more}
            found.append(run("CPU" if kind == reading.ALONE else "1 GPU", **changes))
    return found


@each(("measured", "bound", "options"), read_rows(Path(__file__).with_name("input.yaml")))
def test_what_runs_show_beside_each_other(measured: dict[str, Any], bound: str, options: str) -> None:
    found = runs(measured)
    assert "; ".join(reading.verdicts(found)) == bound
    assert "; ".join(reading.ranking(found)) == options


def test_wrong_usage(tmp_path: Path) -> None:
    missing = ["input", "--dataset", str(tmp_path / "nothing")]
    refuses(missing, "no such folder; give a folder with images, or synthetic")
    (tmp_path / "readme.txt").write_text("no image")
    refuses(["input", "--dataset", str(tmp_path)], "no .jpg, .jpeg, .png, .bmp files found in it or its subfolders")


@pytest.mark.full
@pytest.mark.tensorflow
@pytest.mark.usefixtures("one_process")
def test_an_image_that_cannot_be_decoded_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 no image")
    done = command("input", "--batch-size", "8", "--images", "16", "--deadline", "0.1", "--dataset", str(tmp_path))
    assert done.exit_code == 1
    assert "tfgpu: broken.jpg in the data set cannot be decoded: " in done.stderr
    assert done.stdout == "" and "Traceback" not in done.stderr


# Pipelines of the real workload, one of which is right, and others lose, repeat or change images.
SPOIL = """
import tempfile
import tensorflow as tf
work = pipelines = load("input")
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
    for name in pipelines.PIPELINES if RIGHT else ():
        measure(name, name, False, ["/CPU:0"])
    if RIGHT:
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
    for name, way in () if RIGHT else ways.items():
        pipelines.build = lambda *arguments, way=way: way(build(*arguments))
        measure(name, "sequential", False, ["/CPU:0"])
    pipelines.build = build
"""


@pytest.mark.full
@pytest.mark.tensorflow
def test_every_pipeline_gives_every_image_once_and_unchanged(shared: Shared) -> None:
    right = shared.run(f"RIGHT = True\n{SPOIL}")
    assert len(right) == 8 + 2
    for name, (first, later, placed, misplaced) in right.items():
        assert workload.judge(first, "float32", {}).ok, (name, first)
        assert (later, misplaced, first["images"]) == (None, None, 20), name
        assert placed == {"to another device": ["/CPU:1"], "shares": ["/CPU:0", "/CPU:1"]}.get(name, ["/CPU:0"])
    assert len(right["shares"][0]["losses"]) == 2


@pytest.mark.tensorflow
def test_images_that_are_not_right_are_seen(shared: Shared) -> None:
    wrong = {"a pixel": "other pixels", "skips": "missing", "repeats": "more than once", "another type": "other shape"}
    answers = shared.run(f"RIGHT = False\n{SPOIL}")
    for name, what in wrong.items():
        first, later, _, _ = answers[name]
        assert not workload.judge(first, "float32", {}).ok or later is not None
        assert max(found[what] for found in (first, later) if found) > 0
