"""How cases are driven: turns, the stopping rule, trouble of every kind, telemetry; and worker processes."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from tests.bench.fake_worker import QUICK, Clock, FakeWorker
from tests.bench.fake_worker import Workers as Planned
from tests.guard import eventually
from tests.healthy import MATRIX, healthy
from tests.tables import each, read_rows
from tfgpu_doctor.bench.devices import Case, Job
from tfgpu_doctor.bench.plans.base import NoRoomError, PlanBase
from tfgpu_doctor.bench.plans.inference import Inference
from tfgpu_doctor.bench.plans.matpow import MatPow
from tfgpu_doctor.bench.plans.training import Cnn, Gan
from tfgpu_doctor.bench.results import Figure, Run
from tfgpu_doctor.bench.runner import runner, telemetry
from tfgpu_doctor.bench.runner.process import WorkerError, WorkerProcess, Workers
from tfgpu_doctor.bench.runner.runner import Measurement, Session, Setting, measure, to_run
from tfgpu_doctor.bench.runner.telemetry import Telemetry, bus_ids, busy_seconds, utilization
from tfgpu_doctor.bench.statistics import StoppingRule
from tfgpu_doctor.bench.workloads import cnn, gan, inference, input, matpow, transfer

CPU = Case("CPU", ("/CPU:0",), ())
GPU = Case("1 GPU", ("/GPU:0",), (0,))
VIRTUAL = Case("2 virtual CPUs, rows", ("/CPU:0", "/CPU:1"), (), "rows", True)
RULE = StoppingRule(deadline=30.0)
ROWS = read_rows(Path(__file__).with_name("rows.yaml"))
RESTLESS = (0.1, 0.3)  # two modes: the interval of the median reaches from one to the other, however many samples


def job(case: Case = CPU, dtype: str = "float32", **options: Any) -> Job:
    parameters, work = {"size": 1024, "power": 10}, 1e9 * case.terms
    return Job(case, "matpow", parameters, case.dtype(dtype), "FLOP/s", work, matpow.judge, flop=work, **options)


def runs(
    cases: Sequence[Case],
    workers: Sequence[FakeWorker],
    *,
    rule: StoppingRule = RULE,
    dtype: str = "float32",
    of: Job | None = None,
    **options: Any,
) -> list[Run]:
    waiting = list(workers)
    group = [replace(of, case=case) if of else job(case, dtype) for case in cases]
    with Workers(lambda: waiting.pop(0)) as alive:
        shown = {name: options.pop(name) for name in ("progress", "save") if name in options}
        measured = measure(group, Setting(alive, rule, clock=workers[0].clock, **options), **shown)
        assert all(worker.closed for worker in workers if worker.asked)
    return [to_run(one) for one in measured]


def one(worker: FakeWorker, **options: Any) -> Run:
    (found,) = runs([options.pop("case", CPU)], [worker], **options)
    return found


class Odd(FakeWorker):
    """Has trouble with the requests of a row, once it took more than so many samples."""

    def __init__(self, seconds: float | list[float] = 0.1, after: int = -1, **trouble: Any) -> None:
        super().__init__(Clock(), seconds, self._odd)
        self.after, self.odd = after, trouble

    def _odd(self, verb: str, sample: int) -> dict[str, Any] | None:
        found = self.odd.get(verb) if sample > self.after else None
        if isinstance(found, str):
            raise WorkerError(found)
        return found


def told(run: Run) -> str:
    """What a run says of its samples, its speed and its failure."""
    took = f"{len(run.warmup_s)} + {len(run.samples_s)} samples, {sum(run.samples_s):.1f} s"
    if run.throughput is None:
        return f"{took}: {run.failure}"
    speed = f"{run.throughput.value:.3g} FLOP/s in {run.computed_in}, verified {run.verified and run.verified.samples}"
    return "; ".join([f"{took}: {speed} times", *filter(None, [run.stopped]), *run.doubts])


@each(("name", "how", "text"), read_rows(Path(__file__).with_name("runs.yaml")))
def test_how_a_run_ends(name: str, how: dict[str, Any], text: str) -> None:
    case = {"CPU": CPU, "GPU": GPU, "virtual": VIRTUAL}[how.get("on_a", "CPU")]
    work = job(farewell=True) if "farewell" in how.get("worker", {}) else None
    found = one(Odd(**how.get("worker", {})), case=case, of=work, **how.get("options", {}))
    assert told(found) == text
    assert (found.median_s is None) is (found.throughput is None)
    assert found.verified is None or found.verified.ok is ("the result is wrong" not in text)


def test_each_of_several_cases_has_its_own_deadline() -> None:
    """Four that never settle take 4 × 30 s: none is left out because others needed long."""
    clock = Clock()
    restless = [FakeWorker(clock, RESTLESS) for _ in range(4)]
    cases = [replace(CPU, label=f"CPU {number}") for number in range(4)]
    shown: list[tuple[float, float]] = []
    show = lambda _, over: shown.append((clock.now, over))  # noqa: E731 - with the time
    found = runs(cases, restless, progress=show)
    assert 120 <= clock.now < 124
    assert all(one.throughput and one.stopped and 30 <= sum(one.samples_s) < 31 for one in found)
    over = [part for _, part in shown]
    assert over == sorted(over) and over[0] == 0 and 3.9 < over[-1] <= 4.0
    assert all(abs(part - now / 30) < 0.2 for now, part in shown)


def test_the_deadline_is_kept_to_a_sample_and_a_slow_device_is_warmed_up_once() -> None:
    for deadline in (1.0, 5.0):
        clock = Clock()
        found = one(FakeWorker(clock, [0.4, 0.7]), rule=StoppingRule(deadline=deadline))
        assert deadline <= sum(found.samples_s) < deadline + 0.7 and clock.now < deadline + 0.7 + 1.1
    found = one(FakeWorker(Clock(), 40.0), expected=40.0)
    assert (len(found.warmup_s), found.samples_s, found.stopped) == (1, (40.0,), "only 1 of 10 samples")


def test_figures_of_the_samples() -> None:
    slowest = lambda samples: (Figure(name="slowest", value=max(samples), unit="s"),)  # noqa: E731
    found = one(Odd(), of=job(derive=slowest))
    assert [(figure.name, figure.value) for figure in found.figures] == [("slowest", pytest.approx(0.1))]


def test_several_processes_share_the_samples_and_the_time() -> None:
    clock = Clock()
    workers = [FakeWorker(clock, seconds) for seconds in (0.1, 0.12, 0.11)]
    saved: list[Run] = []
    save = lambda found: saved.extend(map(to_run, found))  # noqa: E731
    (found,) = runs([CPU], workers, processes=3, save=save)
    assert {part.processes for part in saved} >= {(2,), (6,), (6, 2), (6, 6, 6)}
    assert found.ci95_s and found.ci95_s[0] < 0.1 < 0.12 < found.ci95_s[1]  # what the processes say, not the samples
    assert found.processes == (6, 6, 6)  # at least five, in blocks of 0.25 s
    assert found.samples_s == (0.1,) * 6 + (0.12,) * 6 + (0.11,) * 6
    assert len(found.warmup_s) == 2 and found.cold_start_s == {"import": 1.5}
    assert all(worker.asked.count("verify") == 1 for worker in workers)
    assert found.verified and found.verified.samples == 19
    clock = Clock()
    (found,) = runs([CPU], [FakeWorker(clock, RESTLESS) for _ in range(2)], processes=2)
    edge = found.processes[0]
    assert [round(sum(part)) for part in (found.samples_s[:edge], found.samples_s[edge:])] == [15, 15]
    (found,) = runs([CPU], [Odd(), Odd(after=3, sample="the worker was killed by SIGSEGV")], processes=3)
    assert told(found) == "0 + 0 samples, 0.0 s: the worker was killed by SIGSEGV"


def test_steps_are_those_of_the_first_process_and_the_last_word_of_the_last() -> None:
    clock = Clock()
    workers = [FakeWorker(clock, 0.01), FakeWorker(clock, 0.02)]
    (found,) = runs([CPU], workers, of=job(blocks=True, farewell=True), processes=2)
    assert found.steps == 10 and found.samples_s == pytest.approx((0.1,) * 6 + (0.2,) * 6)
    assert found.flop == pytest.approx(2e10), "of a sample, which queues ten steps"
    assert [worker.asked.count("farewell") for worker in workers] == [0, 1]


def test_a_run_says_what_others_used(monkeypatch: pytest.MonkeyPatch) -> None:
    before = busy_seconds()
    sum(range(1_000_000))
    assert busy_seconds() >= before > 0
    assert one(Odd(0.2)).others_cpus is None, "too short to tell"
    worker = Odd(0.2, sample={})
    # the machine has 4 CPUs, of which the worker uses 2 while it samples, and somebody else 1.5 all the time
    monkeypatch.setattr(runner, "busy_seconds", lambda: 3.5 * worker.clock.now)
    monkeypatch.setattr(runner, "time", SimpleNamespace(monotonic=worker.clock))
    ended = [0.0]

    def busy(verb: str, _sample: int) -> dict[str, float]:
        ended.append(worker.clock.now)
        return {"busy": 2.0 * (ended[-1] - ended[-2])} if verb == "sample" else {}

    worker.trouble = busy
    assert one(worker).others_cpus == pytest.approx(1.5)


@pytest.fixture
def busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody uses far more CPU seconds than the worker."""
    machine = iter(range(1_000_000))
    monkeypatch.setattr(runner, "busy_seconds", lambda: next(machine))


@pytest.mark.usefixtures("busy_machine")
def test_waiting_for_a_cpu_stands_beside_each_sample() -> None:
    rows = [
        (0.7512, 0.5, (0.751,) * 10),
        (0.7512, 1.0, (0.0,) * 10),  # its threads waited for one another
        (None, 0.5, ()),  # a kernel that does not tell
    ]
    for waited, busy, shown in rows:
        assert one(Odd(sample={"waited": waited, "busy": busy})).cpu_wait == shown


@pytest.mark.usefixtures("busy_machine")
def test_a_disturbed_case_goes_on_until_enough_samples_are_undisturbed() -> None:
    def measured(until: int, cpus: float | None) -> Run:
        worker = Odd()
        worker.load = 1.0
        worker.trouble = lambda verb, sample: (
            {"waited": float(sample <= until), "busy": 0.5} if verb == "sample" else {}
        )
        return one(worker, cpus=cpus)

    found = measured(22, 2.0)
    assert (len(found.samples_s), found.stopped, found.left_out) == (30, None, 20), "the first 20 were disturbed"
    for cpus in (1.0, None):  # it had the one CPU that it may use, or nobody knows
        assert (len(measured(22, cpus).samples_s), measured(22, cpus).left_out) == (10, 0)
    never = measured(10_000, 2.0)
    assert never.stopped == "only 0 of 10 samples undisturbed by other programs"
    assert sum(never.samples_s) == pytest.approx(30.0, abs=0.3)
    assert never.left_out == 0 and never.median_s == pytest.approx(0.1), "no others are left"


def test_a_worker_that_dies_or_does_not_start_takes_no_other_with_it() -> None:
    for after in (0, 1, 7):
        broken, fine = runs([CPU, GPU], [Odd(after=after, sample="the worker was killed by SIGSEGV"), Odd()])
        assert told(broken) == "0 + 0 samples, 0.0 s: the worker was killed by SIGSEGV" and fine.throughput is not None

    with Workers(lambda: WorkerProcess("/no/such/python")) as alive:
        (found,) = measure([job()], Setting(alive, RULE))
    assert to_run(found).failure == "/no/such/python cannot be started: No such file or directory"


@each("judge", [cnn.judge, gan.judge, inference.judge, input.judge, matpow.judge, transfer.judge])
def test_an_answer_that_a_judge_does_not_expect_is_a_failure(judge: Any) -> None:
    """Whatever the worker says of the result: it is judged, or the run has failed, and tfgpu goes on."""
    parameters = {"power": 2, "reference": "float32"}
    odd = [
        {**ROWS["judged"], name: one}
        for name in ROWS["judged"]
        for one in ("x", [], {}, [None], [0.0, 0.0], math.nan, object)
    ]
    failures = []
    for answer in ({}, *odd):
        judged = replace(job(), judge=lambda *_, found=answer: judge(found, "float32", parameters))
        measurement = Measurement(judged, Setting(Workers(Planned()), RULE))
        try:
            measurement.judge({})
        except WorkerError as error:
            failures.append(str(error))
    assert failures[0].startswith("the answer to 'verify' cannot be used: KeyError: ")
    kinds = {failure.split(":")[0] for failure in failures}
    assert kinds <= {"the answer to 'verify' cannot be used", "the result is wrong"}


def test_a_hang_among_many_short_samples_costs_no_more_patience_than_one() -> None:
    workers = Planned(seconds=0.0005)
    with Workers(workers) as alive:
        (found,) = measure([job()], Setting(alive, RULE, clock=workers.clock))
    assert len(found.samples) >= 500
    assert {request["timeout"] for request in workers.asked("sample")} == {60.0}


def test_what_there_is_is_saved_after_every_round_and_an_interrupt_ends_every_worker() -> None:
    clock = Clock()
    counts: list[list[int]] = []
    save = lambda found: counts.append([len(one.samples) for one in found])  # noqa: E731
    runs([CPU, GPU], [FakeWorker(clock, 0.25), FakeWorker(clock, 0.25)], save=save)
    assert counts[:4] == [[0, 0], [0, 0], [1, 1], [2, 2]] and counts[-1] == [10, 10]

    def interrupted(_verb: str, sample: int) -> None:
        if sample > 4:
            raise KeyboardInterrupt

    workers = Planned(seconds=0.2, trouble=interrupted)
    with Workers(workers) as alive, pytest.raises(KeyboardInterrupt):
        measure([job(), job(GPU)], Setting(alive, RULE, clock=workers.clock))
    assert len(workers.started) == 2 and all(worker.closed for worker in workers.started)


def test_how_long_all_runs_are_sampled_at_most_is_said_beforehand() -> None:
    said: list[str] = []
    rule = StoppingRule(deadline=20.0)
    Session(MatPow(sizes=(512,)), MATRIX, healthy(), Planned(), rule, announce=said.append).begin(["CPU", "1 GPU"])
    assert said == ["2 runs (CPU; 1 GPU): at most about 40 s of sampling, besides start-up and verification"]
    for size, doing in ((None, "choosing a size"), (512, "estimating the time")):
        shown: list[str] = []
        show = lambda label, _, shown=shown: shown.append(label)  # noqa: E731 - without the progress
        Session(MatPow(sizes=(size,) if size else ()), MATRIX, healthy(), Planned(), QUICK, progress=show).run()
        assert shown[:2] == ["starting TensorFlow", doing]


@each(
    "plan",
    [
        Cnn(model="resnet50", batch=4096),
        Cnn(model="resnet50", global_batch=4096),
        Gan(batch=2**20),
        Inference(model="resnet50", batches=(1, 65536)),
        MatPow(sizes=(16384,)),
    ],
)
def test_what_the_cpu_has_no_time_for_is_refused_before_it_starts(plan: PlanBase) -> None:
    workers = Planned(seconds=0.05)
    rule = StoppingRule(deadline=5.0)
    with pytest.raises(NoRoomError, match=r"would take .* too long for --deadline 5\. Try --[a-z-]+ \d+, or") as info:
        Session(plan, MATRIX, healthy(), workers, rule).run()
    enough = re.findall(r"\d+(?=$| \(| on it is tried)", str(info.value))
    assert 5 < int(enough[1]) < int(enough[0]), "that with which it would start, and that for all samples"
    assert all(size is None or size < 4096 for worker in workers.started for size in worker.sizes)
    assert all(worker.closed for worker in workers.started)


CREATED = (
    "I0000 00:00:1731000000.1 4242 gpu_device.cc:2022] Created device /job:localhost/replica:0/task:0/device:GPU:{0}"
    " with 139000 MB memory:  -> device: {0}, name: NVIDIA H200, pci bus id: {1}, compute capability: 9.0\n"
)
CREATED_BY_2_4 = (
    "2021-02-03 01:02:03.4: I tensorflow/core/common_runtime/gpu/gpu_device.cc:1406] Created TensorFlow device "
    "(/job:localhost/replica:0/task:0/device:GPU:0 with 10175 MB memory) -> physical GPU (device: 0, name: Tesla T4, "
    "pci bus id: 0000:00:07.0, compute capability: 7.5)\n"
)


def test_bus_ids_stand_in_tensorflows_log() -> None:
    log = CREATED.format(0, "0000:65:00.0") + CREATED.format(1, "0000:E1:00.0")
    assert bus_ids(log) == {"/GPU:0": "0000:65:00.0", "/GPU:1": "0000:E1:00.0"}
    assert bus_ids(CREATED_BY_2_4) == {"/GPU:0": "0000:00:07.0"}
    assert bus_ids("Created device with nothing\npci bus id: 0000:00:07.0\n") == {}


class NvmlError(Exception):
    """As in pynvml."""


def nvml(looks: list[str], broken: bool = False) -> Any:
    """Return a stand-in for pynvml: one GPU, whose fourth and later looks are throttled."""

    def fails(*_: object) -> None:
        raise NvmlError

    return SimpleNamespace(
        NVMLError=NvmlError,
        NVML_CLOCK_SM=1,
        NVML_TEMPERATURE_GPU=0,
        nvmlInit=fails if broken else lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetHandleByPciBusId=lambda bus_id: bus_id,
        nvmlDeviceGetName=lambda _: "NVIDIA H200",
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda _: 0x041 if len(looks) > 3 else 0x001,
        nvmlDeviceGetPowerUsage=lambda _: 612_500,
        nvmlDeviceGetUtilizationRates=fails,
        nvmlDeviceGetClockInfo=lambda *_: 1830,
        nvmlDeviceGetTemperature=lambda handle, _: looks.append(handle) or 61,
    )


def test_figures_are_gathered_while_a_block_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []
    monkeypatch.setattr(telemetry, "PERIOD", 0.01)
    monkeypatch.setitem(sys.modules, "pynvml", nvml(looks))
    watch = Telemetry({"/GPU:0": "0000:65:00.0"})
    watch.start()
    assert eventually(lambda: len(looks) > 6)
    hot = ("hw_thermal_slowdown",)
    assert watch.pause() == hot
    watch.close()
    (found,) = watch.summary(1.0)
    assert (found.device, found.name, found.pci_bus_id) == ("/GPU:0", "NVIDIA H200", "0000:65:00.0")
    assert (found.power_w, found.sm_clock_mhz, found.temperature_c, found.utilization) == (612.5, 1830, 61, None)
    assert found.throttled == hot and found.samples >= 5


def test_utilization_is_known_only_of_work_without_a_pause() -> None:
    rows = [
        (60, 0.05, 96.0),  # three seconds without a pause: what the window holds is the work
        (60, 0.06, None),  # as many samples in 3.6 s: pauses between them
        (20, 0.05, None),  # one second: no longer than the window
        (60, 0.02, None),  # samples of two results, and the readings of one
    ]
    for count, period, shown in rows:
        times = [place * period for place in range(count)]
        readings = [{"t": t, "utilization": 10.0 if t <= 1 else 96.0} for t in times]
        assert utilization(readings, 0.05 * count) == shown


def test_logical_devices_of_one_gpu_are_one_and_no_nvml_gives_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml([], broken=True))
    watch = Telemetry({"/GPU:0": "0000:65:00.0", "/GPU:1": "0000:65:00.0"})
    watch.start()
    watch._thread.join(30)
    watch.close()
    (found,) = watch.summary(1.0)
    assert (found.device, found.samples, found.power_w, found.name) == ("/GPU:0", 0, None, None)


@each(("source", "message"), ROWS["workers"].values())
def test_trouble(source: str, message: str, tmp_path: Path) -> None:
    (script := tmp_path / "worker.py").write_text(source)
    with WorkerProcess(sys.executable, script=script) as worker:
        pid = worker._child.process.pid
        with pytest.raises(WorkerError) as info:
            worker.ask(0.3 if "within" in message else 30.0, do="hello")
    assert str(info.value).startswith(message)
    assert not psutil.pid_exists(pid)


LEAVES = """
import json, os, subprocess, sys, tempfile, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("a profile's greeting\\n[1]", flush=True)
print(json.dumps({"to": "farewell", "file": tempfile.mkstemp()[1], "child": child.pid}), flush=True)
input(), input()
"""


@each("then", ["os._exit(0)", "time.sleep(600)"])
def test_children_and_temporary_files_of_a_worker_go_with_it(then: str, tmp_path: Path) -> None:
    """As those of AutoGraph, which TensorFlow removes at an orderly end only."""
    (script := tmp_path / "worker.py").write_text(LEAVES + then)
    with WorkerProcess(sys.executable, script=script) as worker:
        left = worker.ask(30.0, do="farewell")
        file, child = Path(left["file"]), psutil.Process(left["child"])
        assert file.is_file()
        with pytest.raises(WorkerError):
            worker.ask(0.2, do="farewell")
    assert not file.parent.exists() and file.parent.name.startswith("tfgpu-")
    psutil.wait_procs([child], timeout=10)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_a_process_that_is_forked_off_does_not_answer() -> None:
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "patients" / "forks")}
    with WorkerProcess(sys.executable, environ) as worker, pytest.raises(WorkerError, match="of the parent"):
        worker.ask(60.0, do="hello")
