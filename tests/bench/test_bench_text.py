"""The exact text of a benchmark at widths 80 and 60 without colour, beside golden files.

TFGPU_UPDATE_GOLDEN=1 writes them anew; read the difference before committing it.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest

from tests.bench.samples import FLOP, failed, result, run, telemetry, verified
from tests.healthy import healthy, known, spoil
from tfgpu_doctor.bench.results import BenchResult
from tfgpu_doctor.render.bench_text import render
from tfgpu_doctor.render.console import console_for

GOLDEN = Path(__file__).parent / "golden"
PAIR: dict[str, Any] = {"devices": ("/GPU:0", "/GPU:1")}
FOUR: dict[str, Any] = {"devices": tuple(f"/GPU:{index}" for index in range(4)), "spread": "terms", "flop": 2 * FLOP}
HOST = {"host.cpu_model": known("AMD EPYC 9654"), "host.cpus": known(2)}
CPU_ONLY = spoil(healthy(), {**HOST, "gpus": known(())})
EVIL = "[bold red]evil[/] \x1b[31m<script>\n\x07"

RESULTS: dict[str, BenchResult] = {
    "cpu": result(
        run(stopped="spread 5.1 % instead of 2 %"),
        notes=("TensorFlow lists no GPU: this measures the CPU.",),
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
        notes=("Virtual devices share one physical device: they prove function, never speed.",),
        environment=CPU_ONLY,
    ),
    "broken": result(
        failed("CPU", "no answer to 'sample' within 120 s", devices=("/CPU:0",)),
        failed(
            "1 GPU",
            "the result is wrong: residual 0.31, at most 5.4e-06 is rounding",
            verified=verified(ok=False, residual=0.31),
        ),
        failed("2 GPUs, rows", "the worker was killed by SIGSEGV"),
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


@pytest.mark.parametrize("name", RESULTS)
def test_golden(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(name, 80, monkeypatch)
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("TFGPU_UPDATE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize("name", RESULTS)
def test_it_fits_and_is_harmless(name: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(name, columns, monkeypatch)
    assert max(map(len, text.splitlines())) <= columns
    assert all(char.isprintable() for char in text.replace("\n", ""))
    assert text == "\n".join(line.rstrip() for line in text.split("\n"))


def test_bars_are_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = [line.count("━") for line in printed("two-gpus", 80, monkeypatch).splitlines() if "FLOP/s" in line]
    assert max(lengths) == 20
    assert lengths[0] == 1  # the CPU: a hundredth, and still to be seen
    assert lengths[1] == round(20 * 0.0265 / 0.052)
