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
    from tfgpu_doctor.render.console import console_for

    with console_for(sys.stderr).status(message, spinner="line"):
        yield


@contextmanager
def bar() -> Iterator[Callable[[str, float], None]]:
    """Show a progress bar; the block gets a function that takes a label and the progress, from 0 to 1."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from tfgpu_doctor.render.console import console_for

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console_for(sys.stderr), transient=True) as progress:
        task = progress.add_task("", total=1.0)
        yield lambda label, done: progress.update(task, description=label, completed=done)
