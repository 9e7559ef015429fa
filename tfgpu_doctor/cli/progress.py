"""Progress on standard error: a bar on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from tfgpu_doctor.render.streams import say

if TYPE_CHECKING:
    from rich.console import Console

EVERY = 10.0  # seconds between two lines where there is no terminal; what is over before the first prints none


class Reporter(Protocol):
    """Shows how far something is."""

    def __call__(self, label: str, done: float) -> None:
        """Show what is done now, and the progress, from 0 to 1."""
        ...

    def announce(self, text: str) -> None:
        """Show a line that stays."""
        ...


class Lines:
    """Where there is no terminal: a line when the last one is some seconds old, also while nothing new begins."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start counting."""
        self._clock = clock
        self._began = self._last = clock()
        self._label, self._done = "", 0.0
        self._end = threading.Event()

    def __call__(self, label: str, done: float) -> None:
        """Print a line, if it is time for one."""
        self._label, self._done = label, done
        self.tick()

    def tick(self) -> None:
        """Print a line about what goes on, if it is time for one."""
        now = self._clock()
        if self._label and now - self._last >= EVERY:
            self._last = now
            share = f", {100 * self._done:.0f} % done" if self._done > 0 else ""
            say(f"tfgpu: after {now - self._began:.0f} s: {self._label}{share}")

    @contextmanager
    def ticking(self) -> Iterator[Lines]:
        """Tick by a thread while the block runs: a single sample can take minutes."""
        thread = threading.Thread(target=self._tick_on, name="progress", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._end.set()
            thread.join()

    def _tick_on(self) -> None:
        while not self._end.wait(EVERY / 10):
            self.tick()

    def announce(self, text: str) -> None:
        """Print it."""
        say(f"tfgpu: {text}")


@contextmanager
def spinner(message: str) -> Iterator[None]:
    """Show `message` with a spinner while the block runs."""
    if not sys.stderr.isatty():
        yield
        return
    from tfgpu_doctor.render.console import console_for

    console = console_for(sys.stderr)
    with _cursor_at_the_end(console), console.status(message, spinner="line"):
        yield


class Silent:
    """Where nothing but the result is wanted."""

    def __call__(self, label: str, done: float) -> None:
        """Show nothing."""

    def announce(self, text: str) -> None:
        """Show nothing."""


@contextmanager
def _cursor_at_the_end(console: Console) -> Iterator[None]:
    """Show the cursor again, also when Rich is interrupted between hiding it and entering its own block."""
    try:
        yield
    except BaseException:  # raised again: Ctrl-C above all
        console.show_cursor(True)
        raise


@contextmanager
def bar(*, is_quiet: bool = False) -> Iterator[Reporter]:
    """Show the progress of the block, which gets what takes a label and the progress, from 0 to 1."""
    if is_quiet:
        yield Silent()
        return
    if not sys.stderr.isatty():
        with Lines().ticking() as lines:
            yield lines
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.text import Text

    from tfgpu_doctor.render.console import console_for

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    console = console_for(sys.stderr)
    with _cursor_at_the_end(console), Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=1.0)

        class Bar:
            def __call__(self, label: str, done: float) -> None:
                progress.update(task, description=label, completed=done)

            def announce(self, text: str) -> None:
                progress.console.print(Text(f"tfgpu: {text}"), soft_wrap=True)

        yield Bar()
