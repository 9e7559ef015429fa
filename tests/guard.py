"""Guards against what never ends: a test that hangs fails instead; and what still runs of a test's processes."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import psutil


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


def alive(mark: str) -> dict[int, str]:
    """Return the processes that have a mark on their command lines, with these; no zombies."""
    found = {}
    for one in psutil.process_iter(["cmdline", "status"]):
        line = " ".join(one.info["cmdline"] or [])
        if mark in line and one.info["status"] != psutil.STATUS_ZOMBIE:
            found[one.pid] = line
    return found


def eventually(holds: Callable[[], object], seconds: float = 30.0) -> bool:
    """True as soon as something holds; False if it does not within so many seconds."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
