"""`tfgpu bench input`, the parent's side: which runs, and what they say beside each other. No process, no time."""

from __future__ import annotations

import io
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.bench.fake_worker import FakeWorker
from tests.bench.samples import run
from tests.bench.test_matpow import QUICK, Workers
from tests.healthy import MATRIX, healthy, known, spoil
from tests.tables import each
from tfgpu_doctor.bench.devices import Selection
from tfgpu_doctor.bench.plans import input as reading
from tfgpu_doctor.bench.plans.input import Input
from tfgpu_doctor.bench.plans.workload_size import TooLargeError
from tfgpu_doctor.bench.results import BenchResult, Run, Throughput
from tfgpu_doctor.bench.runner.process import WorkerError
from tfgpu_doctor.bench.session import CannotRunError, Session
from tfgpu_doctor.bench.workloads import input
from tfgpu_doctor.bench.workloads import input as workload
from tfgpu_doctor.bench.workloads.input import ALONE, FEEDING, PIPELINES
from tfgpu_doctor.render.console import console_for
from tfgpu_doctor.render.formats import renderer

render = renderer("text", "bench", {})

NONE_WRONG = {"missing": 0, "more than once": 0, "other pixels": 0, "other shape": 0}
RIGHT: dict[str, Any] = {"images": 32, **NONE_WRONG, "losses": [0.7]}


@pytest.fixture(autouse=True)
def plenty_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the machine has on which these tests run."""
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=64 * 2**30))


class Feeder(FakeWorker):
    """Answers as a worker with pipelines does; the folder that it is asked for exists meanwhile."""

    def __init__(self, *arguments: Any, answer: dict[str, Any] = RIGHT, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.answer = answer
        self.folders: list[Path] = []
        self.prepared: list[dict[str, Any]] = []

    def _reference(self, request: dict[str, Any]) -> dict[str, Any]:
        folder = Path(request["folder"])
        if not request["make"]:
            return {}
        self.folders.append(folder)
        for index in range(request["count"]):
            (folder / f"{index}.jpg").write_bytes(b"x" * 100)
        return {}

    def _prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        self.prepared.append(request["parameters"])
        return super()._prepare(request)

    def _verify(self, _request: dict[str, Any]) -> dict[str, Any]:
        return dict(self.answer)


class Feeders(Workers):
    """Starts them."""

    def __call__(self) -> FakeWorker:
        self.started.append(Feeder(self.clock, gpus=self.gpus, **self.options))
        return self.started[-1]


def bench(
    workers: Feeders, environment: Any = None, plan: dict[str, Any] | None = None, **selected: Any
) -> BenchResult:
    found = Input(**{"model": "mnist", "images": 32, "selection": Selection(**selected), **(plan or {})})
    return Session(found, MATRIX, environment or healthy(), workers, QUICK).run()


def named(found: BenchResult) -> list[tuple[str, str, str]]:
    return [(one.label, str(one.parameters["measured"]), str(one.parameters["input"])) for one in found.runs]


# ------------------------------------------------------------------------------------------- what is run


def test_pipelines_then_the_training_then_both() -> None:
    workers = Feeders()
    found = bench(workers)
    assert named(found) == [
        *(("CPU", "pipeline alone", name) for name in ALONE),
        ("CPU", "training alone", "data on the device"),
        *(("CPU", "training fed", name) for name in FEEDING if name != "prefetch to device"),
    ]
    assert len(workers.started) == len(named(found)), "each has a process, and they take turns"
    assert all(worker.closed for worker in workers.started)
    (folder,) = workers.started[0].folders  # type: ignore[attr-defined]
    assert not folder.exists(), "the images are removed"
    assert found.title == "32 synthetic JPEG images of 0.1 kB into mnist, batches of 256"


def test_the_verdict_stands_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    found = bench(Feeders())
    assert found.conclusions[0].startswith("CPU: not input-bound")  # the fake worker takes the same time for all
    stream = io.StringIO()
    render(found, console_for(stream))
    assert found.conclusions[0] in " ".join(stream.getvalue().rpartition("\n✓")[2].split())
    assert any("page cache" in note for note in found.notes)


def test_a_gpu_is_also_fed_in_advance_and_pipelines_stay_on_the_cpu() -> None:
    workers = Feeders(gpus=1)
    found = bench(workers, devices=("/GPU:0",))
    fed = [name for label, measured, name in named(found) if measured == "training fed"]
    assert fed == list(FEEDING)
    assert {label for label, measured, _ in named(found) if measured == "pipeline alone"} == {"CPU"}
    assert {label for label, measured, _ in named(found) if measured != "pipeline alone"} == {"1 GPU"}


def test_several_gpus_take_their_shares_of_one_pipeline() -> None:
    found = bench(Feeders(gpus=2), gpus=2, explicit=True)
    both = [(measured, name) for label, measured, name in named(found) if label == "2 GPUs"]
    assert both == [
        ("training alone", "data on the device"),
        ("training fed", "sequential"),
        ("training fed", "everything"),
    ]
    one = next(one for one in found.runs if one.label == "2 GPUs")
    assert one.throughput and one.median_s
    assert one.throughput.value == pytest.approx(2 * 4 * 256 * one.steps / one.median_s)
    assert one.scaling == "weak"


def test_flop_are_those_of_the_training() -> None:
    found = bench(Feeders(), plan={"batch": 8})
    alone = next(one for one in found.runs if one.parameters["measured"] == "training alone")
    assert alone.flop == workload.flop("mnist", 32) * alone.steps
    assert found.runs[0].flop is None


def test_the_type_is_that_of_the_training() -> None:
    found = bench(Feeders(gpus=1), plan={"dtypes": ("tf32",)})
    assert {(one.label, one.dtype) for one in found.runs} == {("CPU", "float32"), ("1 GPU", "tf32")}


def test_the_users_own_folder_is_read_and_left_alone(tmp_path: Path) -> None:
    for index in range(20):
        (tmp_path / f"{index:02}.JPG").write_bytes(b"x" * 3000)
    workers = Feeders()
    found = bench(workers, plan={"folder": str(tmp_path), "images": 512})
    assert found.title.startswith("20 of your images of 3 kB into mnist")
    assert workers.started[0].asked.count("reference") == 1  # whether they can be decoded
    assert len(list(tmp_path.iterdir())) == 20
    assert found.parameters["dataset"] == "folder" and str(tmp_path) not in str(found.parameters)


def test_an_image_that_cannot_be_decoded_ends_it(tmp_path: Path) -> None:
    (tmp_path / "3.jpg").write_bytes(b"x")

    def trouble(verb: str, _sample: int) -> None:
        if verb == "reference":
            raise WorkerError("ValueError: 3.jpg in the data set cannot be decoded")

    workers = Feeders(trouble=trouble)
    with pytest.raises(CannotRunError, match=r"^3\.jpg in the data set cannot be decoded$"):
        bench(workers, plan={"folder": str(tmp_path)})
    assert all(worker.closed for worker in workers.started)


def test_without_memory_for_all_one_process_measures_one_after_the_other() -> None:
    small = spoil(healthy(), {"host.memory_limit": known(3 * 2**30)})
    workers = Feeders()
    found = bench(workers, small, {"batch": 8})
    assert len(workers.started) == 2 and len(found.runs) == len(ALONE) + 1 + len(FEEDING) - 1
    assert any("one after the other, for lack of memory" in note for note in found.notes)
    assert not any("one after the other" in note for note in bench(Feeders(), plan={"batch": 8}).notes)


def test_what_does_not_fit() -> None:
    tiny = spoil(healthy(), {"host.memory_limit": known(2**30)})
    with pytest.raises(TooLargeError, match=r"400000 decoded images of cifar .* of the host's memory, of which"):
        bench(Feeders(), tiny, {"model": "cifar", "images": 400_000})


@each("name", list(NONE_WRONG))
def test_images_that_are_not_right_report_no_speed(name: str) -> None:
    workers = Feeders(answer={**RIGHT, name: 2})
    one = bench(workers).runs[0]
    assert one.failure == f"the result is wrong: failed: no image {name} (2 of 32)"
    assert one.throughput is None


def test_losses_must_be_numbers() -> None:
    assert workload.judge({"images": None, "losses": [0.5, 0.6]}, "float32", {}).ok
    verdict = workload.judge({"images": None, "losses": [0.5, None]}, "float32", {})
    assert (verdict.ok, verdict.why) == (False, "failed: loss finite (1 of 2)")


# ------------------------------------------------------------------------------------------- images in a folder


def test_images_are_found_in_the_order_of_their_paths(tmp_path: Path) -> None:
    for name in ("b/2.png", "b/1.jpeg", "a/9.bmp", "z.jpg", "a/readme.txt", "b/c/0.JPG"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    found = [Path(file).relative_to(tmp_path).as_posix() for file in input.find(str(tmp_path), 100)]
    assert found == ["z.jpg", "a/9.bmp", "b/1.jpeg", "b/2.png", "b/c/0.JPG"]
    assert len(input.find(str(tmp_path), 2)) == 2
    assert input.find(str(tmp_path / "nothing"), 5) == []
    (tmp_path / "odd" / "folder.jpg").mkdir(parents=True)
    os.mkfifo(tmp_path / "odd" / "pipe.jpg")
    assert input.find(str(tmp_path / "odd"), 5) == [], "reading a pipe would wait for ever"


def test_every_pipeline_has_its_base_and_is_used() -> None:
    assert {one.base for one in PIPELINES.values()} <= {None, *PIPELINES}
    assert {*ALONE, *FEEDING} == set(PIPELINES)
    assert PIPELINES["sequential"].base is None


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


def test_input_bound_with_every_pipeline() -> None:
    (text,) = reading.verdicts([eats(10000), *fed(sequential=1000, everything=4000)])
    assert text == (
        "1 GPU: input-bound with every pipeline; training alone consumes 10000 images/s, and 4000 images/s "
        "with everything: training waits for input 60 % of the time (59 to 61)"
    )


def test_the_simplest_pipeline_that_is_enough_is_named() -> None:
    (text,) = reading.verdicts(
        [eats(10000), *fed(sequential=2000, parallel_decode=6000, prefetch=9900, everything=9950)]
    )
    assert (
        "input-bound with sequential: training waits for input 80 % of the time; not with prefetch: training waits for "
        "input 1 %" in text
    )


def test_not_input_bound() -> None:
    (text,) = reading.verdicts([eats(1000), *fed(sequential=995, everything=1002)])
    assert text.startswith("1 GPU: not input-bound, not even with sequential; training alone consumes 1000 images/s")


def test_a_pipeline_whose_interval_is_wide_is_not_said_to_be_enough() -> None:
    """As seen: training alone consumes 2600 images/s, fed by sequential 1900; it waits 5 to 62 % of the time."""
    shaky = at(reading.FED, "sequential", 1900, noise=0.35)
    (text,) = reading.verdicts([eats(2600), shaky, *fed(prefetch=2590)])
    assert text.startswith("1 GPU: inconclusive with sequential: training waits for input 27 % of the time (")
    assert "; not input-bound with prefetch: training waits for input 0 % of the time" in text


def test_noise_is_no_verdict() -> None:
    (text,) = reading.verdicts([eats(1000), *fed(noise=0.3, sequential=950, everything=960)])
    assert "inconclusive whether input-bound" in text and "(0 to 33)" in text


def test_virtual_failed_and_missing_runs_say_nothing() -> None:
    assert list(reading.verdicts([eats(1000), at(reading.FED, "sequential", 10, virtual=True)])) == []
    assert list(reading.verdicts(fed(sequential=10))) == []
    assert list(reading.ranking([eats(1000), at(reading.FED, "sequential", 10, throughput=None)])) == []


def test_knobs_are_ranked_by_what_they_bring() -> None:
    runs = [
        *(at(reading.ALONE, name, speed, label="CPU") for name, speed in [("sequential", 100), ("parallel map", 101)]),
        *(at(reading.ALONE, name, speed, label="CPU") for name, speed in [("parallel decode", 200), ("cache", 1000)]),
        at(reading.ALONE, "batch before map", 150, label="CPU"),
    ]
    (text,) = reading.ranking(runs)
    assert text == (
        "options of the pipeline alone: cache 5.0 times (4.9 to 5.1) over parallel decode; "
        "parallel decode 1.98 times (1.94 to 2.02) over parallel map; "
        "batch before map is slower: 0.75 times (0.74 to 0.77) over parallel decode; no clear effect: parallel map"
    )


def test_what_is_within_the_spread_of_the_samples_is_no_effect() -> None:
    """Neighbours on the machine make intervals too narrow: seen at load 8 on 2 CPUs, "prefetch slows down"."""
    shaky = [
        at(reading.FED, "parallel decode", 2100, spread_iqr=0.38),
        at(reading.FED, "prefetch", 1700, spread_iqr=0.21),
    ]
    assert list(reading.ranking(shaky)) == ["options of the pipeline that feeds 1 GPU: no clear effect: prefetch"]
    alone = eats(3400, spread_iqr=1.09)
    (text,) = reading.verdicts([alone, *shaky])
    assert "inconclusive whether input-bound" in text
    assert list(reading.advice(shaky[1], [alone, *shaky])) == []


def test_a_pipeline_is_compared_with_the_nearest_that_was_measured() -> None:
    (text,) = reading.ranking(fed(sequential=100, parallel_decode=300))
    assert text.startswith("options of the pipeline that feeds 1 GPU: parallel decode 3.0") and text.endswith(
        "over sequential"
    )


def test_advice() -> None:
    slow, best = fed(sequential=1000, everything=4000)
    runs = [eats(10000), slow, best, at(reading.ALONE, "cache", 4500, label="CPU")]
    assert next(reading.advice(slow, runs)).startswith("training waits for input 90 % of the time: try everything, 4.0")
    assert next(reading.advice(best, runs)) == (
        "training waits for input 60 % of the time (59 to 61): the best pipeline alone gives 4500 images/s; "
        "try more or faster CPUs, smaller images, or already decoded images"
    )
    quick = [*runs[:3], at(reading.ALONE, "cache", 50000, label="CPU")]
    assert next(reading.advice(best, quick)).endswith("pipeline and training share CPUs or the link to the device")
    assert list(reading.advice(runs[0], runs)) == list(reading.advice(runs[3], runs)) == []
    assert list(reading.advice(*[(one := fed(prefetch=9900)[0]), [*runs, one]])) == []
