"""`tfgpu matrix`: look up rows of the compatibility matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from tfgpu_doctor.cli.matrix_answers import Reply, shared_options, sheets, usage_errors, version_argument
from tfgpu_doctor.cli.matrix_versions import cuda, cudnn, find
from tfgpu_doctor.cli.options import Group, option
from tfgpu_doctor.cli.target import PLATFORMS, platform_options, read_driver_on, read_platform
from tfgpu_doctor.cli.values import (
    CUDA_VERSION,
    CUDNN_VERSION,
    DRIVER_VERSION,
    GPU_NAME,
    PACKAGE,
    PYTHON_VERSION,
    TENSORFLOW_VERSION,
)

if TYPE_CHECKING:
    from tfgpu_doctor.lookup.releases import Filters
    from tfgpu_doctor.matrix.loader import Matrix, Release

_LIST_ONLY = ("newest", "pre")
_FILTERS = ("python", "cuda", "cudnn", "driver", "compute_capability", "gpu")


_INSTEAD = {  # commands that there were → what answers now
    "container": "find IMAGE:TAG",
    "jetpack": "find VERSION",
    "driver": "tensorflow --driver VERSION",
    "python": "tensorflow --python VERSION",
    **dict.fromkeys(("about", "--about"), "find"),
}


class _Group(Group):
    """Names the successor of a command that there was."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments. Raises click.UsageError: the command is no longer there."""
        if args and (successor := _INSTEAD.get(args[0])):
            raise click.UsageError(f"tfgpu matrix {args[0]} is no longer there: tfgpu matrix {successor}", ctx)
        return super().parse_args(ctx, args)


@click.group(
    "matrix",
    cls=_Group,
    short_help="Look up which TensorFlow, CUDA, cuDNN, driver and GPU are compatible.",
    epilog="Examples: tfgpu matrix tensorflow 2.15; tfgpu matrix tensorflow --cuda 11.8; "
    'tfgpu matrix gpu "RTX 4090"; tfgpu matrix find R36.4',
)
def command() -> None:
    """Look up which TensorFlow, CUDA, cuDNN, driver and GPU are compatible.

    Every answer names its sources; null in JSON means unknown. `find` looks into all other tables.
    """


@command.command(
    "tensorflow",
    short_help="A TensorFlow release, or all releases that match the filters.",
    epilog="Examples: tfgpu matrix tensorflow 2.15.1; tfgpu matrix tensorflow --cuda 11.8 --cudnn 8.6; "
    'tfgpu matrix tensorflow 2.21 --gpu "Tesla K80"; tfgpu matrix tensorflow --os wsl2 --newest',
)
@version_argument(TENSORFLOW_VERSION)
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
@shared_options
def tensorflow(
    version: str | None,
    os: str | None,
    machine: str | None,
    platform: str | None,
    package: str | None,
    newest: bool,
    reply: Reply,
    **filters: Any,
) -> None:
    """Show one TensorFlow release, or list the releases that match all filters, newest first.

    VERSION is a release; 2.15 means its newest stable patch release. With filters, it says which of them the release
    does not match.

    With --cuda, --cudnn, --driver, --compute-capability or --gpu, only builds that use the GPU are listed, of all
    packages unless --package is given.

    Exit codes: 0 success, even if the list is empty, 2 wrong usage, or an unknown version or GPU.
    """
    platform = read_platform(os, machine, platform)
    if version is not None:
        _only_one_release(platform, {**filters, "newest": newest})
    matrix = reply.matrix
    with usage_errors():
        selected = _filters(matrix, platform, package, {**filters, "wsl2": os == "wsl2"})
    if version is None:
        _list(matrix, selected, newest, reply)
        return
    from tfgpu_doctor.lookup.release import find_release

    with usage_errors():
        row = find_release(matrix, version, selected.platform or "linux_x86_64", package, prefer_gpu=True)
    _show(matrix, row, selected, reply)


@command.command(
    "gpu",
    short_help="A GPU: compute capability, drivers, TensorFlow releases.",
    epilog='Examples: tfgpu matrix gpu "RTX 5090"; tfgpu matrix gpu --compute-capability 8.9',
)
@click.argument("words", metavar="[NAME]", nargs=-1, type=GPU_NAME)
@option("--compute-capability", metavar="X.Y", help="A compute capability instead of a name.")
@platform_options()
@shared_options
def gpu(
    words: tuple[str, ...],
    compute_capability: str | None,
    os: str | None,
    machine: str | None,
    platform: str | None,
    reply: Reply,
) -> None:
    """Show the compute capability of a GPU, the drivers that support it, and the TensorFlow releases that run on it.

    Without NAME and --compute-capability, list all GPUs.
    """
    name = " ".join(words) or None
    platform = read_platform(os, machine, platform)
    if name is not None and compute_capability is not None:
        raise click.UsageError("give either NAME or --compute-capability, not both")
    matrix = reply.matrix
    from tfgpu_doctor.lookup.gpus import all_gpus, gpu_answer
    from tfgpu_doctor.plan.target import read_capability, read_gpu

    if name is None and compute_capability is None:
        every = all_gpus(matrix)
        reply.give(every, sheets().gpus(every))
        return
    with usage_errors():
        if name is not None:
            found = read_gpu(matrix, name)
            answer = gpu_answer(matrix, found.compute_capability, found.name, platform)
        else:
            answer = gpu_answer(matrix, read_capability(compute_capability or "", matrix), None, platform)
    reply.give(answer, sheets().gpu(answer))


def _only_one_release(platform: str | None, filters: dict[str, Any]) -> None:
    others = [f"--{name.replace('_', '-')}" for name in _LIST_ONLY if filters[name] not in (None, False)]
    if others:
        raise click.UsageError(f"VERSION shows one release and cannot be combined with {', '.join(others)}")
    if platform == "all":
        raise click.UsageError(f"VERSION needs one platform: --platform {'|'.join(PLATFORMS)}")


def _filters(matrix: Matrix, platform: str | None, package: str | None, filters: dict[str, Any]) -> Filters:
    """Read the filters. Raises QueryError or TargetError: a value is not valid, or not in the matrix."""
    from tfgpu_doctor.lookup.cuda_cudnn import read_version
    from tfgpu_doctor.lookup.gpus import default_platform
    from tfgpu_doctor.lookup.release import known_package
    from tfgpu_doctor.lookup.releases import Filters
    from tfgpu_doctor.plan.target import read_capability, read_gpu, read_python

    system = "wsl2" if filters["wsl2"] else (platform or "").partition("_")[0]
    readers: dict[str, Callable[[str], str | None]] = {
        "python": read_python,
        "cuda": lambda text: read_version(text, "CUDA", "11.8"),
        "cudnn": lambda text: read_version(text, "cuDNN", "8.6"),
        "driver": lambda text: read_driver_on(system, text, matrix),
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
        wsl2=filters["wsl2"],
        **values,
    )


def _list(matrix: Matrix, filters: Filters, newest: bool, reply: Reply) -> None:
    from tfgpu_doctor.lookup.releases import releases

    rows = releases(matrix, filters)[: 1 if newest else None]
    if newest and rows:
        reply.give([_data(matrix, rows[0], filters)], sheets().release(matrix, rows[0]))
        return
    answer = [_data(matrix, row, filters) for row in rows]
    reply.give(answer, sheets().releases_page(matrix, filters, rows))


def _show(matrix: Matrix, row: Release, filters: Filters, reply: Reply) -> None:
    """One release, and whether it matches the filters."""
    from tfgpu_doctor.lookup.why_not import why_not

    answer, asks = _data(matrix, row, filters), any(getattr(filters, name) is not None for name in _FILTERS)
    reasons = why_not(matrix, row, filters) if asks else None
    if reasons is not None:
        answer["not_offered_because"] = reasons
    reply.give(answer, sheets().release(matrix, row, reasons))


def _data(matrix: Matrix, row: Release, filters: Filters) -> dict[str, Any]:
    from msgspec import structs

    from tfgpu_doctor.lookup.releases import cards
    from tfgpu_doctor.matrix.compatibility import kernels_for

    data = structs.asdict(row)
    if asked := cards(matrix, filters):
        data["runs_on"] = {capability: kernels_for(matrix, row, capability) for capability in asked}
    return data


for _other in (cuda, cudnn, find):
    command.add_command(_other)
