"""What an installation did and found: the file tfgpu-install.json of an environment. Schema tfgpu.install/1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from tfgpu_doctor.plan.records import Option
from tfgpu_doctor.records.about import public
from tfgpu_doctor.records.fact import Document
from tfgpu_doctor.records.facts import Record
from tfgpu_doctor.records.report import MatrixInfo, Report, Tool

SCHEMA: Literal["tfgpu.install/1"] = "tfgpu.install/1"
MANIFEST = "tfgpu-install.json"  # within the environment
LOCK = "tfgpu-lock.txt"
REPORT = "tfgpu-report.json"  # of the doctor; tfgpu compare shows what has changed since

Method: TypeAlias = Literal["uv", "pip", "conda"]
StepState: TypeAlias = Literal["ok", "warning", "failed", "skipped"]


class Added(Record, frozen=True):
    """A file that was added to what the packages bring."""

    path: str  # relative to the environment
    kind: Literal["link", "module", "pth", "file"]
    why: str


class Step(Record, frozen=True):
    """One check of the finished environment, and how it ended."""

    name: str  # "pip check", "files", "import", "keras", "libraries", "doctor"
    state: StepState
    text: str
    seconds: float


@dataclass(frozen=True)
class Proof:
    """Whether an environment works, as far as this machine can tell."""

    steps: tuple[Step, ...]
    report: Report | None = None  # the doctor's; None: it did not come that far

    @property
    def ok(self) -> bool:
        """Whether no step has failed; a warning is no failure (an image is built without a GPU)."""
        return all(step.state != "failed" for step in self.steps)


class Package(Record, frozen=True):
    """One distribution that the resolver has chosen."""

    name: str
    version: str
    file: str | None = (
        None  # name of the wheel, or of the archive that it was built from; None: the resolver does not say
    )
    size: int | None = None  # bytes of the wheel; None: the resolver does not say
    hashes: tuple[str, ...] = ()  # "sha256:..."


class Ran(Record, frozen=True):
    """A command that was run, and how it ended."""

    argv: tuple[str, ...]
    returncode: int | None
    seconds: float


class Manifest(Document, frozen=True):
    """All that an installation did."""

    schema: Literal["tfgpu.install/1"]
    tool: Tool
    matrix: MatrixInfo
    created: Annotated[str, public("created")]  # UTC
    seconds: float
    method: Method
    prefix: str
    interpreter: str  # that the environment was made with
    python: str  # "3.12.1"
    option: Option  # of the plan
    requirements: tuple[str, ...]  # what the resolver was asked for
    packages: tuple[Package, ...]
    commands: tuple[Ran, ...]
    added: tuple[Added, ...]
    steps: tuple[Step, ...]  # of the proof
