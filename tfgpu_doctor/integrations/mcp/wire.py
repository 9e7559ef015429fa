"""The streams of this process while it serves: the protocol alone has standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TextIO


def is_closed() -> bool:
    """Whether this process was started without standard input or output (<&- or >&-)."""
    return not (sys.__stdin__ and sys.__stdout__)


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
