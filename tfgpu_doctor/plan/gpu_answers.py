"""What the matrix knows of a GPU: its drivers, CUDA and cuDNN, and the releases that run on it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from msgspec import structs
from packaging.version import Version

from tfgpu_doctor.facts.versions import numbers
from tfgpu_doctor.matrix.compatibility import arm_only, driver_bound, driver_branches
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.matrix.queries import Filters, QueryError, known_broken, known_package, only_with, releases
from tfgpu_doctor.matrix.rows import spelled_out
from tfgpu_doctor.matrix.schema import Architecture, Peak
from tfgpu_doctor.matrix.tables import last_cudnn, read_version
from tfgpu_doctor.plan.constraints import CONSTRAINTS, PlanRequest
from tfgpu_doctor.plan.target import (
    Target,
    TargetError,
    TargetGpu,
    platform_of,
    read_capability,
    read_driver_on,
    read_gpu,
    read_python,
    several,
)


def read_filters(
    matrix: Matrix,
    note: Callable[[str], object],
    *,
    gpu: str | Iterable[str] | None = None,
    compute_capability: str | Iterable[str] | None = None,
    os: str | None = None,
    machine: str | None = None,
    platform: str | None = None,
    **given: Any,
) -> Filters:
    """Read what a release must satisfy; without a platform, it is that of the GPU, or Linux on x86_64.

    Args:
        note: called with how a value was read.
        given: other fields of Filters, as a person writes them.

    Raises TargetError, QueryError: a value is not valid.
    """
    named = [read_gpu(matrix, name) for name in several(gpu)]
    capabilities = [read_capability(text, matrix) for text in several(compute_capability)]
    if len(named) > 1 or len(capabilities) > 1:
        raise TargetError("releases are listed for one GPU: give one --gpu and one --compute-capability at most")
    name = named[0].name if named else None
    where = platform_of(os, machine, platform)
    system = os or (where or "").partition("_")[0]
    readers: dict[str, Callable[[str], str]] = {
        "package": partial(known_package, matrix),
        "python": read_python,
        "cuda": lambda text: read_version(text, "CUDA", "11.8"),
        "cudnn": lambda text: read_version(text, "cuDNN", "8.6"),
        "driver": lambda text: read_driver_on(system, text, matrix, note),
    }
    given |= {key: read(given[key]) for key, read in readers.items() if given.get(key) is not None}
    if where is None:
        where = default_platform(name, named[0].compute_capability) if named else "linux_x86_64"
    return Filters(
        platform=None if where == "all" else where,
        compute_capability=capabilities[0] if capabilities else None,
        gpu=name,
        wsl2=os == "wsl2",
        **given,
    )


def all_gpus(matrix: Matrix) -> list[dict[str, str | None]]:
    """Every GPU of the matrix, in its order: the newest architectures first."""
    return [_gpu(matrix, group.compute_capability, name) for group in matrix.data.gpus for name in group.names]


def _gpu(matrix: Matrix, capability: str, name: str | None) -> dict[str, str | None]:
    """A GPU and its drivers; without a name, what holds of all GPUs of its compute capability."""
    card, (first, last) = matrix.architecture(capability), driver_branches(matrix, capability, name)
    return {
        "name": name,
        "compute_capability": capability,
        "architecture": card.name if card else None,
        "first_driver_branch": first,  # None: unknown
        "last_driver_branch": last,  # None: still supported
        "driver_at_least": driver_bound(matrix, capability, name),  # where the first branch is unknown
    }


def gpu_answer(matrix: Matrix, capability: str, name: str | None = None, platform: str | None = None) -> dict[str, Any]:
    """Join a GPU with everything that supports it.

    Args:
        capability: its compute capability, one that the matrix has.
        name: its name as the matrix has it, for what differs between models.
        platform: of the TensorFlow releases; by default Linux with the processor that such a GPU is sold with.
    """
    card, peak = matrix.architecture(capability), matrix.peak(capability, name)
    if card is None:
        known = ", ".join(row.compute_capability for row in matrix.data.architectures)
        raise QueryError(f"unknown compute capability {capability}; the matrix has {known}")
    asked = Filters(platform=platform or default_platform(name, capability), compute_capability=capability, gpu=name)
    fits = releases(matrix, asked)
    request = PlanRequest(matrix, Target(gpus=(TargetGpu(name, capability),)))
    working = (row.version for row in fits if not (row.yanked or CONSTRAINTS["known-issue"](request, row)))
    return {
        **_gpu(matrix, capability, name),
        "same_compute_capability": tuple(
            one for row in matrix.data.gpus if row.compute_capability == capability for one in row.names
        ),
        "first_cuda": card.min_cuda,  # that makes SASS for it; None: unknown
        "last_cuda": card.max_cuda,  # None: still supported
        "last_cudnn": _last_cudnn(matrix, card),  # CUDA major version → last cuDNN line that supports it
        "platform": asked.platform,  # of the releases below
        "newest_tensorflow": next(working, None),  # without a known bug there: what `tfgpu plan` takes
        "tensorflow": _versions(row.version for row in fits),  # stable releases whose SASS runs on it, newest first
        "tensorflow_ptx": _versions(row.version for row in only_with(matrix, asked, ptx=True)),  # to be compiled first
        "broken": _broken(matrix, asked),  # known issues, and the releases that they keep from the card
        "peak": _rates(peak) if peak else None,  # dense FLOP per clock cycle and multiprocessor; None: unknown
        "sources": _sources(matrix, card.source, peak, name),  # field → where it was read
    }


def default_platform(name: str | None, capability: str) -> str:
    """Linux, with the processor that a GPU of this name, as the matrix has it, is sold with."""
    return "linux_aarch64" if name is not None and arm_only(name, capability) else "linux_x86_64"


def _broken(matrix: Matrix, asked: Filters) -> list[dict[str, Any]]:
    found: dict[tuple[str, str], list[str]] = {}
    for row, issue in known_broken(matrix, asked):
        found.setdefault((issue.id, issue.title), []).append(row.version)
    return [{"id": id, "title": title, "tensorflow": _versions(rows)} for (id, title), rows in found.items()]


def _rates(peak: Peak) -> dict[str, float]:
    return {name: rate for name, rate in structs.asdict(peak).items() if isinstance(rate, (int, float))}


def _last_cudnn(matrix: Matrix, card: Architecture) -> dict[str, str]:
    """For the CUDA major versions that know the card."""
    first, last = (numbers(edge)[0] if edge else None for edge in (card.min_cuda, card.max_cuda))
    majors = sorted({major for line in matrix.data.cudnn for major in line.cuda_majors}, key=numbers)
    known = [major for major in majors if (first or 0) <= int(major) <= (last or int(major))]
    found = {major: last_cudnn(matrix, card.compute_capability, major) for major in known}
    return {major: version for major, version in found.items() if version is not None}


def _sources(matrix: Matrix, architecture: str, peak: Peak | None, name: str | None) -> dict[str, str]:
    known = matrix.gpu(name) if name is not None else None
    found = {"name": known.source, "compute_capability": known.source} if known else {}
    if known and known.first_driver_branch:
        found["first_driver_branch"] = known.driver_source
    found["architecture"] = spelled_out(matrix.data, architecture)
    return {**found, "peak": spelled_out(matrix.data, peak.source)} if peak else found


def _versions(versions: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(versions), key=Version, reverse=True))
