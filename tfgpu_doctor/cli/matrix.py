"""`tfgpu matrix`: look up rows of the compatibility matrix."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tfgpu_doctor.cli.layers import load_matrix, matrix_option
from tfgpu_doctor.cli.options import Group, option
from tfgpu_doctor.cli.output import Output, output_options, pair_outputs
from tfgpu_doctor.cli.values import OneOf

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from tfgpu_doctor.lookup.releases import Filters
    from tfgpu_doctor.matrix.loader import Matrix

_Function = TypeVar("_Function", bound=Callable[..., Any])

PLATFORMS = ("linux_x86_64", "linux_aarch64", "windows_amd64", "macos_arm64", "macos_x86_64")
_LIST_ONLY = ("python", "cuda", "cudnn", "driver", "compute_capability", "gpu", "newest", "ptx")


def shared_options(function: _Function) -> _Function:
    """Add --matrix, --format and --output."""
    return matrix_option(output_options()(function))


@click.group(
    "matrix",
    cls=Group,
    short_help="Look up which TensorFlow, CUDA, cuDNN, driver and GPU are compatible.",
    epilog='Examples: tfgpu matrix tensorflow --cuda 11.8; tfgpu matrix gpu "RTX 4090"',
)
def command() -> None:
    """Look up which TensorFlow, CUDA, cuDNN, driver and GPU are compatible.

    Every answer names its sources; null in JSON means unknown.
    """


@command.command(
    "tensorflow",
    short_help="A TensorFlow release, or all releases that match the filters.",
    epilog="Examples: tfgpu matrix tensorflow --version 2.15.1; tfgpu matrix tensorflow --cuda 11.8 --cudnn 8.6; "
    'tfgpu matrix tensorflow --gpu "Tesla K80" --driver 470 --newest',
)
@option("--version", metavar="V", help="Show one release; 2.15 means its newest stable patch release.")
@option(
    "--platform",
    type=OneOf([*PLATFORMS, "all"]),
    help="Platform of the wheels; all only for lists.  [default: linux_x86_64; "
    "linux_aarch64 with a --gpu that only Arm machines have]",
)
@option(
    "--package", metavar="NAME", help="tensorflow, tensorflow-gpu, ...  [default: tensorflow; all with a GPU filter]"
)
@option("--python", metavar="V", help="Releases with a wheel for this Python, such as 3.12.")
@option("--cuda", metavar="V", help="Releases built for this CUDA, such as 11, 11.8 or 12.5.1.")
@option("--cudnn", metavar="V", help="Releases built for this cuDNN, such as 8 or 8.6.")
@option("--driver", metavar="V", help="Releases that run on this NVIDIA driver (470.82.01) or driver branch (470).")
@option("--compute-capability", metavar="X.Y", help="Releases with kernels for this compute capability, such as 8.9.")
@option("--gpu", metavar="NAME", help='Releases with kernels for this GPU, such as "RTX 4090".')
@option("--ptx", is_flag=True, help="Include releases whose kernels must be compiled from PTX for that GPU first.")
@option("--pre", is_flag=True, help="Include release candidates and nightly builds.")
@option("--newest", is_flag=True, help="Only the newest matching release.")
@shared_options
def tensorflow(
    version: str | None,
    platform: str | None,
    package: str | None,
    newest: bool,
    matrix_file: str | None,
    formats: tuple[str, ...],
    outputs: tuple[str, ...],
    **filters: Any,
) -> None:
    """Show one TensorFlow release (--version), or list the releases that match all filters, newest first.

    With --cuda, --cudnn, --driver, --compute-capability or --gpu, only builds that use the GPU are listed, of all
    packages unless --package is given.

    Exit codes: 0 success, even if the list is empty, 2 wrong usage, or an unknown version or GPU.
    """
    if version is not None:
        _only_one_release(platform, {**filters, "newest": newest})
    targets = pair_outputs(formats, outputs)
    matrix = load_matrix(matrix_file)
    if version is None:
        with usage_errors():
            selected = _filters(matrix, platform, package, filters)
        _list(matrix, selected, newest, targets)
        return
    from tfgpu_doctor.lookup.release import find_release

    with usage_errors():
        row = find_release(matrix, version, platform or "linux_x86_64", package)
    _write(targets, row, lambda page, console: page.release(matrix, row, console))


@command.command(
    "cuda",
    short_help="A CUDA toolkit: drivers and compute capabilities.",
    epilog="Example: tfgpu matrix cuda --version 12.5",
)
@option("--version", metavar="V", help="One toolkit, such as 12.5 or 12.5.1.  [default: all]")
@shared_options
def cuda(version: str | None, matrix_file: str | None, formats: tuple[str, ...], outputs: tuple[str, ...]) -> None:
    """Show the drivers and compute capabilities of a CUDA toolkit, and the TensorFlow releases built for it.

    Without --version, list all toolkits.
    """
    targets = pair_outputs(formats, outputs)
    matrix = load_matrix(matrix_file)
    from tfgpu_doctor.lookup.cuda_cudnn import cuda_answer, find_cuda

    if version is None:
        every = [cuda_answer(matrix, row) for row in matrix.data.cuda]
        _write(targets, every, lambda page, console: page.cudas(every, console))
        return
    with usage_errors():
        answer = cuda_answer(matrix, find_cuda(matrix, version))
    _write(targets, answer, lambda page, console: page.cuda(answer, console))


@command.command(
    "cudnn",
    short_help="A cuDNN version: CUDA versions, oldest GPUs.",
    epilog="Example: tfgpu matrix cudnn --version 9.3",
)
@option("--version", metavar="V", help="One version, such as 9.3 or 9.3.0.75.  [default: all]")
@shared_options
def cudnn(version: str | None, matrix_file: str | None, formats: tuple[str, ...], outputs: tuple[str, ...]) -> None:
    """Show the CUDA versions and the oldest GPUs that a cuDNN supports, and the TensorFlow releases built for it.

    Without --version, list all versions.
    """
    targets = pair_outputs(formats, outputs)
    matrix = load_matrix(matrix_file)
    from tfgpu_doctor.lookup.cuda_cudnn import cudnn_answer, find_cudnn

    if version is None:
        every = [cudnn_answer(matrix, row) for row in matrix.data.cudnn]
        _write(targets, every, lambda page, console: page.cudnns(every, console))
        return
    with usage_errors():
        answer = cudnn_answer(matrix, find_cudnn(matrix, version))
    _write(targets, answer, lambda page, console: page.cudnn(answer, console))


@command.command(
    "gpu",
    short_help="A GPU: compute capability, drivers, TensorFlow releases.",
    epilog='Examples: tfgpu matrix gpu "RTX 5090"; tfgpu matrix gpu --compute-capability 8.9',
)
@click.argument("name", required=False)
@option("--compute-capability", metavar="X.Y", help="A compute capability instead of a name.")
@option(
    "--platform",
    type=OneOf(PLATFORMS),
    help="Platform of the wheels.  [default: linux_x86_64; linux_aarch64 for GPUs that only Arm machines have]",
)
@shared_options
def gpu(
    name: str | None,
    compute_capability: str | None,
    platform: str | None,
    matrix_file: str | None,
    formats: tuple[str, ...],
    outputs: tuple[str, ...],
) -> None:
    """Show the compute capability of a GPU, the drivers that support it, and the TensorFlow releases that run on it.

    Without NAME and --compute-capability, list all GPUs.
    """
    if name is not None and compute_capability is not None:
        raise click.UsageError("give either NAME or --compute-capability, not both")
    targets = pair_outputs(formats, outputs)
    matrix = load_matrix(matrix_file)
    from tfgpu_doctor.lookup.gpus import all_gpus, gpu_answer
    from tfgpu_doctor.plan.target import read_capability, read_gpu

    if name is None and compute_capability is None:
        every = all_gpus(matrix)
        _write(targets, every, lambda page, console: page.gpus(every, console))
        return
    with usage_errors():
        if name is not None:
            found = read_gpu(matrix, name)
            answer = gpu_answer(matrix, found.compute_capability, found.name, platform)
        else:
            answer = gpu_answer(matrix, read_capability(compute_capability or "", matrix), None, platform)
    _write(targets, answer, lambda page, console: page.gpu(answer, console))


@contextmanager
def usage_errors() -> Iterator[None]:
    """Report what the matrix does not contain, or values that are not valid, as wrong usage."""
    from tfgpu_doctor.lookup.releases import QueryError
    from tfgpu_doctor.plan.target import TargetError

    try:
        yield
    except (QueryError, TargetError) as error:
        raise click.UsageError(str(error)) from error


def _only_one_release(platform: str | None, filters: dict[str, Any]) -> None:
    others = [f"--{name.replace('_', '-')}" for name in _LIST_ONLY if filters[name] not in (None, False)]
    if others:
        raise click.UsageError(f"--version shows one release and cannot be combined with {', '.join(others)}")
    if platform == "all":
        raise click.UsageError(f"--version needs one platform: --platform {'|'.join(PLATFORMS)}")


def _filters(matrix: Matrix, platform: str | None, package: str | None, filters: dict[str, Any]) -> Filters:
    """Read the filters. Raises QueryError or TargetError: a value is not valid, or not in the matrix."""
    from tfgpu_doctor.lookup.cuda_cudnn import read_version
    from tfgpu_doctor.lookup.gpus import default_platform
    from tfgpu_doctor.lookup.release import known_package
    from tfgpu_doctor.lookup.releases import Filters
    from tfgpu_doctor.plan.target import read_capability, read_driver, read_gpu, read_python

    readers: dict[str, Callable[[str], str | None]] = {
        "python": read_python,
        "cuda": lambda text: read_version(text, "CUDA", "11.8"),
        "cudnn": lambda text: read_version(text, "cuDNN", "8.6"),
        "driver": read_driver,
        "compute_capability": lambda text: read_capability(text, matrix),
        "gpu": lambda text: read_gpu(matrix, text).name,
    }
    values: dict[str, Any] = {name: read(filters[name]) for name, read in readers.items() if filters[name] is not None}
    if platform is None:
        named = matrix.gpu(values["gpu"]) if "gpu" in values else None
        platform = default_platform(named.name, named.compute_capability) if named else "linux_x86_64"
    return Filters(
        platform=None if platform == "all" else platform,
        package=None if package is None else known_package(matrix, package),
        ptx=filters["ptx"],
        pre=filters["pre"],
        **values,
    )


def _list(matrix: Matrix, filters: Filters, newest: bool, targets: list[Output]) -> None:
    from msgspec import structs

    from tfgpu_doctor.lookup.releases import cards, releases
    from tfgpu_doctor.matrix.compatibility import kernels_for

    rows = releases(matrix, filters)[: 1 if newest else None]
    capabilities = cards(matrix, filters)
    answer: list[dict[str, Any]] = []
    for row in rows:
        answer.append(structs.asdict(row))
        if capabilities:
            answer[-1]["runs_on"] = {capability: kernels_for(matrix, row, capability) for capability in capabilities}
    if newest and rows:
        _write(targets, answer, lambda page, console: page.release(matrix, rows[0], console))
    else:
        _write(targets, answer, lambda page, console: page.releases_page(matrix, filters, rows, console))


def _write(targets: list[Output], answer: object, show: Callable[[Any, Console], None]) -> None:
    """Write an answer to each target; `show` gets the module that renders text, imported only if needed."""
    for target in targets:
        if target.format == "json":
            from tfgpu_doctor.records.fact import encode

            target.write_json(encode(answer))
        else:
            from tfgpu_doctor.render.terminal import matrix as matrix_text

            target.print_with(lambda console: show(matrix_text, console))
