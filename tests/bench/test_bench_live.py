"""`tfgpu bench` as a user starts it: real processes, and the real TensorFlow over logical CPU devices."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from tests.bench.fake_worker import Clock, FakeWorker
from tests.bench.live import WORKER_PROCESS, Shared, SharedWorker, bench, share
from tests.healthy import MATRIX, healthy
from tests.render.pages import Page
from tests.tables import each
from tfgpu_doctor.bench.devices import Selection
from tfgpu_doctor.bench.plans.matpow import MatPow
from tfgpu_doctor.bench.results import BenchResult
from tfgpu_doctor.bench.runner.process import WorkerError
from tfgpu_doctor.bench.runner.runner import Session
from tfgpu_doctor.bench.statistics import StoppingRule
from tfgpu_doctor.bench.workloads import transfer
from tfgpu_doctor.bench.workloads.input import ALONE, FEEDING
from tfgpu_doctor.render.outlines.bench import verdict

THREE = ("3 virtual CPUs, terms", "3 virtual CPUs, rows")
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


def real(arguments: str, file: Path) -> tuple[BenchResult, str]:
    """Measure with the real worker; what every result must hold holds. Returns it, and what was printed."""
    done = bench(*arguments.split(), "--min-samples", "3", "--output", str(file), "--html", str(file) + ".html")
    assert done.exit_code == 0, done.output
    result = msgspec.json.decode(file.read_bytes(), type=BenchResult)
    for run in result.runs:
        assert run.verified is not None and run.verified.ok and run.throughput and run.failure is None
        assert run.verified.samples == len(run.samples_s) + 1 > 1
        assert set(run.placed_on) == set(run.devices) and {"import", "devices"} <= set(run.cold_start_s)
        assert (run.speedup_vs_1gpu, run.efficiency) == (None, None)
        assert run.verified.residual is None or 0 <= run.verified.residual <= (run.verified.tolerance or 0)
        assert run.verified.residual != 0 or result.workload == "cnn"
    assert "Every result is verified." in " ".join(done.stdout.split()) and result.software["tensorflow"]
    return result, done.stdout


def points(result: BenchResult) -> list[str]:
    return [" ".join(map(str, (run.label, run.dtype, *run.parameters.values()))) for run in result.runs]


CPU_AND_TWO = ("CPU", "2 virtual CPUs, replicas")
PAIR = "virtual CPU 0 and 1 float32 CPU"
ROUTES = ("CPU float32 memory copy", f"{PAIR} 0 to CPU 1", f"{PAIR} 1 to CPU 0", "3 virtual CPUs float32 all-reduce")


@pytest.mark.tensorflow
@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize(
    ("arguments", "runs"),
    [
        (
            "matpow --size 96 --virtual-gpus 3 --dtype float32,bfloat16 --deadline 0.2",
            [f"{one} {dtype}" for dtype in ("float32", "bfloat16") for one in ("CPU", *THREE)],
        ),
        ("cnn --global-batch-size 16 --virtual-gpus 2 --deadline 0.5", [f"{one} float32" for one in CPU_AND_TWO]),
        (
            "inference --batch-size 1,4 --virtual-gpus 2 --deadline 0.4",
            ["CPU float32 1", "CPU float32 4", "2 virtual CPUs, replicas float32 4"],
        ),
        pytest.param(
            "inference --batch-size 4 --virtual-gpus 2 --deadline 0.4 --dtype mixed_bfloat16 --xla",
            [f"{one} mixed_bfloat16 4" for one in CPU_AND_TWO],
            marks=pytest.mark.full,
        ),
        pytest.param(
            "matpow --size 32,64,128 --spread rows --virtual-gpus 2 --deadline 0.5",
            [f"{one} float32 {size}" for size in (32, 64, 128) for one in ("CPU", "2 virtual CPUs, rows")],
            marks=pytest.mark.full,
        ),
        pytest.param(
            "input --batch-size 8 --images 16 --deadline 0.1",
            [
                *(f"CPU float32 pipeline alone {name}" for name in ALONE),
                "CPU float32 training alone data on the device",
                *(f"CPU float32 training fed {name}" for name in FEEDING if name != "prefetch to device"),
            ],
            marks=pytest.mark.full,
        ),
    ],
)
def test_every_workload_over_logical_devices(arguments: str, runs: list[str], tmp_path: Path) -> None:
    result, text = real(arguments, tmp_path / "result.json")
    assert points(result) == runs
    first, last = result.runs[0], result.runs[-1]
    assert first.verified and last.verified and first.throughput
    checks = [[check.name for check in run.verified.checks] for run in (first, last) if run.verified]
    if result.workload == "cnn":
        assert checks[0] == ["loss finite", "loss falls", "like float64", "same update"]
        assert checks[1][2:] == ["like one device", "same update", "replicas identical"]
        assert first.flop and last.flop and last.scaling == "strong" and last.step_name == "step"
        assert last.flop / last.steps == first.flop / first.steps and last.figures == (), (
            "virtual devices prove no speed"
        )
    if result.workload == "input":
        assert ("no image other pixels" in checks[0], "loss finite" in checks[0]) == (True, False)
        assert {"no image other pixels", "loss finite"} <= set(checks[1]) and first.throughput.unit == "images/s"
        assert result.title.startswith("16 synthetic JPEG images of ")
        assert any(text.startswith("options of the pipeline alone: ") for text in result.conclusions)
    if "rows" in arguments:
        assert "CPU, float32: " in text and "fastest at N = " in text
    if "96" in arguments:
        _, terms, rows = result.runs[:3]
        assert terms.devices == rows.devices == ("/CPU:0", "/CPU:1", "/CPU:2")
        assert first.flop == rows.flop == 2 * 9 * 2 * 96**3 and terms.flop == 3 * 9 * 2 * 96**3
        assert {"inputs", "to devices"} <= set(first.cold_start_s)
        assert re.match(r"tfgpu bench matpow \S+, A\^10 and B\^10, 96 × 96\n", text)
        assert re.search("[✓!] CPU  float32", text)  # noisy where other programs run
        assert "✓ 3 virtual CPUs, rows  bfloat16  virtual: no speed" in text
        assert "TensorFlow lists no GPU: only the CPU is measured" in text
        assert "they test multi-device code, not speed" in " ".join(text.split())
        page = Page((tmp_path / "result.json.html").read_text(encoding="utf-8"))
        assert verdict(result) in page.text and "--virtual-gpus 3" in page.text


@pytest.fixture(scope="module")
def alone(tensorflow_python: str) -> Iterator[Shared]:
    """A process of its own: reductions over devices share the keys of their collectives with trainings."""
    with share(tensorflow_python) as shared:
        yield shared


@pytest.mark.full
@pytest.mark.tensorflow
def test_every_route_of_logical_devices(alone: Shared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*WORKER_PROCESS, alone)
    arguments = "transfer --deadline 0.1 --size 4KiB,64KiB --virtual-gpus 3"
    result, _ = real(arguments, tmp_path / "result.json")
    assert points(result) == [f"{one} {size}" for one in ROUTES for size in (4096, 65536)]
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
