"""The options that describe a machine or its platform, for the commands plan, install, check and matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tfgpu_doctor.cli.options import option
from tfgpu_doctor.cli.values import DRIVER_VERSION, GPU_NAME, PYTHON_VERSION, Listed, OneOf
from tfgpu_doctor.render.streams import say

if TYPE_CHECKING:
    from tfgpu_doctor.matrix.loader import Matrix
    from tfgpu_doctor.plan.target import Target

_Function = TypeVar("_Function", bound=Callable[..., Any])

PLATFORMS = ("linux_x86_64", "linux_aarch64", "windows_amd64", "macos_arm64", "macos_x86_64")
_SYNONYMS = {
    **dict.fromkeys(("linux_amd64", "linux/amd64"), "linux_x86_64"),
    **dict.fromkeys(("linux_arm64", "linux/arm64"), "linux_aarch64"),
    **dict.fromkeys(("win_amd64", "windows_x86_64", "windows"), "windows_amd64"),
    "macos_aarch64": "macos_arm64",
}
_OPTIONS = (
    option("--gpu", metavar="NAME,...", type=Listed(GPU_NAME), help='GPU name, such as "RTX 4090".'),
    option(
        "--compute-capability",
        metavar="X.Y,...",
        type=Listed(),
        help="Compute capability of a GPU, instead of its name.",
    ),
    option(
        "--driver",
        metavar="V",
        type=DRIVER_VERSION,
        help="Version of the NVIDIA driver (570.86.10) or its branch (570).",
    ),
    option("--python", metavar="V", type=PYTHON_VERSION, help="Python version, such as 3.12."),
)


def platform_options(*more: str) -> Callable[[_Function], _Function]:
    """Add --os, --machine and --platform to a command; `more` are platforms beside those of wheels."""
    also = "".join(f"; {name} is for lists only" for name in more)
    options = (
        option("--os", type=OneOf(["linux", "windows", "wsl2", "macos"]), help="Operating system.  [default: linux]"),
        option(
            "--machine",
            type=OneOf(["x86_64", "aarch64", "arm64"], {"amd64": "x86_64"}),
            help="Processor architecture.  [default: x86_64, unless the GPU or system implies another]",
        ),
        option(
            "--platform",
            metavar="NAME",
            type=OneOf([*PLATFORMS, *more], _SYNONYMS),
            help=f"--os and --machine in one word: {', '.join(PLATFORMS[:-1])} or {PLATFORMS[-1]}{also}.",
        ),
    )
    return lambda function: _with(options, function)


def target_options(function: _Function) -> _Function:
    """Add --gpu, --compute-capability, --driver, --python and those of the platform to a command."""
    return _with(_OPTIONS, platform_options()(function))


def _with(options: tuple[Callable[[Any], Any], ...], function: _Function) -> _Function:
    for one in reversed(options):
        function = one(function)
    return function


def read_target(matrix: Matrix, *, platform: str | None, **options: Any) -> Target:
    """Build the target that these options describe. Raises click.UsageError: a value is not valid."""
    from tfgpu_doctor.plan.target import TargetError, describe

    if platform:
        _one_way(**options)
        system, _, machine = platform.partition("_")
        options |= {"os": system, "machine": "x86_64" if machine == "amd64" else machine}
    try:
        if options["driver"] is not None:
            options["driver"] = read_driver_on(options["os"], options["driver"], matrix)
        return describe(matrix, **options)
    except TargetError as error:
        raise click.UsageError(str(error)) from error


def read_driver_on(os: str | None, text: str, matrix: Matrix) -> str:
    """Read a driver version or branch; WSL2 uses the driver of Windows. Raises TargetError: it is neither."""
    from tfgpu_doctor.matrix.compatibility import on_windows
    from tfgpu_doctor.plan.target import read_driver

    driver = read_driver(text)
    here = on_windows(matrix, driver) if os in ("windows", "wsl2") else driver
    if here != driver:
        say(f"tfgpu: on Windows, driver branch {driver} is numbered {here}")
    return here


def read_platform(os: str | None, machine: str | None, platform: str | None) -> str | None:
    """The platform that these options name, as the matrix has it; None where none of them is given."""
    from tfgpu_doctor.plan.target import OSES, Os, Target

    if platform:
        _one_way(os=os, machine=machine)
    if platform or not (os or machine):
        return platform
    system: Os = next((one for one in OSES if one == os), "linux")
    return Target(os=system, machine=machine or ("arm64" if system == "macos" else "x86_64")).platform


def _one_way(*, os: str | None, machine: str | None, **_others: Any) -> None:
    if os or machine:
        raise click.UsageError(
            "--platform names both system and processor, and cannot be combined with --os or --machine"
        )
