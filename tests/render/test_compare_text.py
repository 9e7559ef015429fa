"""The exact text of comparisons at width 80 without colour, beside golden files."""

from __future__ import annotations

import io
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.compare.test_compare import DONE
from tests.findings.rows_over_facts import NO_DRIVER, NO_GPU_LISTED, NO_GPU_USED, WHY, absent
from tests.healthy import MATRIX, gpu, known
from tests.records.test_report import report
from tests.render.test_text import check_golden
from tfgpu_doctor.compare.comparison import compare
from tfgpu_doctor.compare.records import Comparison
from tfgpu_doctor.render.console import console_for
from tfgpu_doctor.render.terminal.compare import render

GOLDEN = Path(__file__).parent / "golden" / "compare"
HOSTILE = "[bold]\x1b[31mevil\x1b[0m\n\u202e <script>"
NO_CUDA = {"loader.sonames": absent(), **NO_GPU_USED}
# file → (before, after)
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nothing": ({}, {}),
    "nothing-but-a-finding": (NO_CUDA, NO_CUDA),
    "numpy": DONE["pip install numpy"][:2],
    "numpy-repaired": DONE["pip install numpy"][1::-1],
    "two-variables": DONE["two variables that hide it, each enough"][:2],
    "crash": (
        {"host.cpu_flags": known(("avx", "sse4_2"))},
        {**DONE["a crash that nobody can explain"][1], "host.cpu_flags": known(("sse4_2",))},
    ),
    "no-libraries": ({}, {**NO_CUDA, "cudnn.installed": known(()), "cudnn.runtime": WHY}),
    "another-machine": (
        {},
        {**NO_DRIVER, **NO_GPU_USED, "host.cpu_model": known("Intel Xeon"), "host.kernel": known("6.1.0")},
    ),
    "not-examined": ({"tensorflow.devices": WHY, "cudnn.runtime": WHY}, {"tensorflow.devices": NO_GPU_LISTED}),
    "hostile": (
        {"variables": known({"XLA_FLAGS": HOSTILE})},
        {"gpus": known((gpu(name=HOSTILE, compute_capability="3.5"),))},
    ),
}


@cache
def compared(name: str) -> Comparison:
    before, after = CASES[name]
    return compare(report(before), report(after), MATRIX, "now", names=("good.json", "bad.json"))


def printed(name: str, monkeypatch: pytest.MonkeyPatch, columns: int = 80, **options: Any) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = io.StringIO()
    render(compared(name), console_for(stream), **options)
    return stream.getvalue()


@pytest.mark.parametrize("name", sorted(CASES))
def test_golden(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:]+Z", "CREATED", printed(name, monkeypatch))
    check_golden(GOLDEN / f"{name}.txt", text)


@pytest.mark.parametrize("name", sorted(CASES))
@pytest.mark.parametrize("columns", [40, 60, 120])
def test_fits_the_width(name: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for line in printed(name, monkeypatch, columns).splitlines():
        assert len(line) <= columns
        assert line == line.rstrip()


def test_no_control_character_survives(monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed("hostile", monkeypatch)
    assert all(char.isprintable() or char == "\n" for char in text)
    assert "[bold]" in text


def test_what_is_many_is_counted_and_all_lists_it(monkeypatch: pytest.MonkeyPatch) -> None:
    many = {"variables": known({f"NCCL_{number:02}": "1" for number in range(30)})}
    monkeypatch.setitem(CASES, "many", ({}, many))
    assert "and 20 more, which --all lists" in printed("many", monkeypatch)
    assert "NCCL_29" in printed("many", monkeypatch, everything=True)
