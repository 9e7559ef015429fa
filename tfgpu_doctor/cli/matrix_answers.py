"""What the commands of `tfgpu matrix` share: their options, the version that they are asked for, their answer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tfgpu_doctor.cli.layers import matrix_option
from tfgpu_doctor.cli.options import option
from tfgpu_doctor.cli.output import Output, output_options
from tfgpu_doctor.cli.values import Name

if TYPE_CHECKING:
    from rich.console import Console

_Function = TypeVar("_Function", bound=Callable[..., Any])


def shared_options(function: _Function) -> _Function:
    """Add --matrix, --format and --output."""
    return matrix_option(output_options()(function))


def version_argument(known: Name) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the argument VERSION, and --version, as it was written before."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def command(*arguments: Any, version: str | None, before: str | None, **values: Any) -> Any:
            if version and before:
                raise click.UsageError(f"give one version: {version} or {before}")
            return function(*arguments, version=version or before, **values)

        old = option("--version", "before", metavar="V", type=known, hidden=True, help="The same as VERSION.")
        return click.argument("version", metavar="[VERSION]", required=False, type=known)(old(command))

    return add


@contextmanager
def usage_errors() -> Iterator[None]:
    """Report what the matrix does not contain, or values that are not valid, as wrong usage."""
    from tfgpu_doctor.lookup.releases import QueryError
    from tfgpu_doctor.plan.target import TargetError

    try:
        yield
    except (QueryError, TargetError) as error:
        raise click.UsageError(str(error)) from error


def page(name: str = "matrix") -> ModuleType:
    """The module that prints answers, imported only where one is printed."""
    return import_module(f"tfgpu_doctor.render.terminal.{name}")


def write_answer(targets: list[Output], answer: object, show: Callable[[Console], None]) -> None:
    """Write an answer to each target; `show` prints the text."""
    for target in targets:
        if target.format == "json":
            from tfgpu_doctor.records.fact import encode

            target.write_json(encode(answer))
        else:
            target.print_with(show)
