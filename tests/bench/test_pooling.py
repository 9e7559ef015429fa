"""Two results as one."""

from __future__ import annotations

import msgspec
import pytest

from tests.bench.samples import STEADY, failed, result, run
from tfgpu_doctor.bench.comparing.comparison import compare_benches
from tfgpu_doctor.bench.pooling import pooled
from tfgpu_doctor.bench.saved import contradictions

WAITS = {"cpu_wait": (0.01,) * 11}


def test_the_processes_of_both_count() -> None:
    first = result(run(**WAITS, throttled_samples=(1,)))
    more = result(run(seconds=5.2, **WAITS, throttled_samples=(0, 3)))
    (one,) = pooled(pooled(first, more), more).runs
    assert one.processes == (11, 11, 11)
    assert one.samples_s[:11] == first.runs[0].samples_s and len(one.cpu_load) == len(one.cpu_wait) == 33
    assert one.throttled_samples == (1, 11, 14, 22, 25)
    assert one.median_s == pytest.approx(5.2, rel=0.01) and one.ci95_s and one.ci95_s[0] < 5.0
    assert one.throughput and one.throughput.value * one.median_s == pytest.approx(one.flop)
    assert list(contradictions(one)) == []
    assert pooled(first, more).parameters["processes"] == 0  # as in results of before that was recorded


def test_samples_of_more_steps_count_as_what_they_are() -> None:
    first, more = result(run(seconds=1.0)), result(run(seconds=2.0, steps_of=2))
    (one,) = pooled(first, more).runs
    assert one.steps == 2 and one.median_s == pytest.approx(2.0) and one.spread_iqr == pytest.approx(0.003, abs=0.003)


def test_a_run_that_failed_once_has_failed() -> None:
    good, bad = result(run()), result(failed("CPU", "died", devices=("/CPU:0",)))
    assert pooled(good, bad).runs[0].failure == pooled(bad, good).runs[0].failure == "died"


def test_what_was_run_in_one_of_them_only_counts() -> None:
    both, one = result(run(), run("1 GPU"), not_run=("a",)), result(run(), not_run=("1 GPU", "a"))
    for found in (pooled(both, one), pooled(one, both)):
        assert sorted(run.label for run in found.runs) == ["1 GPU", "CPU"] and found.not_run == ("a",)
    started = result(msgspec.structs.replace(run(), throughput=None, samples_s=()))
    assert pooled(both, started).runs[0].samples_s == both.runs[0].samples_s, "an interrupt while the second starts"


def test_doubts_are_those_of_all_samples() -> None:
    shaky = result(run(steps=(1.0, 1.5) * 6))
    (one,) = pooled(shaky, result(run())).runs
    assert one.doubts and one.advice == (f"uncertain: {one.doubts[0]}",)
    few = result(run(steps=STEADY[:5]))
    assert few.runs[0].doubts and pooled(few, few).runs[0].doubts == ()


def test_more_processes_make_the_comparison_narrower() -> None:
    base, new = result(run()), result(run(seconds=5.01))
    twice = pooled(new, result(run(seconds=5.02)))
    ratios = [compare_benches(base, one, "").runs[0].ratio for one in (new, twice)]
    assert all(ratios) and ratios[1].high - ratios[1].low < ratios[0].high - ratios[0].low  # type: ignore[union-attr]
