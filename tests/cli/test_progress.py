"""Progress where there is no terminal."""

from __future__ import annotations

import pytest

from tests.bench.fake_worker import Clock
from tests.guard import guarded
from tfgpu_doctor.cli import progress
from tfgpu_doctor.cli.progress import EVERY, SILENT, Lines


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


def test_what_waits_long_says_so_again_and_again(capsys: pytest.CaptureFixture[str]) -> None:
    """An interpreter that never answers is waited for up to five minutes."""
    clock = Clock()
    lines = Lines(clock)
    lines("starting TensorFlow", 0.0)
    for second in range(0, 100, 5):
        clock.now = float(second)
        lines.remind()
    assert SILENT == 30
    assert capsys.readouterr().err.splitlines() == [
        f"tfgpu: after {seconds} s: still waiting: starting TensorFlow" for seconds in (30, 60, 90)
    ]


def test_it_is_said_while_the_block_waits(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.01)
    monkeypatch.setattr(progress, "SILENT", 0.05)
    with guarded(60, waiting=True), progress.bar() as report:
        report("starting TensorFlow", 0.0)
        said = ""
        while said.count("still waiting: starting TensorFlow") < 3:
            said += capsys.readouterr().err
