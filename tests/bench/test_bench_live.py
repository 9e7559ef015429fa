"""`tfgpu bench` as a user starts it: real processes, and the real TensorFlow over logical CPU devices."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import psutil
import pytest

from tests.bench.fake_worker import Clock, FakeWorker
from tests.bench.live import WORKER_PROCESS, Shared, bench, share
from tests.guard import eventually
from tests.healthy import MATRIX, healthy
from tests.render.pages import Page
from tests.tables import each, read_rows
from tests.tiers import usual
from tfgpu_doctor.bench.devices import Selection
from tfgpu_doctor.bench.plans.matpow import MatPow
from tfgpu_doctor.bench.results import BenchResult, Run, load_result
from tfgpu_doctor.bench.runner.process import Asked, Worker, WorkerError
from tfgpu_doctor.bench.runner.runner import Session
from tfgpu_doctor.bench.statistics import StoppingRule
from tfgpu_doctor.bench.workloads import transfer
from tfgpu_doctor.render.outlines.bench import verdict

PATIENTS = Path(__file__).parents[1] / "patients"


def test_a_run_that_was_asked_for_and_does_not_take_place_has_an_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfgpu_doctor.probes.examine.examine", lambda *_, **__: SimpleNamespace(facts=healthy()))
    monkeypatch.setattr(*WORKER_PROCESS, lambda _executable: FakeWorker(Clock(), 0.05))
    too_long = "a sample on the CPU would take about 110 s, too long for --deadline 5. Try"
    not_run = "Not run, for lack of time: N = 16384 in float32. Allow more time: --deadline"
    no_gpu = "2 GPUs requested, but TensorFlow lists no GPU: "
    for options, code, message, refused in (
        (("--size", "10000"), 3, too_long, True),
        (("--size", "1024,16384"), 3, not_run, False),
        (("--gpus", "2"), 1, no_gpu, True),
        (("--size", "1024,2048"), 0, "", False),
    ):
        file, cases = tmp_path / f"{options[1]}.json", tmp_path / f"{options[1]}.xml"
        page = bench("matpow", *options, "--deadline", "5", "--output", str(file), "--output", str(cases))
        assert page.exit_code == code and message in " ".join(page.output.split())
        assert (message in load_result(file.read_bytes(), "it").refused) is (refused or not message)
        assert ("<error" in cases.read_text("utf-8")) is (code > 0) and (page.stdout == "") is refused


@each(("patient", "why"), [("import_error", "ImportError"), ("dies_of_a_signal", "the worker was killed by SIGILL")])
def test_a_tensorflow_that_cannot_be_used(patient: str, why: str) -> None:
    done = bench("matpow", PYTHONPATH=str(PATIENTS / patient), PATIENT_SIGNAL="SIGILL")
    assert done.exit_code == 3
    assert f"cannot measure with {sys.executable}: {why}" in done.stderr
    assert f"Next: tfgpu doctor --python {sys.executable}" in done.stderr and "Traceback" not in done.stderr


def real(arguments: str, file: Path) -> tuple[BenchResult, str]:
    """Measure with the real worker; what every result must hold holds. Returns it, and what was printed."""
    done = bench(*arguments.split(), "--min-samples", "3", "--output", str(file))
    assert done.exit_code == 0, done.output
    result = msgspec.json.decode(file.read_bytes(), type=BenchResult)
    for run in result.runs:
        assert run.verified is not None and run.verified.ok and run.throughput and run.failure is None
        assert run.verified.samples == len(run.samples_s) + 1 > 1
        assert set(run.placed_on) == set(run.devices) and {"import", "devices"} <= set(run.cold_start_s)
        assert (run.speedup_vs_1gpu, run.efficiency) == (None, None)
        assert run.verified.residual is None or 0 <= run.verified.residual <= (run.verified.tolerance or 0)
        assert run.verified.residual != 0 or result.workload == "cnn"
    text = " ".join(done.stdout.split())
    assert "Every result is verified." in text and result.software["tensorflow"]
    return result, text


def points(result: BenchResult) -> list[str]:
    return [" ".join(map(str, (run.label, run.dtype, *run.parameters.values()))) for run in result.runs]


def checks(run: Run) -> list[str]:
    return [check.name for check in run.verified.checks] if run.verified else []


@pytest.mark.tensorflow
@pytest.mark.usefixtures("one_process")
def test_matrices_over_logical_devices(tmp_path: Path) -> None:
    html = tmp_path / "page.html"
    arguments = f"matpow --size 96 --virtual-gpus 3 --deadline 0.2 --html {html}"
    result, text = real(arguments, tmp_path / "result.json")
    assert points(result) == ["CPU float32", "3 virtual CPUs, terms float32", "3 virtual CPUs, rows float32"]
    cpu, terms, rows = result.runs
    assert terms.devices == rows.devices == ("/CPU:0", "/CPU:1", "/CPU:2")
    assert cpu.flop == rows.flop == 2 * 9 * 2 * 96**3 and terms.flop == 3 * 9 * 2 * 96**3
    assert {"inputs", "to devices"} <= set(cpu.cold_start_s)
    assert re.match(r"tfgpu bench matpow \S+, A\^10 and B\^10, 96 × 96, measured ", text)
    assert re.search("[✓!] CPU ", text)  # noisy where other programs run
    assert "✓ 3 virtual CPUs, rows shared virtual: no speed" in text
    assert "TensorFlow lists no GPU: only the CPU is measured" in text
    assert "they test multi-device code, not speed" in text
    page = Page(html.read_text(encoding="utf-8"))
    assert verdict(result) in page.text and "--virtual-gpus 3" in page.text


@pytest.mark.tensorflow
@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize("row", usual(read_rows(Path(__file__).with_name("live.yaml")), lambda row: row["daily"]))
def test_every_workload_over_logical_devices(row: dict[str, Any], tmp_path: Path) -> None:
    result, text = real(row["typed"], tmp_path / "result.json")
    assert points(result) == row["runs"]
    first, last = result.runs[0], result.runs[-1]
    if result.workload == "cnn":
        assert checks(first) == ["loss finite", "loss falls", "like float64", "same update"]
        assert checks(last)[2:] == ["like one device", "same update", "replicas identical"]
        assert last.figures == (), "virtual devices prove no speed"
    if result.workload == "input":
        assert ("no image other pixels" in checks(first), "loss finite" in checks(first)) == (True, False)
        assert {"no image other pixels", "loss finite"} <= set(checks(result.runs[-1]))
        assert first.throughput and first.throughput.unit == "images/s"
        assert any(text.startswith("options of the pipeline alone: ") for text in result.conclusions)
    if result.workload == "matpow":
        assert "CPU, bfloat16: " in text and "fastest at N = " in text


@pytest.fixture(scope="module")
def alone(tensorflow_python: str) -> Iterator[Shared]:
    """A process of its own: reductions over devices share the keys of their collectives with trainings."""
    with share(tensorflow_python) as shared:
        yield shared


@pytest.mark.full
@pytest.mark.tensorflow
def test_every_route_of_logical_devices(alone: Shared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*WORKER_PROCESS, alone)
    result, _ = real("transfer --deadline 0.1 --size 4KiB,64KiB --virtual-gpus 3", tmp_path / "result.json")
    pair = "virtual CPU 0 and 1 float32"
    routes = ("memory copy", "CPU 0 to CPU 1", "CPU 1 to CPU 0", "all-reduce")
    runs = tuple(zip(("CPU float32", pair, pair, "3 virtual CPUs float32"), routes, strict=True))
    assert points(result) == [f"{on} {route} {size}" for on, route in runs for size in (4096, 65536)]
    assert result.runs[0].throughput and result.runs[0].throughput.unit == "B/s" and not result.runs[0].virtual


@pytest.mark.full  # by wall time
@pytest.mark.tensorflow
@each("route", [transfer.PEER, transfer.WITHIN])
def test_time_grows_with_bytes(route: str, alone: Shared) -> None:
    """What is elided takes the same time for any size; here 256 times as many bytes have to take 8 times as long."""
    worker, seconds = alone(), []
    devices = ["/CPU:0", "/CPU:1"] if route == transfer.PEER else ["/CPU:0"]
    more = {"dtype": "float32", "devices": devices, "gpus": [], "spread": "together", "virtual": True}
    for count in (2**18, 2**26):
        parameters = {"route": route, "bytes": count}
        worker.ask(120, do="prepare", workload="transfer", parameters=parameters, virtual_memory_mib=256, **more)
        worker.ask(60, do="sample", count=2, steps=1)
        assert transfer.judge(worker.ask(60, do="verify"), "float32", {}).ok
        answer = worker.ask(60, do="sample", count=7, steps=1)
        assert answer["rechecked"] == [] and answer["misplaced"] is None
        seconds.append(min(answer["samples"]))
    assert seconds[1] > 8 * seconds[0]


@pytest.mark.full
@pytest.mark.tensorflow
@pytest.mark.skipif(os.name != "posix", reason="signals")
@each(
    ("name", "code", "others"),
    [
        ("SIGINT", 130, ["--output", "result.txt", "--output", "result.md"]),
        ("SIGTERM", 143, ["--format", "json", "--format", "json", "--output", "-"]),
        ("SIGHUP", 129, []),
    ],
)
def test_a_signal_keeps_what_was_measured_and_leaves_no_process(
    name: str, code: int, others: list[str], tensorflow_python: str, tmp_path: Path
) -> None:
    file, temporary = tmp_path / "result.json", tmp_path / "temporary"
    temporary.mkdir()
    arguments = ["--python", tensorflow_python, "--size", "256", "--min-samples", "1000", "--deadline", "600"]
    outputs = [str(tmp_path / word) if word.startswith("result") else word for word in others]
    command = [sys.executable, "-m", "tfgpu_doctor", "bench", "matpow", *arguments, *outputs, "--output", str(file)]
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TMPDIR": str(temporary), "COLUMNS": "1000"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ) as process:
        assert eventually(lambda: file.exists() and b'"samples_s": [\n' in file.read_bytes(), 120)
        children = psutil.Process(process.pid).children(recursive=True)
        assert children and list(temporary.iterdir())
        process.send_signal(signal.Signals[name])
        stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == code, stderr
    said = [line for line in stderr.decode().splitlines() if line and not re.match("tfgpu: (after|1 run)", line)]
    kept = f"tfgpu: {file} has what was measured so far, and says that it is unfinished"
    texts = [path for path in outputs if path.startswith(str(tmp_path))]
    interrupted = ["tfgpu: interrupted"] if name == "SIGINT" else []
    assert said == [*(f"tfgpu: wrote {path}" for path in texts), kept, *interrupted]
    if "json" in others:
        assert json.loads(stdout)["unfinished"] and json.loads(stdout)["runs"][0]["samples_s"]
    else:
        shown = [stdout.decode(), *(Path(path).read_text("utf-8") for path in texts)]
        assert all("Unfinished: " in text and "FLOP/s" in text for text in shown)
    assert psutil.wait_procs(children, timeout=10)[1] == []
    result = msgspec.json.decode(file.read_bytes(), type=BenchResult)
    (run,) = result.runs
    assert result.unfinished and run.samples_s and run.throughput and run.stopped
    assert {str(path) for path in tmp_path.iterdir()} == {str(file), str(temporary), *texts}
    assert not list(temporary.iterdir())


@pytest.mark.tensorflow
@each(
    ("change", "why"),
    [
        ({"parameters": {"size": 96, "power": 9}}, "the result is wrong"),
        ({"dtype": "bfloat16"}, "the result is wrong"),
        ({"devices": ["/GPU:0"]}, "GPU:0"),
    ],
)
def test_what_is_not_what_was_asked_for_reports_no_speed(change: dict[str, Any], why: str, shared: Shared) -> None:
    """The preparation of a real worker is falsified, and the parent believes what it asked for."""

    def ask(worker: Worker, timeout: float, **request: Any) -> dict[str, Any]:
        return worker.ask(timeout, **{**request, **(change if request["do"] == "prepare" else {})})

    rule = StoppingRule(min_samples=3, deadline=1.0)
    plan = MatPow(sizes=(96,), selection=Selection(devices=("/CPU:0",)))
    session = Session(plan, MATRIX, healthy(), lambda: Asked(shared(), ask), rule)
    if "devices" in change:
        with pytest.raises(WorkerError, match=why):  # soft placement is off
            session.run()
        return
    (run,) = session.run().runs
    assert run.failure is not None and run.failure.startswith(why)
    assert (run.throughput, run.median_s, run.samples_s) == (None, None, ())
