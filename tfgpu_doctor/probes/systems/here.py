"""Which system this is."""

from __future__ import annotations

import os
import sys
from types import ModuleType

from tfgpu_doctor.probes.systems.macos import MacOs
from tfgpu_doctor.probes.systems.system import System
from tfgpu_doctor.probes.systems.windows import Windows


def _found(platform: str = sys.platform) -> System | None:
    if platform.startswith("linux"):
        return None
    known: dict[str, type[System]] = {"win32": Windows, "darwin": MacOs}
    return known[platform]() if platform in known else System(platform)


_here = _found()


def other(root: str = "/") -> System | None:
    """The system here; None on Linux, and where `root` is a fake one: that is taken for a Linux."""
    return _here if root == "/" else None


def paths() -> ModuleType:
    """The functions for paths of this system: those of a recorded Windows are ntpath's."""
    return _here.paths if _here else os.path
