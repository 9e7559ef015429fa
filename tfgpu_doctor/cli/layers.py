"""Which matrix judges: the bundled one, with the files of TFGPU_MATRIX and of --matrix laid over it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tfgpu_doctor.matrix.loader import Matrix

matrix_option = click.option(
    "--matrix",
    "matrix_file",
    metavar="FILE",
    type=click.Path(),
    help="Rows to lay over the bundled compatibility matrix.  [default: $TFGPU_MATRIX]",
)


def load_matrix(path: str | None) -> Matrix:
    """Load the matrix; what is wrong with it is wrong usage.

    TFGPU_MATRIX may name several files, separated as in PATH; `path` comes on top of them.
    """
    from tfgpu_doctor.matrix.loader import Matrix, MatrixError

    layers = [file for file in os.environ.get("TFGPU_MATRIX", "").split(os.pathsep) if file]
    try:
        return Matrix.load(*layers, path)
    except MatrixError as error:
        raise click.UsageError(str(error)) from error
