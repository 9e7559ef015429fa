"""Every reader of outside data answers or refuses, within its time, whatever it is given.

A few inputs of each every day, and with `-m full` hundreds of times as many. What failed once lies in seeds/, in a
folder with the name of its target, and is tried every time. Every expression by itself is tried in test_linear.py.
"""

from __future__ import annotations

import re
import time
import traceback
import warnings
from pathlib import Path

import pytest

from tests.fuzz import samples
from tests.fuzz.targets import DAILY, Target, targets
from tests.guard import StillBusyError, guarded
from tfgpu_doctor.facts.report import ReportError, load_report

SEEDS = Path(__file__).parent / "seeds"
PARTS = 4  # so that workers share the inputs evenly
PATIENCE = 10  # times what a target may take, after which an input is stopped
MORE = 200  # times the inputs of a day


def attempt(target: Target, data: bytes) -> tuple[str, float, bool]:
    """Return where it fails, in one line, or nothing; the seconds it took; whether it was refused as documented."""
    begin, refused, place = time.thread_time(), False, ""
    try:
        with guarded(PATIENCE * target.seconds, target.name), warnings.catch_warnings():
            warnings.simplefilter("error")
            target.call(data)
    except target.refuses as error:
        refused = True
        place = "a refusal much longer than the input" if len(str(error)) >= 3 * len(data) + 2000 else ""
    except (Exception, RecursionError) as error:  # whatever it is, it is what we look for
        last = [one for one in traceback.extract_tb(error.__traceback__) if "guard.py" not in one.filename][-1]
        at = "" if isinstance(error, StillBusyError) else f" in {Path(last.filename).name}:{last.lineno}"
        place = f"{type(error).__name__}{at} {str(error)[:100]!r}"
    return place, time.thread_time() - begin, refused


def fails(target: Target, data: bytes) -> str:
    """Return where it fails; slow counts where it is slow again, since others use this machine."""
    place, seconds, _ = attempt(target, data)
    if not place and seconds > target.seconds and min(attempt(target, data)[1] for _ in range(2)) > target.seconds:
        return f"slow: above {target.seconds} s"
    return place


def failures(part: int, first: int, times: int) -> list[tuple[str, str, bytes]]:
    """Return target, place and input of what fails, of a part of the targets."""
    tried = (
        (target, target.chance(str(number)))
        for target in targets()[part::PARTS]
        for number in range(first, first + target.inputs * times)
    )
    return [(target.name, place, data[:2000]) for target, data in tried if (place := fails(target, data))]


@pytest.mark.parametrize("part", range(PARTS))
def test_some_inputs_of_each_reader_and_real_input_gets_through(part: int) -> None:
    """A target that refuses all of its samples would try nothing."""
    wrong = []
    for target in targets()[part::PARTS]:
        real = [attempt(target, data) for data in list(dict.fromkeys(target.corpus()))[:2]]
        wrong += [(target.name, place) for place, _, _ in real if place]
        wrong += [(target.name, "all are refused")] if all(refused for _, _, refused in real) else []
    assert wrong == []
    assert failures(part, 0, 1) == []


@pytest.mark.full
@pytest.mark.parametrize("part", range(PARTS))
def test_many_inputs_of_each_reader(part: int) -> None:
    assert failures(part, DAILY, MORE) == []


def test_what_failed_once() -> None:
    by_folder = {re.sub(r"\W+", "-", target.name).strip("-"): target for target in targets()}
    kept = [(by_folder[file.parent.name], file) for file in sorted(SEEDS.glob("*/*"))]
    assert len(kept) > 9
    assert [file for target, file in kept if fails(target, file.read_bytes())] == []


def test_reports_out_of_all_bounds() -> None:
    deep = {
        "brackets": b'{"schema": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
        "objects": b'{"schema": "tfgpu.report/1", "facts": ' + b'{"a":' * 10_000 + b"1" + b"}" * 10_001,
        "a number": b'{"schema": "tfgpu.report/1", "created": ' + b"9" * 100_000 + b"}",
        "a name": b'{"schema": "' + b"x" * 1_000_000 + b'"}',
        "an unknown field": b'{"schema": "tfgpu.report/1", "' + b"y" * 1_000_000 + b'": 1}',
        "keys twice": samples.reports()[0].replace(b'"created"', b'"created": 1, "created"', 1),
        "NaN": samples.reports()[0].replace(b'"timings": {', b'"timings": {"all": NaN, ', 1),
    }
    for name, data in deep.items():
        with pytest.raises(ReportError) as refused:
            load_report(data, name)
        message = str(refused.value)
        assert message.startswith(f"{name} ") and len(message) < 1000 and "\n" not in message
