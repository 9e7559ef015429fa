"""What programs print, line by line: a closed catalogue of the messages that mean something here.

Each table below it belongs to one layer and lists its :class:`Form`: a kind, words that must stand in the line
(lower case, so that a line is looked at by regular expressions only when it may be of that kind), and the
expression whose named groups are the values. TensorFlow changes its wording from release to release: a form lists
what all of them share. The meaning of a kind is the business of the rules, not of this catalogue.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tfgpu_doctor.parsers.text.lines import Line
from tfgpu_doctor.records.facts import Message

SHOWN = 300  # characters of a line that are kept as evidence
MOST = 60  # different messages of one kind
_JOINED = 5_000  # lines up to which a hard-wrapped line is put together again
_WRAPPED = 60  # characters from which a line may have been wrapped by a terminal


@dataclass(frozen=True)
class Form:
    """One message in all its wordings."""

    kind: str
    needles: tuple[str, ...]  # lower case; one of them stands in the line
    expression: str
    fixed: dict[str, str] = field(default_factory=dict)  # values that follow from the form itself

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled expression; most forms are never needed for a text, and compiling all takes 20 ms."""
        return re.compile(self.expression, re.IGNORECASE)


def form(kind: str, needles: str, pattern: str | None = None, **fixed: str) -> Form:
    """Build a form; needles are separated by ``|``, and alone are the pattern."""
    words = tuple(needles.lower().split("|"))
    return Form(kind, words, pattern or "|".join(map(re.escape, words)), fixed)


def read(lines: Sequence[Line], forms: Iterable[Form]) -> tuple[Message, ...]:
    """Find every message in `lines`, in their order; what is said again is counted."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], Message] = {}
    number: dict[str, int] = {}
    for line, form_, match in _matches(lines, _present(lines, tuple(forms))):
        values = {**form_.fixed, **{k: v.strip() for k, v in match.groupdict().items() if v and v.strip()}}
        key = (form_.kind, tuple(values.items()))
        if key in found:
            old = found[key]
            again = old.line != line.number
            found[key] = Message(old.kind, old.line, old.text, old.values, old.count + again)
        elif number.get(form_.kind, 0) < MOST:
            number[form_.kind] = number.get(form_.kind, 0) + 1
            found[key] = Message(form_.kind, line.number, line.text.strip()[:SHOWN], values)
    return tuple(sorted(found.values(), key=lambda message: message.line))


def _present(lines: Sequence[Line], forms: tuple[Form, ...]) -> tuple[Form, ...]:
    """The forms of which the text holds a needle at all, in a line or over the seam of two: few, and found at once."""
    texts = [line.text.lower() for line in lines]
    ways = ("\n".join(texts), "".join(texts), " ".join(text.lstrip() for text in texts))
    return tuple(one for one in forms if any(needle in way for needle in one.needles for way in ways))


def _matches(lines: Sequence[Line], forms: tuple[Form, ...]) -> Iterator[tuple[Line, Form, re.Match[str]]]:
    """Every form in every line, and in the seam of two lines that a terminal may have broken."""
    mend = len(lines) <= _JOINED
    for place, line in enumerate(lines):
        low = line.text.lower()
        for one in forms:
            if any(needle in low for needle in one.needles) and (match := one.pattern.search(line.text)):
                yield line, one, match
        if mend and len(line.text) >= _WRAPPED and place + 1 < len(lines):
            yield from _over_the_seam(line, lines[place + 1], forms)


def _over_the_seam(line: Line, following: Line, forms: tuple[Form, ...]) -> Iterator[tuple[Line, Form, re.Match[str]]]:
    """What stands in neither line alone."""
    seam = len(line.text)
    for glue in ("", " "):
        text = f"{line.text}{glue}{following.text.lstrip() if glue else following.text}"
        low = text.lower()
        for one in forms:
            if not any(needle in low for needle in one.needles):
                continue
            match = one.pattern.search(text)
            if match and match.start() < seam < match.end() and not one.pattern.search(line.text):
                yield Line(line.number, text), one, match
