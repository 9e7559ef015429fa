"""Progress on standard error: a bar on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import sys
import threading
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
        self._state = ("starting", 0.0)

    def __call__(self, label: str, done: float) -> None:
        """Take what is done now, and the progress, from 0 to 1."""
        self._state = (label, done)

    def remind(self) -> None:
        """Show a line, if one is due."""
        now, (label, done) = self._clock(), self._state
        if now - self._last >= EVERY:
            self._last = now
            share = f", {100 * done:.0f} % done" if done > 0 else ""
            say(f"tfgpu: after {now - self._began:.0f} s: {label}{share}")

    @contextmanager
    def reminding(self) -> Iterator[Reporter]:
        """Show lines while the block runs, also while it waits for an import, an estimate or a long sample."""
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(EVERY / 20):
                self.remind()

        thread = threading.Thread(target=watch, name="progress", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            ended.set()
            thread.join()

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
        with Reporter().reminding() as lines:
            yield lines
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
