"""Facts + Matrix → which TensorFlow to install here. Pure."""

from __future__ import annotations

from packaging.version import Version

from tfgpu_doctor.facts import Facts, Known, value_or
from tfgpu_doctor.matrix import Matrix, Release


def runs_on(row: Release, compute_capability: str) -> str:
    """How a build's kernels run on a card: "sass", "ptx" (compiled at first use) or "no".

    SASS runs on the same major compute capability with an equal or higher minor; PTX is compiled for any
    later one (CUDA C++ Programming Guide, "Binary Compatibility" and "PTX Compatibility").
    """
    card = capability(compute_capability)
    if any(capability(s)[0] == card[0] and capability(s) <= card for s in row.sass):
        return "sass"
    return "ptx" if any(capability(p) <= card for p in row.ptx) else "no"


def driver_suffices(matrix: Matrix, row: Release, driver: str, os: str) -> bool | None:
    """Whether a driver runs the CUDA that a release is built for, minor-version compatibility included."""
    toolkit = matrix.cuda(row.cuda) if row.cuda else None
    if toolkit is None:
        return None
    minimum = toolkit.minor_compat_min_windows if os in ("windows", "wsl2") else toolkit.minor_compat_min_linux
    return None if minimum is None else Version(driver) >= Version(minimum)


def best_release(facts: Facts, matrix: Matrix) -> Release | None:
    """The newest release that installs its own CUDA and fits Python, platform, driver and cards, where known.

    Releases with an error among their known issues are passed over.
    """
    platform = value_or(facts.python.wheel_platform, "linux_x86_64")
    python = ".".join(value_or(facts.python.version, "").split(".")[:2])
    driver = value_or(facts.driver.version, None)
    os = value_or(facts.host.os, "linux")
    capabilities = [
        gpu.compute_capability.value for gpu in value_or(facts.gpus, ()) if isinstance(gpu.compute_capability, Known)
    ]
    for row in matrix.releases(platform=platform, package="tensorflow"):
        fits = (
            row.gpu
            and row.extra
            and (not python or python in row.python)
            and not any(issue.severity == "error" for issue in row.known_issues)
            and (driver is None or driver_suffices(matrix, row, driver, os) is not False)
            and all(runs_on(row, one) == "sass" for one in capabilities)
        )
        if fits:
            return row
    return None


def capability(text: str) -> tuple[int, int]:
    """Turn the compute capability "8.9" into (8, 9)."""
    major, _, minor = text.partition(".")
    return int(major), int(minor or 0)
