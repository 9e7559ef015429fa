"""What the matrix says of a Python version: the TensorFlow releases that have a wheel for it. Pure."""

from __future__ import annotations

from msgspec import field

from tfgpu_doctor.lookup.releases import Filters, QueryError, releases
from tfgpu_doctor.lookup.working import newest_working
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.plan.constraints import PlanRequest
from tfgpu_doctor.plan.target import Target
from tfgpu_doctor.records.facts import Record
from tfgpu_doctor.records.versions import numbers


class PythonAnswer(Record, frozen=True, kw_only=True):
    """A Python version."""

    python: str
    platform: str  # of the releases below
    newest_tensorflow: str | None  # of package tensorflow; None: there is none
    newest_with_gpu: str | None  # that uses the GPU, of any package
    passed_over: dict[str, str] = field(default_factory=dict)  # newer releases with GPU → their bug
    tensorflow: tuple[str, ...]  # newest first
    with_gpu: tuple[str, ...]  # newest first


def python_answer(matrix: Matrix, python: str, platform: str = "linux_x86_64") -> PythonAnswer:
    """Look a version ("3.12") up. Raises QueryError: no release of TensorFlow has a wheel for it anywhere."""
    known = pythons(matrix)
    if python not in known:
        raise QueryError(
            f"no TensorFlow release in the matrix has a wheel for Python {python}; there are wheels for "
            f"{', '.join(known)}"
        )
    rows = releases(matrix, Filters(platform=platform, python=python))
    with_gpu = releases(matrix, Filters(platform=platform, python=python, gpu_only=True))
    newest, bugs = newest_working(PlanRequest(matrix, Target(python=python)), with_gpu)
    return PythonAnswer(
        python=python,
        platform=platform,
        newest_tensorflow=next((row.version for row in rows if not row.yanked), None),
        newest_with_gpu=newest,
        passed_over=bugs,
        tensorflow=tuple(dict.fromkeys(row.version for row in rows)),
        with_gpu=tuple(dict.fromkeys(row.version for row in with_gpu)),
    )


def pythons(matrix: Matrix) -> tuple[str, ...]:
    """Every Python that a release has a wheel for, newest first."""
    every = {python for row in matrix.data.tensorflow for wheel in row.wheels.values() for python in wheel.python}
    return tuple(sorted(every, key=numbers, reverse=True))
