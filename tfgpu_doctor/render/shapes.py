"""What a result comes to before it has a format: a page for people, checks for CI systems, metrics for monitoring.

The outline of a kind of result (outlines/) makes these; a format has one renderer for one of them. Pure data.
Text from outside is kept as it is; who prints it cleans or escapes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from tfgpu_doctor.facts.report import Severity

Outcome = Literal["passed", "failure", "error", "skipped"]
Level = Literal["error", "warning", "notice"]
LEVELS: dict[Severity, Level] = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
_LONGEST_COMMAND = 2000  # characters, of what others read


# ------------------------------------------------------------------------------------------------------- for people


class Line(NamedTuple):
    """One line of a block: `source` is where the text was read, `id` the finding that it names."""

    label: str
    text: str
    source: str = ""
    id: str = ""
    commands: tuple[str, ...] = ()

    @property
    def is_step(self) -> bool:
        """Whether it says what to do: it has commands to copy, or may have."""
        return self.label == "fix" or bool(self.commands)

    @property
    def whole_commands(self) -> Iterator[str]:
        """The commands, each whole, or not at all: half of one would do something else."""
        for one in self.commands:
            is_long = len(one) > _LONGEST_COMMAND
            yield f"# a command of {len(one)} characters, in the JSON report" if is_long else one


class Block(NamedTuple):
    """A heading and its lines; `docs` is a link, or nothing."""

    mark: str
    title: str
    lines: tuple[Line, ...]
    ids: tuple[str, ...] = ()
    docs: str = ""
    answers: bool = False  # what the text asks, so that a first screen has all of it

    def labelled(self, label: str) -> tuple[Line, ...]:
        """Return the lines with this label."""
        return tuple(line for line in self.lines if line.label == label)


class Table(NamedTuple):
    """A table; `marks` are those of the rows (names of console.MARKS), where they have any.

    In a terminal, a table of two columns is a list of names with their texts.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    marks: tuple[str, ...] = ()
    right: tuple[int, ...] = ()  # columns of numbers
    is_named: bool = False  # a terminal, too, shows the title
    is_folded: bool = False  # where others read: opened on demand


class Items(NamedTuple):
    """A list of sentences; `mark` is how each is marked in a terminal."""

    lines: tuple[str, ...]
    title: str = ""
    mark: str = ""


class Code(NamedTuple):
    """Lines that are shown as they are."""

    title: str
    lines: tuple[str, ...]
    is_folded: bool = False  # where others read: opened on demand


class Page(NamedTuple):
    """A whole page, or part of another, which then shows it folded. Parts without content are not shown."""

    title: str  # "tfgpu doctor"
    about: tuple[str, ...]  # what made it, and of what
    mark: str  # of the verdict, a name of console.MARKS
    word: str  # what stands out: the verdict
    sentence: str
    parts: tuple[Part, ...]
    language: str = "sh"  # of the commands
    created: str = ""
    # how a terminal shows it
    hint: str = ""  # what shows more
    is_brief: bool = False  # the verdict first, and what it stands on

    @property
    def origin(self) -> str:
        """What made it, of what, and when."""
        return ", ".join(filter(None, (*self.about, self.created)))


Part: TypeAlias = Block | Table | Items | Code | Page


def has_content(part: Part) -> bool:
    """Whether there is anything to show."""
    match part:
        case Table():
            return bool(part.rows)
        case Items() | Code():
            return bool(part.lines)
    return True


# ----------------------------------------------------------------------------------------------------------- for CI


class Case(NamedTuple):
    """A check."""

    name: str
    classname: str
    outcome: Outcome = "passed"
    kind: str = ""  # of what went wrong, in a word or two
    message: str = ""
    details: tuple[str, ...] = ()  # lines; where the check passed, they are what it printed
    seconds: float | None = None


class Suite(NamedTuple):
    """Checks that belong together."""

    name: str
    cases: tuple[Case, ...]


class Annotation(NamedTuple):
    """One message about a run of a CI system."""

    level: Level
    title: str
    lines: tuple[str, ...]
    place: tuple[str, int] | None = None  # a file and a line of it


def problems(command: str, cases: Iterable[Case]) -> tuple[Annotation, ...]:
    """Return an annotation for each case that did not pass; a warning for what was not run."""
    return tuple(
        Annotation(
            "warning" if case.outcome == "skipped" else "error",
            f"{command}: {case.name}: {case.kind}",
            (case.message, *case.details),
        )
        for case in cases
        if case.outcome != "passed"
    )


class Checks(NamedTuple):
    """A result as checks that passed or did not: red where the exit code is not 0, and only there."""

    name: str  # "tfgpu doctor"
    created: str
    suites: tuple[Suite, ...]
    annotations: tuple[Annotation, ...]
    log: tuple[str, ...]  # lines for the log, the verdict last


# ---------------------------------------------------------------------------------------------------- for monitoring


class Sample(NamedTuple):
    """A value and its labels."""

    value: float
    labels: Mapping[str, str] = MappingProxyType({})


class Metric(NamedTuple):
    """A gauge; its name ends in its base unit ("tfgpu_doctor_timestamp_seconds")."""

    name: str
    help: str
    samples: tuple[Sample, ...]
