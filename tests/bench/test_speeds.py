"""What a speed is worth, beside those of other devices, in per cent of what the hardware can do; and the advice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.bench.samples import SHAKY, run, telemetry
from tests.healthy import MATRIX, gpu, healthy, known, spoil
from tests.tables import each, read_rows
from tfgpu_doctor.bench.results import Run
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
from tfgpu_doctor.facts.facts import Gpu, Unknown
from tfgpu_doctor.render.outlines.bench import taken as taken_of

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
    "disturbed nearly always": (disturbed(*range(9)), ["disturbed by other programs in 9 of 12 samples"]),
}


@each("name", DOUBTS)
def test_a_run_is_marked_for_what_makes_its_figure_doubtful(name: str) -> None:
    one, reasons = DOUBTS[name]
    assert len(one.doubts) == len(reasons)
    assert all(found.startswith(reason) for found, reason in zip(one.doubts, reasons, strict=True))
    assert one.advice == ((f"uncertain: {'; '.join(one.doubts)}",) if reasons else ())


def test_a_drift_is_said_where_it_is_sure() -> None:
    assert drift([1.0] * 11) is None, "two halves of six give intervals"
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


def test_per_cent_of_several_and_unknown_stays_unknown() -> None:
    peak = float32(H200)
    assert peak is not None and percent_of(peak, [H200, H200], float32) == pytest.approx(50)
    for name in ("multiprocessors", "sm_clock_max", "compute_capability"):
        changes: dict[str, Any] = {name: Unknown("not told")}
        assert percent_of(1e12, [H200, msgspec.structs.replace(H200, **changes)], float32) is None
    assert percent_of(1e12, [], float32) is None and peak_flops(H200, "int4", MATRIX) is None


def test_geforce_cards_have_their_own_peak() -> None:
    """Their tensor cores accumulate in float32 at half the rate of the professional cards'.

    165.2 TFLOP/s: GeForce RTX 4090 in the Ada whitepaper, FP16 tensor with FP32 accumulation.
    """
    clocked = {"compute_capability": "8.9", "multiprocessors": 128, "sm_clock_max": 2520}
    for name, peak in (("NVIDIA GeForce RTX 4090", 165.2e12), ("NVIDIA L40S", 2 * 165.2e12)):
        assert peak_flops(gpu(name=name, **clocked), "float16", MATRIX) == pytest.approx(peak, rel=0.01)


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
    large = run("1 GPU", 0.1, parameters={"size": 4096}, flop=1e13)
    assert advice(large, small) == []
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
