"""The processes that descend from a child: found, stopped, killed and reaped, also when they have left its session.

On Linux this process becomes the parent of descendants whose own parent has ended (PR_SET_CHILD_SUBREAPER), and each
child gets a variable in its environment which its descendants inherit (as the cookie of Jenkins): so an orphan is
assigned to its child. An orphan that has cleared its environment is known only as a process below this one:
`kill_all` ends it together with the command.

Elsewhere, the descendants are those that psutil finds while their parents run, and on Windows those in the child's job
(:mod:`tfgpu_doctor.probes.systems.job`); on Linux without /proc, or with that of
another PID namespace, none is found, and only the process group of a child is killed.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache

VARIABLE = "TFGPU_CHILD"
TOKEN = os.urandom(8).hex()  # of this process, so that nobody's variable is taken for one of ours
PR_SET_CHILD_SUBREAPER = 36
STOP = getattr(signal, "SIGSTOP", None)
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # Windows: TerminateProcess
PAUSE = 0.002  # seconds between two looks at processes that are ending

_once = threading.Lock()
_abandoned: set[int] = set()  # killed, but the kernel does not let them go, as behind a dead driver


def has_own_proc() -> bool:
    """Whether /proc is there, and not that of another PID namespace."""
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:  # not mounted
        return False


@cache
def _lister() -> str | None:
    """What tells the children of a process here: the kernel, psutil, or nothing."""
    if sys.platform != "linux":
        return "psutil"
    if not has_own_proc():
        return None
    # built into the kernel only with CONFIG_PROC_CHILDREN
    return "kernel" if os.path.exists(f"/proc/self/task/{os.getpid()}/children") else "psutil"


@cache
def _adopt_orphans() -> frozenset[int]:
    """Become the parent of orphaned descendants; the children that this process already had.

    They are the background jobs of a shell that was replaced by this process (`job & exec tfgpu ...`).
    """
    if sys.platform != "linux" or not _lister():
        return frozenset()
    import ctypes  # deferred: 2 ms

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    return frozenset(children(os.getpid()))


def mark(number: int) -> dict[str, str]:
    """The variable for the environment of child `number`. To be called before it starts."""
    with _once:  # the first two children may start in two threads
        _adopt_orphans()
    return {VARIABLE: f"{TOKEN}.{number}."}


def children(pid: int) -> set[int]:
    """The direct children of a process, those that have ended and are not reaped included."""
    found: set[int] = set()
    if _lister() == "kernel":
        with suppress(OSError):  # it has ended
            for thread in os.listdir(f"/proc/{pid}/task"):
                found.update(map(int, _read(f"/proc/{pid}/task/{thread}/children").split()))
    elif _lister() == "psutil":
        import psutil  # deferred: 20 ms

        with suppress(psutil.Error):
            found.update(child.pid for child in psutil.Process(pid).children())
    return found


def orphans(number: int | None = None) -> set[int]:
    """The adopted processes with the mark of a child, or of any child of this process."""
    if sys.platform != "linux":
        return set()
    marked = f"{VARIABLE}={TOKEN}." + ("" if number is None else f"{number}.")
    return {pid for pid in children(os.getpid()) if marked.encode() in _read(f"/proc/{pid}/environ")}


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib costs 5 ms
            return file.read()
    except OSError:  # it has ended, or belongs to another user
        return b""


def kill(find: Callable[[], Iterable[int]], seconds: float, spared: Iterable[int] = ()) -> None:
    """Kill what `find` finds and all below it, again and again until it finds nothing; for `seconds` at most.

    `spared` are not reaped: somebody else waits for their exit code.
    """
    deadline = time.monotonic() + seconds
    dying: set[int] = set()
    while True:
        found = _stopped(find(), deadline)
        for pid in found:
            _signal(pid, KILL)
        dying = {pid for pid in (dying | found).difference(spared) if not _reaped(pid)}
        if not (found or dying):
            return
        if time.monotonic() >= deadline:
            _abandoned.update(found, dying)
            return
        time.sleep(PAUSE)


def kill_all(seconds: float) -> None:
    """Kill all that descends from this process; to be called when it ends.

    Children that it had before it started any are spared. What such a child leaves behind cannot be distinguished
    from our own orphans without mark: then only those with a mark are killed.
    """
    if sys.platform != "linux":
        return
    before = _adopt_orphans()
    me = os.getpid()
    kill(lambda: (orphans() if children(me) & before else children(me)) - _abandoned, seconds)


def _stopped(roots: Iterable[int], deadline: float) -> set[int]:
    """Stop `roots` and all below them, so that none forks or leaves while the others are looked for."""
    found: set[int] = set()
    last: set[int] = set()
    fresh = set(roots)
    while fresh:
        if STOP is not None:
            for pid in fresh:
                _signal(pid, STOP)
        found |= fresh
        if time.monotonic() >= deadline:
            break
        # each is looked at twice: it may have been within a fork when it was stopped
        last, fresh = fresh, {child for pid in last | fresh for child in children(pid)} - found
    return found


def _signal(pid: int, number: int) -> None:
    with suppress(OSError):  # it has ended, or is a setuid program
        os.kill(pid, number)


def _reaped(pid: int) -> bool:
    """Whether a killed process is gone; one whose parent has ended is reaped here."""
    if sys.platform == "win32":
        return True
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:  # its parent has not ended yet, or has reaped it
        with suppress(PermissionError):
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return True
        return False
