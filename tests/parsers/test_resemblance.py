"""What texts are like: what the learnt terms say of a text, and that they were learnt from the reports here."""

from __future__ import annotations

from fnmatch import fnmatchcase

import msgspec

from tests.corpus import reports, written
from tfgpu_doctor.facts.facts import Message
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.parsers.lines import Line, read
from tfgpu_doctor.parsers.resemblance import MOST, NO_CAUSE, STEPS, TABLE, Weights, resembling, terms_of

WEIGHTS = msgspec.json.decode(TABLE.read_bytes(), type=Weights)
# of the reports, how many may be newer than the weights, until `python scripts/learn_resemblance.py` is due
NEWER = 0.1


def messages(text: str) -> list[Message]:
    return list(resembling(read([text.encode()]).lines))


def test_each_term_has_a_weight_for_every_cause_and_a_weight_of_nothing_is_the_middle_step() -> None:
    known = len(reports()) + len(written())
    assert known * (1 - NEWER) <= WEIGHTS.reports <= known
    causes = {*WEIGHTS.causes} - {*NO_CAUSE}
    assert [one for one in causes if not any(fnmatchcase(known, one) for known in DECLARATIONS)] == []
    assert len(WEIGHTS.bias) == len(WEIGHTS.causes) == len({*WEIGHTS.causes})
    assert {len(steps) for _, steps in WEIGHTS.terms.values()} == {len(WEIGHTS.causes)}
    assert {step for _, steps in WEIGHTS.terms.values() for step in steps} <= {*STEPS}
    assert len(STEPS) % 2 == 1 and STEPS.isprintable() and len({*STEPS}) == len(STEPS)


def test_the_likeliest_comes_first_with_the_words_that_speak_for_it() -> None:
    found = messages("hello\nIn a Docker container started by docker-compose, TensorFlow sees no GPU\n")
    likeness = [float(one.values["likeness"]) for one in found]
    first = next(one for one in found if one.values["cause"] not in NO_CAUSE)
    assert first.values["cause"] == "container.no-gpu"
    assert (first.line, "docker" in first.text) == (2, True)
    assert likeness == sorted(likeness, reverse=True) and len(found) == MOST
    assert {one.values["words"] for one in found} == {first.values["words"]}


def test_a_text_about_something_else_is_like_none() -> None:
    for text in ("", "a recipe for bread, without any yeast", "Error: it crashes when I print"):
        assert messages(text) == []


def test_terms_are_words_their_parts_the_title_and_kinds() -> None:
    """Without times and addresses, and with the number of times."""
    found = terms_of("\n2021-03-02 10:11:12.5 at 0x7f00deadbeef: cudnn64_7 Initialised\nat 11.2", ["no-gpu-listed"])
    once = (
        "cudnn64_7 initialised 11.2 title:at title:cudnn64_7 title:initialised part:cudnn part:64 part:7 part:initi "
        "part:11.2 kind:no-gpu-listed"
    )
    assert found == {"at": 2, "part:at": 2, **dict.fromkeys(once.split(), 1)}


def test_a_long_text_is_read_as_far_as_it_tells_something_new() -> None:
    first = Line(0, "tensorflow on a gpu")
    long = (Line(n, "zqj" * 333) for n in range(10_000))
    assert list(resembling((first, *long))) == list(resembling([first]))
