"""`tfgpu bench matpow --size LIST`: which sizes, what they show, and how they are printed. No process, no time."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import pytest

from tests.bench.fake_worker import FakeWorker
from tests.bench.samples import failed, result, run
from tests.bench.test_matpow import QUICK, Workers
from tests.healthy import MATRIX, healthy, known, spoil
from tests.tables import each
from tfgpu_doctor.bench.devices import Selection
from tfgpu_doctor.bench.plans.base import overtaking, saturation
from tfgpu_doctor.bench.plans.matpow import AUTO, RequestError, Sweep, parse_sizes
from tfgpu_doctor.bench.results import BenchResult, Run
from tfgpu_doctor.bench.runner.process import WorkerError
from tfgpu_doctor.bench.session import Session
from tfgpu_doctor.bench.statistics import StoppingRule
from tfgpu_doctor.bench.workloads import matpow
from tfgpu_doctor.render.console import console_for
from tfgpu_doctor.render.formats import renderer
from tfgpu_doctor.render.outlines.bench import verdict

# ------------------------------------------------------------------------------------------- which sizes


@each(
    ("text", "sizes"),
    [
        ("auto", AUTO),
        ("1024, 256,512,256", (256, 512, 1024)),
        ("256,…,2048", (256, 512, 1024, 2048)),
        ("300,...,1000,4000", (300, 600, 1000, 4000)),
        ("256,..,257", (256, 257)),
        ("256", (256,)),
        ("1k,…,4k", (1024, 2048, 4096)),
    ],
)
def test_lists_of_sizes(text: str, sizes: tuple[int, ...]) -> None:
    assert parse_sizes(text) == sizes


@each("text", ["", "256,…", "…,512", "256,x", "8,16", "16,200000", "²,512", "-1,2"])
def test_what_is_no_list_of_sizes(text: str) -> None:
    with pytest.raises(RequestError, match="--size"):
        parse_sizes(text)


class Cubic(FakeWorker):
    """Takes seconds in proportion to the work, and a little more."""

    rate = 1e13

    def _prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        size = request["parameters"]["size"]
        seconds = 1e-4 + matpow.flop(size, 10, 2) / self.rate
        self.seconds = iter(lambda: seconds, None)
        return super()._prepare(request)


class Started(Workers):
    """Starts them."""

    kind: type[FakeWorker] = Cubic

    def __call__(self) -> FakeWorker:
        self.started.append(self.kind(self.clock, gpus=self.gpus, **self.options))
        return self.started[-1]


def sweep(workers: Workers, rule: StoppingRule = QUICK, environment: Any = None, **settings: Any) -> BenchResult:
    plan = Sweep(**{"sizes": (64, 128, 256), **settings})
    return Session(plan, MATRIX, environment or healthy(), workers, rule).run()


def points(found: BenchResult) -> list[str]:
    return [f"{one.label} {one.dtype} {one.parameters['size']}" for one in found.runs]


def test_one_process_a_device_over_all_sizes() -> None:
    workers = Started(gpus=1)
    found = sweep(workers)
    assert points(found) == [f"{label} float32 {size}" for size in (64, 128, 256) for label in ("CPU", "1 GPU")]
    assert [worker.sizes for worker in workers.started] == [[64, 128, 256]] * 2
    assert all(worker.closed for worker in workers.started)
    assert all(one.throughput for one in found.runs)


def test_types_come_one_after_the_other_and_the_cpu_has_no_tf32() -> None:
    workers = Started(gpus=1)
    found = sweep(workers, sizes=(64, 128), dtypes=("float32", "tf32"))
    assert points(found)[4:] == ["1 GPU tf32 64", "1 GPU tf32 128"]
    assert len(workers.started) == 3
    assert all(one.speedup_vs_cpu for one in found.runs if one.label == "1 GPU")


def test_a_size_that_takes_too_long_is_left_out_on_that_device_and_named() -> None:
    # 1 s for six samples; at 1e13 FLOP/s 4096 takes 0.25 s
    found = sweep(Started(), sizes=(512, 1024, 4096, 8192))
    assert points(found) == ["CPU float32 512", "CPU float32 1024"]
    assert "N = 4096, 8192: skipped on CPU, float32: too slow for --deadline 1, estimated from 1024" in found.notes
    assert found.not_run == ()


def test_a_size_that_was_asked_for_by_its_name_and_that_no_device_has_time_for_is_not_run() -> None:
    found = sweep(Started(), sizes=(1024, 4096), named=True)
    assert points(found) == ["CPU float32 1024"] and found.not_run == ("N = 4096 in float32",)


def test_a_size_that_does_not_fit_is_left_out_and_named() -> None:
    tiny = spoil(healthy(), {"host.memory_limit": known(2**31)})
    found = sweep(Started(), environment=tiny, sizes=(2048, 16384), rule=StoppingRule(min_samples=3, deadline=600))
    assert points(found) == ["CPU float32 2048"]
    assert "N = 16384: skipped on CPU, float32: does not fit into the free memory of the host" in found.notes


def test_after_a_failure_no_larger_size_is_tried() -> None:
    def trouble(verb: str, _sample: int) -> None:
        if verb == "prepare" and workers.started[0].sizes[-1] == 128:
            raise WorkerError("ResourceExhaustedError: out of memory")

    workers = Started()

    class Fails(Cubic):
        def ask(self, timeout: float, **request: Any) -> dict[str, Any]:
            answer = super().ask(timeout, **request)
            trouble(request["do"], 0)
            return answer

    workers.kind = Fails
    found = sweep(workers)
    assert [bool(one.failure) for one in found.runs] == [False, True]
    assert "N = 256: skipped on CPU, float32, which failed at 128" in found.notes


def test_what_two_sweeps_must_share_does_not_hold_the_sizes() -> None:
    found = sweep(Started(), sizes=(64, 128))
    assert found.parameters["sweep"] == "size"
    assert found.title == "A^10 and B^10, 2 sizes from 64 to 128"


# ------------------------------------------------------------------------------------------- what they show


def at(label: str, size: int, seconds: float, noise: float = 0.0, **changes: Any) -> Run:
    """A run at a size, with work that does not depend on it: seconds alone tell the speed."""
    steps = tuple(1 + noise * step for step in (-3, -2, -1, 0, 1, 2, 3))
    return run(label, seconds, parameters={"size": size}, steps=steps, **changes)


def curve(label: str, times: dict[int, float], **changes: Any) -> list[Run]:
    return [at(label, size, seconds, **changes) for size, seconds in times.items()]


def said(gpu: dict[int, float], noise: float = 0.0, **changes: Any) -> str:
    cpu = curve("CPU", dict.fromkeys((256, 512, 1024, 2048), 1.0))
    (text,) = overtaking([*cpu, *curve("1 GPU", gpu, noise=noise, **changes)], "size", "N")
    return text


def test_where_the_gpu_overtakes() -> None:
    assert said({256: 4, 512: 2, 1024: 0.5, 2048: 0.25}) == (
        "1 GPU, float32: overtakes the CPU between N = 512 and 1024, at about 720; 4 times as fast at 2048"
    )


def test_the_bracket_is_as_wide_as_the_noise() -> None:
    text = said({256: 4, 512: 1.05, 1024: 0.95, 2048: 0.25}, noise=0.1)
    assert "between N = 256 and 2048, at about 7" in text


@each(
    ("times", "text"),
    [
        ({256: 0.5, 512: 0.25}, "faster than the CPU from the smallest size on (N = 256, 2 times)"),
        ({256: 4, 512: 2}, "slower than the CPU up to N = 512, the largest measured on both (0.5 times as fast)"),
        ({256: 4, 512: 1.0}, "not clearly faster than the CPU up to N = 512"),
        ({256: 1.0, 512: 0.5}, "faster than the CPU from N = 512 on; inconclusive below"),
        ({256: 0.5, 512: 2.0, 1024: 0.5}, "overtakes the CPU between N = 512 and 1024"),
        ({4096: 0.5}, "no size was also measured on the CPU"),
    ],
)
def test_other_ways_of_crossing(times: dict[int, float], text: str) -> None:
    assert text in said(times)


def test_tf32_is_compared_with_the_cpus_float32_and_virtual_devices_with_nothing() -> None:
    assert said({256: 4, 512: 0.5}, dtype="tf32").startswith("1 GPU, tf32: overtakes")
    runs = [*curve("CPU", {256: 1.0}), *curve("2 virtual CPUs, rows", {256: 0.1}, virtual=True)]
    assert list(overtaking(runs, "size", "N")) == []


@each(
    ("times", "text"),
    [
        ({256: 4, 512: 1.05, 1024: 1.0}, "CPU, float32: fastest at N = 1024; 90 % of that from 512 on"),
        ({256: 4, 512: 1.0, 1024: 1.5}, "CPU, float32: fastest at N = 512"),
        (
            {256: 4, 512: 2, 1024: 1},
            "CPU, float32: fastest at N = 1024, the largest, by 100 % over 512: a larger one may be faster still",
        ),
    ],
)
def test_saturation(times: dict[int, float], text: str) -> None:
    assert list(saturation(curve("CPU", times), "size", "N")) == [text]


def test_one_size_shows_no_saturation() -> None:
    assert list(saturation(curve("CPU", {256: 1.0}), "size", "N")) == []


# ------------------------------------------------------------------------------------------- how it is printed

EVIL = "[bold red]evil[/] \x1b[31m<script>\n\x07"


def printed(found: BenchResult, columns: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = io.StringIO()
    renderer("text", "bench", {})(found, console_for(stream))
    return stream.getvalue()


def example() -> BenchResult:
    times = {256: 4.0, 512: 2.0, 1024: 1.0, 16384: 1.1}
    found = result(
        *curve("CPU", {**times, 512: 3.0}, noise=0.03),
        *curve("1 GPU", {size: seconds / 80 for size, seconds in times.items()}),
        *curve("2 virtual GPUs, rows", {256: 1.0}, virtual=True, devices=("/GPU:0", "/GPU:1")),
        failed("1 GPU", f"out of memory {EVIL}", parameters={"size": 32768}),
        notes=(f"a note {EVIL}",),
        parameters={"sweep": "size"},
    )
    said = (f"1 GPU, float32: faster than the CPU from the smallest size on {EVIL}",)
    return msgspec.structs.replace(found, title="A^10 and B^10, 4 sizes from 256 to 16384", conclusions=said)


@each("columns", [40, 60, 80, 200])
def test_it_fits_and_is_harmless(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(example(), columns, monkeypatch)
    assert max(map(len, text.splitlines())) <= columns
    assert all(char.isprintable() for char in text.replace("\n", ""))
    assert text == "\n".join(line.rstrip() for line in text.split("\n"))


def test_what_the_runs_say_together_stands_last(monkeypatch: pytest.MonkeyPatch) -> None:
    found = sweep(Started(gpus=1))
    last = printed(found, 400, monkeypatch).splitlines()[-1]
    assert "1 GPU, size " in last and "TFLOP/s" in last and verdict(found) in last, "the best figure of the GPU"
    assert all(sentence in printed(found, 400, monkeypatch) for sentence in found.conclusions)


def test_what_is_said_of_several_sizes_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    text = " ".join(printed(example(), 100, monkeypatch).split())
    slow = result(*curve("CPU", {256: 4.0, 512: 2.0}, cpu_load=(1.0,) * 7), parameters={"sweep": "size"})
    assert "samples vary" not in text
    lines = [line for line in printed(slow, 200, monkeypatch).splitlines() if line.startswith("!")]
    assert len(lines) == 1 and lines[0].startswith("! CPU, size 512 (and 1 other): used 1.0 of 2 CPUs")


def test_nothing_measured_is_printed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(result(parameters={"sweep": "size"}), 80, monkeypatch)
    assert "0 of 0 results measured and verified." in text


def test_selection_is_used() -> None:
    found = sweep(Started(gpus=1), selection=Selection(devices=("/GPU:0",)))
    assert {one.label for one in found.runs} == {"1 GPU"}
