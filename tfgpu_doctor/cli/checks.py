"""The options that select findings: --only, --skip and --list-checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tfgpu_doctor.cli.options import option
from tfgpu_doctor.cli.values import FINDING_ID, Listed

_Function = TypeVar("_Function", bound=Callable[..., Any])

_OPTIONS = (
    option("--only", metavar="ID,...", type=Listed(FINDING_ID), help='Report only these findings, such as "cuda.*".'),
    option(
        "--skip",
        metavar="ID,...",
        type=Listed(FINDING_ID),
        help="Do not report these findings and their consequences.",
    ),
)


def checks_options(function: _Function) -> _Function:
    """Add --only and --skip."""
    for one in reversed(_OPTIONS):
        function = one(function)
    return function


def verify(only: tuple[str, ...], skip: tuple[str, ...]) -> None:
    """Refuse ids of no finding. Raises click.UsageError: an id or a pattern matches no finding."""
    if not only and not skip:
        return
    from tfgpu_doctor.diagnosis import selection

    try:
        selection.verify((*only, *skip))
    except selection.SelectionError as error:
        raise click.UsageError(str(error)) from error


def list_checks(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    """Print every finding and exit."""
    if not value or context.resilient_parsing:
        return
    from rich.text import Text

    from tfgpu_doctor.diagnosis.selection import checks
    from tfgpu_doctor.render.console import STYLES, console_for
    from tfgpu_doctor.render.terminal.layout import hanging

    console = console_for()
    widest = max(len(check.id) for check in checks())
    for check in checks():
        head = Text.assemble((f"{check.severity:8} ", STYLES[check.severity]), (f"{check.id:{widest}}  ", "bold"))
        hanging(head, Text(check.title), console)
    context.exit()
