"""Progress on standard error: a bar on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tfgpu_doctor.render.streams import say

EVERY = 10.0  # seconds between two lines where there is no terminal; what is over before the first prints none


class Reporter:
    """Shows how far something is: where there is no terminal, a line when the last one is some seconds old."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start counting."""
        self._clock = clock
        self._began = self._last = clock()

    def __call__(self, label: str, done: float) -> None:
        """Show what is done now, and the progress, from 0 to 1."""
        now = self._clock()
        if now - self._last >= EVERY:
            self._last = now
            share = f", {100 * done:.0f} % done" if done > 0 else ""
            say(f"tfgpu: after {now - self._began:.0f} s: {label}{share}")

    def announce(self, text: str) -> None:
        """Show a line that stays."""
        say(f"tfgpu: {text}")


@contextmanager
def spinner(message: str) -> Iterator[None]:
    """Show `message` with a spinner while the block runs."""
    if not sys.stderr.isatty():
        yield
        return
    from tfgpu_doctor.render.console import console_for

    with console_for(sys.stderr).status(message, spinner="line"):
        yield


@contextmanager
def bar() -> Iterator[Reporter]:
    """Show the progress of the block, which gets what takes a label and the progress, from 0 to 1."""
    if not sys.stderr.isatty():
        yield Reporter()
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.text import Text

    from tfgpu_doctor.render.console import console_for

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console_for(sys.stderr), transient=True) as progress:
        task = progress.add_task("", total=1.0)

        class Bar(Reporter):
            def __call__(self, label: str, done: float) -> None:
                progress.update(task, description=label, completed=done)

            def announce(self, text: str) -> None:
                progress.console.print(Text(f"tfgpu: {text}"), soft_wrap=True)

        yield Bar()
