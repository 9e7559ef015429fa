"""The worker processes of a benchmark that are alive, and what each is asked before it measures."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from tfgpu_doctor.bench.devices import Case, GpuFound, Job
from tfgpu_doctor.bench.runner.process import Worker, WorkerError

START = 300.0  # seconds for import, device initialisation and inputs; a first CUDA start may compile PTX for long
PATIENCE = 60.0  # seconds that a sample may always take

Key = tuple[str, str]  # label and type: what one process is for


def hello(worker: Worker) -> tuple[dict[str, str], tuple[GpuFound, ...]]:
    """Import TensorFlow in a worker: its versions, and the GPUs it lists.

    Raises WorkerError: TensorFlow cannot be imported there.
    """
    answer = worker.ask(START, do="hello")
    software = {name: str(answer[name]) for name in ("tensorflow", "numpy", "python")}
    return software, tuple(GpuFound(gpu["name"], gpu["compute_capability"]) for gpu in answer["gpus"])


class Workers:
    """The processes that are alive, one for each case and type; a case that is measured at several sizes keeps its own.

    Use as a context manager: leaving the block ends them all.
    """

    def __init__(self, start: Callable[[], Worker]) -> None:
        """None is started yet."""
        self._start = start
        self._alive: dict[Key, Worker] = {}
        self._spare: list[Worker] = []  # started and greeted, not used for any case yet
        self.found: tuple[GpuFound, ...] = ()  # the GPUs that the newest process lists

    def first(self) -> tuple[Worker, dict[str, str], tuple[GpuFound, ...]]:
        """Start one, and say its versions and the GPUs that it lists.

        Raises WorkerError: TensorFlow cannot be imported there.
        """
        self._spare.append(self._start())
        software, self.found = hello(self._spare[0])
        return self._spare[0], software, self.found

    def is_alive(self, key: Key) -> bool:
        """Whether the process of a case has been started."""
        return key in self._alive

    def take(self, key: Key) -> Worker:
        """The process of a case, started where there is none. Raises WorkerError: it does not start."""
        if key not in self._alive:
            self._alive[key] = self._spare.pop() if self._spare else self._start_one()
        return self._alive[key]

    def _start_one(self) -> Worker:
        worker = self._start()
        try:
            _, self.found = hello(worker)
        except BaseException:  # also Ctrl-C: the process would outlive the benchmark
            worker.close()
            raise
        return worker

    def drop(self, key: Key) -> None:
        """End the process of a case, and free the memory of its devices."""
        if worker := self._alive.pop(key, None):
            worker.close()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        for worker in (*self._spare, *self._alive.values()):
            worker.close()
        self._spare.clear()
        self._alive.clear()


def prepare(worker: Worker, case: Case, job: Job) -> dict[str, Any]:
    """Let a worker put its inputs on the devices of a case."""
    return worker.ask(
        START,
        do="prepare",
        workload=job.workload,
        parameters=job.parameters,
        dtype=job.dtype_on(case),
        devices=list(case.devices),
        gpus=list(case.gpus),
        spread=case.spread,
        virtual=case.virtual,
        virtual_memory_mib=job.virtual_memory_mib,
    )


# ---------------------------------------------------------------------------------------------------------------------
# Measuring within a deadline that all requests share: one process for many cases, no answer waited for beyond it.


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
