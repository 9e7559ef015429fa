"""What the matrix says of an NVIDIA driver: its GPUs, the CUDA that it runs, the TensorFlow releases. Pure."""

from __future__ import annotations

from msgspec import field

from tfgpu_doctor.lookup.releases import Filters, releases
from tfgpu_doctor.lookup.working import newest_working
from tfgpu_doctor.matrix.compatibility import beyond_the_known, driver_reaches, drives, is_tegra
from tfgpu_doctor.matrix.loader import CudaToolkit, Matrix
from tfgpu_doctor.matrix.rows import spelled_out
from tfgpu_doctor.matrix.schema import GpuNames
from tfgpu_doctor.plan.constraints import PlanRequest
from tfgpu_doctor.plan.target import Target
from tfgpu_doctor.records.facts import Record
from tfgpu_doctor.records.versions import major, numbers


class DriverAnswer(Record, frozen=True, kw_only=True):
    """A driver or a branch of drivers. None is unknown."""

    driver: str  # as asked for
    branch: str
    platform: str  # of the driver and of the releases below
    cuda: str | None  # newest toolkit all of which works
    cuda_minor: str | None  # newest one whose programs run, by minor-version compatibility
    compute_capabilities: tuple[str, ...]  # of the GPUs that it drives, ascending
    architectures: tuple[str, ...]  # oldest first
    gpus: tuple[str, ...]  # names
    newest_tensorflow: str | None  # that uses the GPU; what runs on one of these GPUs says `tfgpu matrix gpu`
    passed_over: dict[str, str] = field(default_factory=dict)  # newer releases → their bug
    tensorflow: tuple[str, ...]  # newest first
    judged_as: str | None = None  # the newest branch that is known, where this one is newer
    sources: dict[str, str]  # field → where it was read


def driver_answer(matrix: Matrix, driver: str, platform: str = "linux_x86_64") -> DriverAnswer:
    """Join a driver ("470.82.01", or "470" for the newest of the branch) with what it supports."""
    branch = major(driver)
    gpus = [row for row in matrix.data.gpus if _drives(matrix, driver, row)]
    capabilities = sorted({row.compute_capability for row in gpus}, key=numbers)
    whole, runs = _newest(matrix, driver, platform, minor=False), _newest(matrix, driver, platform, minor=True)
    rows = releases(matrix, Filters(platform=platform, driver=driver))
    newest, bugs = newest_working(PlanRequest(matrix, Target(driver=driver)), rows)
    by_age = sorted(matrix.data.architectures, key=lambda row: numbers(row.compute_capability))
    return DriverAnswer(
        driver=driver,
        branch=branch,
        platform=platform,
        cuda=whole.version if whole else None,
        cuda_minor=runs.version if runs else None,
        compute_capabilities=tuple(capabilities),
        architectures=tuple(dict.fromkeys(row.name for row in by_age if row.compute_capability in capabilities)),
        gpus=tuple(name for row in gpus for name in row.names),
        newest_tensorflow=newest,
        passed_over=bugs,
        tensorflow=tuple(dict.fromkeys(row.version for row in rows)),
        judged_as=beyond_the_known(matrix, driver),
        sources={
            name: spelled_out(matrix.data, row.source) for name, row in (("cuda", whole), ("cuda_minor", runs)) if row
        },
    )


def all_drivers(matrix: Matrix, platform: str = "linux_x86_64") -> tuple[DriverAnswer, ...]:
    """The branches that came with a CUDA toolkit, newest first."""
    known = {major(driver) for row in matrix.data.cuda if (driver := _needs(row, platform, minor=False))}
    return tuple(driver_answer(matrix, branch, platform) for branch in sorted(known, key=numbers, reverse=True))


def _drives(matrix: Matrix, driver: str, row: GpuNames) -> bool:
    """Whether a driver is for these GPUs; that of a Jetson comes with JetPack and has other numbers.

    Where their first branch is unknown, it is no older than that of their architecture, or of the first toolkit that
    compiles for them.
    """
    card = matrix.architecture(row.compute_capability)
    if card is None or is_tegra(row.compute_capability):
        return False
    first = row.first_driver_branch or card.first_driver_branch
    if first is None and card.min_cuda and (toolkit := matrix.cuda(card.min_cuda)):
        first = toolkit.min_driver_linux
    return drives(driver, first, row.last_driver_branch or card.last_driver_branch)


def _newest(matrix: Matrix, driver: str, platform: str, *, minor: bool) -> CudaToolkit | None:
    """The newest toolkit whose minimum a driver reaches."""
    found = [
        row
        for row in matrix.data.cuda
        if (needed := _needs(row, platform, minor=minor)) is not None and driver_reaches(driver, needed)
    ]
    return max(found, key=lambda row: numbers(row.version), default=None)


def _needs(row: CudaToolkit, platform: str, *, minor: bool) -> str | None:
    if platform.startswith("windows"):
        return (row.minor_compat_min_windows if minor else None) or row.min_driver_windows
    return (row.minor_compat_min_linux if minor else None) or row.min_driver_linux
