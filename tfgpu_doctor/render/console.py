"""Consoles that clean what they show, and the symbols of what is shown; streams.py has those of other encodings."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from typing import IO, NamedTuple, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from tfgpu_doctor.facts.printable import clean
from tfgpu_doctor.render.streams import StyledStream, guarded


class Mark(NamedTuple):
    """How a state looks: in a terminal, in Markdown, in a page's column and its style."""

    symbol: str
    markdown: str
    style: str
    word: str
    page: str


MARKS = {
    "ok": Mark("✓", "✓", "green", "ok", "good"),
    "error": Mark("✗", "✗", "bold red", "problem", "bad"),
    "warning": Mark("!", "⚠", "yellow", "warning", "warn"),
    "note": Mark("i", "ℹ", "cyan", "note", ""),
    "unknown": Mark("?", "?", "magenta", "unknown", ""),
    "absent": Mark("–", "–", "dim", "–", ""),
    "": Mark(" ", "", "", "", ""),  # of what is neither right nor wrong
}
STYLES = {name: mark.style for name, mark in MARKS.items()}
SYMBOLS = {name: mark.symbol for name, mark in MARKS.items()}
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
    is_told = stream.isatty() or "COLUMNS" in os.environ
    found = shutil.get_terminal_size((_DEFAULT, 0)).columns if is_told else _DEFAULT
    return found if _NARROWEST <= found <= _WIDEST else _DEFAULT


def cleaned(text: Text) -> Text:
    """The same text on one line, every character of it visible; styles stay where they are."""
    plain = clean(text.plain.replace("\t", " "))
    if plain != text.plain:
        text = text.copy()
        text.plain = plain
    return text
