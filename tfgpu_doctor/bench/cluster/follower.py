"""On machines other than the first: do what the first one leads, type by type, to its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfgpu_doctor.bench.devices import Case, GpuFound
from tfgpu_doctor.bench.jobs import Job
from tfgpu_doctor.bench.runner.process import Worker, WorkerError
from tfgpu_doctor.bench.runner.workers import hello, prepare
from tfgpu_doctor.bench.session import NoTensorFlowError


def follow(
    plan: Callable[[Sequence[GpuFound]], Sequence[tuple[Case, Job]]],
    start: Callable[[], Worker],
    *,
    patience: float,
    progress: Callable[[str, float], None] = lambda *_: None,
) -> int:
    """Take part in every job of the plan, each in a process of its own; returns how many pieces of work were done.

    Args:
        plan: this machine's cases and jobs, by the GPUs that TensorFlow lists; the same jobs as the first machine's.
        start: starts a worker.
        patience: seconds that may pass between two pieces of work.

    Raises:
        NoTensorFlowError: TensorFlow does not start.
        WorkerError: a machine is gone, or this one's part failed.
        DeviceError: the GPUs that were asked for are not there.
    """
    done = 0
    progress("starting TensorFlow", 0.0)
    worker: Worker | None = start()
    try:
        _, found = _greeted(worker)
        for case, job in plan(found):
            if worker is None:
                worker = start()
                _greeted(worker)
            progress(f"{case.label}: waiting for the other machines", 0.0)
            prepare(worker, case, job)
            progress(f"{case.label}: working", 0.0)
            while worker.ask(max(patience, job.patience), do="follow")["done"] != "end":
                done += 1
            worker.close()
            worker = None
    finally:
        if worker is not None:
            worker.close()
    return done


def _greeted(worker: Worker | None) -> tuple[dict[str, str], tuple[GpuFound, ...]]:
    assert worker is not None
    try:
        return hello(worker)
    except WorkerError as error:
        raise NoTensorFlowError(str(error)) from error
