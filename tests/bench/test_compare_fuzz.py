"""Whatever two files hold that can be read as bench results: a comparison that can be printed, and no traceback."""

from __future__ import annotations

import io
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from tests.bench.samples import result, run, verified
from tfgpu_doctor.bench.comparing.comparison import compare_benches, exit_code
from tfgpu_doctor.bench.comparing.records import BenchComparison
from tfgpu_doctor.bench.results import BenchResult, Figure, Run, Throughput
from tfgpu_doctor.records.facts import Facts, Host, Known
from tfgpu_doctor.render.console import console_for
from tfgpu_doctor.render.markdown.bench_compare import render as markdown
from tfgpu_doctor.render.terminal.bench_compare import render

NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([0.0, -1.0, 1.0, 1e-308, 1e308, 5e-324])
)
TIMES = st.one_of(NUMBERS, st.floats(0.9, 1.1), st.just(1.0))
COUNTS = st.lists(st.integers(-3, 12), max_size=6)
TEXTS = st.text(max_size=12)


@st.composite
def runs(draw: st.DrawFn) -> Run:
    samples = draw(st.lists(TIMES, max_size=14))
    beside = st.one_of(st.just([]), st.lists(NUMBERS, min_size=len(samples), max_size=len(samples)))
    changes: dict[str, Any] = {
        "label": draw(st.sampled_from(["CPU", "1 GPU"])),
        "devices": tuple(draw(st.sampled_from([[], ["/CPU:0"], ["/GPU:0"], ["/GPU:0", "/GPU:1"], ["x"]]))),
        "placed_on": tuple(draw(st.lists(TEXTS, max_size=2))),
        "samples_s": tuple(samples),
        "processes": tuple(draw(COUNTS)),
        "steps": draw(st.integers(-1, 3)),
        "cpu_load": tuple(draw(beside)),
        "cpu_wait": tuple(draw(beside)),
        "throttled_samples": tuple(draw(COUNTS)),
        "flop": draw(st.none() | NUMBERS),
        "median_s": draw(st.none() | NUMBERS),
        "virtual": draw(st.booleans()) and draw(st.booleans()),
        "verified": draw(st.sampled_from([None, verified(ok=False), verified(), verified(), verified()])),
        "failure": draw(st.sampled_from([None, None, None, "it died"])),
        "parameters": draw(st.dictionaries(TEXTS, st.none() | st.integers() | NUMBERS | TEXTS, max_size=1)),
        "throughput": draw(
            st.none() | st.builds(Throughput, value=NUMBERS, unit=TEXTS, ci95=st.tuples(NUMBERS, NUMBERS))
        ),
        "figures": tuple(draw(st.lists(st.builds(Figure, name=st.just("fit"), value=NUMBERS, unit=TEXTS), max_size=2))),
    }
    return msgspec.structs.replace(run(), **changes)


@st.composite
def results(draw: st.DrawFn) -> BenchResult:
    cpus = draw(st.sampled_from([None, 0, 1, 2, 64]))
    environment = Facts() if cpus is None else Facts(host=Host(cpus=Known(cpus, "test")))
    found = result(environment=environment, title=draw(TEXTS))
    return msgspec.structs.replace(found, runs=tuple(draw(st.lists(runs(), max_size=3))))


@seed(20261121)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(results(), results(), st.floats(1.0001, 100))
def test_there_is_always_an_answer(base: BenchResult, new: BenchResult, factor: float) -> None:
    for pair in ((base, new), (base, base)):
        found = compare_benches(*pair, "2026-11-21T12:00:00Z", factor=factor)
        assert msgspec.json.decode(found.to_json(), type=BenchComparison) == found
        stream = io.StringIO()
        render(found, console_for(stream))
        assert all(char.isprintable() for char in stream.getvalue().replace("\n", ""))
        assert markdown(found)
        code = exit_code(found, "slower")
        if pair[0] is pair[1]:
            assert code in (0, 3) and not any(one.verdict in ("slower", "faster") for one in found.runs)
