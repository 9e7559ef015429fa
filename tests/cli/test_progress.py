"""Progress where there is no terminal."""

from __future__ import annotations

import pytest

from tests.bench.fake_worker import Clock
from tfgpu_doctor.cli.progress import EVERY, Lines


def test_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    lines = Lines(clock)
    for second in range(35):
        clock.now = float(second)
        lines("CPU float32", second / 100)
    assert EVERY == 10
    assert capsys.readouterr().err.splitlines() == [
        "tfgpu: after 10 s: CPU float32, 10 % done",
        "tfgpu: after 20 s: CPU float32, 20 % done",
        "tfgpu: after 30 s: CPU float32, 30 % done",
    ]


def test_what_is_quick_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines(Clock())
    lines("starting TensorFlow", 0.0)
    assert capsys.readouterr().err == ""
