"""What runs on a node of Ray: tfgpu, in the Python of Ray's worker."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping, Sequence

import psutil

from tfgpu_doctor.fleet.collect.task import GRACE, LARGEST, why_it_failed
from tfgpu_doctor.probes.process import FLOOD, run
from tfgpu_doctor.probes.programs import find
from tfgpu_doctor.records.printable import utf8


def answer(arguments: Sequence[str], timeout: float) -> tuple[list[bytes], str]:
    """Run tfgpu with these arguments, and return the lines that it wrote, and why there are none."""
    lines: list[bytes] = []
    size = 0

    def take(text: str) -> None:
        nonlocal size
        size += len(text)
        if size <= LARGEST:
            lines.append(utf8(text))

    environ = environment()
    argv = [*_bounded(timeout, environ), sys.executable, "-m", "tfgpu_doctor", *arguments]
    done = run(argv, timeout=timeout, env=environ, on_line=take)
    if done.flooded:
        return [], f"its output is larger than {FLOOD / 1e6:.0f} MB"
    if done.timed_out:
        return [], f"did not answer within {timeout:g} s"
    if size > LARGEST:
        return [], f"its output is larger than {LARGEST >> 20} MiB"
    if done.error:
        return [], f"{sys.executable} cannot be started: {done.error}"
    if done.signal_name:
        return lines, f"was killed by {done.signal_name}"
    return lines, why_it_failed(done.returncode, done.stderr, sys.executable)


def _bounded(timeout: float, environ: Mapping[str, str]) -> list[str]:
    """The program `timeout`, so that what hangs has an end, too, where this process is killed: with Ray, or by it."""
    program = find("timeout", environ) if os.name == "posix" else None
    return [program, "-k", f"{GRACE:.0f}", str(math.ceil(timeout + GRACE))] if program else []


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
