"""What takes for ever: lines made to keep an expression busy (pumps.py), nesting without end, and what the checks of
way.py see. Every reader by itself is tried in test_targets.py."""

from __future__ import annotations

import json
import re
from functools import cache

import pytest

from tests.fuzz import pumps, samples, way
from tests.guard import StillBusyError, guarded
from tfgpu_doctor.inference import text_to_facts
from tfgpu_doctor.parsers.text import lines
from tfgpu_doctor.records.report import ReportError, load_report
from tfgpu_doctor.redact.redaction import Redactor


@cache
def deep() -> dict[str, bytes]:
    return {
        "brackets": b'{"schema": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
        "objects": b'{"schema": "tfgpu.report/1", "facts": ' + b'{"a":' * 10_000 + b"1" + b"}" * 10_001,
        "a number": b'{"schema": "tfgpu.report/1", "created": ' + b"9" * 100_000 + b"}",
        "a name": b'{"schema": "' + b"x" * 1_000_000 + b'"}',
        "an unknown field": b'{"schema": "tfgpu.report/1", "' + b"y" * 1_000_000 + b'": 1}',
        "keys twice": samples.reports()[0].replace(b'"created"', b'"created": 1, "created"', 1),
        "NaN": samples.reports()[0].replace(b'"timings": {', b'"timings": {"all": NaN, ', 1),
    }


def test_reports_out_of_all_bounds() -> None:
    for name, data in deep().items():
        with pytest.raises(ReportError) as refused:
            load_report(data, name)
        message = str(refused.value)
        assert message.startswith(f"{name} ") and len(message) < 1000 and "\n" not in message


# -------------------------------------------------------------------------------------------- what takes for ever


def test_every_folder_of_expressions_is_searched() -> None:
    places = [name for name, _, _ in pumps.patterns()]
    for folder in ("parsers.messages.", "parsers.text.", "parsers.tools.", "inference.", "redact.", "render.markdown."):
        assert any(place.startswith(folder) for place in places), folder


def bombs(pattern: re.Pattern[str], longest: int) -> list[str]:
    """Some of the lines made to keep it busy, as they come out of the cleaning and as long as it may see."""
    return list(dict.fromkeys(lines.clean(bomb)[:longest] for bomb in list(pumps.bombs(pattern))[:60:4]))


@pytest.mark.parametrize("place", range(4))
def test_no_line_keeps_an_expression_busy(place: int) -> None:
    """For each expression some lines made to keep it busy; see pumps.py."""
    slow = []
    for name, pattern, longest in list(pumps.patterns())[place::4]:
        try:
            with guarded(3.0, name):  # a tenth of a second is much; what is wrong takes seconds a line
                for bomb in bombs(pattern, longest):
                    pattern.search(bomb)
        except StillBusyError as error:
            slow.append(str(error))
    assert slow == []


@pytest.mark.full
@pytest.mark.parametrize("place", range(16))
def test_no_line_keeps_a_parser_busy(place: int) -> None:
    """The same lines through the whole of the parsers, where expressions are tried one after the other."""
    for name, pattern, _ in list(pumps.patterns())[place::16]:
        with guarded(20.0, name):
            text_to_facts.read(lines.read(["\n".join(bombs(pattern, pumps.LENGTH)).encode("utf-8", "replace")]))


KNOWN_BOMBS = (  # each took one second or more before it was found
    "a/rapidsai/x" * 333,
    "nccl-shma." * 400,
    "tensorflow_estimator1" * 190,
    "gpu available" + " " * 3900 + "!",
    "tensorflow" + " " * 3900 + "!",
    " ( " * 1300,
    "- " * 2000,
)


def test_lines_that_took_seconds_once() -> None:
    """Several times each, so that seconds for one are too many, and the milliseconds of today are not."""
    for bomb in KNOWN_BOMBS:
        with guarded(5.0, bomb[:80]):
            text_to_facts.read(lines.read(["\n".join([bomb] * 5).encode()]))


@pytest.mark.parametrize("text", ["_" * 4000, "-" * 4000 + "!", "cuda." * 800, "a-" * 2000, "srun: a" + "1" * 3900])
def test_redaction_takes_no_time_to_speak_of(text: str) -> None:
    with guarded(5.0, text[:80]):
        for _ in range(5):
            Redactor((text,)).text(text)


def test_the_guard_stops_an_expression() -> None:
    with (
        pytest.raises(StillBusyError, match=r"still busy after .* an example"),
        guarded(0.1, "an example"),
    ):
        re.search(r"(a+)+$", "a" * 40 + "b")


def test_the_checks_themselves_see_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    """A renderer that lets escapes and tags through is found out."""
    from tfgpu_doctor.render import streams
    from tfgpu_doctor.render.markdown import report as markdown

    told = b"CUDA 12.4\nTensorFlow version: 2.13.0\nGPU: GeForce <script> GTX 1080\nCould not find cuda drivers"
    way.walk(told)
    with monkeypatch.context() as patched:
        patched.setattr(markdown, "escape", lambda text, longest=0: text)
        with pytest.raises(AssertionError, match="no tag from outside"):
            way.walk(told)
    with monkeypatch.context() as patched:
        patched.setattr(streams, "clean_lines", lambda text: text + "\x1b")
        with pytest.raises(AssertionError, match="no control character"):
            way.walk(told)
    assert json.loads(way.walk(told).to_json())["facts"]["cuda"]["toolkits"]["value"][0]["version"] == "12.4"
