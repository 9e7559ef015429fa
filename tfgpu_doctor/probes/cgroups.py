"""Limits that control groups set on this process: CPU time and memory, in versions 1 and 2.

Sources: the kernel's Documentation/admin-guide/cgroup-v2.rst (cpu.max, memory.max),
admin-guide/cgroup-v1/memory.rst (memory.limit_in_bytes) and scheduler/sched-bwc.rst (cpu.cfs_quota_us).
A limit may be set on the process's own group or on any above it: the smallest counts.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import TypeVar

from tfgpu_doctor.probes.files import read_text, whole
from tfgpu_doctor.records.facts import Fact, Known, Unknown

MOUNT = "/sys/fs/cgroup"
UNLIMITED_V1 = 1 << 60  # version 1 writes the largest long, rounded to pages, for "no limit"

T = TypeVar("T", int, float)


def cpu_quota(root: str) -> Fact[float]:
    """CPUs' worth of time that the groups allow; unknown("no limit") without a limit."""
    limits: list[tuple[float, str]] = []
    seen = False
    for folder in _groups(root, "cpu"):
        for name in ("cpu.max", "cpu.cfs_quota_us"):
            path = f"{folder}/{name}"
            try:
                words = read_text(root, path).split()
                if name == "cpu.cfs_quota_us":
                    words.append(read_text(root, f"{folder}/cpu.cfs_period_us").strip())
            except OSError:  # not in this version, or not at this level
                continue
            seen = True
            quota, period = map(whole, words) if len(words) == 2 else (None, None)
            if quota is not None and period:
                limits.append((quota / period, path))
    return _smallest(limits, seen)


def memory_limit(root: str) -> Fact[int]:
    """Bytes that the groups allow; unknown("no limit") without a limit."""
    limits: list[tuple[int, str]] = []
    seen = False
    for folder in _groups(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            path = f"{folder}/{name}"
            try:
                text = read_text(root, path).strip()
            except OSError:  # not in this version, or not at this level
                continue
            seen = True
            limit = whole(text)
            if limit is not None and limit < UNLIMITED_V1:
                limits.append((limit, path))
    return _smallest(limits, seen)


def _smallest(limits: list[tuple[T, str]], seen: bool) -> Fact[T]:
    if not limits:
        return Unknown("no limit") if seen else Unknown(f"no control group files below {MOUNT}")
    value, path = min(limits)
    return Known(value, path)


def _groups(root: str, controller: str) -> Iterator[str]:
    """Folders of this process's groups for `controller`, innermost first, up to the mount.

    In a container the path of /proc/self/cgroup may be the host's, which the mount does not show;
    its parents, up to the mount itself, still lead to the container's own limits.
    """
    try:
        lines = read_text(root, "/proc/self/cgroup").splitlines()
    except OSError:
        lines = ["0::/", f"1:{controller}:/"]
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if not controllers:
            mounts = (MOUNT, f"{MOUNT}/unified")
        elif controller in controllers.split(","):
            mounts = (f"{MOUNT}/{controllers}", f"{MOUNT}/{controller}")
        else:
            continue
        for mount in dict.fromkeys(mounts):
            here = group
            while True:
                yield (mount + here).rstrip("/")
                if here in ("", "/"):
                    break
                here = posixpath.dirname(here)
