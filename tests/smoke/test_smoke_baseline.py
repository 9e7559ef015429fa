"""Saved results as a baseline: what is slower fails, what cannot be compared is not passed over."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.bench.samples import failed, result, run
from tests.records.test_report import report
from tests.smoke.smoking import Machine, machine
from tests.smoke.test_smoke_running import check
from tests.tables import each
from tfgpu_doctor.records.facts import Known
from tfgpu_doctor.records.report import ReportError
from tfgpu_doctor.smoke.baseline import Baseline, read


def saved(here: Machine, **options: Any) -> Baseline:
    return read(here.smoke(**options).to_json(), "base.json")


def test_the_same_machine_again_is_as_fast() -> None:
    smoke = Machine(2).smoke(baseline=saved(Machine(2)))
    assert smoke.verdict == "ok"
    runs = sum(one.name not in ("doctor", "import", "GPUs", "baseline") for one in smoke.checks)
    assert check(smoke, "baseline").saw == f"{runs} runs compared: at most 1.00 times the time in base.json"
    assert "1.00 times the time of the baseline" in check(smoke, "matpow", "GPU 1").saw


def test_slower_by_more_than_the_factor_fails() -> None:
    base = saved(Machine())
    slow = Machine(seconds=0.05 * 1.5)
    smoke = slow.smoke(baseline=base)
    bad = check(smoke, "matpow", "GPU 0")
    assert (bad.status, bad.why) == ("failed", "1.50 times the time of the baseline (limit 1.2)")
    assert smoke.verdict == "failed"
    assert Machine(seconds=0.05 * 1.5).smoke(baseline=base, factor=2.0).verdict == "ok"


def test_a_card_is_compared_with_itself() -> None:
    def second_is_slow(_here: Machine, verb: str, request: dict[str, Any]) -> dict[str, Any] | None:
        if verb == "prepare":
            times = [0.1 if request["devices"] == ["/GPU:1"] else 0.05]
            request["of"].seconds = iter(times * 10000)
        return None

    smoke = Machine(2, trouble=second_is_slow).smoke(baseline=saved(Machine(2, trouble=second_is_slow)))
    assert smoke.verdict == "ok"


@each(
    ("changes", "options", "why"),
    [
        ({}, {"dtype": "bfloat16"}, "it has matpow on GPU 0 in float32, not in bfloat16"),
        ({"tensorflow.version": Known("2.20.0", "test")}, {}, "not comparable: TensorFlow 2.21.0 → 2.20.0"),
        ({"driver.version": Known("580.1", "test")}, {}, "not comparable: driver 570.86.15 → 580.1"),
    ],
)
def test_what_cannot_be_compared_is_not_passed_over(changes: dict[str, Any], options: dict[str, Any], why: str) -> None:
    smoke = Machine(facts=machine(1, **changes)).smoke(baseline=saved(Machine()), **options)
    assert (check(smoke, "baseline").status, smoke.verdict) == ("unknown", "unknown")
    assert why in check(smoke, "baseline").why


def test_more_gpus_than_the_baseline_has() -> None:
    smoke = Machine(2).smoke(baseline=saved(Machine(1)))
    assert "it has no matpow on 2 GPUs" in check(smoke, "baseline").why


def test_nothing_measured_is_nothing_compared() -> None:
    smoke = Machine(0).smoke(baseline=saved(Machine()))
    assert check(smoke, "baseline").status == "not run"


SOFTWARE = {"tensorflow": "2.21.0", "python": "3.12.7", "numpy": "2.3.1"}


def bench(seconds: float = 0.05, **changes: Any) -> bytes:
    """What tfgpu bench matpow would have saved on the same machine."""
    one = run("1 GPU", seconds=seconds, placed_on=("/GPU:0",), flop=2 * 9 * 2 * 4096.0**3)
    return result(failed("CPU", "no"), one, environment=machine(1), software=SOFTWARE, **changes).to_json()


def test_a_result_of_bench_is_a_baseline() -> None:
    base = read(bench(), "bench.json")
    smoke = Machine().smoke(baseline=base)
    assert "times the time of the baseline" in check(smoke, "matpow", "GPU 0").saw
    assert (smoke.verdict, check(smoke, "baseline").saw) == (
        "ok",
        "1 run compared: at most 1.00 times the time in bench.json, which holds only matpow",
    )
    assert check(Machine(seconds=0.2).smoke(baseline=base), "matpow", "GPU 0").status == "failed"


def test_a_result_of_bench_of_another_size() -> None:
    other = bench(parameters={"size": 8192, "power": 10, "seed": 7, "min_samples": 10, "deadline_s": 120.0})
    smoke = Machine().smoke(baseline=read(other, "bench.json"))
    assert "size 8192 → 4096" in check(smoke, "baseline").why


@each(
    ("data", "message"),
    [
        (b"", "base.json is not a saved report: it is empty"),
        (b"{", "base.json is not a saved report"),
        (b'{"schema": "tfgpu.smoke/1"}', "base.json is not a valid result of tfgpu smoke"),
        (b'{"schema": "tfgpu.smoke/2"}', "base.json has schema 'tfgpu.smoke/2'"),
        (b'{"schema": "tfgpu.bench/1"}', "base.json is not a valid bench result"),
        (report().to_json(), "reads a result of tfgpu smoke or tfgpu bench"),
        (Machine(0).smoke().to_json(), "base.json holds no speed to compare with"),
    ],
)
def test_what_is_no_baseline(data: bytes, message: str) -> None:
    with pytest.raises(ReportError, match=r"^base\.json ") as caught:
        read(data, "base.json")
    assert message in str(caught.value)


def test_samples_that_others_disturbed_decide_nothing() -> None:
    base = json.loads(Machine().smoke().to_json())
    few = base["runs"][0]["run"]
    few["samples_s"], few["processes"] = few["samples_s"][:3], []
    few["cpu_load"] = few["cpu_wait"] = []
    base["runs"] = base["runs"][:1]
    smoke = Machine().smoke(baseline=read(json.dumps(base).encode(), "base.json"))
    assert "inconclusive: BASE has only 3 samples" in check(smoke, "baseline").why


def test_json_and_back_is_the_identity() -> None:
    from tfgpu_doctor.smoke.records import Smoke

    smoke = Machine(2).smoke(rounds=2, baseline=saved(Machine(2)))
    assert msgspec.json.decode(smoke.to_json(), type=Smoke) == smoke
