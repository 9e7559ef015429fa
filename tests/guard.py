"""Guards against what never ends: a test that hangs fails instead. They measure nothing; nothing comes near them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StillBusyError(AssertionError):
    """What should take moments was stopped; Python asks for signals within a regular expression, too."""


@contextmanager
def guarded(seconds: float, what: str = "", *, waiting: bool = False) -> Iterator[None]:
    """Stop the body after so much processor time, which a busy machine does not change.

    With `waiting`, for a body that waits for others, after so much time on the clock. Give many times what it takes.
    """
    number, timer = (signal.SIGALRM, signal.ITIMER_REAL) if waiting else (signal.SIGPROF, signal.ITIMER_PROF)

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise StillBusyError(f"still busy after {seconds:g} s: {what}")

    before = signal.signal(number, stop)
    signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        signal.setitimer(timer, 0)
        signal.signal(number, before)
