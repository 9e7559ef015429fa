"""A guard against what never ends. It counts processor time: a busy machine harms nothing, and nothing is measured."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StillBusyError(AssertionError):
    """What should take moments was stopped; Python asks for signals within a regular expression, too."""


@contextmanager
def guarded(seconds: float, what: str = "") -> Iterator[None]:
    """Stop the body after so much processor time: many times what it usually takes, far less than what hangs."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise StillBusyError(f"still busy after {seconds:g} s of processor time: {what}")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
