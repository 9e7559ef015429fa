"""Consoles that clean what they show, and symbols that the output can encode."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import IO, NamedTuple, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from tfgpu_doctor.facts.printable import clean
from tfgpu_doctor.render.streams import StyledStream, guarded


class Mark(NamedTuple):
    """How a state looks: in a terminal, where there is no Unicode, in Markdown, in a page's column and its style."""

    symbol: str
    ascii: str
    markdown: str
    style: str
    word: str
    page: str


MARKS = {
    "ok": Mark("✓", "+", "✓", "green", "ok", "good"),
    "error": Mark("✗", "x", "✗", "bold red", "problem", "bad"),
    "warning": Mark("!", "!", "⚠", "yellow", "warning", "warn"),
    "note": Mark("i", "i", "ℹ", "cyan", "note", ""),
    "unknown": Mark("?", "?", "?", "magenta", "unknown", ""),
    "absent": Mark("–", "-", "–", "dim", "–", ""),
    "": Mark(" ", " ", "", "", "", ""),  # of what is neither right nor wrong
}
STYLES = {name: mark.style for name, mark in MARKS.items()}
_SYMBOLS = {"from": "←", **{name: mark.symbol for name, mark in MARKS.items()}}
_ASCII = {"from": "<-", **{name: mark.ascii for name, mark in MARKS.items()}}
_DEFAULT, _NARROWEST, _WIDEST = 80, 20, 1000  # columns; outside of the limits, the number is a mistake


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave a closed pipe to __main__; rich would exit with 1, which here means that a problem was found."""
        raise BrokenPipeError

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Clean every text that is shown, in whatever it stands: only styles of our own reach the stream."""
        if isinstance(renderable, str):
            renderable = clean(renderable)
        return super().render(cleaned(renderable) if isinstance(renderable, Text) else renderable, options)


def console_for(stream: IO[str] | None = None) -> Console:
    """A console on `stream` (standard output by default): colours and bold only on a terminal without NO_COLOR."""
    file = guarded(stream or sys.stdout).styled
    # with both sizes given, rich does not read COLUMNS and LINES, whose nonsense it takes for numbers
    return _Console(
        file=cast(IO[str], file),
        width=columns(file),
        height=25,
        color_system=None if os.environ.get("NO_COLOR") else "auto",  # rich would leave bold and dim
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
        force_jupyter=False,  # a notebook would get each line as an output of its own
        soft_wrap=False,
    )


def columns(stream: StyledStream) -> int:
    """The width of a page: COLUMNS, else that of the terminal, else 80; what is no sensible width does not count."""
    named = os.environ.get("COLUMNS", "")
    if named.isascii() and named.isdigit() and len(named) < 5 and _NARROWEST <= int(named) <= _WIDEST:
        return int(named)
    try:
        found = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):  # no terminal
        return _DEFAULT
    return found if _NARROWEST <= found <= _WIDEST else _DEFAULT


def marks(console: Console) -> dict[str, str]:
    """The symbols of the summary, in ASCII where the encoding has no others."""
    return _SYMBOLS if console.encoding.lower().startswith("utf") else _ASCII


def cleaned(text: Text) -> Text:
    """The same text on one line, every character of it visible; styles stay where they are."""
    plain = clean(text.plain.replace("\t", " "))
    if plain != text.plain:
        text = text.copy()
        text.plain = plain
    return text
