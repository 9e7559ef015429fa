"""What programs print, line by line: a closed catalogue of the messages that mean something here.

Each table beside this file belongs to one layer and lists its :class:`Template`: a kind, words that must stand in the
line (lower case, so that a line is looked at by regular expressions only when it may be of that kind), and the
expression whose named groups are the values. TensorFlow changes its wording from release to release: a template lists
what all of them share, and a kind may have several. The first template of a kind declares its role, where that is not
a failure; what a message means for the diagnosis is the business of the findings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

from tfgpu_doctor.parsers.text.lines import Line
from tfgpu_doctor.records.facts import Message

SHOWN = 300  # characters of a line that are kept as evidence
MOST = 60  # different messages of one kind
_JOINED = 5_000  # lines up to which a hard-wrapped line is put together again
_WRAPPED = 60  # characters from which a line may have been wrapped by a terminal

Role: TypeAlias = Literal["context", "harmless"]  # where and how; looks bad and is not; all else says what failed
_Match: TypeAlias = "tuple[Line, Template, re.Match[str]]"


@dataclass(frozen=True)
class Template:
    """One message in all its wordings."""

    kind: str
    needles: tuple[str, ...]  # lower case; one of them stands in the line
    expression: str
    fixed: dict[str, str] = field(default_factory=dict)  # values that follow from the template itself
    role: Role | None = None  # of the kind, unless it is a failure; the kind's first template declares it
    stops_import: bool = False  # TensorFlow cannot be imported or installed after such a message

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled expression; most templates are never needed for a text, and compiling all takes 20 ms."""
        return re.compile(self.expression, re.IGNORECASE)

    def matches(self, text: str, lower: str) -> re.Match[str] | None:
        """The message in a line, which is given in lower case as well."""
        return self.pattern.search(text) if any(needle in lower for needle in self.needles) else None


def template(
    kind: str,
    needles: str,
    pattern: str | None = None,
    *,
    role: Role | None = None,
    stops_import: bool = False,
    **fixed: str,
) -> Template:
    """Build a template; needles are separated by ``|``, and alone are the pattern."""
    words = tuple(needles.lower().split("|"))
    return Template(kind, words, pattern or "|".join(map(re.escape, words)), fixed, role, stops_import)


def read(lines: Sequence[Line], templates: Iterable[Template]) -> tuple[Message, ...]:
    """Find every message in `lines`, in their order; a repeated one is counted."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], Message] = {}
    number: dict[str, int] = {}
    for line, which, match in _matches(lines, _present(lines, tuple(templates))):
        values = {**which.fixed, **{k: v.strip() for k, v in match.groupdict().items() if v and v.strip()}}
        key = (which.kind, tuple(values.items()))
        if key in found:
            old = found[key]
            again = old.line != line.number
            found[key] = Message(old.kind, old.line, old.text, old.values, old.count + again)
        elif number.get(which.kind, 0) < MOST:
            number[which.kind] = number.get(which.kind, 0) + 1
            found[key] = Message(which.kind, line.number, line.text.strip()[:SHOWN], values)
    return tuple(sorted(found.values(), key=lambda message: message.line))


def _present(lines: Sequence[Line], templates: tuple[Template, ...]) -> tuple[Template, ...]:
    """The templates with a needle anywhere in the text, in a line or over the seam of two: few, and found at once."""
    texts = [line.text.lower() for line in lines]
    ways = ("\n".join(texts), "".join(texts), " ".join(text.lstrip() for text in texts))
    return tuple(one for one in templates if any(needle in way for needle in one.needles for way in ways))


def _matches(lines: Sequence[Line], templates: tuple[Template, ...]) -> Iterator[_Match]:
    """Every template in every line, and in the seam of two lines that a terminal may have broken."""
    mend = len(lines) <= _JOINED
    for place, line in enumerate(lines):
        lower = line.text.lower()
        for one in templates:
            if match := one.matches(line.text, lower):
                yield line, one, match
        if mend and len(line.text) >= _WRAPPED and place + 1 < len(lines):
            yield from _over_the_seam(line, lines[place + 1], templates)


def _over_the_seam(line: Line, following: Line, templates: tuple[Template, ...]) -> Iterator[_Match]:
    """What stands in neither line alone."""
    seam = len(line.text)
    for glue in ("", " "):
        text = f"{line.text}{glue}{following.text.lstrip() if glue else following.text}"
        lower = text.lower()
        for one in templates:
            match = one.matches(text, lower)
            if match and match.start() < seam < match.end() and not one.pattern.search(line.text):
                yield Line(line.number, text), one, match
