"""The weights of words: what they say of a text, and that they were learnt from the reports that are here."""

from __future__ import annotations

import msgspec
import pytest

from tests.test_cases import CASES
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.inference.resemblance import MOST, NO_CAUSE, TABLE, Weights, resembling, words_of
from tfgpu_doctor.parsers.text.lines import Line, read
from tfgpu_doctor.records.facts import Message

WEIGHTS = msgspec.json.decode(TABLE.read_bytes(), type=Weights)
# of the reports, how many may be newer than the weights, until `python scripts/learn_resemblance.py` is due
NEWER = 0.1


def messages(text: str) -> list[Message]:
    return list(resembling(read([text.encode()]).lines))


def test_they_were_learnt_from_the_reports() -> None:
    assert len(CASES) * (1 - NEWER) <= WEIGHTS.cases <= len(CASES)


def test_every_cause_is_a_finding() -> None:
    causes = {*WEIGHTS.bias, *(cause for weights in WEIGHTS.words.values() for cause in weights)} - {*NO_CAUSE, "env.*"}
    assert causes and causes <= set(DECLARATIONS)
    assert all(words_of(word) == {word} for word in WEIGHTS.words)


def test_the_likeliest_comes_first_with_the_words_that_speak_for_it() -> None:
    found = messages("hello\nIn a Docker container started by docker-compose, TensorFlow sees no GPU\n")
    shares = [float(one.values["share"]) for one in found]
    first = next(one for one in found if one.values["cause"] not in NO_CAUSE)
    assert first.values["cause"] == "container.no-gpu"
    assert (first.line, "docker" in first.text) == (2, True)
    assert shares == sorted(shares, reverse=True) and sum(shares) <= 1 and len(found) == MOST


@pytest.mark.parametrize("text", ["", "a recipe for bread, without any yeast", "Error: it crashes when I print"])
def test_a_text_about_something_else_is_like_none(text: str) -> None:
    assert messages(text) == []


def test_times_and_addresses_are_no_words() -> None:
    assert words_of("2021-03-02 10:11:12.5 at 0x7f00deadbeef: CUDA 11.2 Could-not") == {
        "at",
        "cuda",
        "11.2",
        "could-not",
    }


def test_a_long_text_is_read_as_far_as_it_tells_something_new() -> None:
    long = (Line(n, "x" * 1000) for n in range(10_000))
    assert list(resembling((Line(0, "tensorflow on a gpu"), *long))) == list(
        resembling([Line(0, "tensorflow on a gpu")])
    )
