"""What the matrix says of a JetPack, the system of Jetson modules: CUDA, cuDNN, NVIDIA's TensorFlow for it. Pure."""

from __future__ import annotations

import re

from tfgpu_doctor.lookup.releases import QueryError
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.matrix.rows import spelled_out
from tfgpu_doctor.matrix.schema import JetPack
from tfgpu_doctor.records.facts import Record
from tfgpu_doctor.records.versions import numbers, padded

_VERSION = re.compile(r"(?P<l4t>l4t[ -]?r?|r)?(?:jetpack[ -]?)?(?P<version>\d{1,3}(?:\.\d{1,3}){0,3})", re.IGNORECASE)
_FIRST_L4T = 20  # JetPack's own numbers are far below


class JetPackAnswer(Record, frozen=True, kw_only=True):
    """A JetPack. None is unknown."""

    version: str
    l4t: str
    cuda: str | None
    cudnn: str | None
    ubuntu: str
    python: str
    compute_capabilities: tuple[str, ...]
    gpus: tuple[str, ...]  # modules by name
    wheels: dict[str, str]  # TensorFlow → the command that installs NVIDIA's wheel, newest first
    images: tuple[str, ...]
    sources: dict[str, str]


def jetpack_answer(matrix: Matrix, row: JetPack) -> JetPackAnswer:
    """Join a JetPack with the modules that it is for."""
    return JetPackAnswer(
        version=row.version,
        l4t=row.l4t,
        cuda=row.cuda,
        cudnn=row.cudnn,
        ubuntu=row.ubuntu,
        python=row.python,
        compute_capabilities=row.compute_capabilities,
        gpus=tuple(
            name
            for group in matrix.data.gpus
            for name in group.names
            if group.compute_capability in row.compute_capabilities and name.startswith("Jetson")
        ),
        wheels={one.tensorflow: one.command for one in row.wheels},
        images=tuple(f"nvcr.io/nvidia/l4t-tensorflow:{tag}" for tag in row.images),
        sources={"cuda": spelled_out(matrix.data, row.source)},
    )


def find_jetpack(matrix: Matrix, text: str) -> JetPack:
    """The row of "6.1", "JetPack 5.1.2", "R36.4" or "L4T 35.4.1".

    Raises QueryError: no version, or none that the matrix has.
    """
    found = _VERSION.fullmatch(text.strip())
    if found is None:
        raise QueryError(f"{text.strip()[:80]!r} is not a JetPack such as 6.1, nor an L4T such as R36.4")
    version = found["version"]
    is_l4t = found["l4t"] is not None or numbers(version)[0] >= _FIRST_L4T
    row = for_l4t(matrix, version) if is_l4t else _nearest(matrix, version)
    if row is None:
        known = ", ".join(one.l4t if is_l4t else one.version for one in matrix.data.jetpacks)
        raise QueryError(f"unknown {'L4T' if is_l4t else 'JetPack'} {version}; the matrix knows {known}")
    return row


def for_l4t(matrix: Matrix, l4t: str) -> JetPack | None:
    """The JetPack of an L4T: "35.3.1", or the newest of "35"."""
    wanted = numbers(l4t)
    exact = (row for row in matrix.data.jetpacks if padded(row.l4t) == padded(l4t))
    series = (row for row in matrix.data.jetpacks if numbers(row.l4t)[: len(wanted)] == wanted)
    return next(exact, None) or next(series, None)


def _nearest(matrix: Matrix, version: str) -> JetPack | None:
    """The row of a version, or the newest of a series ("5.1" where there is no such row)."""
    rows = {row.version: row for row in matrix.data.jetpacks}
    wanted = numbers(version)
    series = (row for row in matrix.data.jetpacks if numbers(row.version)[: len(wanted)] == wanted)
    return rows.get(version) or next(series, None)
