"""What `tfgpu install` keeps and answers, and why it made nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from tfgpu_doctor.plan.records import Option
from tfgpu_doctor.records.about import public
from tfgpu_doctor.records.facts import Document, Record
from tfgpu_doctor.records.printable import cut
from tfgpu_doctor.records.report import EXIT_PROBLEM, EXIT_UNKNOWN, EXIT_USAGE, MatrixInfo, Report, Tool

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


# What pip, uv and conda print where the index or a proxy does not answer, or its certificate is not trusted.
_UNREACHABLE = re.compile(
    r"failed to establish a new connection|name resolution|name or service not known|network is unreachable"
    r"|connection (?:refused|reset|timed out|aborted)|max retries exceeded|read timed out|operation timed out|"
    r"error sending request|dns error|tcp connect error|cannot connect to proxy|certificate_verify_failed"
    r"|invalid peer certificate|sslerror|network connectivity|could not connect|CondaHTTPError|ConnectionFailed"
    r"|request failed after \d+ retr(?:y|ies)|HTTP (?:status|error):? ?\(?(?:401|403|407|5\d\d)",
    re.IGNORECASE,
)
_FULL = re.compile(r"no space left on device|disk quota exceeded|os error (?:28|122)\b", re.IGNORECASE)


class InstallError(Exception):
    """The installation cannot go on; the message says why and what to do, `code` is the exit code."""

    code = EXIT_PROBLEM


class RefusedError(InstallError):
    """No plan, no interpreter, no room: there is nothing to install, or nowhere."""


class FolderError(InstallError):
    """The folder that was named cannot become an environment."""

    code = EXIT_USAGE


class ToolError(InstallError):
    """The program that --method names is not here, or not for this release."""

    code = EXIT_USAGE


class CommandError(InstallError):
    """A program failed; `output` is what it wrote, and says why if `explained`."""

    def __init__(self, what: str, ended: str, output: str, *, timed_out: bool = False) -> None:
        """Describe it: `what` was to be done, and how it `ended`."""
        # what a program prints explains its exit code; one that was ended had gone on after it
        self.explained = ended.startswith("exit code")
        super().__init__(f"{what} failed: {_why(ended, output) if self.explained else ended}")
        self.output = output
        if timed_out or (self.explained and _UNREACHABLE.search(output)):
            self.code = EXIT_UNKNOWN


class UnprovenError(InstallError):
    """The environment was made and does not work; `proof` says what was found."""

    def __init__(self, message: str, proof: Proof) -> None:
        """Describe it."""
        super().__init__(message)
        self.proof = proof


def _why(ended: str, output: str) -> str:
    if full := _FULL.search(output):
        begin, end = output.rfind("\n", 0, full.start()) + 1, output.find("\n", full.end())
        return f"the disk is full: {cut(output[begin : end if end >= 0 else None].strip(), 300)}"
    if found := _UNREACHABLE.search(output):
        of_python = "Failed to install cpython" in output  # by uv, from another host
        where = "the download of Python" if of_python else "the package index"
        mirror = "; UV_PYTHON_INSTALL_MIRROR names a mirror" if of_python else ""
        return f"{where} cannot be reached ({found[0]}); see --help for proxies and certificates{mirror}"
    return ended
