"""A saved result is believed once it was read; so reading refuses what cannot be; what a real H100 gave."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import msgspec
import pytest

from tests.bench.fake_worker import Clock, FakeWorker
from tests.bench.samples import LARGE, four, result, run, watched
from tests.bench.test_runner import CPU, job, runs
from tests.cli.runner import tfgpu
from tests.render.showing import check_goldens
from tests.tables import each, read_rows
from tfgpu_doctor.bench.results import BenchResult, Run, load_result
from tfgpu_doctor.bench.statistics import StoppingRule
from tfgpu_doctor.facts.report import ReportError
from tfgpu_doctor.facts.schemas import FOLDER
from tfgpu_doctor.redact.redaction import redact
from tfgpu_doctor.render.html.bench import render

# an edit of the second run → what the message says of it
REFUSED = read_rows(Path(__file__).with_name("rows.yaml"))["saved"]


@each("name", REFUSED)
def test_what_cannot_be_is_refused_with_its_place(name: str) -> None:
    changes, why = REFUSED[name]
    tree = json.loads(four().to_json())
    for part, change in changes.items():
        (tree["runs"][1] if part == "run" else tree["runs"][1][part]).update(change)
    with pytest.raises(ReportError) as refused:
        load_result(json.dumps(tree).encode(), "result.json")
    assert str(refused.value).startswith("result.json is not a valid bench result: ") and why in str(refused.value)


def test_every_number_of_a_run_has_bounds() -> None:
    """A field that is added without them would let any number through."""
    records = msgspec.json.schema(BenchResult)["$defs"]
    del records["Verified"]["properties"]["residual"]  # a wrong result may be off by any factor
    ours = ("Run", "Throughput", "Ratio", "Verified", "Figure", "GpuTelemetry")
    free = [
        name for name in ours if re.search(r'"type": "(number|integer)"[,}](?! "\w*[mM])', json.dumps(records[name]))
    ]
    assert free == []


@each("name", LARGE)
def test_what_tfgpu_measures_is_read_again(name: str) -> None:
    assert load_result(LARGE[name]().to_json(), "result.json") == LARGE[name]()


def test_json_is_as_its_schema() -> None:
    data = json.loads(four().to_json())
    schema = json.loads((FOLDER / "bench-1.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(data)
    for change in ({"schema": "tfgpu.bench/2"}, {"runs": [{"label": "x"}]}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(json.dumps({**data, **change}), type=BenchResult)


def test_a_page_of_many_runs_draws_the_first_ones() -> None:
    runs = [run("1 GPU", 0.05, gpu=watched(1), parameters={"size": 256 + place}) for place in range(50)]
    page = render(redact(result(*runs)))
    assert page.count("<rect ") == 12 and "The first 12 of 50 runs are drawn; the table has all of them." in page
    assert page.count("1 GPU, size 280<") >= 2  # in every table


GOLDEN = Path(__file__).parent / "golden"
H100 = Path(__file__).parents[1] / "captures" / "h100" / "bench"


# seconds of samples, where all runs went on to the deadline of 8 s, apart from that in float32
TAKES = {"float32": 0.74, "tf32": 1.21, "bfloat16": 1.49, "float16": 0.69}


def replayed(name: str, dtype: str, deadline: float) -> tuple[Run, Run]:
    """A run of a GPU, and what comes of its samples once more, from the first on again where they come to an end."""
    recorded = next(
        one
        for one in load_result((H100 / f"{name}.json").read_bytes(), name).runs
        if (one.label, one.dtype) == ("1 GPU", dtype)
    )
    steps = [sample / recorded.steps for sample in recorded.samples_s]
    worker, rule = FakeWorker(Clock(), steps), StoppingRule(deadline=deadline)
    (again,) = runs([CPU], [worker], rule=rule, of=job(blocks=recorded.steps > 1))
    return recorded, again


@each("dtype", TAKES)
def test_a_run_on_a_gpu_takes_a_second_and_gives_the_same_speed(dtype: str) -> None:
    recorded, again = replayed("matpow", dtype, 20.0)
    assert again.stopped is None and again.doubts == ()
    assert sum(again.samples_s) == pytest.approx(TAKES[dtype], abs=0.01)
    assert again.median_s == pytest.approx(recorded.median_s, rel=0.01)


def test_what_varies_by_a_fifth_goes_on_to_the_deadline_and_is_not_marked() -> None:
    _, again = replayed("cnn", "float32", 10.0)
    assert again.stopped and again.stopped.startswith("interval ±3") and again.doubts == ()
    assert 10 <= sum(again.samples_s) < 10.3


FORMS = {"txt": "text", "md": "markdown"}


@each(("name", "ending"), [(name, ending) for name in ("matpow", "cnn") for ending in FORMS])
def test_golden(name: str, ending: str) -> None:
    shown = tfgpu("bench", "show", str(H100 / f"{name}.json"), "--format", FORMS[ending]).stdout
    check_goldens({f"h100-{name}.{ending}": shown}, GOLDEN)
