"""`tfgpu matrix`: look up rows of the compatibility matrix."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from tfgpu_doctor import commands
from tfgpu_doctor.cli.options import (
    CUDA_VERSION,
    CUDNN_VERSION,
    DRIVER_VERSION,
    GPU_NAME,
    MATRIX_KEY,
    PACKAGE,
    PYTHON_VERSION,
    TENSORFLOW_VERSION,
    Group,
    Name,
    matrix_option,
    option,
    platform_options,
)
from tfgpu_doctor.cli.output import detail_options, note, output_options, pair_outputs, write

_KIND = "matrix"


@click.group(
    "matrix",
    cls=Group,
    short_help="Look up which TensorFlow, CUDA, cuDNN, driver and GPU are compatible.",
    epilog="Examples: tfgpu matrix tensorflow 2.15; tfgpu matrix tensorflow --cuda 11.8; "
    'tfgpu matrix gpu "RTX 4090"; tfgpu matrix find R36.4',
)
def command() -> None:
    """Look up which TensorFlow, CUDA, cuDNN, driver and GPU are compatible.

    Every answer names its sources; null in JSON means unknown. `find` looks into all other tables.
    """


def _version(known: Name) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the argument VERSION, and --version, as it was written before."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def merged(*arguments: Any, version: str | None, before: str | None, **values: Any) -> Any:
            if version and before:
                raise click.UsageError(f"give one version: {version} or {before}")
            return function(*arguments, name=version or before, **values)

        old = option("--version", "before", metavar="V", type=known, hidden=True, help="The same as VERSION.")
        return click.argument("version", metavar="[VERSION]", required=False, type=known)(old(merged))

    return add


def _words(metavar: str, known: Name) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add an argument of several words, which are one name."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def joined(*arguments: Any, words: tuple[str, ...], **values: Any) -> Any:
            return function(*arguments, name=" ".join(words) or None, **values)

        return click.argument("words", metavar=metavar, nargs=-1, type=known)(joined)

    return add


def _shared(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --matrix, -v, -q, --format and --output, which all tables have."""
    return matrix_option(detail_options(output_options(_KIND)(function)))


def _answer(table: str, formats: tuple[str, ...], outputs: tuple[str, ...], detail: str | None, **asked: Any) -> None:
    targets = pair_outputs(formats, outputs, _KIND)
    write(commands.look_up(table, note=note, **asked), _KIND, targets, detail=detail or "normal")


@command.command(
    "tensorflow",
    short_help="A TensorFlow release, or all releases that match the filters.",
    epilog="Examples: tfgpu matrix tensorflow 2.15.1; tfgpu matrix tensorflow --cuda 11.8 --cudnn 8.6; "
    'tfgpu matrix tensorflow 2.21 --gpu "Tesla K80"; tfgpu matrix tensorflow --os wsl2 --newest',
)
@_version(TENSORFLOW_VERSION)
@platform_options("all")
@option(
    "--package",
    metavar="NAME",
    type=PACKAGE,
    help="Package, such as tensorflow-gpu.  [default: tensorflow; all with a GPU filter]",
)
@option("--python", metavar="V", type=PYTHON_VERSION, help="Releases with a wheel for this Python, such as 3.12.")
@option("--cuda", metavar="V", type=CUDA_VERSION, help="Releases built for this CUDA, such as 11, 11.8 or 12.5.1.")
@option("--cudnn", metavar="V", type=CUDNN_VERSION, help="Releases built for this cuDNN, such as 8 or 8.6.")
@option(
    "--driver",
    metavar="V",
    type=DRIVER_VERSION,
    help="Releases that run on this NVIDIA driver (470.82.01) or driver branch (470).",
)
@option("--compute-capability", metavar="X.Y", help="Releases with kernels for this compute capability, such as 8.9.")
@option("--gpu", metavar="NAME", type=GPU_NAME, help='Releases with kernels for this GPU, such as "RTX 4090".')
@option("--ptx", is_flag=True, help="Include releases whose kernels must be compiled from PTX for that GPU first.")
@option("--pre", is_flag=True, help="Include release candidates and nightly builds.")
@option("--newest", is_flag=True, help="Only the newest matching release.")
@_shared
def tensorflow(**asked: Any) -> None:
    """Show one TensorFlow release, or list the releases that match all filters, newest first.

    VERSION is a release; 2.15 means its newest stable patch release. With filters, it says which of them the release
    does not match.

    With --cuda, --cudnn, --driver, --compute-capability or --gpu, only builds that use the GPU are listed, of all
    packages unless --package is given.

    Exit codes: 0 success, even if the list is empty, 2 wrong usage, or an unknown version or GPU.
    """
    _answer("tensorflow", **asked)


@command.command(
    "gpu",
    short_help="A GPU: compute capability, drivers, TensorFlow releases.",
    epilog='Examples: tfgpu matrix gpu "RTX 5090"; tfgpu matrix gpu --compute-capability 8.9',
)
@_words("[NAME]", GPU_NAME)
@option("--compute-capability", metavar="X.Y", help="A compute capability instead of a name.")
@platform_options()
@_shared
def gpu(**asked: Any) -> None:
    """Show the compute capability of a GPU, the drivers that support it, and the TensorFlow releases that run on it.

    Without NAME and --compute-capability, list all GPUs.
    """
    _answer("gpu", **asked)


@command.command(
    "cuda",
    short_help="A CUDA toolkit: drivers and compute capabilities.",
    epilog="Example: tfgpu matrix cuda 12.5",
)
@_version(CUDA_VERSION)
@_shared
def cuda(**asked: Any) -> None:
    """Show the drivers and compute capabilities of a CUDA toolkit, and the TensorFlow releases built for it.

    VERSION is a toolkit, such as 12.5 or 12.5.1; without it, all are listed.
    """
    _answer("cuda", **asked)


@command.command(
    "cudnn",
    short_help="A cuDNN version: CUDA versions, oldest GPUs.",
    epilog="Example: tfgpu matrix cudnn 9.3",
)
@_version(CUDNN_VERSION)
@_shared
def cudnn(**asked: Any) -> None:
    """Show the CUDA versions and oldest GPUs that a cuDNN version supports, and the TensorFlow releases built for it.

    VERSION is a cuDNN version, such as 9.3 or 9.3.0.75; without it, all are listed.
    """
    _answer("cudnn", **asked)


@command.command(
    "find",
    short_help="A row of another table: images, JetPacks, known bugs, instances.",
    epilog="Examples: tfgpu matrix find; tfgpu matrix find tensorflow/tensorflow:2.15.0-gpu; tfgpu matrix find R36.4",
)
@_words("[KEY]", MATRIX_KEY)
@_shared
def find(**asked: Any) -> None:
    """Show the rows that are called KEY, of any table, with their sources.

    KEY is an image with its tag, a JetPack (6.1) or its Jetson Linux (R36.4), an instance type, the id of a known bug,
    a package, or the beginning of one of these. Without it, the tables are listed, with their rows, dates and sources.
    """
    _answer("find", **asked)
