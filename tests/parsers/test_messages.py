"""The catalogue of messages: every template has a line that it knows, and everything it says is of use to somebody."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from itertools import cycle
from pathlib import Path

import msgspec

import tfgpu_doctor
from tests.corpus import reports, written
from tests.parsers.pasted import lines, log, samples
from tfgpu_doctor.facts.facts import Message
from tfgpu_doctor.findings.answers import MEANING
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.parsers import messages as catalogue
from tfgpu_doctor.parsers.derived_messages import _EVENTS
from tfgpu_doctor.parsers.lines import Line
from tfgpu_doctor.parsers.lines import read as from_bytes
from tfgpu_doctor.parsers.resemblance import MOST, NO_CAUSE, STEPS, TABLE, Weights, resembling, terms_of

PACKAGE = Path(tfgpu_doctor.__file__).parent
TEMPLATES = catalogue.TEMPLATES
SAMPLES = samples()
# Failures for which there is no finding of their own: a program's kernel that went wrong, a disk that is full. They
# are read all the same, so that a text with one is not taken for one that gives no reason.
ONLY_COMPLAINTS = {
    *("assertion-failed", "launch-failed", "nan-result", "no-space-left", "cufft-failed"),
    *("externally-managed", "build-failed"),  # an installer's refusal that is none of TensorFlow's
    "system-not-ready",  # its number is read from the line about cuInit
}


def read(text: str) -> tuple[Message, ...]:
    return catalogue.read(lines(text))


def one(text: str, kind: str) -> Message:
    (found,) = [message for message in read(text) if message.kind == kind]
    return found


def test_samples_and_templates_fit() -> None:
    found = [(kind, line, values, [one for one in read(line) if one.kind == kind]) for kind, line, values in SAMPLES]
    assert [row for row in found if row[2] not in [one.values for one in row[3]]] == []
    assert {(one.line, one.count) for *_, messages in found for one in messages} == {(1, 1)}
    without = [
        (one.kind, one.expression)
        for one in TEMPLATES
        if not any(catalogue.read([Line(1, line)], [one]) for kind, line, _ in SAMPLES if kind == one.kind)
    ]
    assert without == [] and {kind for kind, _, _ in SAMPLES} <= {one.kind for one in TEMPLATES}
    assert {one.fixed["what"] for one in TEMPLATES if one.kind == "harmless"} == set(MEANING)
    needles = [needle for one in TEMPLATES for needle in one.needles]
    assert [one for one in needles if one != one.lower() or len(one.strip()) < 2] == []
    assert [one for one in TEMPLATES if one.pattern.search("")] == [], "it matches an empty line"
    never = r"\\b\((?:\?:)?(?:[^()]*\|)?n\['"  # within doesn't, no word begins at n't
    assert [one.expression for one in TEMPLATES if re.search(never, one.expression)] == []


def kinds(pasted: str) -> set[str]:
    return {message.kind for message in catalogue.read(from_bytes([pasted.encode()]).lines)}


def test_quoted_coloured_and_in_the_log_of_every_generation() -> None:
    """Each sample in one of the frames: a quotation, colours, line ends, a progress bar, TensorFlow's own."""
    frames = cycle(("> {}", "\x1b[1;31m{}\x1b[0m", "{}\r", "  10%|=  \r{}", "{}  "))
    framed = [(kind, frame.format(line)) for (kind, line, _), frame in zip(SAMPLES, frames, strict=False)]
    elsewhere = {"allocator-limit", "host-out-of-memory", "wsl-1"}  # begin their lines
    logged = [row for row in samples("driver", "cuda", "runtime", "harmless") if row[0] not in elsewhere]
    eras = cycle(("1.0", "1.15", "2.4", "2.13", "2.17", "2.21"))
    place = "stream_executor/cuda/cuda_driver.cc"
    framed += [(kind, log(era, place, line)) for (kind, line, _), era in zip(logged, eras, strict=False)]
    assert [(kind, text) for kind, text in framed if kind not in kinds(text)] == []


_CUINIT = "E tensorflow/stream_executor/cuda/cuda_driver.cc:271] failed call to cuInit: CUDA_ERROR_NO_DEVICE"


def test_what_is_said_again_is_counted_and_other_values_are_another_message() -> None:
    again = one("\n".join([_CUINIT] * 3), "cuinit-failed")
    assert (again.line, again.count) == (1, 3)
    found = [m for m in read(f"{_CUINIT}\n{_CUINIT.replace('NO_DEVICE', 'UNKNOWN')}") if m.kind == "cuinit-failed"]
    assert [m.values["name"] for m in found] == ["CUDA_ERROR_NO_DEVICE", "CUDA_ERROR_UNKNOWN"]
    twice = "failed call to cuInit: INTERNAL: CUDA error: Failed call to cuInit: CUDA_ERROR_NO_DEVICE"
    assert one(twice, "cuinit-failed").count == 1
    numbers = [message.line for message in read(f"Segmentation fault\n{_CUINIT}\nIllegal instruction\n{_CUINIT}")]
    assert numbers == sorted(numbers)


def test_messages_and_evidence_are_bounded() -> None:
    text = "\n".join(f"NVRM: Xid (PCI:0000:{n:02x}:00): {n}, x" for n in range(1, 200))
    assert sum(message.kind == "xid" for message in read(text)) == catalogue.MOST
    text = one(f"{_CUINIT} {'x' * 3000}", "cuinit-failed").text
    assert len(text) == catalogue.SHOWN
    assert text.endswith("x…"), "a mark says that the line goes on"


def wrapped(text: str, width: int) -> str:
    """As a terminal of that width breaks a line: anywhere."""
    return "\n".join(text[start : start + width] for start in range(0, len(text), width))


def test_a_wrapped_line_is_put_together_and_two_lines_are_not() -> None:
    long = (
        "2021-03-02 10:11:12.131415: W tensorflow/stream_executor/platform/default/dso_loader.cc:60] Could not load "
        "dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open shared object file"
    )
    for width in (60, 72, 80, 100, 120):
        found = [m for m in read(f"before\n{wrapped(long, width)}\nafter") if m.kind == "library-not-opened"]
        assert [message.values["library"] for message in found] == ["libcudart.so.11.0"], width
        assert found[0].line in (2, 3, 4)
    first = "E tensorflow/stream_executor/cuda/cuda_driver.cc:271] failed call to"
    assert one(f"{first}\ncuInit: CUDA_ERROR_NO_DEVICE", "cuinit-failed").values == {"name": "CUDA_ERROR_NO_DEVICE"}
    first = "I tensorflow/core/platform/default/logging.cc:10] everything is well, and the next is a failed call to"
    assert not [m for m in read(f"{first}\nnothing") if m.kind == "cuinit-failed"]


def words(expression: str, *patterns: str) -> set[str]:
    """What the first group of an expression finds in these files of the package."""
    sources = [path.read_text(encoding="utf-8") for pattern in patterns for path in PACKAGE.glob(pattern)]
    return {found for source in sources for found in re.findall(expression, source)}


def made() -> set[str]:
    """Every kind that a template or a parser makes: Message("kind", ...), _message(text, "kind", ...), loops."""
    kinds = {one.kind for one in TEMPLATES} | {kind for kind, _ in _EVENTS.values()}
    calls = r'(?:_message\(text, |for kind, \w+ in \(\(|\), \()"([a-z0-9-]+)"'
    kinds |= words(r'\bMessage\(\s*"([a-z0-9-]+)"', "parsers/*.py")
    return kinds | words(calls, "parsers/derived_messages.py")


def test_every_kind_is_of_use() -> None:
    """A rule or a fact takes it up, or it is a circumstance, or it is known to be a complaint and no more."""
    readers = [f"parsers/{path.name}" for path in PACKAGE.glob("parsers/*.py") if path.name != "messages.py"]
    read = words(r'"([a-z0-9-]+)"', "findings/*.py", *readers)
    idle = {kind for kind in made() - read if catalogue.is_failure(kind) and not catalogue.stops_import(kind)}
    assert idle <= ONLY_COMPLAINTS
    assert made() >= ONLY_COMPLAINTS


def test_every_kind_that_is_asked_for_is_made() -> None:
    calls = r"\.(?:all|has|first|values|libraries|speaks_only_of|messages_of)\(([^()]*)\)"
    asked = {
        kind for found in words(calls, "findings/*.py", "parsers/*.py") for kind in re.findall(r'"([a-z0-9-]+)"', found)
    }
    assert "cuinit-failed" in asked
    assert {kind for kind in asked - made() if "-" in kind} == set()


# what texts are like
WEIGHTS = msgspec.json.decode(TABLE.read_bytes(), type=Weights)
# of the reports, how many may be newer than the weights, until `python scripts/learn_resemblance.py` is due
NEWER = 0.1


def messages(text: str) -> list[Message]:
    return list(resembling(from_bytes([text.encode()]).lines))


def test_each_term_has_a_weight_for_every_cause_and_a_weight_of_nothing_is_the_middle_step() -> None:
    known = len(reports()) + len(written())
    assert known * (1 - NEWER) <= WEIGHTS.reports <= known
    causes = {*WEIGHTS.causes} - {*NO_CAUSE}
    assert [one for one in causes if not any(fnmatchcase(known, one) for known in DECLARATIONS)] == []
    assert len(WEIGHTS.bias) == len(WEIGHTS.causes) == len({*WEIGHTS.causes})
    assert {len(steps) for _, steps in WEIGHTS.terms.values()} == {len(WEIGHTS.causes)}
    assert {step for _, steps in WEIGHTS.terms.values() for step in steps} <= {*STEPS}
    assert len(STEPS) % 2 == 1 and STEPS.isprintable() and len({*STEPS}) == len(STEPS)


def test_the_likeliest_comes_first() -> None:
    found = messages("hello\nIn a Docker container started by docker-compose, TensorFlow sees no GPU\n")
    likeness = [float(one.values["likeness"]) for one in found]
    first = next(one for one in found if one.values["cause"] not in NO_CAUSE)
    assert first.values["cause"] == "container.no-gpu"
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
