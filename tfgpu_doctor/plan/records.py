"""What `tfgpu plan` answers: ranked options, the packages of NVIDIA's that pip brings, and what rules the rest out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from msgspec import field
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tfgpu_doctor.facts.facts import Document, Record
from tfgpu_doctor.facts.report import Fix, MatrixInfo, Tool
from tfgpu_doctor.facts.versions import minor
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.plan.constraints import Violation
from tfgpu_doctor.plan.target import Target

SCHEMA = "tfgpu.plan/1"
# as-is: nothing has to change; python, driver: that has to; the others are other ways to install it
Kind: TypeAlias = Literal[
    "as-is", "python", "driver", "python+driver", "container", "conda-forge", "wsl2", "pre-release", "cpu"
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
        """Whether the first option uses a GPU."""
        return bool(self.options) and self.options[0].kind != "cpu"


def delivered(matrix: Matrix, row: Release, requirements: Iterable[str]) -> Delivered | None:
    """What pip brings for requirements on the day of the matrix's revision; None: not all of it is known."""
    asked = [Requirement(text) for text in requirements]
    has_extra = any(row.extra in one.extras for one in asked)
    pins = {name: SpecifierSet(pin) for name, pin in row.pip_nvidia.items() if has_extra}
    for one in asked:
        pins[one.name] = pins.get(one.name, SpecifierSet()) & one.specifier
    known = {one.package: one.versions for one in matrix.data.nvidia}
    packages = {}
    for name, specifier in pins.items():
        if name.startswith("nvidia-"):
            newest = next((one for one in reversed(known.get(name, ())) if specifier.contains(one)), None)
            if newest is None:
                return None
            packages[name] = newest

    def version_of(prefix: str) -> str | None:
        return next((minor(version) for name, version in packages.items() if name.startswith(prefix)), None)

    runtime = version_of("nvidia-cuda-runtime-")
    return Delivered(cuda=runtime, cudnn=version_of("nvidia-cudnn-"), packages=packages) if runtime else None


def older_than_five_years(matrix: Matrix, released: str | None) -> bool:
    """Whether a release was that old on the day of the matrix's revision; an unknown day is not."""
    return released is not None and released < f"{int(matrix.revision[:4]) - 5}{matrix.revision[4:10]}"
