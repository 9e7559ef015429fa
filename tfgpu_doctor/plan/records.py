"""What `tfgpu plan` answers: ranked options, and what rules the rest out."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import field

from tfgpu_doctor.facts.facts import Document, Record
from tfgpu_doctor.facts.report import Fix, MatrixInfo, Tool
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.plan.constraints import Violation
from tfgpu_doctor.plan.target import Target

SCHEMA = "tfgpu.plan/1"
# as-is: nothing has to change; python, driver: that has to; the others are other ways to install it
Kind: TypeAlias = Literal[
    "as-is", "python", "driver", "python+driver", "container", "conda-forge", "jetpack", "wsl2", "pre-release", "cpu"
]


class Option(Record, frozen=True, kw_only=True):
    """One way to a TensorFlow that uses the GPU."""

    kind: Kind
    title: str  # "TensorFlow 2.20.0 with Python 3.12"
    tensorflow: str
    package: str  # distribution, or what brings it ("nvcr.io/nvidia/tensorflow", "conda-forge")
    python: str | None
    cuda: str | None = None  # that it is built with
    cudnn: str | None = None
    min_driver: str | None = None  # for the target's operating system; None: unknown
    released: str | None = None  # "2025-08-13"; None: unknown
    pythons: tuple[str, ...] = ()  # that would do as well
    first: tuple[Fix, ...] = ()  # what has to be done before
    missing: tuple[Fix, ...] = ()  # how to get the programs that the commands start
    commands: dict[str, tuple[str, ...]] = field(default_factory=dict)  # "pip", "uv", "conda", "docker" → commands
    then: tuple[Fix, ...] = ()
    notes: tuple[str, ...] = ()
    see: str | None = None  # a page to read
    sources: tuple[str, ...] = ()


class RuledOut(Record, frozen=True, kw_only=True):
    """Releases that the same constraints rule out."""

    versions: tuple[str, ...]  # newest first
    violations: tuple[Violation, ...]


class Plan(Document, frozen=True, kw_only=True):
    """The answer."""

    schema: str
    tool: Tool
    matrix: MatrixInfo
    target: Target
    described: bool  # by options; else this machine, or a saved report
    tensorflow: str | None  # specifier that was asked for
    problems: tuple[str, ...]  # what is wrong whatever the release
    options: tuple[Option, ...]  # best first
    ruled_out: tuple[RuledOut, ...]  # every release newer than that of the best option, newest first
    last_driver_branch: str | None = None  # of the target's GPUs; None: they are still supported, or none is given

    @property
    def is_found(self) -> bool:
        """Whether the first option uses a GPU."""
        return bool(self.options) and self.options[0].kind != "cpu"


def older_than_five_years(matrix: Matrix, released: str | None) -> bool:
    """Whether a release was that old on the day of the matrix's revision; an unknown day is not."""
    return released is not None and released < f"{int(matrix.revision[:4]) - 5}{matrix.revision[4:10]}"
