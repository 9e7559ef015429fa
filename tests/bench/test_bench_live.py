"""`tfgpu bench matpow` as a user starts it: real processes, and the real TensorFlow over logical CPU devices."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from tests.bench.fake_worker import Clock, FakeWorker
from tests.bench.live import WORKER_PROCESS, Shared, SharedWorker, bench
from tests.healthy import MATRIX, healthy
from tests.render.pages import Page
from tests.tables import each
from tfgpu_doctor.bench.devices import Selection
from tfgpu_doctor.bench.plans.matpow import MatPow
from tfgpu_doctor.bench.results import BenchResult
from tfgpu_doctor.bench.runner.process import WorkerError
from tfgpu_doctor.bench.session import Session
from tfgpu_doctor.bench.statistics import StoppingRule
from tfgpu_doctor.render.outlines.bench import verdict

PATIENTS = Path(__file__).parents[1] / "patients"
TFGPU = [sys.executable, "-m", "tfgpu_doctor", "bench", "matpow"]


# ------------------------------------------------------------------------- without TensorFlow


@each(
    ("arguments", "message"),
    [
        (["--size", "10000"], "size 10000: a sample on the CPU would take about 110 s, too long for --deadline 5. Try"),
        (["--size", "1024,16384"], "Not run, for lack of time: N = 16384 in float32. Allow more time: --deadline"),
    ],
)
def test_a_run_that_was_asked_for_and_does_not_take_place_is_exit_code_3(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*WORKER_PROCESS, lambda _executable: FakeWorker(Clock(), 0.05))
    page = bench("matpow", *arguments, "--deadline", "5")
    assert page.exit_code == 3
    assert message in " ".join(page.output.split())
    assert bench("matpow", "--size", "1024,2048", "--deadline", "5").exit_code == 0


@each(
    ("patient", "why"),
    [
        ("import_error", "ImportError"),
        ("dies_of_a_signal", "the worker was killed by SIGILL"),
        ("exits", "the worker ended with exit code"),
    ],
)
def test_a_tensorflow_that_cannot_be_used(patient: str, why: str) -> None:
    done = bench("matpow", PYTHONPATH=str(PATIENTS / patient), PATIENT_SIGNAL="SIGILL")
    assert done.exit_code == 3
    assert f"cannot measure with {sys.executable}: {why}" in done.stderr
    assert f"Next: tfgpu doctor --python {sys.executable}" in done.stderr
    assert "Traceback" not in done.stderr


# ---------------------------------------------------------------------------- with TensorFlow


@pytest.fixture(scope="module")
def measured(shared: Shared, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One run over logical devices in two types: what it printed, and the file it wrote."""
    file = tmp_path_factory.mktemp("bench") / "result.json"
    arguments = ["--size", "96", "--virtual-gpus", "3", "--min-samples", "3", "--deadline", "0.2"]
    types = ["--dtype", "float32", "--dtype", "bfloat16"]
    page = file.with_suffix(".html")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*WORKER_PROCESS, shared)
        done = bench("matpow", *arguments, *types, "--output", str(file), "--html", str(page))
    return {"done": done, "file": file, "page": page}


@pytest.mark.tensorflow
def test_logical_devices_compute_and_are_verified(measured: dict[str, Any]) -> None:
    assert measured["done"].exit_code == 0, measured["done"].stderr
    result = msgspec.json.decode(measured["file"].read_bytes(), type=BenchResult)
    assert [f"{run.label} {run.dtype}" for run in result.runs] == [
        *("CPU float32", "3 virtual CPUs, terms float32", "3 virtual CPUs, rows float32"),
        *("CPU bfloat16", "3 virtual CPUs, terms bfloat16", "3 virtual CPUs, rows bfloat16"),
    ]
    for run in result.runs:
        assert run.verified is not None and run.verified.ok
        assert run.verified.residual is not None and 0 < run.verified.residual <= run.verified.tolerance
        assert run.verified.samples == len(run.samples_s) + 1
        assert set(run.placed_on) == set(run.devices)
        assert len(run.samples_s) >= 3
        assert {"import", "devices", "inputs", "to devices"} <= set(run.cold_start_s)
        assert (run.speedup_vs_1gpu, run.efficiency) == (None, None)
    one, terms, rows = result.runs[:3]
    assert terms.devices == rows.devices == ("/CPU:0", "/CPU:1", "/CPU:2")
    assert one.flop == rows.flop == 2 * 9 * 2 * 96**3
    assert terms.flop == 3 * 9 * 2 * 96**3
    assert result.software["tensorflow"]


@pytest.mark.tensorflow
def test_text_and_page_show_what_was_measured(measured: dict[str, Any]) -> None:
    text = measured["done"].stdout
    assert re.match(r"tfgpu bench matpow \S+, A\^10 and B\^10, 96 × 96\n", text)
    assert re.search("[✓!] CPU  float32", text)  # noisy where other programs run
    assert "✓ 3 virtual CPUs, rows  bfloat16  virtual: no speed" in text
    assert "TensorFlow lists no GPU: only the CPU is measured" in text
    assert "they test multi-device code, not speed" in " ".join(text.split())
    page = Page(measured["page"].read_text(encoding="utf-8"))
    result = msgspec.json.decode(measured["file"].read_bytes(), type=BenchResult)
    assert verdict(result) in page.text and "--virtual-gpus 3" in page.text


@pytest.mark.tensorflow
@pytest.mark.usefixtures("one_process")
def test_gpus_that_are_not_there(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    done = bench("matpow", "--gpus", "2", "--output", str(file))
    assert done.exit_code == 1
    said = done.stderr[done.stderr.index("tfgpu: 2") :]  # behind what a slow machine prints while it works
    assert said == "tfgpu: 2 GPUs requested, but TensorFlow lists no GPU (tfgpu doctor explains why)\n"
    assert not file.exists()


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
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    file = tmp_path / "result.json"
    arguments = ["--python", tensorflow_python, "--size", "256", "--min-samples", "1000", "--deadline", "600"]
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TMPDIR": str(temporary)}
    outputs = [str(tmp_path / word) if word.startswith("result") else word for word in others]
    with subprocess.Popen(
        [*TFGPU, *arguments, *outputs, "--output", str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**environ, "COLUMNS": "1000"},
    ) as process:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not (file.exists() and b'"samples_s": [\n' in file.read_bytes()):
            time.sleep(0.02)
        children = psutil.Process(process.pid).children(recursive=True)
        assert list(temporary.iterdir())
        process.send_signal(signal.Signals[name])
        stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == code, stderr
    said = [line for line in stderr.decode().splitlines() if line and not re.match("tfgpu: (after|1 run)", line)]
    kept = f"tfgpu: {file} has what was measured so far, and says that it is unfinished"
    texts = [path for path in outputs if path.startswith(str(tmp_path))]
    wrote = [f"tfgpu: wrote {path}" for path in texts]
    assert said == [*wrote, kept, *(["tfgpu: interrupted"] if name == "SIGINT" else [])]
    shown = [stdout.decode(), *(Path(path).read_text("utf-8") for path in texts)]
    if "json" in others:
        assert json.loads(stdout)["unfinished"] and json.loads(stdout)["runs"][0]["samples_s"]
    else:
        assert all("Unfinished: " in text and "FLOP/s" in text for text in shown)
    assert children
    assert psutil.wait_procs(children, timeout=10)[1] == []
    (run,) = msgspec.json.decode(file.read_bytes(), type=BenchResult).runs
    assert run.samples_s and run.throughput and run.stopped
    assert msgspec.json.decode(file.read_bytes(), type=BenchResult).unfinished
    assert {str(path) for path in tmp_path.iterdir()} == {str(file), str(temporary), *texts}
    assert not list(temporary.iterdir())


class Saboteur:
    """A real worker, one request of which is falsified: the parent believes what it asked for."""

    def __init__(self, worker: SharedWorker, change: dict[str, Any]) -> None:
        self._worker, self._change = worker, change

    def ask(self, timeout: float, **request: Any) -> dict[str, Any]:
        """Send another request than the parent meant."""
        return self._worker.ask(timeout, **{**request, **(self._change if request["do"] == "prepare" else {})})

    def log(self) -> str:
        """Nothing of interest."""
        return ""

    def close(self) -> None:
        """Leave it to others."""


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
    rule = StoppingRule(min_samples=3, deadline=1.0)
    plan = MatPow(sizes=(96,), selection=Selection(devices=("/CPU:0",)))
    session = Session(plan, MATRIX, healthy(), lambda: Saboteur(shared(), change), rule)
    if "devices" in change:
        with pytest.raises(WorkerError, match=why):  # soft placement is off
            session.run()
        return
    (run,) = session.run().runs
    assert run.failure is not None and run.failure.startswith(why)
    assert (run.throughput, run.median_s, run.samples_s) == (None, None, ())
    assert json.loads(msgspec.json.encode(run))["throughput"] is None
