"""The options that choose among the checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

_Function = TypeVar("_Function", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--only", metavar="ID", multiple=True, help='Report these findings only ("cuda.*"). May be repeated.'),
    click.option("--skip", metavar="ID", multiple=True, help="Leave these findings and what follows from them out."),
)


def checks_options(function: _Function) -> _Function:
    """Add --only and --skip."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def verify(only: tuple[str, ...], skip: tuple[str, ...]) -> None:
    """An id that no check has is wrong usage."""
    if not only and not skip:
        return
    from tfgpu_doctor.diagnosis.selection import SelectionError
    from tfgpu_doctor.diagnosis.selection import verify as known

    try:
        known((*only, *skip))
    except SelectionError as error:
        raise click.UsageError(str(error)) from error


def list_checks(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    """Print every check and leave."""
    if not value or context.resilient_parsing:
        return
    from rich.text import Text

    from tfgpu_doctor.diagnosis.selection import checks
    from tfgpu_doctor.render.console import STYLES, console_for
    from tfgpu_doctor.render.terminal.layout import hanging

    console = console_for()
    every = checks()
    widest = max(len(one.id) for one in every)
    for one in every:
        head = Text.assemble((f"{one.severity:8} ", STYLES[one.severity]), (f"{one.id:{widest}}  ", "bold"))
        hanging(head, Text(one.title), console)
    context.exit()
