"""A worker whose clock is wrong is told so in plain words, and has no speed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bench.samples import failed, result
from tests.tables import each
from tfgpu_doctor.bench.runner.process import WorkerError, WorkerProcess, clock_problem, problem
from tfgpu_doctor.cli.bench import exit_code

SAMPLED: dict[str, Any] = {
    "samples": [0.1],
    "loads": [1.0],
    "placed_on": ["/CPU:0"],
    "misplaced": None,
    "rechecked": [],
}
# answers on two channels as the worker does, and says that 100 times less time has passed
SLOW = """
import json, sys, time
for line in sys.stdin:
    time.sleep(2.5)
    answer = {answer}
    answer["took"] = 0.025
    print(json.dumps(answer), flush=True)
"""


def _told(took: float, elapsed: float) -> str:
    return f"the answer to 'sample' cannot be used: {clock_problem({'took': took}, elapsed)}"


@each("changes", [{"samples": [0.0]}, {"samples": [-0.1]}, {"took": -1.0}, {"loads": [-1.0]}])
def test_a_time_that_is_none(changes: dict[str, Any]) -> None:
    why = problem({"do": "sample"}, {**SAMPLED, **changes})
    assert why == "its clock stood still, went back or jumped, so that its times mean nothing"


def test_a_start_of_negative_length() -> None:
    assert "went back" in str(problem({"do": "prepare"}, {"cold": {"import": -2.0}}))


@each(
    ("took", "elapsed", "wrong"),
    [
        (0.5, 0.51, False),
        (0.5, 2.9, False),
        (0.5, 50.0, True),
        (50.0, 0.5, True),
        (None, 9.0, False),
        (60.0, 61.0, False),
    ],
)
def test_our_own_clock_contradicts(took: float | None, elapsed: float, wrong: bool) -> None:
    assert (clock_problem({"took": took}, elapsed) is not None) is wrong


@each(
    ("failures", "code"),
    [((_told(0.5, 50.0),), 3), ((_told(0.5, 50.0), "the result is wrong: 0.5"), 1), (("out of memory",), 1)],
)
def test_the_exit_code_says_that_nothing_was_determined(failures: tuple[str, ...], code: int) -> None:
    measured = result(*(failed(f"{number} GPUs", why) for number, why in enumerate(failures)))
    assert exit_code(measured) == code


def test_a_clock_that_runs_slow_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text(SLOW.replace("{answer}", repr(SAMPLED)))
    refused = pytest.raises(WorkerError, match=r"its clock counted 0\.025 s where \d\.\d+ s passed")
    with WorkerProcess(sys.executable, script=script) as worker, refused:
        worker.ask(60, do="sample", count=1, steps=1)
