"""The exact text of a benchmark at widths 80 and 60 without colour, beside golden files.

TFGPU_UPDATE_GOLDEN=1 writes them anew; read the difference before committing it.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.bench.samples import FLOP, SHAKY, failed, result, run, telemetry, verified
from tests.healthy import healthy, known, spoil
from tests.tables import each
from tfgpu_doctor.bench.results import BenchResult, Check, Figure, Run, Throughput
from tfgpu_doctor.render.console import console_for
from tfgpu_doctor.render.formats import renderer

render = renderer("text", "bench", {})

GOLDEN = Path(__file__).parent / "golden"
PAIR: dict[str, Any] = {"devices": ("/GPU:0", "/GPU:1"), "scaling": "strong"}
FOUR: dict[str, Any] = {"devices": tuple(f"/GPU:{index}" for index in range(4)), "spread": "terms", "flop": 2 * FLOP}
FOUR["scaling"] = "weak"
HOST = {"host.cpu_model": known("AMD EPYC 9654"), "host.cpus": known(2)}
CPU_ONLY = spoil(healthy(), {**HOST, "gpus": known(())})
EVIL = "[bold red]evil[/] \x1b[31m<script>\n\x07"


def training(label: str, seconds: float, **changes: Any) -> Run:
    """Blocks of 20 steps, verified by checks, with `fit` beside them."""
    one = run(label, seconds, **{"flop": 64.0 * 20, **changes})
    assert one.throughput is not None
    return msgspec.structs.replace(
        one,
        steps=20,
        step_name="step",
        throughput=msgspec.structs.replace(one.throughput, unit="images/s"),
        verified=verified(
            residual=None,
            tolerance=None,
            checks=(
                Check(name="loss falls", ok=True, saw="2.31 to 0.42"),
                Check(name="replicas alike", ok=True, saw=""),
            ),
        ),
        figures=(
            Figure(name="fit", value=3812.0, unit="images/s", ci95=(3790.0, 3855.0), note="what most people use"),
            Figure(name="weights", value=2.6e6, unit="B"),
        ),
    )


RESULTS: dict[str, BenchResult] = {
    "cpu": result(
        run(steps=SHAKY),
        notes=("TensorFlow lists no GPU: only the CPU is measured.",),
        environment=CPU_ONLY,
    ),
    "two-gpus": result(
        run(),
        run("1 GPU", 0.052, gpu=(telemetry(),), percent_of_peak=77.4, placed_on=("/GPU:0", "/GPU:0")),
        run("2 GPUs, terms", 0.027, spread="terms", **PAIR),
        run("2 GPUs, rows", 0.0265, spread="rows", **PAIR),
        environment=spoil(healthy(), HOST),
    ),
    "four-gpus": result(
        run("1 GPU", 0.052, dtype="tf32", computed_in="float32"),
        run(
            "4 GPUs, terms",
            0.031,
            dtype="tf32",
            **FOUR,
            gpu=(telemetry(throttled=("sw_power_cap",)),),
            throttled_samples=(4, 5),
        ),
        environment=spoil(healthy(), HOST),
    ),
    "virtual": result(
        run(),
        run("2 virtual CPUs, rows", devices=("/CPU:0", "/CPU:1"), spread="rows", virtual=True),
        notes=("Virtual devices share one physical device: they test multi-device code, not speed.",),
        environment=CPU_ONLY,
    ),
    "broken": result(
        failed("CPU", "no answer to 'sample' within 120 s", devices=("/CPU:0",)),
        failed(
            "1 GPU",
            "the result is wrong: relative error 0.31 (limit 5.4e-06)",
            verified=verified(ok=False, residual=0.31),
        ),
        failed("2 GPUs, rows", "the worker was killed by SIGSEGV"),
        environment=spoil(healthy(), HOST),
    ),
    "training": result(
        training("1 GPU", 0.31, gpu=(telemetry(),), percent_of_peak=31.2, peak_is="peak"),
        training("2 GPUs", 0.33, devices=("/GPU:0", "/GPU:1"), scaling="weak", flop=128.0 * 20),
        failed("4 GPUs", "ResourceExhaustedError: try a smaller --batch-size", devices=FOUR["devices"]),
        workload="cnn",
        title="training of mnist, 64 images a replica",
        environment=spoil(healthy(), HOST),
    ),
    "points": result(
        *(
            run("CPU" if device == "CPU" else "1 GPU", seconds / batch, parameters={"batch_size": batch}, flop=64e9)
            for batch in (1, 8, 32, 128, 512)
            for device, seconds in (("CPU", 8.0), ("GPU", 0.2))
        ),
        failed("1 GPU", "the worker was killed by SIGKILL", parameters={"batch_size": 2048}),
        workload="inference",
        title="resnet50, calls one by one",
        environment=spoil(healthy(), HOST),
    ),
    "bytes": result(
        *(
            msgspec.structs.replace(
                run("GPU 0 to a device with quite a long name", 0.01, parameters={"bytes": size}),
                throughput=Throughput(value=12.4e9, unit="B/s", ci95=(12.3e9, 12.6e9)),
            )
            for size in (2**20, 2**28)
        ),
        workload="transfer",
        title="copies",
        environment=spoil(healthy(), HOST),
    ),
    "hostile": result(
        run("1 GPU", 0.052, gpu=(telemetry(name=EVIL),), placed_on=(EVIL,), cold_start_s={EVIL: 1.0}),
        failed("[red]x[/]\x1b[31m", EVIL),
        notes=(EVIL,),
        software={"tensorflow": EVIL, "python": "3.12"},
        environment=spoil(healthy(), {"host.cpu_model": known(EVIL)}),
    ),
}


def printed(name: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = io.StringIO()
    render(RESULTS[name], console_for(stream))
    return stream.getvalue()


@each("columns", [60, 80])
@each("name", RESULTS)
def test_golden(name: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(name, columns, monkeypatch)
    file = GOLDEN / f"{name}{'' if columns == 80 else f'.{columns}'}.txt"
    if os.environ.get("TFGPU_UPDATE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) <= columns
    assert all(char.isprintable() for char in text.replace("\n", ""))


def bars(text: str, symbol: str = "━") -> list[int]:
    """Lengths of the bars in the table, which stands above the first blank line but one."""
    table = text.split("\n\n")[1].splitlines()[1:]
    return [line.count(symbol) for line in table]


def test_bars_are_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = bars(printed("two-gpus", 110, monkeypatch))
    assert max(lengths) == 20
    assert lengths[0] == 1  # the CPU: a hundredth, and still to be seen
    assert lengths[1] == round(20 * 0.0265 / 0.052)


def test_ascii_where_the_encoding_has_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    render(RESULTS["two-gpus"], console_for(stream))
    stream.flush()
    text = raw.getvalue().decode("ascii")
    assert max(bars(text, "=")) == 20
    assert text.count("\n+ ") == 9  # in the table, above each block, and the last line


def test_of_many_runs_those_that_have_something_to_say_get_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed("points", 80, monkeypatch)
    assert text.count("batch size 2048") == 1 and "✗ 1 GPU  float32  batch size 2048  the worker was" in text
    assert "✓ CPU  float32" not in text
    assert "-v, --output FILE.html" in text
