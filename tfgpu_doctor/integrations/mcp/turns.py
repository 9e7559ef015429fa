"""Calls of tools run in threads, so that the server answers meanwhile; what is cancelled ends with its processes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.to_thread

from tfgpu_doctor.probes import process

_Result = TypeVar("_Result")
_AT_A_TIME = 4
_machine = threading.Lock()  # one examination at a time: two would slow each other down, and share what is killed


class Turn:
    """An examination of this machine, which can be stopped."""

    def __init__(self) -> None:
        """Not begun."""
        self._lock = threading.Lock()
        self._runs = self._stopped = False

    def run(self, work: Callable[[], _Result]) -> _Result | None:
        """Do it when it is its turn; None if it was stopped before."""
        with _machine:
            with self._lock:
                if self._stopped:
                    return None
                self._runs = True
            try:
                return work()
            finally:
                with self._lock:
                    self._runs = False
                    if self._stopped:
                        process.begin_again()

    def stop(self) -> None:
        """Kill its processes and let it start no other; it then ends by itself."""
        with self._lock:
            self._stopped = True
            if self._runs:
                process.end_all()


class Turns:
    """What runs at a time."""

    def __init__(self) -> None:
        """Nothing yet; within an event loop."""
        self._texts, self._examinations = (anyio.CapacityLimiter(_AT_A_TIME) for _ in range(2))

    async def text(self, work: Callable[[], _Result]) -> _Result:
        """Do what computes from its arguments; when it is cancelled, nobody waits for it."""
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._texts)

    async def examination(self, work: Callable[[], _Result]) -> _Result:
        """Do what looks at this machine; when it is cancelled, its processes are killed."""
        turn = Turn()
        try:
            found = await anyio.to_thread.run_sync(turn.run, work, abandon_on_cancel=True, limiter=self._examinations)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(turn.stop)
            raise
        assert found is not None  # else it was cancelled
        return found
