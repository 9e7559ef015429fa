"""What the commands of `tfgpu matrix` share: their options, the version that they are asked for, their answer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tfgpu_doctor.cli.layers import load_matrix, matrix_option
from tfgpu_doctor.cli.options import option
from tfgpu_doctor.cli.output import Output, detail_options, output_options, pair_outputs, write
from tfgpu_doctor.cli.values import Name

if TYPE_CHECKING:
    from tfgpu_doctor.matrix.loader import Matrix
    from tfgpu_doctor.render.formats import Detail
    from tfgpu_doctor.render.outlines.matrix import Sheet

_Function = TypeVar("_Function", bound=Callable[..., Any])
_KIND = "matrix"


class Reply:
    """Where the answer to a question goes, and the matrix that gives it."""

    def __init__(self, matrix: Matrix, targets: list[Output], detail: Detail) -> None:
        """Take the matrix and the targets of the answer."""
        self.matrix, self._targets, self._detail = matrix, targets, detail

    def give(self, answer: object, sheet: Sheet) -> None:
        """Write an answer to each target: itself as JSON, its sheet for people."""
        from tfgpu_doctor.render.outlines.matrix import Answered

        answered = Answered(answer, sheet, self.matrix.revision)
        write(answered, _KIND, self._targets, detail=self._detail)


def shared_options(function: _Function) -> Callable[..., Any]:
    """Add --matrix, -v, -q, --format and --output; the command gets them as `reply`."""

    @functools.wraps(function)
    def command(
        *arguments: Any,
        matrix_file: str | None,
        formats: tuple[str, ...],
        outputs: tuple[str, ...],
        detail: Detail | None,
        **values: Any,
    ) -> Any:
        targets = pair_outputs(formats, outputs, _KIND)
        reply = Reply(load_matrix(matrix_file), targets, detail or "normal")
        return function(*arguments, reply=reply, **values)

    return matrix_option(detail_options(output_options(_KIND)(command)))


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
    from tfgpu_doctor.matrix.queries import QueryError
    from tfgpu_doctor.plan.target import TargetError

    try:
        yield
    except (QueryError, TargetError) as error:
        raise click.UsageError(str(error)) from error


def sheets(name: str = "matrix_answers") -> ModuleType:
    """The module that makes sheets of answers, imported only where one is made."""
    return import_module(f"tfgpu_doctor.render.outlines.{name}")
