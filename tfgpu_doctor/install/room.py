"""How large an installation is, and whether the file system has room for it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tfgpu_doctor.install.failures import RefusedError
from tfgpu_doctor.install.records import Package
from tfgpu_doctor.records.units import memory_size

UNPACKED = 2.1  # bytes on disk for each byte of a wheel: 2.06 for 2.13.1 with CUDA 11, 1.94 for 2.17.1, 1.86 for 2.20.0
UNKNOWN = 5_000_000_000  # on disk, where the sizes of the wheels are not known
WHILE_UNPACKING = 3_000_000_000  # and for the wheels themselves
SPEEDS = (10e6, 50e6)  # bytes in a second that are downloaded and unpacked, slow and fast


@dataclass(frozen=True)
class Sizes:
    """Sizes of an installation in bytes; None: the resolver does not report them."""

    download: int | None
    on_disk: int | None

    @property
    def needed(self) -> int:
        """Disk space that is needed while it is made."""
        if self.download is None or self.on_disk is None:
            return UNKNOWN + WHILE_UNPACKING
        return self.on_disk + self.download


def sizes_of(packages: Iterable[Package]) -> Sizes:
    """Sum the sizes of the wheels, if all that matter are known."""
    known = [package.size for package in packages]
    if not known or None in known:
        return Sizes(None, None)
    download = sum(size or 0 for size in known)
    return Sizes(download, round(download * UNPACKED))


def require(folder: Path, sizes: Sizes) -> None:
    """Raise RefusedError: the file system of `folder` has less room than the installation takes."""
    free = shutil.disk_usage(folder).free
    if free < sizes.needed:
        raise RefusedError(
            f"{folder} has {memory_size(free)} free, and the installation takes up to {memory_size(sizes.needed)} "
            "while packages are unpacked: free some, or choose a folder on another file system"
        )
