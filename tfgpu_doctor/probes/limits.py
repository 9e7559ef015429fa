"""What the system lets this process do: the size of its address space, and the folder for its temporary files."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping

from tfgpu_doctor.probes.files import below
from tfgpu_doctor.records.facts import Fact, Known, Limit, TemporaryFolder, Unknown


def address_space_limit() -> Fact[Limit]:
    """RLIMIT_AS of this process."""
    if sys.platform == "win32":
        return Unknown("Windows has no RLIMIT_AS")
    import resource

    return as_limit(resource.getrlimit(resource.RLIMIT_AS), "getrlimit(RLIMIT_AS)")


def as_limit(limits: tuple[int, ...], source: str) -> Fact[Limit]:
    """The soft and the hard limit as a fact; RLIM_INFINITY is -1 on Linux, and nearly 2**63 on macOS.

    >>> as_limit((8_192_000_000, -1), "getrlimit(RLIMIT_AS)").value
    Limit(soft=8192000000, hard=None)
    """
    soft, hard = (number if 0 <= number < 2**62 else None for number in limits)
    return Known(Limit(soft, hard), source)


def temporary_folder(environ: Mapping[str, str], root: str = "/") -> Fact[TemporaryFolder]:
    """The folder in which TensorFlow and XLA write temporary files, and whether this user can.

    It is the first folder of TMPDIR, TMP and /tmp that is there (tsl/platform/default/env.cc, GetLocalTempDirectories).
    """
    if sys.platform == "win32":
        return Unknown("not read on Windows")
    named = [(environ.get(name, ""), name) for name in ("TMPDIR", "TMP")]
    for path, via in (*named, ("/tmp", "default")):
        folder = below(root, os.path.abspath(path)) if path else ""
        if os.path.isdir(folder):
            return Known(TemporaryFolder(path, via, _why_not_writable(folder), _free(folder)), f"access({path})")
    absent = TemporaryFolder("/tmp", "default", os.strerror(errno.ENOENT))
    return Known(absent, "access(/tmp)")


def _why_not_writable(folder: str) -> str | None:
    if os.access(folder, os.W_OK | os.X_OK):
        return None
    read_only = bool(os.statvfs(folder).f_flag & os.ST_RDONLY) if sys.platform != "win32" else False
    return os.strerror(errno.EROFS if read_only else errno.EACCES)


def _free(folder: str) -> int | None:
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_frsize * found.f_bavail
