"""Why a release is not among those that satisfy the filters: the constraints that it does not meet. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import Version

from tfgpu_doctor.lookup.releases import (
    Filters,
    broken_on,
    cards,
    known_broken,
    min_driver,
    newest_first,
    only_with,
    releases,
    same_as_far_as_given,
)
from tfgpu_doctor.matrix.compatibility import (
    cudnn_floor,
    driver_branches,
    driver_reaches,
    drives,
    kernels_for,
    why_driver,
)
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.plan.alternatives import alternatives
from tfgpu_doctor.plan.constraints import PlanRequest, span
from tfgpu_doctor.plan.target import Target, TargetGpu
from tfgpu_doctor.records.versions import capability, minor


def why_not(matrix: Matrix, row: Release, filters: Filters) -> tuple[str, ...]:
    """Every constraint of a release that the filters do not meet, in a clause; empty: it is one of the answers."""
    return tuple(_clauses(matrix, row, filters))


def _clauses(matrix: Matrix, row: Release, filters: Filters) -> Iterator[str]:
    if filters.needs_gpu and not row.gpu:
        yield f"the {row.platform} wheel of {row.package} has no CUDA support"
        return
    yield from _not_built_for(row, filters)
    if filters.python is not None and filters.python not in row.python:
        yield f"no wheel for Python {filters.python}: {span(row.python)}"
    yield from _driver(matrix, row, filters)
    for card in cards(matrix, filters):
        yield from _card(matrix, row, card, filters)


def _not_built_for(row: Release, filters: Filters) -> Iterator[str]:
    for name, built, wanted in (("CUDA", row.cuda, filters.cuda), ("cuDNN", row.cudnn, filters.cudnn)):
        asked = minor(wanted) if wanted and name == "cuDNN" else wanted
        if asked and (built is None or not same_as_far_as_given(built, asked)):
            yield f"built for {name} {built or 'that is unknown'}, not {wanted}"


def _driver(matrix: Matrix, row: Release, filters: Filters) -> Iterator[str]:
    needed = min_driver(matrix, row, filters)
    if filters.driver is not None and (needed is None or not driver_reaches(filters.driver, needed)):
        why = why_driver(row, cards(matrix, filters))
        yield f"{why} needs driver {needed or 'that is unknown'} or newer, not {filters.driver}"


def _card(matrix: Matrix, row: Release, card: str, filters: Filters) -> Iterator[str]:
    first, last = driver_branches(matrix, card, filters.gpu)
    needed, name = min_driver(matrix, row, filters), filters.gpu or card
    floor, how = cudnn_floor(matrix, row), kernels_for(matrix, row, card)
    if filters.driver is None and needed is not None and not drives(needed, None, last):
        yield f"{why_driver(row, [card])} needs driver {needed} or newer, and {last} is the last branch for {name}"
    elif filters.driver is not None and not drives(filters.driver, first, last):
        yield f"driver {filters.driver} does not support {name}: {branches(first, last)} do"
    if floor and capability(card) < capability(floor):
        yield f"its cuDNN {row.cudnn} needs compute capability {floor} or later, not {card}"
    elif how == "no":
        yield f"no kernels for {card}: SASS {' '.join(row.sass) or 'none'}, PTX {' '.join(row.ptx) or 'none'}"
    elif how == "ptx" and not filters.ptx:
        yield f"no machine code (SASS) for {card}, only PTX; --ptx lists it"
    elif bug := broken_on(matrix, row, card, filters.python):
        yield f"known not to work on {card}: {bug.title} ({bug.id})"


def branches(first: str | None, last: str | None) -> str:
    """The driver branches from the first to the last, in words."""
    if first and last:
        return f"{first} to {last}"
    return f"{first} and newer" if first else f"up to {last}" if last else "unknown branches"


def elsewhere(matrix: Matrix, filters: Filters) -> tuple[str, ...]:
    """The images and builds of conda-forge that run on the card, in place of wheels."""
    machine = "aarch64" if (filters.platform or "").endswith("aarch64") else "x86_64"
    gpus = tuple(TargetGpu(filters.gpu, card) for card in cards(matrix, filters))
    if not gpus or not (filters.platform or "linux").startswith("linux"):
        return ()
    target = Target(gpus=gpus, driver=filters.driver, os="wsl2" if filters.wsl2 else "linux", machine=machine)
    return tuple(option.title for option in alternatives(PlanRequest(matrix, target)))


def left_out(matrix: Matrix, filters: Filters) -> dict[str, tuple[str, ...]]:
    """The first constraint that keeps stable releases, newer than the newest answer, from being one → their versions.

    Not those that are listed elsewhere (known bugs of the card, PTX only), nor those for another CUDA or cuDNN, nor CPU
    builds; nothing where the driver is not for the card at all.
    """
    edges = [driver_branches(matrix, card, filters.gpu) for card in cards(matrix, filters)]
    if filters.driver is not None and not all(drives(filters.driver, first, last) for first, last in edges):
        return {}
    found: dict[str, list[str]] = {}
    for row in _newer(matrix, filters):
        if not any(_not_built_for(row, filters)) and (reasons := why_not(matrix, row, filters)):
            found.setdefault(reasons[0], []).append(row.version)
    return {reason: tuple(versions) for reason, versions in found.items()}


def _newer(matrix: Matrix, filters: Filters) -> Iterator[Release]:
    """Stable releases that are newer than the newest answer, and of which no other note tells."""
    rows = releases(matrix, filters)
    told = {row.version for row, _ in known_broken(matrix, filters)}
    told |= {row.version for row in only_with(matrix, filters, ptx=True)}
    for row in newest_first(matrix.releases(filters.platform, filters.package or "tensorflow")):
        version = Version(row.version)
        if rows and version <= Version(rows[0].version):
            return
        if not version.is_prerelease and row.version not in told and (row.gpu or not filters.needs_gpu):
            yield row
