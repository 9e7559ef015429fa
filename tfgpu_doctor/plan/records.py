"""What `tfgpu plan` answers: ranked options, what rules the rest out, and what to give up where nothing fits."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import field

from tfgpu_doctor.plan.constraints import Violation
from tfgpu_doctor.plan.target import Target
from tfgpu_doctor.records.fact import Document
from tfgpu_doctor.records.facts import Record
from tfgpu_doctor.records.report import Fix, MatrixInfo, Tool

SCHEMA = "tfgpu.plan/1"
# as-is: nothing has to change; python, driver: that has to; the others are other ways to install it
Kind: TypeAlias = Literal[
    "as-is", "python", "driver", "python+driver", "container", "conda-forge", "wsl2", "pre-release", "metal", "cpu"
]


class Delivered(Record, frozen=True, kw_only=True):
    """What pip brings on the day of the matrix's revision."""

    cuda: str  # "12.9"
    cudnn: str | None
    packages: dict[str, str]  # distribution of NVIDIA's → version


class Option(Record, frozen=True, kw_only=True):
    """One way to a TensorFlow that uses the GPU."""

    kind: Kind
    title: str  # "TensorFlow 2.20.0 with Python 3.12"
    tensorflow: str
    package: str  # distribution, or what brings it ("nvcr.io/nvidia/tensorflow", "conda-forge")
    python: str | None
    cuda: str | None  # that it is built with
    cudnn: str | None
    min_driver: str | None  # for the target's operating system; None: unknown
    released: str | None = None  # "2025-08-13"; None: unknown
    pythons: tuple[str, ...] = ()  # that would do as well
    delivered: Delivered | None = None  # by pip; None: unknown, or not from pip
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

    def in_brief(self) -> str:
        """The first option."""
        return self.options[0].title if self.options else "no release matches"

    @property
    def is_found(self) -> bool:
        """Whether the first option uses the GPU that it was asked for; that of a Mac is not the one that was named."""
        first = self.options[0].kind if self.options else "cpu"
        return first != "cpu" and not (first == "metal" and self.target.gpus)
