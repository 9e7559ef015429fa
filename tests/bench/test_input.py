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
from tests.tables import each
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


# ------------------------------------------------------------------------------------------- what it says


def at(measured: str, pipeline: str, speed: float, label: str = "1 GPU", noise: float = 0.01, **changes: Any) -> Run:
    """A run with a speed, and an interval of `noise` around it."""
    rate = Throughput(value=speed, unit="images/s", ci95=((1 - noise) * speed, (1 + noise) * speed))
    parameters = {"measured": measured, "input": pipeline}
    return run(label, **{"throughput": rate, "parameters": parameters, **changes})


def eats(speed: float, **changes: Any) -> Run:
    return at(reading.MODEL, reading.RESIDENT, speed, **changes)


def fed(noise: float = 0.01, **speeds: float) -> list[Run]:
    return [at(reading.FED, name.replace("_", " "), speed, noise=noise) for name, speed in speeds.items()]


EVERY = [eats(10000), *fed(sequential=1000, everything=4000)]
SHAKY = [  # neighbours on the machine make intervals too narrow: seen at load 8 on 2 CPUs, "prefetch slows down"
    at(reading.FED, "parallel decode", 2100, spread_iqr=0.38),
    at(reading.FED, "prefetch", 1700, spread_iqr=0.21),
]


@each(
    ("runs", "parts"),
    [
        (
            [*EVERY, at(reading.ALONE, "cache", 4500, label="CPU")],
            [
                "1 GPU: input-bound with sequential: training waits for input 90 % of the time (90 to 90); input-bound "
                "with everything: training waits for input 60 % of the time (59 to 61); training alone consumes "
                "10000 images/s; try more or faster CPUs, smaller images, or already decoded images"
            ],
        ),
        (
            [*EVERY, at(reading.ALONE, "cache", 50000, label="CPU")],
            ["; pipeline and training share CPUs or the link to the device"],
        ),
        (
            [eats(10000), *fed(sequential=2000, parallel_decode=6000, prefetch=9900, everything=9950)],
            [
                "input-bound with sequential: training waits for input 80 % of the time (",
                "; not input-bound with prefetch: ",
            ],
        ),
        (
            [eats(1000), *fed(sequential=995, everything=1002)],
            ["1 GPU: not input-bound with sequential: ", "; training alone consumes 1000 images/s"],
        ),
        (  # as seen: it waits 5 to 62 % of the time
            [eats(2600), at(reading.FED, "sequential", 1900, noise=0.35), *fed(prefetch=2590)],
            [
                "1 GPU: inconclusive with sequential: training waits for input 27 % of the time (",
                "; not input-bound with prefetch: training waits for input 0 % of the time",
            ],
        ),
        (
            [eats(1000), *fed(noise=0.3, sequential=950, everything=960)],
            ["inconclusive with sequential: ", "(0 to 33)"],
        ),
        ([eats(3400, spread_iqr=1.09), *SHAKY], ["inconclusive with parallel decode: "]),
    ],
)
def test_whether_training_is_input_bound(runs: list[Run], parts: list[str]) -> None:
    (text,) = reading.verdicts(runs)
    assert all(part in text for part in parts)


def test_virtual_failed_and_missing_runs_say_nothing() -> None:
    assert list(reading.verdicts([eats(1000), at(reading.FED, "sequential", 10, virtual=True)])) == []
    assert list(reading.verdicts(fed(sequential=10))) == []
    assert list(reading.ranking([eats(1000), at(reading.FED, "sequential", 10, throughput=None)])) == []


def test_knobs_are_ranked_by_what_they_bring() -> None:
    runs = [
        *(at(reading.ALONE, name, speed, label="CPU") for name, speed in [("sequential", 100), ("parallel map", 101)]),
        *(at(reading.ALONE, name, speed, label="CPU") for name, speed in [("parallel decode", 200), ("cache", 1000)]),
        at(reading.ALONE, "as TensorFlow tunes it", 75, label="CPU"),
    ]
    (text,) = reading.ranking(runs)
    assert text == (
        "options of the pipeline alone: parallel decode 1.98 times parallel map; cache 5.0 times parallel decode; "
        "as TensorFlow tunes it 0.75 times sequential; no clear effect: parallel map"
    )
    assert list(reading.ranking(SHAKY)) == ["options of the pipeline that feeds 1 GPU: no clear effect: prefetch"]
    (text,) = reading.ranking(fed(sequential=100, parallel_decode=300))
    assert text.startswith("options of the pipeline that feeds 1 GPU: parallel decode 3.0")
    assert text.endswith(" times sequential"), "the nearest that was measured"


# ------------------------------------------------------------------------------------------- for real


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
