"""How cases are driven: turns, the stopping rule, trouble of every kind. No time passes and no process is started."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.bench.fake_worker import QUICK, RIGHT, WRONG, Clock, FakeWorker
from tests.bench.fake_worker import Workers as Planned
from tests.healthy import MATRIX, healthy
from tests.tables import each, read_rows
from tfgpu_doctor.bench.devices import Case, Job
from tfgpu_doctor.bench.plans.base import PlanBase, TooSlowError
from tfgpu_doctor.bench.plans.inference import Inference
from tfgpu_doctor.bench.plans.matpow import MatPow
from tfgpu_doctor.bench.plans.training import Cnn, Gan
from tfgpu_doctor.bench.results import Figure, Run
from tfgpu_doctor.bench.runner import runner
from tfgpu_doctor.bench.runner.process import WorkerError, Workers
from tfgpu_doctor.bench.runner.runner import Measurement, Session, Setting, measure, to_run
from tfgpu_doctor.bench.runner.telemetry import busy_seconds
from tfgpu_doctor.bench.statistics import StoppingRule
from tfgpu_doctor.bench.workloads import cnn, gan, inference, input, matpow, transfer

CPU = Case("CPU", ("/CPU:0",), ())
GPU = Case("1 GPU", ("/GPU:0",), (0,))
RULE = StoppingRule(deadline=30.0)
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


def says(answer: dict[str, Any], to: str = "sample") -> FakeWorker:
    """A worker that says this when it is asked for it."""
    return FakeWorker(Clock(), 0.1, lambda verb, _sample: answer if verb == to else None)


def one(worker: FakeWorker, **options: Any) -> Run:
    (found,) = runs([options.pop("case", CPU)], [worker], **options)
    return found


# ------------------------------------------------------------------------------------------------ when it ends


def test_a_steady_device_stops_when_there_is_enough() -> None:
    found = one(FakeWorker(Clock(), 0.1))
    assert found.failure is None and found.stopped is None
    assert len(found.samples_s) == 10  # and 1.0 s, in blocks of 0.2 s
    assert found.median_s == pytest.approx(0.1)
    assert found.throughput and found.throughput.value == pytest.approx(2e10)
    assert len(found.warmup_s) == 2
    assert found.verified and found.verified.ok and found.verified.samples == 11
    assert found.computed_in == "float32"


def test_a_restless_device_goes_on_to_the_deadline_and_virtual_ones_do_not() -> None:
    found = one(FakeWorker(Clock(), RESTLESS))
    assert sum(found.samples_s) >= 30.0
    assert found.stopped and found.stopped.startswith("interval ±") and found.stopped.endswith(" % (target ±0.5 %)")
    assert len(found.doubts) == 1 and found.doubts[0].startswith("95 % interval ±")
    assert found.throughput is not None
    virtual = Case("2 virtual CPUs, rows", ("/CPU:0", "/CPU:1"), (), "rows", True)
    found = one(FakeWorker(Clock(), RESTLESS), case=virtual)
    assert len(found.samples_s) == 11 and found.stopped is None and found.doubts == ()


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


def test_figures_of_the_samples_and_the_last_word() -> None:
    slowest = lambda samples: (Figure(name="slowest", value=max(samples), unit="s"),)  # noqa: E731
    worker = FakeWorker(Clock(), 0.1)
    found = one(worker, of=job(farewell=True, derive=slowest))
    assert [(figure.name, figure.value) for figure in found.figures] == [("slowest", pytest.approx(0.1))]
    assert worker.asked[-1] == "farewell"

    def differs(verb: str, _sample: int) -> None:
        if verb == "farewell":
            raise WorkerError("2 of 10 weights differ between the replicas at the end")

    found = one(FakeWorker(Clock(), 0.1, differs), of=job(farewell=True))
    assert found.failure == "2 of 10 weights differ between the replicas at the end" and found.throughput is None


# ------------------------------------------------------------------------------------------------ processes


def test_a_process_that_is_needed_again_is_kept() -> None:
    worker = FakeWorker(Clock())
    with Workers(lambda: worker) as alive:
        for keep in ({("CPU", "float32")}, set()):
            measure([job()], Setting(alive, RULE, keep=keep, clock=worker.clock))
            assert worker.closed is not bool(keep)
    assert worker.asked.count("hello") == 1


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
    (found,) = runs([CPU], [FakeWorker(clock), FakeWorker(clock, 0.1, dies(3))], processes=3)
    assert (found.failure, found.samples_s, found.throughput) == ("the worker was killed by SIGSEGV", (), None)


def test_steps_are_those_of_the_first_process_and_the_last_word_of_the_last() -> None:
    workers = [FakeWorker(Clock()), FakeWorker(Clock())]
    for worker, seconds in zip(workers, (0.01, 0.02), strict=True):
        worker.clock, worker.seconds = workers[0].clock, iter(lambda seconds=seconds: seconds, None)
    (found,) = runs([CPU], workers, of=job(blocks=True, farewell=True), processes=2)
    assert found.steps == 10 and found.samples_s == pytest.approx((0.1,) * 6 + (0.2,) * 6)
    assert found.flop == pytest.approx(2e10), "of a sample, which queues ten steps"
    assert [worker.asked.count("farewell") for worker in workers] == [0, 1]


# ------------------------------------------------------------------------------------------------ other programs


def test_a_run_says_what_others_used(monkeypatch: pytest.MonkeyPatch) -> None:
    before = busy_seconds()
    sum(range(1_000_000))
    assert busy_seconds() >= before > 0
    assert one(FakeWorker(Clock(), 0.2)).others_cpus is None, "too short to tell"
    clock = Clock()
    # the machine has 4 CPUs, of which the worker uses 2 while it samples, and somebody else 1.5 all the time
    monkeypatch.setattr(runner, "busy_seconds", lambda: 3.5 * clock.now)
    monkeypatch.setattr(runner, "time", SimpleNamespace(monotonic=clock))
    taken: list[float] = []

    def busy(verb: str, _sample: int) -> dict[str, float] | None:
        if verb != "sample":
            return None
        taken.append(clock.now - sum(taken))
        return {"busy": 2.0 * taken[-1]}

    assert one(FakeWorker(clock, 0.2, busy)).others_cpus == pytest.approx(1.5)


def test_waiting_for_a_cpu_stands_beside_each_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = iter(range(1_000_000))  # CPU seconds of everybody, far more than the worker's
    monkeypatch.setattr(runner, "busy_seconds", lambda: next(machine))
    assert one(says({"waited": 0.7512, "busy": 0.5})).cpu_wait == (0.751,) * 10
    assert one(says({"waited": 0.7512, "busy": 1.0})).cpu_wait == (0.0,) * 10, "its threads waited for one another"
    assert one(says({"waited": None, "busy": 0.5})).cpu_wait == (), "a kernel that does not tell"


def test_a_disturbed_case_goes_on_until_enough_samples_are_undisturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = iter(range(1_000_000))
    monkeypatch.setattr(runner, "busy_seconds", lambda: next(machine))

    def measured(until: int, cpus: float | None) -> Run:
        def said(verb: str, sample: int) -> dict[str, Any] | None:
            waited = 1.0 if sample <= until else 0.0
            return {"waited": waited, "busy": 0.5} if verb == "sample" else None

        worker = FakeWorker(Clock(), 0.1, said)
        worker.load = 1.0
        return one(worker, cpus=cpus)

    found = measured(22, 2.0)
    assert len(found.samples_s) == 30, "the first 20 samples were disturbed"
    assert (found.stopped, found.left_out, measured(22, 1.0).left_out) == (None, 20, 0)
    assert len(measured(22, 1.0).samples_s) == 10, "it had the one CPU that it may use"
    assert len(measured(22, None).samples_s) == 10
    never = measured(10_000, 2.0)
    assert never.stopped == "only 0 of 10 samples undisturbed by other programs"
    assert sum(never.samples_s) == pytest.approx(30.0, abs=0.3)
    assert never.left_out == 0 and never.median_s == pytest.approx(0.1), "no others are left"


# ------------------------------------------------------------------------------------------------ trouble


def dies(at: int) -> Callable[[str, int], dict[str, Any] | None]:
    def trouble(verb: str, sample: int) -> dict[str, Any] | None:
        if verb == "sample" and sample > at:
            raise WorkerError("the worker was killed by SIGSEGV")
        return None

    return trouble


def test_a_worker_that_dies_or_does_not_start_takes_no_other_with_it() -> None:
    for at in (0, 1, 7):
        clock = Clock()
        broken, fine = runs([CPU, GPU], [FakeWorker(clock, 0.1, dies(at)), FakeWorker(clock)])
        assert broken.failure == "the worker was killed by SIGSEGV"
        assert (broken.throughput, broken.median_s, broken.samples_s) == (None, None, ())
        assert fine.throughput is not None

    def start() -> FakeWorker:
        raise WorkerError("no such interpreter")

    with Workers(start) as alive:
        (found,) = measure([job()], Setting(alive, RULE))
    assert to_run(found).failure == "no such interpreter"


TF32 = {"rms": 6e-4, "worst_row": 2e-3}
ELSEWHERE = {"misplaced": "computed on /CPU:0 instead of /GPU:0", "placed_on": ["/CPU:0"]}


@each(
    ("verb", "answer", "failure"),
    [
        ("verify", WRONG, "the result is wrong: relative error 0.3 (limit 5.4e-06)"),
        ("verify", TF32, "the result is wrong: relative error 0.0006"),  # float32 that was tf32
        ("sample", ELSEWHERE, "computed on /CPU:0 instead of /GPU:0"),
        ("sample", {"placed_on": ["/CPU:0"]}, "computed on /CPU:0"),
        ("sample", {"rechecked": [RIGHT, WRONG]}, "the result is wrong"),
    ],
)
def test_what_is_wrong_or_from_elsewhere_has_no_speed(verb: str, answer: dict[str, Any], failure: str) -> None:
    worker = FakeWorker(Clock(), 0.1, lambda asked, sample: answer if asked == verb and sample != 1 else None)
    found = one(worker, case=GPU)
    assert found.failure is not None and found.failure.startswith(failure)
    assert (found.throughput, found.samples_s) == (None, ())
    assert found.verified is None or found.verified.ok is (verb == "sample" and "rechecked" not in answer)


def test_which_of_tf32_and_float32_ran_is_what_the_residual_says() -> None:
    for answer, computed in ((RIGHT, "float32"), (TF32, "tf32")):
        found = one(says(answer, "verify"), case=GPU, dtype="tf32")
        assert (found.dtype, found.computed_in) == ("tf32", computed) and found.throughput is not None


JUDGES = (cnn.judge, gan.judge, inference.judge, input.judge, matpow.judge, transfer.judge)
VERIFIED = read_rows(Path(__file__).with_name("rows.yaml"))["judged"]


@each("judge", JUDGES)
def test_an_answer_that_a_judge_does_not_expect_is_a_failure(judge: Any) -> None:
    """Whatever the worker says of the result: it is judged, or the run has failed, and tfgpu goes on."""
    parameters = {"power": 2, "reference": "float32"}
    odd = [{**VERIFIED, name: one} for name in VERIFIED for one in ("x", [], {}, [None], [0.0, 0.0], math.nan, object)]
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
    waits = []

    class Listens(FakeWorker):
        def ask(self, timeout: float, **request: Any) -> dict[str, Any]:
            if request["do"] == "sample":
                waits.append(timeout)
            return super().ask(timeout, **request)

    assert len(one(Listens(Clock(), 0.0005)).samples_s) >= 500
    assert set(waits) == {60.0}


def test_what_there_is_is_saved_after_every_round_and_an_interrupt_ends_every_worker() -> None:
    clock = Clock()
    counts: list[list[int]] = []
    save = lambda found: counts.append([len(one.samples) for one in found])  # noqa: E731
    runs([CPU, GPU], [FakeWorker(clock, 0.25), FakeWorker(clock, 0.25)], save=save)
    assert counts[:4] == [[0, 0], [0, 0], [1, 1], [2, 2]] and counts[-1] == [10, 10]

    def interrupted(_verb: str, sample: int) -> None:
        if sample > 4:
            raise KeyboardInterrupt

    workers = [FakeWorker(clock, 0.2), FakeWorker(clock, 0.2, interrupted)]
    waiting = list(workers)
    with Workers(lambda: waiting.pop(0)) as alive, pytest.raises(KeyboardInterrupt):
        measure([job(), job(GPU)], Setting(alive, RULE, clock=clock))
    assert all(worker.closed for worker in workers)


# ------------------------------------------------------------------------------------------------ the session


def test_how_long_all_runs_are_sampled_at_most_is_said_beforehand() -> None:
    said: list[str] = []
    rule = StoppingRule(deadline=20.0)
    Session(MatPow(sizes=(512,)), MATRIX, healthy(), Planned(), rule, announce=said.append).begin(["CPU", "1 GPU"])
    assert said == ["2 runs (CPU; 1 GPU): at most 40 s of sampling"]
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
    with pytest.raises(TooSlowError, match=r"would take about .* too long for --deadline 5\. Try --[a-z-]+ \d+, or"):
        Session(plan, MATRIX, healthy(), workers, rule).run()
    assert all(size is None or size < 4096 for worker in workers.started for size in worker.sizes)
    assert all(worker.closed for worker in workers.started)
