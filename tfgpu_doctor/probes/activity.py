"""Whether a process and its descendants do anything: CPU time, page faults that read, bytes read. Linux only.

They are read from /proc/PID/stat and /proc/PID/io (proc_pid_stat(5), proc_pid_io(5)), which costs the process nothing.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass

from tfgpu_doctor.probes import descendants
from tfgpu_doctor.probes.files import read_text, whole

MAJFLT, UTIME, STIME = 9, 11, 12  # fields of /proc/PID/stat behind the name of the program
READ = (b"rchar", b"read_bytes")
LOOKS = 20  # at a process within its limit

# process → CPU ticks, bytes read by calls, bytes read from disks, page faults that read
Counters = dict[int, tuple[int, ...]]


def counters(pid: int) -> Counters | None:
    """What a process and all below it have used until now; None where that cannot be read."""
    if sys.platform != "linux" or not descendants.has_own_proc():
        return None
    found: Counters = {}
    fresh = {pid, *descendants.orphans()}
    while fresh:
        for one in fresh:
            if (values := _of(one)) is not None:
                found[one] = values
            elif os.path.exists(f"/proc/{one}"):
                return None
        fresh = {child for one in fresh for child in descendants.children(one)} - found.keys()
    # a Python has used both of these to start, where the kernel counts them
    return found if all(sum(row[place] for row in found.values()) for place in (0, 1)) else None


def _of(pid: int) -> tuple[int, ...] | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            stat = file.read().rpartition(b")")[2].split()
        with open(f"/proc/{pid}/io", "rb") as file:  # noqa: PTH123
            read = {name: int(value) for name, _, value in (line.partition(b": ") for line in file)}
        return (int(stat[UTIME]) + int(stat[STIME]), *(read[name] for name in READ), int(stat[MAJFLT]))
    except (OSError, ValueError, IndexError, KeyError):
        return None


@dataclass
class Watch:
    """Looks at a process now and then, and knows since when it has done nothing."""

    pid: int
    limit: float  # seconds without any activity that make a hang
    since: float = 0.0
    seen: Counters | None = None

    @property
    def pause(self) -> float:
        """Seconds between two looks."""
        return self.limit / LOOKS

    def __post_init__(self) -> None:
        """Take the first look."""
        self.since, self.seen = time.monotonic(), counters(self.pid)

    def hangs(self) -> bool:
        """Look, and say whether it has done nothing for as long as the limit; False where that cannot be known."""
        if self.seen is None:
            return False
        now = counters(self.pid)
        if now != self.seen:
            self.since, self.seen = time.monotonic(), now
        return now is not None and time.monotonic() - self.since >= self.limit

    def used(self) -> str:
        """What the process and its descendants had used when they stopped: "1.23 s of CPU time, 85.1 MB read"."""
        rows = (self.seen or {}).values()
        if sys.platform == "win32":
            return "nothing that is known"
        seconds = sum(row[0] for row in rows) / os.sysconf("SC_CLK_TCK")
        return f"{seconds:.2f} s of CPU time, {sum(row[1] for row in rows) / 1e6:.1f} MB read"


# ---------------------------------------------------------------------------------------------------------------- oom
#
# How often the kernel's out-of-memory killer has struck, to tell why a child got SIGKILL.


@dataclass(frozen=True)
class OomKills:
    """Counters of the kernel; None where it does not tell."""

    cgroup: int | None  # kills in this process's cgroup, because of its limit or the machine's
    machine: int | None  # kills anywhere on the machine

    def explain(self, later: OomKills) -> str:
        """Say what a SIGKILL that came between these two readings probably was."""
        if _rose(self.cgroup, later.cgroup):
            return f"killed by the kernel's OOM killer (oom_kill of its cgroup: {self.cgroup} -> {later.cgroup})"
        if _rose(self.machine, later.machine):
            return (
                f"probably killed by the kernel's OOM killer (/proc/vmstat: oom_kill {self.machine} -> {later.machine})"
            )
        if self.cgroup is None and self.machine is None:
            return "killed from outside, perhaps by the kernel's OOM killer: see dmesg"
        return "killed from outside, and not by the kernel's OOM killer, whose counters did not move"


def read(root: str = "/") -> OomKills:
    """Read the counters below `root`; never raises."""
    return OomKills(_cgroup(root), _counter(root, "/proc/vmstat"))


def _rose(before: int | None, after: int | None) -> bool:
    return before is not None and after is not None and after > before


def _cgroup(root: str) -> int | None:
    try:
        lines = read_text(root, "/proc/self/cgroup").splitlines()
    except OSError:
        return None
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        path = path.lstrip("/")
        if not controllers:  # version 2; in a container the path may lead outside of what is mounted
            places = [f"/sys/fs/cgroup/{path}/memory.events", "/sys/fs/cgroup/memory.events"]
        elif "memory" in controllers.split(","):
            v1 = "/sys/fs/cgroup/memory"
            places = [f"{v1}/{path}/memory.oom_control", f"{v1}/memory.oom_control"]
        else:
            continue
        for place in places:
            if (count := _counter(root, place)) is not None:
                return count
    return None


def _counter(root: str, path: str) -> int | None:
    try:
        words = [line.split() for line in read_text(root, path).splitlines()]
    except OSError:
        return None
    return next((whole(pair[1]) for pair in words if len(pair) == 2 and pair[0] == "oom_kill"), None)
