"""`tfgpu matrix`: look up rows of the compatibility matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from tfgpu_doctor import commands
from tfgpu_doctor.cli.options import (
    Group,
    add_options,
    choice,
    define_command,
    machine_options,
    matrix_option,
    option,
    rare_option,
    system_options,
)
from tfgpu_doctor.cli.output import Results, note, result_options
from tfgpu_doctor.matrix.schema import PLATFORMS


class _Tables(Group):
    def _meant(self, name: str) -> str:
        """Name the tables, of which one was left out."""
        tables = f" Name a table first: {', '.join(self.commands)} (tfgpu matrix gpu {name!r})."
        return super()._meant(name) or tables


@click.group(
    "matrix",
    cls=_Tables,
    epilog="Examples: tfgpu matrix tensorflow 2.15; tfgpu matrix tensorflow --cuda 11.8; "
    'tfgpu matrix gpu "RTX 4090"; tfgpu matrix find R36.4',
)
def command() -> None:
    """Look up which TensorFlow, CUDA, cuDNN, driver and GPU are compatible.

    Every answer names its sources; null in JSON means unknown. `find` looks into all other tables.
    """


def _add(name: str, argument: str, summary: str, epilog: str, page: str, *options: Callable[[Any], Any]) -> None:
    """Add the command of a table; `page` is its help, `options` are its own."""

    @define_command(name, short_help=summary, epilog=epilog, help=page)
    @click.argument("words", metavar=f"[{argument}]", nargs=-1)
    @add_options(*options)
    @matrix_option
    @result_options("matrix", more="Show everything: whole rows with their sources, and the fixes of known bugs.")
    def table(words: tuple[str, ...], results: Results, version: str | None = None, **asked: Any) -> None:
        if version and words:
            raise click.UsageError(f"give one version: {' '.join(words)} or {version}")
        key = version or " ".join(words) or None
        results.write(commands.look_up(name, key, note=note, **asked), "matrix")

    command.add_command(table)


_version = option("--version", metavar="V", hidden=True, help="The same as VERSION.")
_add(
    "tensorflow",
    "VERSION",
    "A TensorFlow release, or all releases that match the filters.",
    "Examples: tfgpu matrix tensorflow 2.15.1; tfgpu matrix tensorflow --cuda 11.8 --cudnn 8.6; "
    'tfgpu matrix tensorflow 2.21 --gpu "Tesla K80"; tfgpu matrix tensorflow --os wsl2 --newest',
    """Show one TensorFlow release, or list the releases that match all filters, newest first.

    VERSION is a release; 2.15 means its newest stable patch release. With filters, it says which of them the release
    does not match.

    With --cuda, --cudnn, --driver, --compute-capability or --gpu, only builds that use the GPU are listed, of all
    packages unless --package is given.

    Exit codes: 0 success, even if the list is empty, 2 wrong usage, or an unknown version or GPU.
    """,
    _version,
    rare_option(
        "--package",
        metavar="NAME",
        help="Package, such as tensorflow-gpu.  [default: tensorflow; all with a GPU filter]",
    ),
    option("--cuda", metavar="V", help="Releases built for this CUDA, such as 11, 11.8 or 12.5.1."),
    rare_option("--cudnn", metavar="V", help="Releases built for this cuDNN, such as 8 or 8.6."),
    machine_options,
    choice(
        "--platform",
        choices=(*PLATFORMS, "all"),
        rare=True,
        help="--os and --machine in one word; all is for lists.",
    ),
    rare_option("--ptx", is_flag=True, help="Include releases whose kernels are compiled from PTX for that GPU first."),
    rare_option("--pre", is_flag=True, help="Include release candidates and nightly builds."),
    rare_option("--newest", is_flag=True, help="Only the newest matching release."),
)
_add(
    "gpu",
    "NAME",
    "A GPU: compute capability, drivers, TensorFlow releases.",
    'Examples: tfgpu matrix gpu "RTX 5090"; tfgpu matrix gpu --compute-capability 8.9',
    """Show the compute capability of a GPU, the drivers that support it, and the TensorFlow releases that run on it.

    Without NAME and --compute-capability, list all GPUs.
    """,
    option("--compute-capability", metavar="X.Y", help="A compute capability instead of a name."),
    system_options,
)
_add(
    "cuda",
    "VERSION",
    "A CUDA toolkit: drivers and compute capabilities.",
    "Example: tfgpu matrix cuda 12.5",
    """Show the drivers and compute capabilities of a CUDA toolkit, and the TensorFlow releases built for it.

    VERSION is a toolkit, such as 12.5 or 12.5.1; without it, all are listed.
    """,
    _version,
)
_add(
    "cudnn",
    "VERSION",
    "A cuDNN version: CUDA versions, oldest GPUs.",
    "Example: tfgpu matrix cudnn 9.3",
    """Show the CUDA versions and oldest GPUs that a cuDNN version supports, and the TensorFlow releases built for it.

    VERSION is a cuDNN version, such as 9.3 or 9.3.0.75; without it, all are listed.
    """,
    _version,
)
_add(
    "find",
    "KEY",
    "A row of another table: images, JetPacks, known bugs, instances.",
    "Examples: tfgpu matrix find; tfgpu matrix find tensorflow/tensorflow:2.15.0-gpu; tfgpu matrix find R36.4",
    """Show the rows that are called KEY, of any table, with their sources.

    KEY is an image with its tag, a JetPack (6.1) or its Jetson Linux (R36.4), an instance type, the id of a known bug,
    a package, or the beginning of one of these. Without it, the tables are listed, with their rows, dates and sources.
    """,
)
