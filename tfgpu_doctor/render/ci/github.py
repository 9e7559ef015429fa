"""GitHub Actions: a workflow command for each thing that was found, which becomes an annotation of the run.

Each stands on one line, its text escaped as the runner undoes it (actions/toolkit, packages/core/src/command.ts), so
that nothing from outside can begin a line, end a property or be a command of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from tfgpu_doctor.render.ci.plain import line
from tfgpu_doctor.render.shapes import Annotation, Checks, Level

_ORDER: tuple[Level, ...] = ("error", "warning", "notice")
_LONGEST = 4000  # characters of a message
_LONGEST_TITLE = 200


def render(checks: Checks) -> str:
    """The annotations, the gravest first, then what is printed to the log."""
    ordered = sorted(checks.annotations, key=lambda one: _ORDER.index(one.level))
    # none of our lines begins with a colon, and none may hold the runner's older form of commands
    return commands(ordered) + "".join(line(one).replace("##", "# #") + "\n" for one in checks.log)


def commands(annotations: Iterable[Annotation]) -> str:
    """The workflow commands, one a line."""
    return "".join(
        f"::{annotation.level} {_where(annotation)}title={_property(annotation.title)}::{_message(annotation)}\n"
        for annotation in annotations
    )


def _where(annotation: Annotation) -> str:
    if annotation.place is None:
        return ""
    path, number = annotation.place
    return f"file={_property(path)},line={number},"


def _message(annotation: Annotation) -> str:
    text = "\n".join(map(line, annotation.lines))
    return escape(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…")


def escape(text: str) -> str:
    """A message as the runner reads it back."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    short = line(text)
    short = short if len(short) <= _LONGEST_TITLE else short[: _LONGEST_TITLE - 1] + "…"
    return escape(short).replace(":", "%3A").replace(",", "%2C")
