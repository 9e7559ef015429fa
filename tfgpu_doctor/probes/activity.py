"""Whether a process and its descendants do anything: CPU time, page faults that read, bytes read. Linux only.

They are read from /proc/PID/stat and /proc/PID/io (proc_pid_stat(5), proc_pid_io(5)), which costs the process nothing.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass

from tfgpu_doctor.probes import descendants

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
