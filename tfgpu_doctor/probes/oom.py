"""How often the kernel's out-of-memory killer has struck, to tell why a child got SIGKILL."""

from __future__ import annotations

from dataclasses import dataclass

from tfgpu_doctor.probes.files import read_text, whole


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
