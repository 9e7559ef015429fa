"""Every reader of outside data answers or refuses, within its time, whatever it is given.

A few inputs of each every day; `-m full` tries hundreds of thousands, and fuzz.py as many as you let it. What failed
once lies in seeds/ and is tried every time. Every expression by itself is tried in test_linear.py.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.fuzz import calls, fuzz, mutations, samples, targets
from tests.fuzz.targets import CHEAP, MIDDLE, Target
from tests.guard import guarded
from tfgpu_doctor.facts.report import ReportError, load_report
from tfgpu_doctor.redact.redaction import Redactor

PARTS = 4  # of the campaign, so that workers share it evenly


@pytest.mark.parametrize("part", range(PARTS))
def test_some_inputs_of_each_reader_and_real_input_gets_through(part: int) -> None:
    """A target that refuses all of its samples would try nothing."""
    failed = []
    for target in list(targets.targets().values())[part::PARTS]:
        real = [fuzz.attempt(target, data) for data in list(dict.fromkeys(target.corpus()))[:2]]
        failed += [(target.name, place) for place, _, _ in real if place]
        failed += [(target.name, "all are refused")] if all(refused for _, _, refused in real) else []
        for number in range(8 if target.inputs >= CHEAP else 3 if target.inputs >= MIDDLE else 1):
            data = target.chance(str(number))
            if place := fuzz.fails(target, data):
                failed.append((target.name, place, data[:2000]))
    assert failed == []


def test_what_failed_once() -> None:
    kept = fuzz.kept()
    assert len(kept) > 9
    assert [(name, file) for name, file in kept if fuzz.fails(targets.targets()[name], file.read_bytes())] == []


@pytest.mark.full
@pytest.mark.parametrize("part", range(PARTS))
def test_a_campaign(part: int) -> None:
    """Try each target's inputs, shared between the parts; what fails is kept for every day."""
    failed = []
    for name, tally in fuzz.campaign(targets.targets().values(), f"part {part}", 1 / PARTS):
        failed += fuzz.keep(name, tally)
        print(f"{name}: {tally.inputs} inputs, {tally.refused} refused, slowest {1000 * tally.slowest:.0f} ms")
    assert failed == []


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


# ------------------------------------------------------------------------------------------------ the fuzzing itself


def _slow_or_broken(text: str) -> None:
    """Be slow about one letter, break at another, and refuse a third."""
    end = time.thread_time() + 0.05
    while "s" in text and time.thread_time() < end:
        pass
    if "r" in text:
        raise LookupError("refused")
    if "b" in text:
        raise ZeroDivisionError("broken")


def test_a_defect_is_found_made_small_and_kept(tmp_path: Path) -> None:
    target = Target(
        "an example",
        lambda data: _slow_or_broken(data.decode("latin-1")),
        lambda: (b"many words with a b in the middle of them",),
        (mutations.SHORT[0],),
        (LookupError,),
        inputs=20,
    )
    ((name, tally),) = fuzz.campaign([target], "1")
    assert (name, tally.inputs) == ("an example", 20)
    assert list(tally.failures.values()) == [b"b"]
    (line,) = fuzz.keep(name, tally, tmp_path)
    assert "ZeroDivisionError in test_fuzz.py" in line and [file.read_bytes() for file in tmp_path.glob("*/*")] == [
        b"b"
    ]
    assert fuzz.attempt(target, b"r")[2] and not fuzz.fails(target, b"r")
    assert fuzz.fails(Target("slow", target.call, seconds=0.01), b"s").startswith("slow: above 0.01 s")
    assert target.chance("7") == target.chance("7") != target.chance("8")


def test_the_checks_themselves_see_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    """A renderer that lets escapes and tags through is found out."""
    from tfgpu_doctor.render import markdown as parts
    from tfgpu_doctor.render import streams

    text = b"CUDA 12.4\nTensorFlow version: 2.13.0\nGPU: GeForce <script> card\nCould not find cuda drivers"
    calls.walk(text)
    with monkeypatch.context() as patched:
        patched.setattr(parts, "escape", lambda text, longest=0: text)
        with pytest.raises(AssertionError, match="no tag from outside"):
            calls.walk(text)
    with monkeypatch.context() as patched:
        patched.setattr(streams, "clean_lines", lambda text: text + "\x1b")
        with pytest.raises(AssertionError, match="no control character"):
            calls.walk(text)
    assert json.loads(calls.walk(text).to_json())["facts"]["cuda"]["toolkits"]["value"][0]["version"] == "12.4"
