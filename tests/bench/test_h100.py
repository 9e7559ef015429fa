"""What a real H100 gave: the stopping rule on its samples, and its saved results judged and shown again."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from tests.bench.fake_worker import Clock, FakeWorker
from tests.bench.test_runner import CPU, job, runs
from tests.cli.runner import tfgpu
from tests.tables import each
from tfgpu_doctor.bench.results import BenchResult, Run, load_result
from tfgpu_doctor.bench.statistics import StoppingRule

GOLDEN = Path(__file__).parent / "golden"
H100 = Path(__file__).parents[1] / "captures" / "h100" / "bench"


@cache
def saved(name: str) -> BenchResult:
    return load_result((H100 / f"{name}.json").read_bytes(), name)


def replayed(recorded: Run, deadline: float) -> Run:
    """Take the samples that a run recorded once more, from the first on again where they come to an end."""
    steps = [sample / recorded.steps for sample in recorded.samples_s]
    worker, rule = FakeWorker(Clock(), steps), StoppingRule(deadline=deadline)
    (again,) = runs([CPU], [worker], rule=rule, of=job(blocks=recorded.steps > 1))
    return again


# seconds of samples, where all runs went on to the deadline of 8 s, apart from that in float32
TAKES = {"float32": 0.74, "tf32": 1.21, "bfloat16": 1.49, "float16": 0.69}


@each("dtype", TAKES)
def test_a_run_on_a_gpu_takes_a_second_and_gives_the_same_speed(dtype: str) -> None:
    recorded = next(one for one in saved("matpow").runs if one.label == "1 GPU" and one.dtype == dtype)
    again = replayed(recorded, 20.0)
    assert again.stopped is None and again.doubts == ()
    assert sum(again.samples_s) == pytest.approx(TAKES[dtype], abs=0.01)
    assert again.median_s == pytest.approx(recorded.median_s, rel=0.01)


def test_what_varies_by_a_fifth_goes_on_to_the_deadline_and_is_not_marked() -> None:
    recorded = next(one for one in saved("cnn").runs if one.label == "1 GPU")
    again = replayed(recorded, 10.0)
    assert again.stopped and again.stopped.startswith("interval ±3") and again.doubts == ()
    assert 10 <= sum(again.samples_s) < 10.3


@each("name", ["matpow", "cnn"])
def test_which_results_of_a_real_card_are_doubtful(name: str) -> None:
    runs = saved(name).runs
    marked = {f"{one.label} {one.dtype}": one.doubts for one in runs if one.doubts}
    assert not any("GPU" in label for label in marked)
    assert marked == (
        {
            "CPU float32": ("only 5 samples",),
            "CPU bfloat16": ("95 % interval ±17 %",),
            "CPU float16": ("only 4 samples",),
        }
        if name == "matpow"
        else {}
    )


def test_what_limits_a_small_network_is_said_first_with_xla_as_the_first_remedy() -> None:
    gpu = saved("cnn").runs[1]
    assert gpu.advice[0] == (
        "probably limited by kernel launches (3 % of peak, 169 of 700 W): try --xla or a larger --batch-size"
    )


@each("name", ["matpow", "cnn"])
@each("form", ["text", "markdown"])
def test_golden(name: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = tfgpu("bench", "show", str(H100 / f"{name}.json"), "--format", form).stdout
    file = GOLDEN / f"h100-{name}.{'md' if form == 'markdown' else 'txt'}"
    if os.environ.get("TFGPU_UPDATE_GOLDEN"):
        file.write_text(shown, encoding="utf-8")
    assert shown == file.read_text(encoding="utf-8")
