"""What the steps of a smoke test compute: the jobs of the benchmarks, in sizes that take a second."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

from tfgpu_doctor.bench.jobs import Job, Scalar
from tfgpu_doctor.bench.plans.base import Reference
from tfgpu_doctor.bench.plans.cnn import Cnn
from tfgpu_doctor.bench.plans.matpow import MatPow
from tfgpu_doctor.bench.session import Plan
from tfgpu_doctor.smoke.plan import Step

# Rows of the matrices. A GPU needs about 4096 to come near its peak (2.5 TFLOP a sample: 40 ms at 60 TFLOP/s); two CPU
# cores need 0.1 s for 1024. float64 has half the rows: GPUs that are made for graphics do 1/64 of float32 in it.
GPU_SIZE, CPU_SIZE = 4096, 1024

BATCH = 64  # images on each device
VIRTUAL_MIB = 1536  # of a logical GPU, which serves all workloads: the first of them sets it
# The type of a training beside that of a product; nobody trains in float64.
CNN_TYPES = {
    "float32": "float32",
    "tf32": "tf32",
    "float64": "float32",
    "float16": "mixed_float16",
    "bfloat16": "mixed_bfloat16",
}


class Jobs:
    """Makes the job of a step. Use as a context manager: references are kept in files, which leaving removes."""

    def __init__(self, dtype: str) -> None:
        """For arithmetic in one of the types of matpow."""
        self._dtype = dtype
        self._stack = ExitStack()
        self._reference = self._stack.enter_context(Reference())
        self._make: dict[str, Callable[[Step], Job]] = {"matpow": self._matpow_job, "cnn": self._cnn_job}
        self._plans: dict[str, Callable[[Step], Plan]] = {"matpow": self._matpow, "cnn": lambda _: Cnn(batch=BATCH)}

    def of(self, step: Step) -> Job:
        """What the step computes."""
        job = self._make[step.workload](step)
        return replace(job, virtual_memory_mib=VIRTUAL_MIB)

    def parameters(self, step: Step) -> dict[str, Scalar]:
        """What two results of the step must share, as the benchmark of its workload says it."""
        return self._plans[step.workload](step).parameters()

    def _matpow(self, step: Step) -> MatPow:
        size = GPU_SIZE if step.case.gpus else CPU_SIZE
        size = size // 2 if self._dtype == "float64" else size
        return MatPow(size=size, dtypes=(self._dtype,), chosen=size)

    def _matpow_job(self, step: Step) -> Job:
        plan = self._matpow(step)
        return plan.job(self._dtype, plan.chosen, self._reference, 2)

    def _cnn_job(self, step: Step) -> Job:
        job = Cnn(batch=BATCH).job(CNN_TYPES[self._dtype], step.case)
        return replace(job, figures=False)  # what `fit` needs beside it takes longer than all the rest

    def __enter__(self) -> Jobs:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()
