"""The streams of this process while it serves: the protocol alone has standard output, and a signal ends the rest."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import TextIO

from tfgpu_doctor.render.streams import say

_CHUNK = 1 << 16  # bytes
_LONGEST = 128 << 20  # bytes of a message; the largest arguments that tools take have 80 MiB
# any escape; the group is a half of a surrogate pair, which follows no other and is followed by none
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)")
_WAITING = 8  # messages


def is_closed() -> bool:
    """Whether this process was started without standard input or output (<&- or >&-)."""
    return not (sys.stdin and sys.__stdout__)


def unguarded() -> AbstractContextManager[None]:
    """Let the SDK take standard output as it is: the guarded stream has no bytes. It writes JSON on one line."""
    return _stdout(sys.__stdout__)


def kept_free() -> AbstractContextManager[None]:
    """Print on standard error what anybody prints meanwhile; it would be no message of the protocol."""
    return _stdout(sys.stderr)


@contextmanager
def _stdout(stream: TextIO | None) -> Iterator[None]:
    before = sys.stdout
    sys.stdout = stream or before
    try:
        yield
    finally:
        sys.stdout = before


def _reader() -> Callable[[], bytes]:
    """What reads standard input: past its buffer, whose lock would be held when Python ends."""
    stream = sys.stdin.buffer
    try:
        return partial(os.read, stream.fileno(), _CHUNK)
    except OSError:  # not a file
        return partial(stream.read, _CHUNK)


def without_halves(line: str) -> str:
    """JSON in which \\ufffd stands for every escape that is half of a surrogate pair."""
    return _ESCAPE.sub(lambda found: r"\ufffd" if found[1] else found[0], line) if r"\u" in line else line


class Lines:
    """Standard input, line by line, read by a thread that nobody waits for.

    The SDK's own thread waits within a read, so that a process that a signal ends would last until its input ends.
    """

    def __init__(self) -> None:
        """Begin to read; within an event loop."""
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue(_WAITING)
        threading.Thread(target=self._read, args=(_reader(),), name="standard input", daemon=True).start()

    def __aiter__(self) -> Lines:
        return self

    async def __anext__(self) -> str:
        if (line := await self._lines.get()) is None:
            raise StopAsyncIteration
        return line

    def _read(self, read: Callable[[], bytes]) -> None:
        """Runs in the thread."""
        with suppress(RuntimeError, OSError):  # the loop is closed, or the input
            begun: list[bytes] = []
            size = 0
            while chunk := read():
                *ends, rest = chunk.split(b"\n")
                for end in ends:
                    self._put(b"".join((*begun, end)).decode("utf-8", "replace"))
                    begun, size = [], 0
                begun.append(rest)
                size += len(rest)
                if size > _LONGEST:
                    say("tfgpu: a message without end: this is no client of the Model Context Protocol")
                    break
        with suppress(RuntimeError):
            self._put(None)

    def _put(self, line: str | None) -> None:
        """Hand a line over, and wait while others have not been taken. Raises RuntimeError: the loop is closed.

        The SDK drops a message with half a surrogate pair, and its sender waits for ever.
        """
        line = None if line is None else without_halves(line)
        asyncio.run_coroutine_threadsafe(self._lines.put(line), self._loop).result()
