"""The one way out: standard output and standard error, which let nothing through that a terminal or a CI system obeys.

:func:`guard` replaces both once, for everything that is printed: by us, by click, by rich and by Python itself. A
guarded stream has no `buffer`, so that no bytes can pass it by.
"""

from __future__ import annotations

import codecs
import os
import re
import sys
from contextlib import suppress
from typing import IO, TextIO, cast

from tfgpu_doctor.facts.printable import clean_lines, one_line, utf8, without_commands

PLAIN = "tfgpu.plain"
_PLAIN = {"µ": "u", "×": "x", "…": "...", "–": "-", "−": "-", "←": "<-", "→": "->", "≥": ">=", "≤": "<="}
_PLAIN |= {"±": "+-", "°": "", "━": "=", "✓": "+", "✗": "x"}
_STYLE = re.compile(r"(\x1b\[[\d;]*[A-HJKm]|\x1b\[\?25[hl]|\r)")  # colours, and how rich moves the cursor
_TAIL = 64  # characters; longer than what begins a command


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Letters that an encoding lacks, as what stands for them in plain ASCII."""
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end]
    return "".join(_PLAIN.get(letter, "?") for letter in lacking), error.end


codecs.register_error(PLAIN, _plain)


class GuardedStream:
    """A text stream that replaces control characters except line breaks, and breaks up commands of CI systems."""

    def __init__(self, stream: IO[str], *, may_fail: bool = False) -> None:
        """Write to `stream`; `may_fail`: what cannot be written is lost, so that the exit code stays as it is."""
        self._stream = stream
        self._may_fail = may_fail
        self._tail = ""  # what the unfinished line ends in
        self.styled = StyledStream(self)
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=PLAIN)  # a terminal of another encoding gets 'x' or '?', not a traceback

    @property
    def encoding(self) -> str:
        """Of the stream behind it."""
        return getattr(self._stream, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """The descriptor of the stream behind it."""
        return self._stream.fileno()

    def write(self, text: str) -> int:
        """Write text without any control character."""
        if not isinstance(text, str):  # click tries both
            raise TypeError(f"text is needed, not {type(text).__name__}")
        self.put(clean_lines(text))
        return len(text)

    def flush(self) -> None:
        """Hand over what is buffered."""
        try:
            self._stream.flush()
        except OSError as error:
            self._failed(error)

    def put(self, text: str) -> None:
        """Write text whose control characters are ours."""
        tail = self._tail
        text = without_commands(tail + text)[len(tail) :]
        last = (tail + text).rpartition("\n")[2]
        begun = "." if last[:-_TAIL].strip() else " "
        self._tail = last if len(last) <= _TAIL else begun + last[-_TAIL:]
        try:
            self._stream.write(text)
        except OSError as error:
            self._failed(error)

    def write_document(self, document: str) -> None:
        """Write what :func:`harmless` returned, as UTF-8 whatever the encoding of the stream."""
        binary = getattr(self._stream, "buffer", None)
        if binary is None:
            self._stream.write(document)
            return
        self._stream.flush()
        binary.write(utf8(document))
        binary.flush()

    def discard(self) -> None:
        """Discard what is still buffered, so that Python does not try to write it again at exit."""
        with suppress(OSError, ValueError):  # a stream without a descriptor
            descriptor = self._stream.fileno()
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)

    def _failed(self, error: OSError) -> None:
        if not self._may_fail:
            raise error
        self.discard()


class StyledStream:
    """A guarded stream as our own consoles see it: their colours and cursor movements pass."""

    def __init__(self, plain: GuardedStream) -> None:
        """The other face of `plain`."""
        self._plain = plain
        self.isatty, self.fileno, self.flush = plain.isatty, plain.fileno, plain.flush

    @property
    def encoding(self) -> str:
        """Of the stream behind it."""
        return self._plain.encoding

    def write(self, text: str) -> int:
        """Write text of a console, which has cleaned what it shows."""
        pieces = _STYLE.split(text)
        self._plain.put("".join(piece if number % 2 else clean_lines(piece) for number, piece in enumerate(pieces)))
        return len(text)


def guarded(stream: IO[str], *, may_fail: bool = False) -> GuardedStream:
    """The stream with its guard."""
    return stream if isinstance(stream, GuardedStream) else GuardedStream(stream, may_fail=may_fail)


def guard() -> None:
    """Guard standard output and standard error."""
    sys.stdout = cast(TextIO, guarded(sys.stdout))
    sys.stderr = cast(TextIO, guarded(sys.stderr, may_fail=True))


def say(message: str) -> None:
    """Print one line on standard error."""
    print(one_line(message), file=guarded(sys.stderr, may_fail=True))


def harmless(document: str, ours: bool = False) -> str:
    """A document that no terminal and no CI system obeys; `ours`: except for the annotations that it consists of."""
    return without_commands(clean_lines(document), ours)
