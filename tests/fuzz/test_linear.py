"""Time in proportion to the text, whatever stands in it: every expression by itself, and the whole way of a text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import chain, islice

import pytest

from tests.fuzz.expressions import UNBOUNDED, Expression, bombs, expressions, repeats
from tests.fuzz.targets import matrix
from tests.guard import StillBusyError, guarded
from tfgpu_doctor.facts.report import verdict_sentence
from tfgpu_doctor.parsers import lines, text_to_facts
from tfgpu_doctor.plan.diagnosis import make_report

# Characters, and the seconds within which an expression tries them. In proportion to the text, 12,000 take 1 to 20 ms;
# as its square, a fifth of a second or more.
FEW, MANY_CHARACTERS = (12_000, 0.1), (48_000, 0.5)
TRIES = 3  # a machine may be busy for a moment; what is quadratic is so each time
FIXED = ("1.1", "a.a", "a/", "- ", "( ", "x1_", "a=", '"a', ": ", "[1]", "a,", "é ")
OF_LINES = ("parsers.", "findings.")  # see what lines.clean leaves
# a few characters of a text
OF_OURS = "redact.patterns.A_VERSION_BEFORE"


cleaned = lru_cache(16)(lines.clean)  # the same fixed texts for every expression


def texts(one: Expression, length: int, *, few: bool) -> Iterator[str]:
    """Texts made to keep it busy, as long as it may see; some of them, else all."""
    made = islice(bombs(one.pattern, length, few=few), 5 if few else 150)
    fixed = ((unit * length)[:length] for unit in FIXED[: 1 if few else None])
    for text in chain(made, fixed if repeats(one.pattern) else ()):
        text = cleaned(text) if one.place.startswith(OF_LINES) else text
        if len(text) > length // 2 or one.longest < length:  # what cleaning shortens is nothing to see
            yield text[: one.longest]


def slow(one: Expression, *, few: bool) -> str:
    """The first text that it takes too long for; empty where there is none."""
    length, seconds = FEW if few else MANY_CHARACTERS
    for text in texts(one, length, few=few):
        times = length // max(len(text), length // 100)
        if all(_busy(one, text, times, seconds) for _ in range(TRIES)):
            return f"{one.place} {one.pattern.pattern[:80]!r}: {text[:40]!r}"
    return ""


def _busy(one: Expression, text: str, times: int, seconds: float) -> bool:
    try:
        with guarded(seconds):
            for _ in range(times):
                one.tried(text)
    except StillBusyError:
        return True
    return False


def from_outside() -> list[Expression]:
    return [one for one in expressions() if not one.place.startswith(OF_OURS)]


def test_expressions_take_time_in_proportion_to_the_text() -> None:
    """All that the package has: in one test, because finding them takes longer than trying a part of them."""
    places = [one.place.split(".")[0] for one in from_outside()]
    for folder in ("parsers", "findings", "manifests", "redact", "render", "probes", "cli", "matrix"):
        assert folder in places
    assert [found for one in from_outside() if (found := slow(one, few=True))] == []


@pytest.mark.full
@pytest.mark.parametrize("part", range(8))
def test_expressions_take_time_in_proportion_to_any_text(part: int) -> None:
    assert [found for one in from_outside()[part::8] if (found := slow(one, few=False))] == []


def test_one_that_does_not_is_found() -> None:
    for expression in (r"(\w+)=('[^']*'|\S*)", r"(?:^|[\s/])(?:[\w./-]*[/\\])?[\w+-]+?\.so (?:missing|not found)"):
        assert slow(Expression("parsers.made_up", re.compile(expression), UNBOUNDED, {"search"}), few=True), expression


# --------------------------------------------------------------------------------------------- the whole way of a text

TELLING = "E tensorflow/stream_executor/cuda/cuda_driver.cc:271] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no device"
LONG = {
    "digits": "1.1" * 1300,
    "folders": "a/" * 2000,
    "brackets": " ( " * 1300,
    "a field of brackets": "GPU: " + "( " * 190,
    "words that are looked for": "gpu cuda cudnn import tensorflow error not found nvidia could not load version " * 25,
    "one message": "Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open " * 20,
    "JSON of many lines": '{"log":"' + "line\\n" * 700 + '"}',
    "progress": "import tensorflow\r" * 200,
    # each took one second or more before it was found
    "images": "a/rapidsai/x" * 333,
    "NCCL": "nccl-shma." * 400,
    "modules": "tensorflow_estimator1" * 190,
    "a gap": "gpu available" + " " * 3900 + "!",
    "bullets": "- " * 2000,
}
MANY: dict[str, Callable[[int], str]] = {
    "packages": lambda n: f"package{n}      1.{n}.0",
    "GPUs": lambda n: f"GPU {n % 100}: NVIDIA GeForce RTX {1000 + n} (UUID: GPU-{n:08x}-1111-2222-3333-444444444444)",
    "lists of versions": lambda n: "Could not find a version that satisfies the requirement x (from versions: 1.0, 2.0",
    "installed": lambda n: "Successfully installed " + " ".join(f"p{n}x{m}-1.{m}" for m in range(20)),
    "tracebacks": lambda n: (
        f'  File "/a{n}/site-packages/b.py", line {n}, in f\nImportError: libcublas{n}.so.1: no such'
    ),
    "headings": lambda n: f"### CUDA/cuDNN version {n}\n11.{n % 9} / 8.{n}",
    "devices": lambda n: f"PhysicalDevice(name='/physical_device:GPU:{n}', device_type='GPU')",
    "tables": lambda n: "| " + " | ".join(f"CUDA {n}.{m}" for m in range(20)) + " |",
}


HOSTILE = 300  # lines before and after the one that tells: twice what is read as a whole


def whole_way(data: bytes, seconds: float) -> str:
    """Explain the text; what the verdict says."""
    with guarded(seconds):
        report = make_report(text_to_facts.read(lines.read([data]), matrix()), matrix(), source="text", timings={})
        report.to_json()
    assert any(message.kind == "cuinit-failed" for message in report.facts.messages.value)  # type: ignore[union-attr]
    return verdict_sentence(report)


def test_long_lines_in_any_number_are_a_bounded_amount_of_work() -> None:
    """What is counted is what the parsers see; a short line between them is seen as a whole."""
    for kind, long in LONG.items():
        hostile = [f"{long}{number}" for number in range(HOSTILE)]
        excerpt = lines.read(["\n".join([*hostile, TELLING, *hostile]).encode()])
        assert sum(len(line.text) for line in excerpt.lines) <= lines.MOST_CHARACTERS, kind
        assert len(excerpt.lines) <= 2 * lines.MOST_PIECES, kind
        assert lines.Line(HOSTILE + 1, TELLING) in excerpt.lines, kind
        assert excerpt.cut or kind in ("progress", "a gap", "a field of brackets")


def test_what_was_left_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MOST_CHARACTERS", 50_000)
    text = "\n".join([f"{LONG['digits']}{number}" for number in range(100)] + [TELLING])
    assert whole_way(text.encode(), 20).endswith("; 100 lines were too long to be examined as a whole")


def test_many_of_one_kind() -> None:
    for line in MANY.values():
        whole_way("\n".join([line(number) for number in range(150)] + [TELLING]).encode(), 1.25)


@pytest.mark.full
def test_very_many_lines() -> None:
    long = [lambda number, text=text: f"{text}{number}" for text in LONG.values()]
    for line in (*MANY.values(), *long):
        whole_way("\n".join([line(number) for number in range(8_000)] + [TELLING]).encode(), 30)
