"""What Ray runs on a node: tfgpu, in the Python that runs Ray there."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import psutil

from tfgpu_doctor.fleet.collect.task import LARGEST, why_it_failed
from tfgpu_doctor.probes.process import run


def answer(arguments: Sequence[str], timeout: float) -> tuple[list[bytes], str]:
    """Run tfgpu with these arguments, and return the lines that it wrote, and why there are none."""
    lines: list[bytes] = []
    size = 0

    def take(text: str) -> None:
        nonlocal size
        size += len(text)
        if size <= LARGEST:
            lines.append(text.encode())

    argv = [sys.executable, "-m", "tfgpu_doctor", *arguments]
    done = run(argv, timeout=timeout, env=environment(), on_line=take)
    if done.timed_out:
        return [], f"did not answer within {timeout:g} s"
    if size > LARGEST:
        return [], f"its output is larger than {LARGEST >> 20} MiB"
    if done.error:
        return [], f"{sys.executable} cannot be started: {done.error}"
    return lines, why_it_failed(done.returncode, done.stderr, sys.executable)


def environment() -> dict[str, str]:
    """The variables that this process was started with.

    For a task without CPUs and GPUs, Ray sets OMP_NUM_THREADS=1 (ray/_private/utils.py, set_omp_num_threads_if_unset),
    and before Ray 2.50 also CUDA_VISIBLE_DEVICES="" (set_visible_accelerator_ids): in the process itself, after its
    start. tfgpu is to see the GPUs and the threads of the node.
    """
    try:
        return psutil.Process().environ() or dict(os.environ)
    except psutil.Error:
        return {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES" or value}
