"""What programs print, line by line: a closed catalogue of the messages that mean something here.

Each table beside this file belongs to one layer and lists its :class:`Template`: a kind, words that must stand in the
line (lower case, so that a line is looked at by regular expressions only when it may be of that kind), and the
expression whose named groups are the values. TensorFlow changes its wording from release to release: a template lists
what all of them share, and a kind may have several. The first template of a kind declares its role, where that is not
a failure; what a message means for the diagnosis is the business of the findings.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Literal, TypeAlias

from tfgpu_doctor.parsers.text.lines import Line
from tfgpu_doctor.records.facts import Message
from tfgpu_doctor.records.printable import cut

SHOWN = 300  # characters of a line that are kept as evidence
MOST = 60  # different messages of one kind
_JOINED = 5_000  # lines up to which a hard-wrapped line is put together again
_WRAPPED, _WIDEST = 60, 500  # characters of a line that may have been wrapped by a terminal
_GLUES = ("", " ")  # what the terminal put a line break in place of

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
    for line, which, match in _matches(lines, tuple(templates)):
        values = {**which.fixed, **{k: v.strip() for k, v in match.groupdict().items() if v and v.strip()}}
        key = (which.kind, tuple(values.items()))
        if key in found:
            old = found[key]
            again = old.line != line.number
            found[key] = Message(old.kind, old.line, old.text, old.values, old.count + again)
        elif number.get(which.kind, 0) < MOST:
            number[which.kind] = number.get(which.kind, 0) + 1
            found[key] = Message(which.kind, line.number, cut(line.text.strip(), SHOWN), values)
    return tuple(sorted(found.values(), key=lambda message: message.line))


def _matches(lines: Sequence[Line], templates: tuple[Template, ...]) -> Iterator[_Match]:
    """Every template in every line, and in the seam of two lines that a terminal may have broken."""
    possible = _possible([line.text for line in lines], templates)
    seams = _seams(lines, templates)
    for place, line in enumerate(lines):
        for number in sorted(possible[place]):
            if match := templates[number].pattern.search(line.text):
                yield line, templates[number], match
        if place in seams and not _is_harmless(lines[place + 1], possible[place + 1], templates):
            numbers = sorted(seams[place] | possible[place] | possible[place + 1])
            yield from _over_the_seam(line, lines[place + 1], [templates[number] for number in numbers])


def _is_harmless(line: Line, possible: set[int], templates: tuple[Template, ...]) -> bool:
    """Whether a line begins with a harmless message, so that it does not go on with the line before it."""
    known = (templates[number] for number in possible)
    return any(one.kind == "harmless" and one.pattern.match(line.text.lstrip()) for one in known)


def _seams(lines: Sequence[Line], templates: tuple[Template, ...]) -> dict[int, set[int]]:
    """The lines that a terminal may have broken, and the templates with a needle across the break."""
    if len(lines) > _JOINED:
        return {}
    places = [place for place, line in enumerate(lines[:-1]) if _WRAPPED <= len(line.text) <= _WIDEST]
    ends = max(len(needle) for one in templates for needle in one.needles)
    texts = [
        _glued(lines[place].text[-ends:], glue, lines[place + 1].text)[: 2 * ends]
        for place in places
        for glue in _GLUES
    ]
    possible = _possible(texts, templates)
    return {place: possible[2 * number] | possible[2 * number + 1] for number, place in enumerate(places)}


def _possible(texts: Sequence[str], templates: tuple[Template, ...]) -> list[set[int]]:
    """The templates, by their number, that have a needle in each text.

    Each needle is looked for in all texts at once: there are a thousand needles, and few are in a line.
    """
    found: list[set[int]] = [set() for _ in texts]
    lower = [text.lower() for text in texts]
    begins = list(accumulate((len(text) + 1 for text in lower), initial=0))
    whole = "\n".join(lower)
    owners: dict[str, list[int]] = {}
    for number, one in enumerate(templates):
        for needle in one.needles:
            owners.setdefault(needle, []).append(number)
    for needle, numbers in owners.items():
        at = whole.find(needle)
        while at >= 0:
            place = bisect_right(begins, at) - 1
            found[place].update(numbers)
            at = whole.find(needle, begins[place + 1])
    return found


def _over_the_seam(line: Line, following: Line, templates: Iterable[Template]) -> Iterator[_Match]:
    """What stands in neither line alone."""
    seam = len(line.text)
    for glue in _GLUES:
        text = _glued(line.text, glue, following.text)
        for one in templates:
            match = one.pattern.search(text)
            if match and match.start() < seam < match.end() and not one.pattern.search(line.text):
                yield Line(line.number, text), one, match


def _glued(text: str, glue: str, following: str) -> str:
    return f"{text}{glue}{following.lstrip() if glue else following}"
