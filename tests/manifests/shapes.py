"""Projects as public repositories have them (shapes.yaml), and what an expert says of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.tables import read_rows


@dataclass(frozen=True)
class Shape:
    """Files of a project, what `tfgpu check` is given, and what its answer must and must not contain."""

    files: dict[str, str]
    named: tuple[str, ...]
    says: tuple[str, ...]
    never: tuple[str, ...] = ()


SHAPES = {name: Shape(**row) for name, row in read_rows(Path(__file__).with_suffix(".yaml")).items()}
