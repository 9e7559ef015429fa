"""Which versions of NVIDIA's packages pip brings with a release: the newest within its ranges, or a locked set. Pure.

The ranges of the extra since 2.18 are wide: 2.20.0, built with CUDA 12.5.1 and cuDNN 9.3, gets CUDA 12.9 today. A
locked set names the oldest versions within the ranges, since those are what the release was built and tested with,
and no newer cuDNN can drop a GPU. Where a release names no versions (CUDA 11 before the extra) it is the newest.
"""

from __future__ import annotations

from collections.abc import Iterable

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.plan.records import Delivered
from tfgpu_doctor.records.versions import minor

_OLD = 5  # years


def ranges(row: Release, requirements: Iterable[str]) -> dict[str, SpecifierSet]:
    """Distribution of NVIDIA's → the versions that the extra of a release and other requirements leave."""
    asked = [Requirement(text) for text in requirements]
    found: dict[str, SpecifierSet] = {}
    if any(row.extra in one.extras for one in asked):
        found |= {name: SpecifierSet(pin) for name, pin in row.pip_nvidia.items() if name.startswith("nvidia-")}
    for one in asked:
        if one.name.startswith("nvidia-"):
            found[one.name] = found.get(one.name, SpecifierSet()) & one.specifier
    return found


def delivered(matrix: Matrix, row: Release, requirements: Iterable[str]) -> Delivered | None:
    """What pip brings on the day of the matrix's revision; None: not all of it is known."""
    known = {one.package: one.versions for one in matrix.data.nvidia}
    packages = {}
    for name, specifier in ranges(row, requirements).items():
        newest = next((one for one in reversed(known.get(name, ())) if specifier.contains(one)), None)
        if newest is None:
            return None
        packages[name] = newest
    runtime = _of(packages, "nvidia-cuda-runtime-")
    return Delivered(cuda=minor(runtime), cudnn=_cudnn(packages), packages=packages) if runtime else None


def locked(matrix: Matrix, row: Release, requirements: Iterable[str]) -> tuple[str, ...]:
    """Requirements that name exact versions of NVIDIA's packages; without a known version a range stays as it is."""
    asked = tuple(requirements)
    known = {one.package: one.versions for one in matrix.data.nvidia}
    pins = []
    for name, specifier in ranges(row, asked).items():
        within = [one for one in known.get(name, ()) if specifier.contains(one)]
        bounded = any(one.operator in (">=", "==", "~=") for one in specifier)
        pins.append(f"{name}=={within[0 if bounded else -1]}" if within else f"{name}{specifier}")
    return (*(text for text in asked if not text.startswith("nvidia-")), *pins)


def older_than_five_years(matrix: Matrix, released: str | None) -> bool:
    """Whether a release was that old on the day of the matrix's revision; an unknown day is not."""
    year = int(matrix.revision[:4]) - _OLD
    return released is not None and released < f"{year}{matrix.revision[4:10]}"


def _cudnn(packages: dict[str, str]) -> str | None:
    found = _of(packages, "nvidia-cudnn-")
    return minor(found) if found else None


def _of(packages: dict[str, str], prefix: str) -> str | None:
    return next((version for name, version in packages.items() if name.startswith(prefix)), None)
