"""A job object of Windows, which holds a child with all that descends from it, whatever their parents do.

Microsoft, "Job Objects": a process stays in the job of the one that started it; JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
ends all of them with the last handle, which is ours: also when this program is killed.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

KILL_ON_JOB_CLOSE = 0x2000
EXTENDED_LIMITS = 9  # JobObjectExtendedLimitInformation


class _Limits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION, of which one field is set."""

    _fields_ = (
        ("times", ctypes.c_int64 * 2),
        ("flags", ctypes.c_uint32),
        ("working_set", ctypes.c_size_t * 2),
        ("active_processes", ctypes.c_uint32),
        ("affinity", ctypes.c_size_t),
        ("classes", ctypes.c_uint32 * 2),
        ("io", ctypes.c_uint64 * 6),
        ("memory", ctypes.c_size_t * 4),
    )


class Job:
    """The job of one child; without the functions of Windows it does nothing."""

    def __init__(self, child: int, kernel32: Any = None) -> None:
        """Put a child that has just started, by its handle, into a job of its own."""
        self._kernel32 = kernel32 or _kernel32()
        self._handle: ctypes.c_void_p | None = None
        if self._kernel32 is None or not (handle := self._kernel32.CreateJobObjectW(None, None)):
            return
        self._handle = ctypes.c_void_p(handle)
        limits = _Limits(flags=KILL_ON_JOB_CLOSE)
        self._kernel32.SetInformationJobObject(
            self._handle, EXTENDED_LIMITS, ctypes.byref(limits), ctypes.sizeof(limits)
        )
        if not self._kernel32.AssignProcessToJobObject(
            self._handle, ctypes.c_void_p(child)
        ):  # it may have ended already
            self.close()

    def kill(self) -> None:
        """End every process in it."""
        if self._handle:
            self._kernel32.TerminateJobObject(self._handle, 1)

    def close(self) -> None:
        """Give the handle back; what still runs in the job ends."""
        if self._handle:
            self._kernel32.CloseHandle(self._handle)
            self._handle = None


def _kernel32() -> Any:
    if sys.platform != "win32":
        return None
    library = ctypes.WinDLL("kernel32")
    library.CreateJobObjectW.restype = ctypes.c_void_p  # a handle has 64 bits
    return library
