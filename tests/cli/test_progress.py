"""Progress where there is no terminal."""

from __future__ import annotations

import threading

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


def test_a_line_also_where_nothing_new_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample of a large matrix can take minutes."""
    printed = threading.Event()
    monkeypatch.setattr("tfgpu_doctor.cli.progress.EVERY", 0.05)
    monkeypatch.setattr("tfgpu_doctor.cli.progress.say", lambda text: "CPU float32" in text and printed.set())
    with Lines().ticking() as lines:
        lines("CPU float32", 0.1)
        assert printed.wait(5.0)


def test_what_is_quick_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines(Clock())
    lines("starting TensorFlow", 0.0)
    assert capsys.readouterr().err == ""
