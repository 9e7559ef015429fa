"""`tfgpu matrix cuda`, `cudnn` and `find`: rows by their version or name."""

from __future__ import annotations

import click

from tfgpu_doctor.cli.matrix_answers import Reply, shared_options, sheets, usage_errors, version_argument
from tfgpu_doctor.cli.options import define_command
from tfgpu_doctor.cli.values import CUDA_VERSION, CUDNN_VERSION, MATRIX_KEY


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
    "find",
    short_help="A row of another table: images, JetPacks, known bugs, instances.",
    epilog="Examples: tfgpu matrix find; tfgpu matrix find tensorflow/tensorflow:2.15.0-gpu; tfgpu matrix find R36.4",
)
@click.argument("words", metavar="[KEY]", nargs=-1, type=MATRIX_KEY)
@shared_options
def find(words: tuple[str, ...], reply: Reply) -> None:
    """Show the rows that are called KEY, of any table, with their sources.

    KEY is an image with its tag, a JetPack (6.1) or its Jetson Linux (R36.4), an instance type, the id of a known bug,
    a package, or the beginning of one of these. Without it, the tables are listed, with their rows, dates and sources.
    """
    from tfgpu_doctor.lookup.about import about
    from tfgpu_doctor.lookup.find import find as find_rows

    if not words:
        tables = about(reply.matrix)
        reply.give(tables, sheets("matrix_tables").about(tables))
        return
    key = " ".join(words)
    with usage_errors():
        found = find_rows(reply.matrix, key)
    reply.give(found, sheets("matrix_tables").rows(key, found))
