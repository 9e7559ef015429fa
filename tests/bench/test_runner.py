"""How cases are driven: turns, the stopping rule, trouble of every kind. No time passes and no process is started."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.bench.fake_worker import RIGHT, WRONG, Clock, FakeWorker
from tests.tables import each
from tfgpu_doctor.bench.devices import Case, Job
from tfgpu_doctor.bench.results import Figure, Run
from tfgpu_doctor.bench.runner import runner
from tfgpu_doctor.bench.runner.process import WorkerError, Workers
from tfgpu_doctor.bench.runner.runner import Measurement, measure, to_run
from tfgpu_doctor.bench.speeds import with_speed
from tfgpu_doctor.bench.statistics import StoppingRule
from tfgpu_doctor.bench.workloads import cnn, gan, inference, input, matpow, transfer
from tfgpu_doctor.render.outlines.bench import taken as taken_of

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
        measured = measure(group, alive, rule=rule, clock=workers[0].clock, **options)
        assert all(worker.closed for worker in workers if worker.asked)
    return [to_run(one, rule) for one in measured]


def test_a_steady_device_stops_when_there_is_enough() -> None:
    worker = FakeWorker(Clock(), 0.1)
    (one,) = runs([CPU], [worker])
    assert one.failure is None and one.stopped is None
    assert len(one.samples_s) == 10  # and 1.0 s, in blocks of 0.2 s
    assert one.median_s == pytest.approx(0.1)
    assert one.throughput and one.throughput.value == pytest.approx(2e10)
    assert len(one.warmup_s) == 2
    assert one.verified and one.verified.ok and one.verified.samples == 11
    assert one.computed_in == "float32"


def test_a_restless_device_goes_on_to_the_deadline_and_says_so() -> None:
    (one,) = runs([CPU], [FakeWorker(Clock(), RESTLESS)])
    assert sum(one.samples_s) >= 30.0
    assert one.stopped and one.stopped.startswith("interval ±") and one.stopped.endswith(" % (target ±0.5 %)")
    assert len(one.doubts) == 1 and one.doubts[0].startswith("95 % interval ±")
    assert one.throughput is not None


def test_virtual_devices_need_no_more_than_the_fewest_samples() -> None:
    virtual = Case("2 virtual CPUs, rows", ("/CPU:0", "/CPU:1"), (), "rows", True)
    (one,) = runs([virtual], [FakeWorker(Clock(), RESTLESS)])
    assert len(one.samples_s) == 11 and one.stopped is None and one.doubts == ()


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
    assert all(abs(part - (4 + 8 * now / 120) / 3) < 0.2 for now, part in shown[4:]), "a third by the start"


@each("deadline", [1.0, 5.0])
def test_the_deadline_is_kept_to_a_sample(deadline: float) -> None:
    clock = Clock()
    (one,) = runs([CPU], [FakeWorker(clock, [0.4, 0.7])], rule=StoppingRule(deadline=deadline))
    assert deadline <= sum(one.samples_s) < deadline + 0.7 and clock.now < deadline + 0.7 + 1.1


def test_a_slow_device_is_warmed_up_once_and_given_time() -> None:
    (one,) = runs([CPU], [FakeWorker(Clock(), 40.0)], expected=40.0)
    assert len(one.warmup_s) == 1
    assert one.samples_s == (40.0,)
    assert one.stopped == "only 1 of 10 samples"


def test_devices_take_turns() -> None:
    clock = Clock()
    order: list[str] = []

    def note(name: str) -> Callable[[str, int], None]:
        return lambda verb, _sample: order.append(name) if verb == "sample" else None

    runs([CPU, GPU], [FakeWorker(clock, 0.2, note("cpu")), FakeWorker(clock, 0.2, note("gpu"))])
    turns = order[4:]  # behind the warm-ups
    assert turns == ["cpu", "gpu"] * 10


def test_training_steps_are_queued_together() -> None:
    (one,) = runs([CPU], [FakeWorker(Clock(), 0.01)], of=job(blocks=True, step_name="step"))
    assert one.steps == 10  # 0.1 s
    assert one.median_s == pytest.approx(0.1)
    assert one.throughput and one.throughput.value == pytest.approx(2e9 / 0.01)
    assert one.flop == pytest.approx(2e10)


def test_figures_beside_the_samples() -> None:
    answer = {"figures": [{"name": "fit", "value": 812.5, "unit": "images/s", "ci95": [800.0, 820.0]}]}
    worker = FakeWorker(Clock(), 0.1, lambda verb, _sample: answer if verb == "figures" else None)
    (one,) = runs([CPU], [worker], of=job(figures=True))
    assert [(figure.name, figure.value, figure.ci95) for figure in one.figures] == [("fit", 812.5, (800.0, 820.0))]


def test_the_last_word_goes_to_others_where_a_job_has_them() -> None:
    worker = FakeWorker(Clock())
    runs([CPU], [worker], of=job(figures=True, farewell=True))
    assert worker.asked[-2:] == ["figures", "farewell"]


def test_figures_that_the_samples_show() -> None:
    def derive(samples: Sequence[float]) -> tuple[Figure, ...]:
        return (Figure(name="slowest", value=max(samples), unit="s"),)

    (one,) = runs([CPU], [FakeWorker(Clock(), 0.1)], of=job(derive=derive))
    assert [(figure.name, figure.value) for figure in one.figures] == [("slowest", pytest.approx(0.1))]


def test_a_process_that_is_needed_again_is_kept() -> None:
    workers = [FakeWorker(Clock())]
    waiting = list(workers)
    with Workers(lambda: waiting.pop(0)) as alive:
        for keep in ({("CPU", "float32")}, set()):
            measure([job()], alive, rule=RULE, clock=workers[0].clock, keep=keep)
            assert workers[0].closed is not bool(keep)
    assert workers[0].asked.count("hello") == 1


def test_several_processes_share_the_samples_and_the_time() -> None:
    clock = Clock()
    workers = [FakeWorker(clock, seconds) for seconds in (0.1, 0.12, 0.11)]
    saved: list[Run] = []
    (one,) = runs([CPU], workers, processes=3, save=lambda found: saved.extend(to_run(part, RULE) for part in found))
    assert {part.processes for part in saved} >= {(2,), (6,), (6, 2), (6, 6, 6)}
    assert one.ci95_s and one.ci95_s[0] < 0.1 < 0.12 < one.ci95_s[1]  # what the processes say, and not the samples
    assert one.processes == (6, 6, 6)  # at least five, in blocks of 0.25 s
    assert one.samples_s == (0.1,) * 6 + (0.12,) * 6 + (0.11,) * 6
    assert len(one.warmup_s) == 2 and one.cold_start_s == {"import": 1.5}
    assert all(worker.asked.count("verify") == 1 for worker in workers)
    assert one.verified and one.verified.samples == 19


def test_processes_of_restless_devices_share_the_deadline() -> None:
    clock = Clock()
    (one,) = runs([CPU], [FakeWorker(clock, RESTLESS) for _ in range(2)], processes=2)
    edge = one.processes[0]
    assert [round(sum(part)) for part in (one.samples_s[:edge], one.samples_s[edge:])] == [15, 15]


def test_one_of_several_processes_that_dies_takes_the_case_with_it() -> None:
    clock = Clock()
    (one,) = runs([CPU], [FakeWorker(clock), FakeWorker(clock, 0.1, dies(3))], processes=3)
    assert one.failure == "the worker was killed by SIGSEGV"
    assert (one.samples_s, one.throughput) == ((), None)


def test_steps_are_those_of_the_first_process_and_figures_of_the_last() -> None:
    answer = {"figures": [{"name": "fit", "value": 812.5, "unit": "images/s"}]}
    clock = Clock()
    workers = [
        FakeWorker(clock, seconds, lambda verb, _sample: answer if verb == "figures" else None)
        for seconds in (0.01, 0.02)
    ]
    (one,) = runs([CPU], workers, of=job(blocks=True, figures=True), processes=2)
    assert one.steps == 10 and one.samples_s == pytest.approx((0.1,) * 6 + (0.2,) * 6)
    assert [worker.asked.count("figures") for worker in workers] == [0, 1]
    assert len(one.figures) == 1


def test_waiting_for_a_cpu_stands_beside_each_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = iter(range(1_000_000))  # CPU seconds of everybody, far more than the worker's
    monkeypatch.setattr(runner, "busy_seconds", lambda: next(machine))

    def measured(waited: float | None, busy: float) -> Run:
        said = {"waited": waited, "busy": busy}
        (one,) = runs([CPU], [FakeWorker(Clock(), 0.1, lambda verb, _sample: said if verb == "sample" else None)])
        return one

    assert measured(0.7512, 0.5).cpu_wait == (0.751,) * 10
    assert measured(0.7512, 1.0).cpu_wait == (0.0,) * 10  # nobody else ran: its threads waited for one another
    assert measured(None, 0.5).cpu_wait == ()  # a kernel that does not tell


def test_a_disturbed_case_goes_on_until_enough_samples_are_undisturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = iter(range(1_000_000))
    monkeypatch.setattr(runner, "busy_seconds", lambda: next(machine))

    def trouble(until: int) -> Callable[[str, int], dict[str, Any] | None]:
        def said(verb: str, sample: int) -> dict[str, Any] | None:
            waited = 1.0 if sample <= until else 0.0
            return {"waited": waited, "busy": 0.5, "loads": [1.0, 1.0]} if verb == "sample" and sample > 2 else None

        return said

    def measured(until: int, cpus: float | None) -> Run:
        (one,) = runs([CPU], [FakeWorker(Clock(), 0.1, trouble(until))], cpus=cpus)
        return one

    assert len(measured(22, 2.0).samples_s) == 30  # the first 20 samples were disturbed
    assert measured(22, 2.0).stopped is None
    assert (measured(22, 2.0).left_out, measured(22, 1.0).left_out) == (20, 0)
    assert len(measured(22, 1.0).samples_s) == 10  # it had the one CPU that it may use
    assert len(measured(22, None).samples_s) == 10
    never = measured(10_000, 2.0)
    assert never.stopped == "only 0 of 10 samples undisturbed by other programs"
    assert sum(never.samples_s) == pytest.approx(30.0, abs=0.3)
    assert never.left_out == 0 and never.median_s == pytest.approx(0.1), "no others are left"


def test_the_speed_is_that_of_the_samples_that_others_left_alone() -> None:
    times, loads, waits = (2.0,) * 8 + (1.0,) * 10, (1.0,) * 8 + (2.0,) * 10, (1.0,) * 8 + (0.0,) * 10
    taken = Run(label="CPU", devices=("/CPU:0",), dtype="float32", spread="one device", samples_s=times)
    taken = msgspec.structs.replace(taken, cpu_load=loads, cpu_wait=waits)
    one = with_speed(taken, 6.0, "FLOP/s", 2.0)
    assert (one.left_out, one.median_s, one.ci95_s) == (8, 1.0, (1.0, 1.0))
    assert one.throughput and one.throughput.value == 6.0
    assert taken_of(one) == "18 samples (8 left out)"
    unknown = with_speed(taken, 6.0, "FLOP/s", None)
    assert (unknown.left_out, unknown.median_s) == (0, 1.0) and unknown.ci95_s == (1.0, 2.0)


def dies(at: int) -> Callable[[str, int], dict[str, Any] | None]:
    def trouble(verb: str, sample: int) -> dict[str, Any] | None:
        if verb == "sample" and sample > at:
            raise WorkerError("the worker was killed by SIGSEGV")
        return None

    return trouble


@each("at", [0, 1, 7])
def test_a_worker_that_dies_takes_no_other_with_it(at: int) -> None:
    clock = Clock()
    broken, fine = runs([CPU, GPU], [FakeWorker(clock, 0.1, dies(at)), FakeWorker(clock)])
    assert broken.failure == "the worker was killed by SIGSEGV"
    assert (broken.throughput, broken.median_s, broken.samples_s) == (None, None, ())
    assert fine.throughput is not None


def test_a_worker_that_cannot_be_started() -> None:
    def start() -> FakeWorker:
        raise WorkerError("no such interpreter")

    with Workers(start) as alive:
        (one,) = measure([job()], alive, rule=RULE)
    assert to_run(one, RULE).failure == "no such interpreter"


def test_a_wrong_result_has_no_speed() -> None:
    worker = FakeWorker(Clock(), 0.1, lambda verb, _sample: WRONG if verb == "verify" else None)
    (one,) = runs([CPU], [worker])
    assert one.failure == "the result is wrong: relative error 0.3 (limit 5.4e-06)"
    assert one.verified and not one.verified.ok
    assert (one.throughput, one.samples_s) == (None, ())


JUDGES = (cnn.judge, gan.judge, inference.judge, input.judge, matpow.judge, transfer.judge)
VERIFIED: dict[str, Any] = {
    "losses": [2.0, 1.0],
    "replicas": 1,
    "compared": [1.0],
    "expected": [1.0],
    "update": 0.0,
    "images": 1,
    **dict.fromkeys(("missing", "more than once", "other pixels", "other shape", "others", "wrong"), 0),
    "unlike": "",
    "residual": 0.0,
    "floats": 1,
    "finite": True,
    "sent": [1],
    "arrived": [1],
    "elements": 1,
    "how": "",
    "expected_losses": [2.0, 1.0],
    "moved": [1.0],
    "identical": True,
    **RIGHT,
}


@each("judge", JUDGES)
def test_an_answer_that_a_judge_does_not_expect_is_a_failure(judge: Any) -> None:
    """Whatever the worker says of the result: it is judged, or the run has failed, and tfgpu goes on."""
    parameters = {"power": 2, "reference": "float32"}
    odd = [{**VERIFIED, name: one} for name in VERIFIED for one in ("x", [], {}, [None], [0.0, 0.0], math.nan, object)]
    failures = []
    for answer in ({}, *odd):
        judged = replace(job(), judge=lambda *_, found=answer: judge(found, "float32", parameters))
        with Workers(lambda: FakeWorker(Clock())) as workers:
            (one,) = measure([judged], workers, rule=RULE)
        failures.append(one.failure or "")
    assert failures[0].startswith("the answer to 'verify' cannot be used: KeyError: ")
    assert {failure.split(":")[0] for failure in failures} <= {
        *("", "the answer to 'verify' cannot be used", "the result is wrong"),
    }


def test_a_result_that_goes_wrong_later_is_noticed() -> None:
    worker = FakeWorker(
        Clock(), 0.1, lambda verb, sample: {"rechecked": [RIGHT, WRONG]} if verb == "sample" and sample > 6 else None
    )
    (one,) = runs([CPU], [worker])
    assert one.failure is not None and one.failure.startswith("the result is wrong")
    assert one.throughput is None


ELSEWHERE = {"misplaced": "computed on /CPU:0 instead of /GPU:0", "placed_on": ["/CPU:0"]}


@each(("said", "failure"), [(ELSEWHERE, ELSEWHERE["misplaced"]), ({"placed_on": ["/CPU:0"]}, "computed on /CPU:0")])
def test_a_result_from_elsewhere_has_no_speed(said: dict[str, Any], failure: str) -> None:
    (one,) = runs([GPU], [FakeWorker(Clock(), 0.1, lambda verb, _sample: said if verb == "sample" else None)])
    assert (one.failure, one.throughput) == (failure, None)


@each(("found", "computed"), [(RIGHT, "float32"), ({"rms": 6e-4, "worst_row": 2e-3}, "tf32")])
def test_which_of_tf32_and_float32_ran_is_what_the_residual_says(found: dict[str, Any], computed: str) -> None:
    (one,) = runs(
        [GPU], [FakeWorker(Clock(), 0.1, lambda verb, _sample: found if verb == "verify" else None)], dtype="tf32"
    )
    assert (one.dtype, one.computed_in) == ("tf32", computed)
    assert one.throughput is not None


def test_float32_that_was_tf32_has_no_speed() -> None:
    found = {"rms": 6e-4, "worst_row": 2e-3}
    (one,) = runs([GPU], [FakeWorker(Clock(), 0.1, lambda verb, _sample: found if verb == "verify" else None)])
    assert one.failure is not None and one.failure.startswith("the result is wrong: relative error 0.0006")


def test_a_hang_among_many_short_samples_costs_no_more_patience_than_one() -> None:
    waits = []

    class Listens(FakeWorker):
        def ask(self, timeout: float, **request: Any) -> dict[str, Any]:
            if request["do"] == "sample":
                waits.append(timeout)
            return super().ask(timeout, **request)

    worker = Listens(Clock(), 0.0005)
    (one,) = runs([CPU], [worker])
    assert len(one.samples_s) >= 500
    assert set(waits) == {60.0}


def test_what_there_is_is_saved_after_every_round() -> None:
    clock = Clock()
    counts: list[list[int]] = []

    def save(measurements: Sequence[Measurement]) -> None:
        counts.append([len(one.samples) for one in measurements])

    runs([CPU, GPU], [FakeWorker(clock, 0.25), FakeWorker(clock, 0.25)], save=save)
    assert counts[:4] == [[0, 0], [0, 0], [1, 1], [2, 2]]
    assert counts[-1] == [10, 10]


def test_an_interrupt_ends_every_worker() -> None:
    clock = Clock()

    def interrupted(_verb: str, sample: int) -> None:
        if sample > 4:
            raise KeyboardInterrupt

    workers = [FakeWorker(clock, 0.2), FakeWorker(clock, 0.2, interrupted)]
    waiting = list(workers)
    with Workers(lambda: waiting.pop(0)) as alive, pytest.raises(KeyboardInterrupt):
        measure([job(), job(GPU)], alive, rule=RULE, clock=clock)
    assert all(worker.closed for worker in workers)
