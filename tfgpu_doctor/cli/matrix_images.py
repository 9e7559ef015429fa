"""`tfgpu matrix container`, `jetpack` and `about`: what an image or a JetPack holds, and the matrix itself."""

from __future__ import annotations

import click

from tfgpu_doctor.cli.matrix_answers import Reply, shared_options, sheets, usage_errors
from tfgpu_doctor.cli.options import define_command
from tfgpu_doctor.cli.values import CONTAINER_TAG, JETPACK_VERSION

_SHEETS = "matrix_images"


@define_command(
    "container",
    short_help="A container image: TensorFlow, CUDA, cuDNN, drivers.",
    epilog="Example: tfgpu matrix container tensorflow/tensorflow:2.15.0-gpu",
)
@click.argument("image", metavar="[IMAGE:TAG]", required=False, type=CONTAINER_TAG)
@shared_options
def container(image: str | None, reply: Reply) -> None:
    """Show what a container image holds by its tag, and the drivers and GPUs that it needs.

    IMAGE:TAG is one of tensorflow/tensorflow, nvcr.io/nvidia/tensorflow, nvcr.io/nvidia/l4t-tensorflow or nvidia/cuda;
    without it, those with TensorFlow are listed. Nothing is downloaded.
    """
    from tfgpu_doctor.lookup.containers import container_answer

    matrix = reply.matrix
    if image is None:
        every = [container_answer(matrix, f"{row.image}:{row.tag}") for row in matrix.data.containers]
        reply.give(every, sheets(_SHEETS).containers(every))
        return
    with usage_errors():
        answer = container_answer(matrix, image)
    reply.give(answer, sheets(_SHEETS).container(answer))


@define_command(
    "jetpack",
    short_help="A JetPack of Jetson modules: CUDA, cuDNN, NVIDIA's TensorFlow.",
    epilog="Examples: tfgpu matrix jetpack 6.1; tfgpu matrix jetpack R35.4.1",
)
@click.argument("version", metavar="[VERSION]", required=False, type=JETPACK_VERSION)
@shared_options
def jetpack(version: str | None, reply: Reply) -> None:
    """Show the CUDA and cuDNN of a JetPack, its Jetson modules, and NVIDIA's TensorFlow wheels and images for it.

    VERSION is a JetPack such as 6.1, or its Jetson Linux such as R36.4; without it, all are listed.
    """
    from tfgpu_doctor.lookup.jetpacks import find_jetpack, jetpack_answer

    matrix = reply.matrix
    if version is None:
        every = [jetpack_answer(matrix, row) for row in matrix.data.jetpacks]
        reply.give(every, sheets(_SHEETS).jetpacks(every))
        return
    with usage_errors():
        answer = jetpack_answer(matrix, find_jetpack(matrix, version))
    reply.give(answer, sheets(_SHEETS).jetpack(answer))


@define_command(
    "about",
    short_help="The matrix itself: rows, date and sources of each table.",
    epilog="Examples: tfgpu matrix about; tfgpu matrix --about --format json",
)
@shared_options
def about(reply: Reply) -> None:
    """Show how many rows each table of the matrix has, when it was last held to its sources, and which these are."""
    from tfgpu_doctor.lookup.about import about as describe

    answer = describe(reply.matrix)
    reply.give(answer, sheets(_SHEETS).about(answer))
