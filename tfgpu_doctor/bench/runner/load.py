"""What else the machine does while samples are taken: CPU time of everybody, less that of the worker."""

from __future__ import annotations

import os
import sys

import psutil


def load_average() -> float | None:
    """Threads that ran or waited for a CPU or a disk, over the last minute; None where nobody counts them."""
    if sys.platform == "win32":
        return None
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


def busy_seconds() -> float:
    """CPU seconds that all programs of the machine have used since it started, waiting for disks left out."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)  # counted in user and nice, too
    return float(sum(times) - idle - guests)


class OtherPrograms:
    """Gathers, over many spans, the CPUs that programs beside the worker kept busy."""

    def __init__(self) -> None:
        """Nothing was seen yet."""
        self._seconds = 0.0  # of wall time
        self._busy = 0.0  # CPU seconds of others

    def add(self, wall: float, everybody: float, worker: float) -> None:
        """One span of `wall` seconds: CPU seconds of the whole machine, and of the worker within it."""
        self._seconds += wall
        self._busy += everybody - worker  # may be a tick below zero; the ticks of 10 ms even out over the spans

    def cpus(self) -> float | None:
        """CPUs that others kept busy on average; None before a second was seen, in which ticks are too coarse."""
        return max(self._busy / self._seconds, 0.0) if self._seconds >= 1.0 else None
