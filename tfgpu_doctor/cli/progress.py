"""Progress on standard error, only if that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def spinner(message: str) -> Iterator[None]:
    """Show `message` with a spinner while the block runs."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(message, spinner="line"):
        yield


@contextmanager
def bar() -> Iterator[Callable[[str, float], None]]:
    """Show a progress bar; the block gets a function that takes a label and the progress, from 0 to 1."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=1.0)
        yield lambda label, done: progress.update(task, description=label, completed=done)
