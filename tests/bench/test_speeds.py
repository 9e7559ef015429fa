"""What a speed is worth, by its samples, beside other devices and the peak of the hardware; and the advice."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.bench.samples import SHAKY, run, telemetry
from tests.healthy import MATRIX, gpu, healthy, known, spoil
from tests.tables import each, read_rows
from tfgpu_doctor.bench import samples
from tfgpu_doctor.bench.comparison import ratio_of_times
from tfgpu_doctor.bench.plans.inference import LATENCIES, WANTED
from tfgpu_doctor.bench.results import Run
from tfgpu_doctor.bench.samples import DISTURBED, PROCESS_SPREAD, Samples, interval, lost_shares, usable_cpus
from tfgpu_doctor.bench.speeds import (
    advise,
    drift,
    memory_bandwidth,
    peak_flops,
    percent_of,
    relate,
    with_peak,
    with_speed,
)
from tfgpu_doctor.bench.statistics import StoppingRule, median_interval, percent, quantile, quantile_interval
from tfgpu_doctor.facts.facts import Gpu, Unknown
from tfgpu_doctor.render.outlines.bench import taken as taken_of
from tfgpu_doctor.render.outlines.bench import throughput, timing

WIDE = tuple(1.0 + 0.03 * (step % 7 - 3) for step in range(400))  # samples differ by 18 %, their median is known well
CREEPING = tuple(1.0 + 0.001 * step for step in range(400))


def disturbed(*places: int) -> Run:
    waits = tuple(0.5 if place in places else 0.0 for place in range(12))
    return run(steps=(1.0,) * 12, cpu_load=(1.0,) * 12, cpu_wait=waits)


# a run → what is doubtful
DOUBTS: dict[str, tuple[Run, list[str]]] = {
    "steady": (run(), []),
    "samples that differ, many": (run(steps=WIDE), []),
    "few": (run(steps=(1.0,) * 5), ["only 5 samples"]),
    "six": (run(steps=(1.0,) * 6), []),
    "an interval that is wide": (run(steps=SHAKY), ["95 % interval ±9.1 %"]),
    "slower and slower": (run(steps=CREEPING), ["drift: the second half took 18 % longer"]),
    "a step": (run(steps=(1.1,) * 180 + (1.0,) * 220), ["95 % interval ±10 %", "drift: the second half took 9.1 %"]),
    "a little slower": (run(steps=(1.0,) * 20 + (1.04,) * 20), []),
    "disturbed now and then": (disturbed(1, 2, 3), []),
    "disturbed nearly always": (disturbed(*range(9)), ["disturbed by other programs in 9 of 12 samples: the speed is"]),
}


@each("name", DOUBTS)
def test_a_run_is_marked_for_what_makes_its_figure_doubtful(name: str) -> None:
    one, reasons = DOUBTS[name]
    assert len(one.doubts) == len(reasons)
    assert all(found.startswith(reason) for found, reason in zip(one.doubts, reasons, strict=True))
    assert one.advice == ((f"uncertain: {'; '.join(one.doubts)}",) if reasons else ())


def test_a_drift_is_said_where_it_is_sure() -> None:
    assert drift([1.0] * 5 + [1.5] * 6) is None, "two halves of six give intervals"
    assert drift([1.0, 1.3] * 6 + [1.2, 1.5] * 6) is None, "the intervals of the halves overlap"
    assert drift([1.0] * 6 + [1.2] * 6) == pytest.approx(0.2)


def test_the_speed_is_that_of_the_samples_that_others_left_alone() -> None:
    waits, loads = (1.0,) * 8 + (0.0,) * 10, (1.0,) * 8 + (2.0,) * 10
    taken = run(seconds=1.0, steps=(2.0,) * 8 + (1.0,) * 10, cpu_load=loads, cpu_wait=waits)
    one = with_speed(taken, 6.0, "FLOP/s", 2.0)
    assert (one.left_out, one.median_s, one.ci95_s) == (8, 1.0, (1.0, 1.0))
    assert one.throughput and one.throughput.value == 6.0
    assert taken_of(one) == "18 samples (8 left out)"
    unknown = with_speed(taken, 6.0, "FLOP/s", None)
    assert (unknown.left_out, unknown.median_s) == (0, 1.0) and unknown.ci95_s == (1.0, 2.0)
    for steps in ((1.0,), (1.0,) * 5):
        few = with_speed(run(seconds=9.741, steps=steps), 1043e9, "FLOP/s", 2.0)
        assert (throughput(few), timing(few)[:21]) == ("110 GFLOP/s", "9.7 (8.8 to 10.7) s p"), "few have two digits"
    assert (taken_of(few), taken_of(run(steps=(1.0,)))) == ("5 samples", "1 sample")


def test_types_are_compared_with_themselves_and_tf32_with_the_cpus_float32() -> None:
    gpus = [run("1 GPU", 0.1, dtype=dtype) for dtype in ("bfloat16", "tf32", "float16")]
    found = relate([run("CPU", 8.0), run("CPU", 4.0, dtype="bfloat16"), *gpus])[2:]
    assert [one.speedup_vs_cpu and round(one.speedup_vs_cpu.value) for one in found] == [40, 80, None]


# NVIDIA H200 SXM: 132 multiprocessors at 1830 MHz boost give the data sheet's dense figures
H200 = gpu(multiprocessors=132, sm_clock_max=1830)


def float32(card: Gpu) -> float | None:
    return peak_flops(card, "float32", MATRIX)


@each(
    ("dtype", "tflops"),
    [("float32", 62), ("tf32", 495), ("float16", 989), ("bfloat16", 989), ("mixed_bfloat16", 989), ("float64", 62)],
)
def test_the_data_sheets_figures(dtype: str, tflops: float) -> None:
    assert peak_flops(H200, dtype, MATRIX) == pytest.approx(tflops * 1e12, rel=0.1)  # they take another boost clock


# FP16 tensor with FP32 accumulation, as in the Ada whitepaper: GeForce has half the rate of the professional cards
@each(("name", "peak"), [("NVIDIA GeForce RTX 4090", 165.2e12), ("NVIDIA L40S", 2 * 165.2e12)])
def test_geforce_cards_have_their_own_peak(name: str, peak: float) -> None:
    ada = gpu(name=name, compute_capability="8.9", multiprocessors=128, sm_clock_max=2520)
    assert peak_flops(ada, "float16", MATRIX) == pytest.approx(peak, rel=0.01)


def test_per_cent_of_several_and_unknown_stays_unknown() -> None:
    peak = float32(H200)
    assert peak is not None and percent_of(peak, [H200, H200], float32) == pytest.approx(50)
    for name in ("multiprocessors", "sm_clock_max", "compute_capability"):
        changes: dict[str, Any] = {name: Unknown("not told")}
        assert percent_of(1e12, [H200, msgspec.structs.replace(H200, **changes)], float32) is None
    assert percent_of(1e12, [], float32) is None and peak_flops(H200, "int4", MATRIX) is None


@each(
    ("clock", "bits", "data_sheet"),
    [(2619, 5120, 3352e9), (5001, 256, 320e9), (10501, 384, 1008e9)],  # H100 SXM, T4, GeForce RTX 4090
)
def test_memory_bandwidth_is_the_data_sheets(clock: int, bits: int, data_sheet: float) -> None:
    one = gpu(memory_clock_max=clock, memory_bus_width=bits)
    assert memory_bandwidth(one) == pytest.approx(data_sheet, rel=0.01)
    assert percent_of(data_sheet, [one, one], memory_bandwidth) == pytest.approx(50, rel=0.01)
    assert percent_of(1e9, [gpu(memory_clock_max=2619), one], memory_bandwidth) is None


def test_a_run_is_held_against_the_memory_of_its_own_cards() -> None:
    facts = {"pci_bus_id": "0000:65:00.0", "memory_clock_max": 2619, "memory_bus_width": 5120}
    environment = spoil(healthy(), {"gpus": known((gpu(**facts),))})
    one = run("1 GPU", 0.1, flop=1e12, bytes_moved=167.6e9, gpu=(telemetry(),))
    found = with_peak(one, environment, MATRIX)
    assert found.percent_of_bandwidth == pytest.approx(50, rel=0.01)
    assert found.percent_of_peak is None  # its clock is not known
    elsewhere = run("1 GPU", 0.1, bytes_moved=167.6e9, gpu=(telemetry(pci_bus_id="0000:99:00.0"),))
    assert with_peak(elsewhere, environment, MATRIX).percent_of_bandwidth is None


CARDS = known((gpu(pci_bus_id="0000:65:00.0", power_limit=700.0),))
MACHINE = spoil(healthy(), {"host.cpus": known(2), "gpus": CARDS})
IDLE = telemetry(power_w=169.0)
STRONG: dict[str, Any] = {"devices": ("/GPU:0", "/GPU:1"), "scaling": "strong"}


def advice(*runs: Run, workload: str = "matpow", **parameters: int | str) -> list[str]:
    """What is said of the last run."""
    return list(advise(relate(runs), workload, MACHINE, parameters)[-1].advice)


ROWS = read_rows(Path(__file__).with_name("rows.yaml"))


@each(("label", "seconds", "changes", "cards", "said"), ROWS["advice"])
def test_advice(label: str, seconds: float, changes: dict[str, Any], cards: list[Any] | None, said: str) -> None:
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in changes.items()}
    fields |= {name: (fields[name],) * 11 for name in ("cpu_load", "cpu_wait") if name in fields}
    fields |= {} if cards is None else {"gpu": tuple(telemetry(**card) for card in cards)}
    assert advice(run(label, seconds, **fields)) == ([said] if said else [])


@each(("workload", "parameters", "steps", "said"), ROWS["options"])
def test_another_workload_has_other_options_or_none(
    workload: str, parameters: dict[str, Any], steps: int, said: str
) -> None:
    idle = run("1 GPU", 0.1, gpu=(IDLE,), percent_of_peak=3.2, steps_of=steps, step_name="call")
    assert advice(idle, workload=workload, **parameters) == ([said] if said else [])


def test_a_small_point_of_a_sweep_is_small_on_purpose() -> None:
    small = run("1 GPU", 0.0004, parameters={"size": 64}, flop=1e9, gpu=(IDLE,))
    assert advice(run("1 GPU", 0.1, parameters={"size": 4096}, flop=1e13), small) == []
    assert len(advice(small)) == 1


def test_poor_scaling_gets_a_reason() -> None:
    one = run("1 GPU", 0.11, gpu=(telemetry(),))
    assert advice(one, run("2 GPUs, rows", 0.1, spread="rows", gpu=(telemetry(), telemetry("/GPU:1")), **STRONG)) == [
        "efficiency 55 %: the work of each GPU may be too small: try a larger --size"
    ]
    assert advice(run("1 GPU", 0.2), run("2 GPUs, rows", 0.11, spread="rows", **STRONG)) == []


def test_many_gpus_are_told_in_one_sentence() -> None:
    many = tuple(telemetry(f"/GPU:{place}", throttled=("hw_slowdown", "sw_power_cap")) for place in range(3))
    (one,) = advise([run("3 GPUs, rows", 0.1, gpu=many, throttled_samples=(2,))], "matpow", MACHINE, {})
    assert [text.partition(": ")[0] for text in one.advice] == [
        "/GPU:0, /GPU:1, /GPU:2 throttled (hw_slowdown) during 1 of 11 samples"
    ]
    assert one.notes == ("power-limited, as usual for this load",)


# ------------------------------------------------------------------- medians and intervals, of samples and of processes

TIMES = [1.0] * 5 + [1.1] * 5  # median 1.05


def test_medians_quantiles_and_digits() -> None:
    for q, expected in ((0.0, 1.0), (0.25, 2.0), (0.5, 3.0), (0.6, 3.4), (1.0, 5.0)):
        assert quantile([5.0, 4.0, 3.0, 2.0, 1.0], q) == pytest.approx(expected)
    said = {0.0012: "0.12", 0.051: "5.1", 0.58: "58", 0.996: "100", 1.04: "104"}
    assert {share: percent(share) for share in said} == said


@each(
    ("q", "count", "ranks"),
    [(0.5, 10, (2, 9)), (0.9, 36, (29, 36)), (0.99, 368, (360, 368)), (0.99, 2000, (1971, 1989)), (0.01, 368, (1, 9))],
)
def test_the_interval_of_a_quantile(q: float, count: int, ranks: tuple[int, int]) -> None:
    # the narrowest ranks of which a binomial distribution leaves 2.5 % at most on either side
    samples = [float(place) for place in range(count, 0, -1)]
    assert quantile_interval(samples, q) == ranks
    enough = math.ceil(math.log(0.025) / math.log(max(q, 1 - q)))
    assert enough <= count and quantile_interval([1.0] * enough, q) == (1.0, 1.0)
    assert quantile_interval([1.0] * (enough - 1), q) is None
    assert quantile_interval([1.0] * WANTED, 0.99) and not quantile_interval([1.0] * (WANTED - 1), 0.99)
    assert median_interval([3.0, 1.0, 2.0]) == (1.0, 3.0), "of few samples it is their range"


@each(
    ("samples", "unmet"),
    [
        ([1.0] * 9, "only 9 of 10 samples"),
        ([0.01] * 10, "samples of only 0.10 of 0.5 s"),
        (TIMES, "interval ±4.8 % (target ±0.5 %)"),
        ([1.0] * 10, None),
    ],
)
def test_stopping_rule_names_the_unmet_condition(samples: list[float], unmet: str | None) -> None:
    rule = StoppingRule()
    assert rule.unmet(samples) == unmet
    assert rule.done(samples, elapsed=sum(samples)) is (unmet is None)


def test_the_deadline_and_what_processes_share() -> None:
    rule = StoppingRule(deadline=5.0)
    assert [rule.done(TIMES, elapsed) for elapsed in (4.9, 5.0)] == [False, True]
    assert not rule.done([], elapsed=6.0), "not without a sample"
    assert rule.done([1e-5, 2e-5] * 1000, elapsed=0.03), "samples without number"
    patient = replace(LATENCIES, min_samples=40, min_seconds=0.5, deadline=50.0, max_samples=2000)
    assert patient.share(1) is patient and patient.share(100).min_samples == 5
    each = replace(patient, min_samples=10, min_seconds=0.125, deadline=12.5, max_samples=500)
    assert patient.share(4) == each, "with what a workload adds to the rule"


def drawn(rng: random.Random, processes: int, spread: float, count: int = 12) -> Samples:
    """Processes whose medians scatter by `spread`; within one, samples scatter by 2 %."""
    middles = [rng.gauss(0, spread) for _ in range(processes)]
    return Samples(tuple(tuple(math.exp(one + rng.gauss(0, 0.02)) for _ in range(count)) for one in middles))


def noise(base: Samples, new: Samples) -> float:
    found = ratio_of_times(base, new)
    return found.high / found.value


def test_the_interval_holds_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    """With fewer than five processes, a spread above what is assumed could not be seen."""
    monkeypatch.setattr(samples, "DRAWS", 300)
    rng, trials = random.Random(20261121), 35
    rows = [*((count, PROCESS_SPREAD) for count in (1, 2, 5)), (1, 0.0), (10, 0.03)]
    covered = dict.fromkeys(rows, 0)
    for count, spread in rows:
        for _ in range(trials):
            found = ratio_of_times(drawn(rng, count, spread), drawn(rng, count, spread))
            covered[count, spread] += found.low <= 1 <= found.high
    assert sum(covered.values()) >= 0.93 * trials * len(rows) and min(covered.values()) >= 0.86 * trials, covered


def test_what_a_process_does_not_show_is_assumed_and_more_processes_narrow_it() -> None:
    """Samples of one process that hardly scatter say nothing of how processes differ."""
    steady = Samples(((1.0,) * 1000,))
    assert noise(steady, steady) == pytest.approx(math.exp(1.96 * math.sqrt(2) * PROCESS_SPREAD), rel=0.005)
    rng = random.Random(1)
    noises = [noise(*(drawn(rng, count, PROCESS_SPREAD, 40) for _ in range(2))) for count in (1, 3, 10)]
    assert noises == sorted(noises, reverse=True)
    apart = Samples(((1.0,) * 10, (1.2,) * 10, (1.0,) * 10))
    assert noise(apart, apart) > 1.1, "scattered ones widen it"


def test_what_slows_some_samples_or_one_process_of_five_changes_little_and_slow_waves_count() -> None:
    calm = Samples(((1.0, 1.01, 1.02, 1.03) * 5,) * 5)
    delayed = ((1.0, 1.01, 1.5, 2.0) * 5,) * 4
    found = ratio_of_times(calm, Samples((*delayed, (3.0,) * 20)))
    assert found.value == pytest.approx(1, abs=0.01) and found.high / found.value < 1.05
    assert noise(calm, Samples((*delayed[:3], (3.0,) * 20))) > 1.3, "one of four may be no exception"
    restless, waving = (Samples((tuple(one),)) for one in ([1.0, 1.1, 1.2] * 16, [1.0] * 16 + [1.1] * 16 + [1.2] * 16))
    assert math.log(noise(waving, waving)) > 1.4 * math.log(noise(restless, restless))


def test_a_ratio_is_a_quotient() -> None:
    one, other = (Samples(((seconds,) * 10,) * 5) for seconds in (2.0, 2.2))
    forth, back = ratio_of_times(one, other), ratio_of_times(other, one)
    assert forth.value == pytest.approx(1.1)
    assert (forth.low * back.high, forth.high * back.low) == pytest.approx((1, 1), rel=0.003)
    low, high = interval(one)
    assert low < 2.0 < high < 2.05


@each(
    ("load", "wait", "cpus", "share"),  # CPUs used, waited for, that there are, share
    [
        (1.0, 1.0, 2, 0.5),  # somebody had the other CPU all the time
        (2.0, 3.0, 2, 0.0),  # more threads than CPUs: they wait for one another
        (0.5, 0.0, 2, 0.0),  # it sleeps, or has one thread, half of the time
        (1.0, 0.1, 64, 0.1 / 1.1),
        (0.0, 0.0, 2, 0.0),
        (0.0, 1.0, 2, 1.0),
        (2.1, 1.0, 2, 0.0),  # clocks are coarse
    ],
)
def test_share_of_the_cpu_time_that_others_had(load: float, wait: float, cpus: int, share: float) -> None:
    assert lost_shares([load], [wait], cpus) == pytest.approx([share])


def test_usable_cpus() -> None:
    assert usable_cpus(spoil(healthy(), {"host.cpus": known(8), "host.cpu_quota": known(1.5)})) == 1.5
    assert usable_cpus(healthy()) == 16


def test_disturbed_samples_are_left_out_and_so_is_a_process_that_has_no_others() -> None:
    calm, disturbed = DISTURBED, DISTURBED + 0.01
    found = Samples(((1.0, 5.0, 1.0, 1.0), (5.0, 5.0, 1.0)), ((calm, disturbed, 0, 0), (1.0, 1.0, 0))).undisturbed()
    assert found.processes == ((1.0, 1.0, 1.0),)
    mostly = Samples(((1.0,) * 10, (1.0,) * 12), ((0.0,) * 3 + (0.5,) * 7, (0.0,) * 4 + (0.5,) * 8)).undisturbed()
    assert list(map(len, mostly.processes)) == [4]  # what is left of a process that was disturbed mostly is no evidence
    assert Samples(((1.0, 5.0),), None).undisturbed().processes == ((1.0, 5.0),)
