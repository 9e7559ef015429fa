"""The options that describe a machine, for the commands plan and check."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from tfgpu_doctor.matrix.loader import Matrix
    from tfgpu_doctor.plan.target import Target

_Function = TypeVar("_Function", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--gpu", metavar="NAME", multiple=True, help='GPU name, such as "RTX 4090". May be repeated.'),
    click.option(
        "--compute-capability",
        metavar="X.Y",
        multiple=True,
        help="Compute capability of a GPU, instead of its name. May be repeated.",
    ),
    click.option("--driver", metavar="V", help="Version of the NVIDIA driver (570.86.10) or its branch (570)."),
    click.option("--python", metavar="V", help="Python version, such as 3.12."),
    click.option(
        "--os",
        type=click.Choice(["linux", "windows", "wsl2", "macos"], case_sensitive=False),
        help="Operating system.  [default: linux]",
    ),
    click.option(
        "--machine",
        type=click.Choice(["x86_64", "aarch64", "arm64"]),
        help="Processor architecture.  [default: x86_64]",
    ),
)


def target_options(function: _Function) -> _Function:
    """Add --gpu, --compute-capability, --driver, --python, --os and --machine to a command."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def read_target(matrix: Matrix, **options: Any) -> Target:
    """Build the target that these options describe. Raises click.UsageError: a value is not valid."""
    from tfgpu_doctor.plan.target import TargetError, describe

    try:
        return describe(matrix, **options)
    except TargetError as error:
        raise click.UsageError(str(error)) from error
