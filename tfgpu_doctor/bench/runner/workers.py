"""The worker processes of a benchmark that are alive, and what each is asked before it measures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfgpu_doctor.bench.devices import Case, GpuFound
from tfgpu_doctor.bench.jobs import Job
from tfgpu_doctor.bench.runner.process import Worker

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
