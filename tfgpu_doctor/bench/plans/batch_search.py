"""Search for the largest batch that fits: `tfgpu bench cnn --batch-size auto`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from tfgpu_doctor.bench.devices import Case
from tfgpu_doctor.bench.jobs import Job
from tfgpu_doctor.bench.runner.process import Worker, WorkerError
from tfgpu_doctor.bench.runner.workers import hello, prepare
from tfgpu_doctor.bench.workloads.replicas import NO_MEMORY

FINE = 8  # the result is less than one part in so many below the smallest batch that does not fit
# how it shows that memory ran out, beside what TensorFlow and CUDA say: NumPy's error, and Linux's way of making room
OUT_OF_MEMORY = (*NO_MEMORY, "ResourceExhausted", "MemoryError", "killed by SIGKILL")


def largest_batch(start: int, least: int, most: int, fits: Callable[[int], bool]) -> tuple[int | None, int | None]:
    """Double or halve the batch until its limit lies between two tries, then halve the gap between them.

    Returns the largest batch that fits, and the smallest that was tried and does not: None if there is none.
    """
    low, high, batch = least - 1, None, min(max(start, least), most)
    while least <= batch <= most and batch not in (low, high):
        if fits(batch):
            low = batch
        else:
            high = batch
        if high is None:
            batch = min(2 * low, most)
        elif low < least:
            batch = max(high // 2, least)
        else:
            batch = (low + high) // 2 if high - low > max(1, low // FINE) else low
    return (low if low >= least else None), high


def trial_error(start: Callable[[], Worker], case: Case, job: Job) -> str:
    """Do in a new process what a measurement does before its samples; returns why it lacks memory, or "" if it fits.

    A process that ends is taken for one that lacked memory: XLA aborts, and the system kills, without saying so.

    Raises WorkerError: it fails for another reason.
    """
    with closing(start()) as worker:
        hello(worker)
        try:
            prepare(worker, case, job)
            worker.ask(job.patience, do="sample", count=2, steps=1)  # the second needs what the optimizer has made
            worker.ask(job.patience, do="verify")
        except WorkerError as error:
            if not str(error).startswith("the worker ") and not any(sign in str(error) for sign in OUT_OF_MEMORY):
                raise
            return str(error).strip().splitlines()[0].partition(": ")[0]
    return ""
