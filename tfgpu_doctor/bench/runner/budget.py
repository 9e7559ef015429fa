"""Measuring within a deadline that all requests share: one process for many cases, no answer waited for beyond it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from tfgpu_doctor.bench.runner.process import Worker, WorkerError
from tfgpu_doctor.bench.runner.workers import Key, Workers

Clock = Callable[[], float]

_ONE: Key = ("", "")
_DOING = {
    "hello": "while starting TensorFlow",
    "prepare": "while setting up the devices",
    "sample": "while computing",
    "verify": "while verifying the result",
    "reference": "while computing the reference result",
}


class Limit:
    """Until when answers are waited for, and whether one did not come in time."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        """No limit yet."""
        self._clock = clock
        self._started, self._end = 0.0, math.inf
        self.ran_out = False

    def set(self, seconds: float) -> None:
        """From now on, wait until so many seconds have passed."""
        self._started = self._clock()
        self._end = self._started + max(seconds, 0.0)
        self.ran_out = False

    @property
    def left(self) -> float:
        """Seconds that an answer may still take."""
        return max(self._end - self._clock(), 0.0)

    def ask(self, worker: Worker, timeout: float, request: dict[str, Any]) -> dict[str, Any]:
        """Hand a request on, with no more time than is left.

        Raises WorkerError: as the worker does; the limit has run out where that is why.
        """
        left = self.left
        try:
            return worker.ask(min(timeout, left), **request)
        except WorkerError:
            if left >= timeout or self.left > 0:
                raise
            self.ran_out = True
            doing = _DOING.get(request["do"], request["do"])
            raise WorkerError(f"no answer within {self._end - self._started:.0f} s, {doing}") from None


class BoundedWorker:
    """A worker that is asked under a limit."""

    def __init__(self, worker: Worker, limit: Limit) -> None:
        """Wrap it."""
        self._worker, self._limit = worker, limit

    def ask(self, timeout: float, **request: Any) -> dict[str, Any]:
        """Ask within `timeout` and the limit; raises WorkerError."""
        return self._limit.ask(self._worker, timeout, request)

    def log(self) -> str:
        """What the process wrote to its standard error."""
        return self._worker.log()

    def close(self) -> None:
        """End the process."""
        self._worker.close()


class OneProcess(Workers):
    """Whatever the case, the same process, as long as it lives: importing TensorFlow once is what a budget allows.

    All its cases must ask for the same GPUs to be visible; the first one sets that.
    """

    def __init__(self, start: Callable[[], Worker], limit: Limit) -> None:
        """None is started yet."""
        super().__init__(lambda: BoundedWorker(start(), limit))

    @property
    def alive(self) -> bool:
        """Whether there is a process that need not be started."""
        return _ONE in self._alive

    def take(self, _key: Key = _ONE) -> Worker:
        """The process, started where there is none. Raises WorkerError: it does not start."""
        return super().take(_ONE)

    def drop(self, _key: Key = _ONE) -> None:
        """End the process."""
        super().drop(_ONE)
