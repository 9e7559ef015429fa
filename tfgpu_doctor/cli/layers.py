"""The compatibility matrix: the bundled one, with overlays from TFGPU_MATRIX and --matrix."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from tfgpu_doctor.cli.options import option

if TYPE_CHECKING:
    from tfgpu_doctor.matrix.loader import Matrix

matrix_option = option(
    "--matrix",
    "matrix_file",
    metavar="FILE",
    type=click.Path(),
    help="File with rows that extend or replace those of the bundled matrix.  [default: $TFGPU_MATRIX]",
)


class RefusedLayerError(click.UsageError):
    """What is wrong with a layer; each of the messages is shown on a line of its own."""

    def __init__(self, messages: tuple[str, ...]) -> None:
        """Refuse it."""
        super().__init__("\n".join(messages))
        self.messages = messages


def load_matrix(path: str | None) -> Matrix:
    """Load the matrix. TFGPU_MATRIX may list several files, separated as in PATH; `path` is applied after them.

    Raises click.UsageError: an overlay is not valid.
    """
    from tfgpu_doctor.matrix.loader import Matrix, MatrixError

    layers = [file for file in os.environ.get("TFGPU_MATRIX", "").split(os.pathsep) if file]
    try:
        return Matrix.load(*layers, path)
    except MatrixError as error:
        where = [("TFGPU_MATRIX: " if str(message).startswith(tuple(layers)) else "") for message in error.args]
        raise RefusedLayerError(tuple(f"{name}{text}" for name, text in zip(where, error.args, strict=True))) from error
