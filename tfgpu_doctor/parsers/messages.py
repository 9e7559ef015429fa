"""What programs print, line by line: the closed catalogue of messages in messages.txt, and how they are found.

TensorFlow changes its wording from release to release, so that a kind of message may have several templates; what a
message means for the diagnosis is the business of the findings.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Literal, TypeAlias

from tfgpu_doctor.facts.facts import Message
from tfgpu_doctor.facts.printable import cut
from tfgpu_doctor.parsers.lines import Line

CATALOGUE = Path(__file__).with_name("messages.txt")
SHOWN = 300  # characters of a line that are kept as evidence
MOST = 60  # different messages of one kind
_JOINED = 5_000  # lines up to which a hard-wrapped line is put together again
_OF_A_PROGRAM = re.compile(r"(?:docker|podman|bash|sh|python3?|pip3?|conda|nvidia-smi): ")  # it answers a command
_WRAPPED, _WIDEST = 60, 500  # characters of a line that may have been wrapped by a terminal
_GLUES = ("", " ")  # what the terminal put a line break in place of
_PART = re.compile(r"\{([a-z_]+)\}")
_IS_LOGGED = re.compile(r"\.cc:\d+\]")  # by TensorFlow

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
        """Compile the expression; most templates are never needed for a text, and compiling all takes 20 ms."""
        return re.compile(self.expression, re.IGNORECASE)


def load(text: str) -> Iterator[Template]:
    """Return the templates of a catalogue; messages.txt says how one is written."""
    parts: dict[str, str] = {}
    for block in text.split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith("#")]
        expression = _PART.sub(lambda part: parts.get(part[1], part[0]), "".join(_after("  ", lines)))
        if lines and lines[0].startswith("{"):
            parts[lines[0][1:-1]] = expression
        elif lines:
            yield _template(lines, expression)


def _template(lines: list[str], expression: str) -> Template:
    needles = tuple(filter(None, "|".join(_after("? ", lines)).split("|")))
    fixed = dict(line.split(" ", 1) for line in _after("= ", lines))
    kind, *words = lines[0].split()
    roles: tuple[Role, ...] = ("context", "harmless")
    role = next((one for one in roles if one in words), None)
    return Template(
        kind, needles, expression or "|".join(map(re.escape, needles)), fixed, role, "stops-import" in words
    )


def _after(mark: str, lines: list[str]) -> list[str]:
    return [line[len(mark) :] for line in lines if line.startswith(mark)]


TEMPLATES = tuple(load(CATALOGUE.read_text(encoding="utf-8")))
HARMLESS = tuple(one for one in TEMPLATES if one.role == "harmless")

# Kinds without a template, which other parsers and derived_messages make
_DERIVED = (
    *("another-program", "conda-tensorflow", "container-start", "image-named"),
    *("cuda-versions-compared", "cuda-wanted", "gpu-created", "gpu-fails-said", "gpu-found", "jetson"),
    *("log-era", "notebook", "hosted-notebook", "no-gpu-listed", "only-printed", "own-report", "few-words"),
    *("other-framework", "wants-cpu", "question", "source-build", "works-before-avx", "not-python"),
    "place",
)
# Kinds that are no failures
ROLES: dict[str, Role] = {
    "resembles": "context",  # a cause that known reports in the same words had
    "text-cut": "context",  # a large text, in which parts of long lines were not examined
    **dict.fromkeys(_DERIVED, "context"),
    **{one.kind: one.role for one in TEMPLATES if one.role is not None},
}
STOPS_IMPORT = frozenset(
    {
        "conda-unsatisfiable",
        "conda-sees-no-driver",
        "wheel-not-supported",
        *(one.kind for one in TEMPLATES if one.stops_import),
    }
)


def is_failure(kind: str) -> bool:
    """Whether a message of this kind says that something failed; else it tells where and how, or is harmless."""
    return kind not in ROLES


def stops_import(kind: str) -> bool:
    """Whether TensorFlow cannot even be imported or installed after such a message."""
    return kind in STOPS_IMPORT


def read(lines: Sequence[Line], templates: Iterable[Template] = TEMPLATES) -> tuple[Message, ...]:
    """Find every known message in `lines`, in their order; a repeated one is counted.

    >>> read([Line(7, "2022-07-07 15:53:15: W dso_loader.cc:64] Could not load dynamic library 'libcuda.so.1';")])[0]
    ... # doctest: +NORMALIZE_WHITESPACE
    Message(kind='library-not-opened', line=7,
    text="2022-07-07 15:53:15: W dso_loader.cc:64] Could not load dynamic library 'libcuda.so.1';",
    values={'library': 'libcuda.so.1'}, count=1, source=None)
    """
    found: dict[tuple[str, tuple[tuple[str, str], ...]], Message] = {}
    number: dict[str, int] = {}
    for line, which, match in _matches(lines, tuple(templates)):
        values = {**which.fixed, **{k: v.strip() for k, v in match.groupdict().items() if v and v.strip()}}
        key = (which.kind, tuple(values.items()))
        if key in found:
            old = found[key]
            again = old.line != line.number
            at, text = (line.number, cut(line.text.strip(), SHOWN)) if _is_fuller(line, old) else (old.line, old.text)
            found[key] = Message(old.kind, at, text, old.values, old.count + again)
        elif number.get(which.kind, 0) < MOST:
            number[which.kind] = number.get(which.kind, 0) + 1
            found[key] = Message(which.kind, line.number, cut(line.text.strip(), SHOWN), values)
    hints = any(one.kind == "allocation-not-a-failure" for one in found.values())  # a title may repeat the first half
    kept = (m for m in found.values() if not (hints and "allocator" in m.values and not _IS_LOGGED.search(m.text)))
    return tuple(sorted(kept, key=lambda message: message.line))


def _is_fuller(line: Line, old: Message) -> bool:
    """Whether a line shows more of a message: a title that repeats it is no evidence, nor is its first half."""
    logged = _IS_LOGGED.search(line.text) and not _IS_LOGGED.search(old.text)
    half = line.number != old.line and len(old.text) < SHOWN and old.text.rstrip(" .") in line.text.strip()[:-1]
    return bool(logged) or half


def numbers(lines: Sequence[Line], templates: Iterable[Template]) -> set[int]:
    """The lines that have one of these messages, the repeated ones, too."""
    return {line.number for line, _, _ in _matches(lines, tuple(templates))}


def _matches(lines: Sequence[Line], templates: tuple[Template, ...]) -> Iterator[_Match]:
    """Every template in every line, and in the seam of two lines that a terminal may have broken."""
    possible = _possible([line.text for line in lines], templates)
    seams = _seams(lines, templates)
    for place, line in enumerate(lines):
        for number in sorted(possible[place]):
            if match := templates[number].pattern.search(line.text):
                yield _with_its_file(lines, place, templates[number]), templates[number], match
        if place in seams and not _begins_anew(lines[place + 1], possible[place + 1], templates):
            numbers = sorted(seams[place] | possible[place] | possible[place + 1])
            yield from _over_the_seam(line, lines[place + 1], [templates[number] for number in numbers])


def _with_its_file(lines: Sequence[Line], place: int, template: Template) -> Line:
    """The line; if it is harmless, with the time, level and file that it was broken from."""
    line, before = lines[place], lines[place - 1].text.rstrip() if place else ""
    broken = template.kind == "harmless" and before.endswith("]") and _IS_LOGGED.search(before[-len(".cc:12345]") :])
    return Line(line.number, f"{before} {line.text}") if broken else line


def _begins_anew(line: Line, possible: set[int], templates: tuple[Template, ...]) -> bool:
    """Whether a line begins with a program's or a harmless message, so that it does not go on with that before it."""
    known = (templates[number] for number in possible)
    return _OF_A_PROGRAM.match(line.text) is not None or any(
        one.kind == "harmless" and one.pattern.match(line.text.lstrip()) for one in known
    )


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
            over = match and match.start() < seam < match.end()
            if match and over and not any(map(one.pattern.search, (line.text, following.text))):
                yield Line(line.number, text), one, match


def _glued(text: str, glue: str, following: str) -> str:
    return f"{text}{glue}{following.lstrip() if glue else following}"
