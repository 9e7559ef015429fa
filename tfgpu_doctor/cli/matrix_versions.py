"""`tfgpu matrix cuda`, `cudnn`, `driver` and `python`: what fits to a version of one of them."""

from __future__ import annotations

from tfgpu_doctor.cli.matrix_answers import Reply, shared_options, sheets, usage_errors, version_argument
from tfgpu_doctor.cli.options import define_command
from tfgpu_doctor.cli.target import platform_options, read_driver_on, read_platform
from tfgpu_doctor.cli.values import CUDA_VERSION, CUDNN_VERSION, DRIVER_VERSION, PYTHON_VERSION


@define_command(
    "cuda",
    short_help="A CUDA toolkit: drivers and compute capabilities.",
    epilog="Example: tfgpu matrix cuda 12.5",
)
@version_argument(CUDA_VERSION)
@shared_options
def cuda(version: str | None, reply: Reply) -> None:
    """Show the drivers and compute capabilities of a CUDA toolkit, and the TensorFlow releases built for it.

    VERSION is a toolkit, such as 12.5 or 12.5.1; without it, all are listed.
    """
    from tfgpu_doctor.lookup.cuda_cudnn import cuda_answer, find_cuda

    matrix = reply.matrix
    if version is None:
        every = [cuda_answer(matrix, row) for row in matrix.data.cuda]
        reply.give(every, sheets().cudas(every))
        return
    with usage_errors():
        answer = cuda_answer(matrix, find_cuda(matrix, version), version)
    reply.give(answer, sheets().cuda(answer))


@define_command(
    "cudnn",
    short_help="A cuDNN version: CUDA versions, oldest GPUs.",
    epilog="Example: tfgpu matrix cudnn 9.3",
)
@version_argument(CUDNN_VERSION)
@shared_options
def cudnn(version: str | None, reply: Reply) -> None:
    """Show the CUDA versions and oldest GPUs that a cuDNN version supports, and the TensorFlow releases built for it.

    VERSION is a cuDNN version, such as 9.3 or 9.3.0.75; without it, all are listed.
    """
    from tfgpu_doctor.lookup.cuda_cudnn import cudnn_answer, find_cudnn

    matrix = reply.matrix
    if version is None:
        every = [cudnn_answer(matrix, row) for row in matrix.data.cudnn]
        reply.give(every, sheets().cudnns(every))
        return
    with usage_errors():
        answer = cudnn_answer(matrix, find_cudnn(matrix, version))
    reply.give(answer, sheets().cudnn(answer))


@define_command(
    "driver",
    short_help="An NVIDIA driver: its GPUs, CUDA, TensorFlow releases.",
    epilog="Examples: tfgpu matrix driver 470; tfgpu matrix driver 552.74 --os windows",
)
@version_argument(DRIVER_VERSION)
@platform_options()
@shared_options
def driver(version: str | None, os: str | None, machine: str | None, platform: str | None, reply: Reply) -> None:
    """Show the GPUs and the CUDA version that an NVIDIA driver supports, and the TensorFlow releases that run on it.

    VERSION is a driver such as 570.86.10, or a branch such as 570; without it, all known branches are listed.
    """
    from tfgpu_doctor.lookup.drivers import all_drivers, driver_answer

    where = read_platform(os, machine, platform) or "linux_x86_64"
    matrix, page = reply.matrix, sheets("matrix_versions")
    if version is None:
        every = all_drivers(matrix, where)
        reply.give(every, page.drivers(every))
        return
    with usage_errors():
        answer = driver_answer(matrix, read_driver_on(where.partition("_")[0], version, matrix), where)
    reply.give(answer, page.driver(answer))


@define_command(
    "python",
    short_help="A Python version: TensorFlow releases with a wheel for it.",
    epilog="Examples: tfgpu matrix python 3.12; tfgpu matrix python 3.13 --os windows",
)
@version_argument(PYTHON_VERSION)
@platform_options()
@shared_options
def python(version: str | None, os: str | None, machine: str | None, platform: str | None, reply: Reply) -> None:
    """Show the TensorFlow releases that have a wheel for a Python version.

    VERSION is such as 3.12; without it, all are listed.
    """
    from tfgpu_doctor.lookup.pythons import python_answer, pythons
    from tfgpu_doctor.plan.target import read_python

    where = read_platform(os, machine, platform) or "linux_x86_64"
    matrix, page = reply.matrix, sheets("matrix_versions")
    if version is None:
        every = [python_answer(matrix, one, where) for one in pythons(matrix)]
        reply.give(every, page.pythons(every))
        return
    with usage_errors():
        answer = python_answer(matrix, read_python(version), where)
    reply.give(answer, page.python(answer))
