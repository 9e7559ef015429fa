"""Every reader of outside data answers or refuses, within its time, whatever it is given.

A few inputs of each every day, and with `-m full` hundreds of times as many. What failed once lies in seeds/, in a
folder with the name of its target, and is tried every time. Every expression by itself is tried in test_linear.py.
"""

from __future__ import annotations

import json
import re
import time
import traceback
import warnings
from pathlib import Path

import pytest

from tests.fuzz import calls, mutations, samples
from tests.fuzz.targets import DAILY, Target, targets
from tests.guard import StillBusyError, guarded
from tfgpu_doctor.facts.report import ReportError, load_report
from tfgpu_doctor.redact.redaction import Redactor

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


def test_redaction_takes_no_time_to_speak_of() -> None:
    for text in ("_" * 4000, "-" * 4000 + "!", "cuda." * 800, "a-" * 2000, "srun: a" + "1" * 3900):
        with guarded(5.0, text[:80]):
            for _ in range(5):
                Redactor((text,)).text(text)


def test_a_defect_is_found() -> None:
    def odd(data: bytes) -> None:
        end = time.thread_time() + 0.05
        while b"slow" in data and time.thread_time() < end:
            pass
        if b"refused" in data:
            raise LookupError("refused")
        if b"broken" in data:
            raise ZeroDivisionError("broken")

    target = Target("odd", odd, mutations=(mutations.SHORT[0],), refuses=(LookupError,), seconds=0.01)
    assert "ZeroDivisionError in test_fuzz.py" in fails(target, b"broken")
    assert attempt(target, b"refused")[2] and not fails(target, b"refused")
    assert fails(target, b"slow").startswith("slow: above 0.01 s")
    assert target.chance("7") == target.chance("7") != target.chance("8")


def test_the_checks_themselves_see_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    """A renderer that lets escapes and tags through is found out."""
    from tfgpu_doctor.render import markdown as parts
    from tfgpu_doctor.render import streams

    text = b"CUDA 12.4\nTensorFlow version: 2.13.0\nGPU: GeForce <script> card\nCould not find cuda drivers"
    assert json.loads(calls.walk(text).to_json())["facts"]["cuda"]["toolkits"]["value"][0]["version"] == "12.4"
    for module, name, broken, message in (
        (parts, "escape", lambda text, longest=0: text, "no tag from outside"),
        (streams, "clean_lines", lambda text: text + "\x1b", "no control character"),
    ):
        with monkeypatch.context() as patched, pytest.raises(AssertionError, match=message):
            patched.setattr(module, name, broken)
            calls.walk(text)
