"""Consoles, symbols that the output can encode, and cleaning of text that came from outside."""

from __future__ import annotations

import codecs
import os
import sys
from typing import IO, NamedTuple

from rich.console import Console


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
    "absent": Mark("–", "-", "–", "dim", "none", ""),
}
STYLES = {name: mark.style for name, mark in MARKS.items()}
_SYMBOLS = {"from": "←", "bar": "━", **{name: mark.symbol for name, mark in MARKS.items()}}
_ASCII = {"from": "<-", "bar": "=", **{name: mark.ascii for name, mark in MARKS.items()}}
PLAIN = "tfgpu.plain"
_PLAIN = {"µ": "u", "×": "x", "…": "...", "–": "-", "←": "<-", "≥": ">=", "°": ""}


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Letters that an encoding lacks, as what stands for them in plain ASCII."""
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end]
    return "".join(_PLAIN.get(letter, "?") for letter in lacking), error.end


codecs.register_error(PLAIN, _plain)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave a closed pipe to __main__; rich would exit with 1, which here means that a problem was found."""
        raise BrokenPipeError


def console_for(stream: IO[str] | None = None) -> Console:
    """A console on `stream` (standard output by default): colours only on a terminal without NO_COLOR.

    Piped output is 80 columns wide unless COLUMNS says otherwise.
    """
    stream = stream or sys.stdout
    terminal = stream.isatty()
    width = None if terminal or os.environ.get("COLUMNS", "").isdecimal() else 80
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors=PLAIN)  # a terminal of another encoding gets 'x' or '?', not a traceback
    return _Console(
        file=stream, width=width, highlight=False, markup=False, emoji=False, legacy_windows=False, soft_wrap=False
    )


def marks(console: Console) -> dict[str, str]:
    """The symbols of the summary, in ASCII where the encoding has no others."""
    return _SYMBOLS if console.encoding.lower().startswith("utf") else _ASCII


def clean(text: str) -> str:
    """Make text from outside harmless: control characters (escape sequences) become visible."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text.replace("\t", "    "))
