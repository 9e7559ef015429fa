"""One pasted text and what the parsers found in it; the files beside it turn that into facts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tfgpu_doctor.facts.facts import NOT_IN_TEXT, Fact, Known, Message, Unknown
from tfgpu_doctor.facts.printable import cut
from tfgpu_doctor.parsers import messages as catalogue
from tfgpu_doctor.parsers import (
    nvidia_smi,
    own_report,
    package_lists,
    platform_hints,
    prose,
    questions,
    statements,
    system_outputs,
    tensorflow_outputs,
)
from tfgpu_doctor.parsers.lines import Excerpt, Line
from tfgpu_doctor.parsers.messages import SHOWN
from tfgpu_doctor.parsers.statements import Statement, without_browser, without_expected

_IN_PASSING = ("gpu", "python")  # a sentence about them is as good as a form's field
_SMI_ROW = re.compile(r"NVIDIA-SMI \d|MiB ?/|Driver Version|[\d.] ?MiB \||rocesses:|MIG devices")
# what another library logs or raises in these words says nothing of TensorFlow
_IN_THE_SAME_WORDS = (
    *("driver-insufficient", "library-not-opened", "loader-error", "cudnn-version-differs", "no-dnn-library"),
)
_WHOSE = {
    "PyTorch": re.compile(r"-packages[/\\]torch[/\\]|UserWarning: CUDA initialization"),
    "JAX": re.compile(r"-packages[/\\]jax(?:lib)?[/\\]|\bjaxlib\.\w|external/xla/xla/.{0,200}\bjax"),
    "tensorflow-io": re.compile(r"-packages[/\\]tensorflow_io[/\\]"),
    "ONNX Runtime": re.compile(r"\bonnxruntime\b|libonnxruntime"),
}
_FRAME = re.compile(r'^\s*File "(?!.*(?:[/\\](?:ctypes|importlib)[/\\]|load_library\.py))')  # they load for others
_FRAMES, _BEHIND = 12, 2  # lines of a traceback before what it ends with; behind it where that is quoted first


class ParsedText:
    """The lines, and what each parser found."""

    def __init__(self, excerpt: Excerpt) -> None:
        """Let every parser read the lines once."""
        own, lines = own_report.split(excerpt.lines)
        self.lines = without_browser(without_expected(lines))
        self.stated = statements.parse(self.lines)
        self.tensorflow = tensorflow_outputs.parse(self.lines)
        self.listed = package_lists.parse_lists(self.lines)
        self.events = package_lists.parse_events(self.lines)
        self.system = system_outputs.parse(self.lines)
        self.versions = system_outputs.parse_versions(self.lines)
        self.libraries = system_outputs.parse_libraries(self.lines)
        self.prose = prose.parse(self.lines)
        # what a tool prints of the system, before what somebody states
        system = [one.value for one in (self.system.facts.get("os"), *self.all_stated("os")) if one]
        self.hints = platform_hints.read(self.lines, next(iter(system), None))
        asked = (*questions.compared(self.lines), *questions.parse(self.lines, self.prose))
        self.messages = (*own, *self._logged(), *asked)
        self.smi_line = next((line.number for line in self.lines if _SMI_ROW.search(line.text)), None)
        self.smi = nvidia_smi.parse("\n".join(line.text for line in self.lines) if self.smi_line else "")

    def _logged(self) -> Iterator[Message]:
        """What programs log; of another library's line that it is one."""
        for one in catalogue.read(self.lines):
            program = self._program_of(one) if one.kind in _IN_THE_SAME_WORDS else ""
            yield Message("other-framework", one.line, one.text, {"program": program}) if program else one

    def _program_of(self, message: Message) -> str:
        """The other library whose line it is, by that line or by the last frame of its traceback; else empty."""
        around = (one for one in self.lines if -_FRAMES <= one.number - message.line <= _BEHIND)
        near = [one for one in around if _FRAME.match(one.text)]
        near.sort(key=lambda one: (one.number > message.line, -one.number))
        jax = "jax" if any("jax" in one.text.lower() for one in self.lines) else ""
        told = message.text.split("LD_LIBRARY_PATH")[0]
        words = "" if "tensorflow/" in told else f"{told} {jax}", *(one.text for one in near[:1])
        return next((name for name, one in _WHOSE.items() if any(map(one.search, words))), "")

    @property
    def smi_at(self) -> str:
        """Where nvidia-smi's output begins."""
        return f"line {self.smi_line}: nvidia-smi"

    def messages_of(self, *kinds: str) -> list[Message]:
        """The messages of these kinds."""
        return [message for message in self.messages if message.kind in kinds]

    def all_stated(self, key: str) -> list[Statement]:
        """Everything that is stated of "os", "python", "tensorflow", "cuda", "cudnn", "driver" or "gpu"."""
        stated = [one for one in self.stated if one.key == key and one.value]
        return stated or (self.said(key) if key in _IN_PASSING else [])

    def said(self, key: str) -> list[Statement]:
        """What sentences tell of it, where no form and no list does: what is here, not what is wanted or elsewhere."""
        # a card that somebody names is the one that they have, whatever they want of it
        here = ("here", "wanted") if key == "gpu" else ("here",)
        return [one for one in self.prose if one.key == key and one.stance in here]

    def clauses(self, *words: str) -> Iterator[tuple[int, str]]:
        """Line and text of the clauses that have one of the words, of sentences alone."""
        for line in filter(lambda line: prose.is_sentence(line.text), self.lines_with(*words)):
            for clause in prose.clauses(line.text):
                yield from [(line.number, clause)] if any(word in clause.lower() for word in words) else []

    def lines_with(self, *words: str) -> Iterator[Line]:
        """The lines that have one of the words; most expressions try every character of a line."""
        return (line for line in self.lines if any(word in low for low in [line.text.lower()] for word in words))

    def stated_fact(self, key: str, *, in_sentences: bool = False) -> Fact[str]:
        """The first of it as a fact; of several that one line names none is known to be the one."""
        stated = self.said(key) if in_sentences else self.all_stated(key)
        several = tuple(dict.fromkeys(one.value for one in stated if one.line == stated[0].line))
        if several[1:] and stated[0] in self.stated and statements.TRIED.search(stated[0].raw):
            return Unknown(f"line {stated[0].line} names several", one_of=several)
        return next((Known(one.value, stated_at(one), "stated") for one in stated), NOT_IN_TEXT)

    def find(self, pattern: re.Pattern[str], but: re.Pattern[str] | None = None) -> tuple[re.Match[str], int] | None:
        """The first line of that form, and none of the form `but`."""
        found = ((match, line) for line in self.lines if (match := pattern.search(line.text)))
        return next(((match, line.number) for match, line in found if not (but and but.search(line.text))), None)

    def text_of(self, number: int) -> str:
        """A line by its number, as evidence."""
        return cut(next(line.text.strip() for line in self.lines if line.number == number), SHOWN)


def fact_from(value: Any, *messages: Message | None) -> Fact[Any]:
    """A fact that a message tells; unknown where there is none."""
    first = next((message for message in messages if message is not None), None)
    return Known(value, line_of(first)) if first is not None and value is not None else NOT_IN_TEXT


def line_of(message: Message) -> str:
    """Where a message stands."""
    return f"line {message.line}"


def stated_at(stated: Statement) -> str:
    """Where something is stated."""
    return f"line {stated.line}, as stated"
