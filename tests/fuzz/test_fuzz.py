"""Whatever the text, whatever the saved report: an answer in time that keeps every promise. See way.py for what must
hold; `-m full` looks further than these few hundred tries, and fuzz.py as far as you let it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from random import Random

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from tests.fuzz import fuzz, mutations, pumps, reports, way
from tests.guard import StillBusyError, guarded
from tfgpu_doctor.inference import text_to_facts
from tfgpu_doctor.parsers.messages import catalogue
from tfgpu_doctor.parsers.text import (
    lines,
    os_names,
    platform_hints,
    wrappings,
)
from tfgpu_doctor.parsers.text.statements import issue_form, labels, mentions, values
from tfgpu_doctor.parsers.tools import (
    install_commands,
    ldconfig,
    library_listings,
    nvidia_smi,
    nvidia_smi_csv,
    pip_install,
    pip_list,
    system_outputs,
    tensorflow_build,
    tensorflow_devices,
    tensorflow_gpus,
    toolkit_outputs,
)
from tfgpu_doctor.records.printable import clean
from tfgpu_doctor.redact.redaction import Redactor
from tfgpu_doctor.render.markdown.report import escape

BOUNDED = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
OF_LINES = {
    "commands": install_commands.parse,
    "form": issue_form.parse,
    "libraries_seen": library_listings.parse,
    "messages": catalogue.read,
    "pip_install": pip_install.parse,
    "pip_list": pip_list.parse,
    "surroundings": platform_hints.read,
    "system_outputs": system_outputs.parse,
    "tensorflow_build": tensorflow_build.parse,
    "tensorflow_devices": tensorflow_devices.parse,
    "tensorflow_gpus": tensorflow_gpus.gpus,
    "toolkit_outputs": toolkit_outputs.parse,
}
OF_TEXT = {
    "form_labels": labels.reader_of,
    "form_mentions": mentions.mentions,
    "cuda_and_cudnn": values.cuda_and_cudnn,
    "tensorflow": values.tensorflow,
    "gpu": values.gpu,
    "system": values.system,
    "ldconfig": ldconfig.parse,
    "nvidia_smi": nvidia_smi.parse,
    "nvidia_smi_csv": nvidia_smi_csv.parse,
    "os_names": os_names.name,
    "wrappings": wrappings.unwrap,
}
MUTATED = st.builds(
    mutations.mutate,
    st.sampled_from(range(len(mutations.corpus()))).map(lambda number: mutations.corpus()[number]),
    st.lists(st.tuples(st.integers(0, len(mutations.MUTATIONS) - 1), st.integers(0, 1 << 30)), min_size=1, max_size=4),
)
WORDS = st.lists(
    st.one_of(
        st.sampled_from(
            [*mutations.HOSTILE, "CUDA", "cuDNN", "TensorFlow", "2.13.0", "12.4", "libcudart.so.11.0", "|"]
        ),
        st.text(max_size=12),
        st.from_regex(r"[\d.]{1,12}", fullmatch=True),
    ),
    max_size=12,
)
TEXT = st.builds(lambda words, glue: glue.join(words), WORDS, st.sampled_from(["", " ", "\n", ": ", "|", "\r\n"]))


@BOUNDED
@seed(4)
@given(MUTATED, st.sampled_from([1 << 20, 4096, 7]))
def test_a_text_that_something_happened_to(data: bytes, chunk: int) -> None:
    way.walk(data, chunk=chunk, validate=len(data) % 8 == 0)


@BOUNDED
@given(st.one_of(st.binary(max_size=2000), TEXT.map(lambda text: text.encode("utf-8", "surrogatepass"))))
def test_noise(data: bytes) -> None:
    way.walk(data, validate=False)


@pytest.mark.parametrize("name", OF_LINES)
@settings(BOUNDED, max_examples=12)
@given(data=st.one_of(TEXT.map(str.encode), MUTATED))
def test_each_parser_of_lines_by_itself(name: str, data: bytes) -> None:
    OF_LINES[name](lines.read([data]).lines)  # type: ignore[operator]


@pytest.mark.parametrize("name", OF_TEXT)
@settings(BOUNDED, max_examples=30)
@given(text=st.one_of(TEXT, st.text(max_size=200), st.binary(max_size=60).map(lambda data: data.decode("latin-1"))))
def test_each_parser_of_text_by_itself(name: str, text: str) -> None:
    OF_TEXT[name](text)  # type: ignore[operator]


@settings(BOUNDED, max_examples=60)
@given(st.one_of(TEXT, st.text(max_size=300)))
def test_cleaning_escaping_and_redacting_text(text: str) -> None:
    assert clean(text).isprintable()
    assert clean(clean(text)) == clean(text)
    assert not re.search(r"(?<!\\)<(?!!-- -->)", escape(text))
    once = Redactor((text,)).text(text)
    assert Redactor((once,)).text(once) == once


def test_a_saved_report_that_something_happened_to() -> None:
    accepted = sum(reports.survives(reports.mutate(Random(number))) is not None for number in range(20))
    assert 0 < accepted < 20  # both ways are walked


@pytest.mark.full
@pytest.mark.parametrize("part", range(8))
def test_a_long_campaign(part: int) -> None:
    """Texts, noise and saved reports, and every parser by itself over each of the texts."""
    failures: set[str] = set()
    for number in range(part * 40, part * 40 + 40):
        chance = Random(f"full-{number}")
        data = fuzz.text(chance)
        tried = [(way.walk, data), (way.walk, chance.randbytes(chance.randint(0, 2000)))]
        tried += [(_lines_of(name), data) for name in OF_LINES] + [(_text_of(name), data[:2000]) for name in OF_TEXT]
        tried += [(reports.survives, reports.mutate(Random(40 + number)))]
        failures.update(f"{number}: {place}" for attempt, what in tried if (place := fuzz.fails(attempt, what)))
    assert not failures


def _lines_of(name: str) -> Callable[[bytes], object]:
    return lambda data: OF_LINES[name](lines.read([data]).lines)  # type: ignore[operator]


def _text_of(name: str) -> Callable[[bytes], object]:
    return lambda data: OF_TEXT[name](data.decode("latin-1"))  # type: ignore[operator]


@cache
def deep() -> dict[str, bytes]:
    return {
        "brackets": b'{"schema": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
        "objects": b'{"schema": "tfgpu.report/1", "facts": ' + b'{"a":' * 10_000 + b"1" + b"}" * 10_001,
        "a number": b'{"schema": "tfgpu.report/1", "created": ' + b"9" * 100_000 + b"}",
        "a name": b'{"schema": "' + b"x" * 1_000_000 + b'"}',
        "an unknown field": b'{"schema": "tfgpu.report/1", "' + b"y" * 1_000_000 + b'": 1}',
        "keys twice": reports.good()[0].replace(b'"created"', b'"created": 1, "created"', 1),
        "NaN": reports.good()[0].replace(b'"timings": {}', b'"timings": {"all": NaN}', 1),
    }


def test_reports_out_of_all_bounds() -> None:
    assert [name for name, data in deep().items() if reports.survives(data) is not None] == []


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
