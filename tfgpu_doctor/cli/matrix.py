"""`tfgpu matrix`: look up rows of the compatibility matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from tfgpu_doctor.cli.layers import load_matrix
from tfgpu_doctor.cli.matrix_answers import page, shared_options, usage_errors, version_argument, write_answer
from tfgpu_doctor.cli.matrix_versions import cuda, cudnn, driver, python
from tfgpu_doctor.cli.options import Group, option
from tfgpu_doctor.cli.output import Output, pair_outputs
from tfgpu_doctor.cli.target import PLATFORMS, platform_options, read_platform
from tfgpu_doctor.cli.values import GPU_NAME, TENSORFLOW_VERSION

if TYPE_CHECKING:
    from tfgpu_doctor.lookup.releases import Filters
    from tfgpu_doctor.matrix.loader import Matrix

_LIST_ONLY = ("python", "cuda", "cudnn", "driver", "compute_capability", "gpu", "newest", "ptx")


@click.group(
    "matrix",
    cls=Group,
    short_help="Look up which TensorFlow, CUDA, cuDNN, driver and GPU are compatible.",
    epilog="Examples: tfgpu matrix tensorflow 2.15; tfgpu matrix tensorflow --cuda 11.8; "
    'tfgpu matrix gpu "RTX 4090"; tfgpu matrix driver 470',
)
def command() -> None:
    """Look up which TensorFlow, CUDA, cuDNN, driver and GPU are compatible.

    Every answer names its sources; null in JSON means unknown.
    """


@command.command(
    "tensorflow",
    short_help="A TensorFlow release, or all releases that match the filters.",
    epilog="Examples: tfgpu matrix tensorflow 2.15.1; tfgpu matrix tensorflow --cuda 11.8 --cudnn 8.6; "
    'tfgpu matrix tensorflow --gpu "Tesla K80" --driver 470 --newest',
)
@version_argument(TENSORFLOW_VERSION)
@platform_options("all")
@option(
    "--package", metavar="NAME", help="Package, such as tensorflow-gpu.  [default: tensorflow; all with a GPU filter]"
)
@option("--python", metavar="V", help="Releases with a wheel for this Python, such as 3.12.")
@option("--cuda", metavar="V", help="Releases built for this CUDA, such as 11, 11.8 or 12.5.1.")
@option("--cudnn", metavar="V", help="Releases built for this cuDNN, such as 8 or 8.6.")
@option("--driver", metavar="V", help="Releases that run on this NVIDIA driver (470.82.01) or driver branch (470).")
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
    matrix_file: str | None,
    formats: tuple[str, ...],
    outputs: tuple[str, ...],
    **filters: Any,
) -> None:
    """Show one TensorFlow release, or list the releases that match all filters, newest first.

    VERSION is a release; 2.15 means its newest stable patch release.

    With --cuda, --cudnn, --driver, --compute-capability or --gpu, only builds that use the GPU are listed, of all
    packages unless --package is given.

    Exit codes: 0 success, even if the list is empty, 2 wrong usage, or an unknown version or GPU.
    """
    platform = read_platform(os, machine, platform)
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
    write_answer(targets, row, lambda console: page().release(matrix, row, console))


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
    matrix_file: str | None,
    formats: tuple[str, ...],
    outputs: tuple[str, ...],
) -> None:
    """Show the compute capability of a GPU, the drivers that support it, and the TensorFlow releases that run on it.

    Without NAME and --compute-capability, list all GPUs.
    """
    name = " ".join(words) or None
    platform = read_platform(os, machine, platform)
    if name is not None and compute_capability is not None:
        raise click.UsageError("give either NAME or --compute-capability, not both")
    targets = pair_outputs(formats, outputs)
    matrix = load_matrix(matrix_file)
    from tfgpu_doctor.lookup.gpus import all_gpus, gpu_answer
    from tfgpu_doctor.plan.target import read_capability, read_gpu

    if name is None and compute_capability is None:
        every = all_gpus(matrix)
        write_answer(targets, every, lambda console: page().gpus(every, console))
        return
    with usage_errors():
        if name is not None:
            found = read_gpu(matrix, name)
            answer = gpu_answer(matrix, found.compute_capability, found.name, platform)
        else:
            answer = gpu_answer(matrix, read_capability(compute_capability or "", matrix), None, platform)
    write_answer(targets, answer, lambda console: page().gpu(answer, console))


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
        write_answer(targets, answer, lambda console: page().release(matrix, rows[0], console))
    else:
        write_answer(targets, answer, lambda console: page().releases_page(matrix, filters, rows, console))


for _other in (cuda, cudnn, driver, python):
    command.add_command(_other)
