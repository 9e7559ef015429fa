"""The options that select findings: --only, --skip and --list-checks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tfgpu_doctor.cli.options import option
from tfgpu_doctor.cli.values import FINDING_ID, Listed
from tfgpu_doctor.render.formats import choices

if TYPE_CHECKING:
    from rich.console import Console

    from tfgpu_doctor.cli.output import Output
    from tfgpu_doctor.findings.engine import Check

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
    from tfgpu_doctor.findings import engine

    try:
        engine.verify((*only, *skip))
    except engine.SelectionError as error:
        raise click.UsageError(str(error)) from error


def list_checks(targets: list[Output]) -> None:
    """Show every finding. Raises click.UsageError: the list has no such format."""
    from tfgpu_doctor.findings.engine import checks, checks_json

    if others := [target.format for target in targets if target.format not in choices()]:
        raise click.UsageError(f"--format {others[0]}: the list of checks has {' and '.join(choices())} only")
    for target in targets:
        if target.format == "json":
            target.write_json(checks_json())
        else:
            target.print_with(partial(_print, checks()))


def _print(listed: tuple[Check, ...], console: Console) -> None:
    from rich.text import Text

    from tfgpu_doctor.render.console import STYLES
    from tfgpu_doctor.render.text import hanging

    widest = max(len(check.id) for check in listed)
    for check in listed:
        head = Text.assemble((f"{check.severity:8} ", STYLES[check.severity]), (f"{check.id:{widest}}  ", "bold"))
        hanging(head, Text(check.title), console)
