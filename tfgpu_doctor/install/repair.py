"""Repairs an environment: the doctor, the first of its fixes that stays within the environment, the doctor again.

What is executed is what the doctor prints, see :mod:`tfgpu_doctor.install.allowed`; instead of an `export` there are
links, see :mod:`tfgpu_doctor.install.library_paths`. What is started is recorded, so that the next run can finish it.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import msgspec

from tfgpu_doctor.diagnosis.reports import make_report
from tfgpu_doctor.files import claims, writing
from tfgpu_doctor.files.reading import read_whole, why
from tfgpu_doctor.install import allowed
from tfgpu_doctor.install.commands import INSTALL, Commands
from tfgpu_doctor.install.failures import CommandError, FolderError, InstallError
from tfgpu_doctor.install.folder import python_of, refuse_unfinished
from tfgpu_doctor.install.library_paths import add_library_paths
from tfgpu_doctor.install.proof import bare, judged, prove
from tfgpu_doctor.install.records import Added, Proof, RepairStep
from tfgpu_doctor.install.tools import find_uv
from tfgpu_doctor.install.variables import of_children
from tfgpu_doctor.matrix.compatibility import published_row
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.probes.examine import examine
from tfgpu_doctor.probes.tensorflow_facts import tensorflow_distribution
from tfgpu_doctor.records.distributions import ANY
from tfgpu_doctor.records.fact import compact
from tfgpu_doctor.records.facts import Facts, Known, map_fact, value_or
from tfgpu_doctor.records.report import Finding, Report, Severity

MOST_ROUNDS = 12
PENDING = ".tfgpu-repair.json"  # within the environment, while something is being done
_CLAIM = ".tfgpu-repairing"  # held by the process that repairs it
_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)
_LARGEST = 1 << 20
# findings that links within the environment remove, or a variable that is set when TensorFlow is imported
_BY_PATHS = ("cuda.lib-path", "cudnn.lib-path", "tf.known-bug", "xla.libdevice-missing", "xla.ptxas-missing")


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """What is done about one finding."""

    finding: str
    title: str
    text: str
    commands: tuple[tuple[str, ...], ...] = ()  # none: library paths are added
    added: tuple[Added, ...] = ()

    @property
    def key(self) -> tuple[str, tuple[tuple[str, ...], ...]]:
        """Equal for actions with the same effect."""
        return (self.finding, self.commands) if self.commands else ("paths", ())


class Watcher(Protocol):
    """Receives the progress of a repair, and agrees to each step."""

    def phase(self, label: str) -> None:
        """Report the progress."""

    def agrees(self, action: Action) -> bool:
        """Whether to do this."""

    def failed(self, error: str) -> None:
        """Report that a command failed."""


@dataclass(frozen=True)
class Repaired:
    """How a repair ended."""

    steps: tuple[RepairStep, ...]
    report: Report  # the last one
    proof: Proof | None  # None: nothing was done
    refused: Action | None  # that was not agreed to: the next thing to do
    unreachable: bool = False  # the package index, or the disk: it can work another time

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong with the environment, as far as this machine can tell.

        Packages that have nothing to do with TensorFlow can contradict each other: pip check alone is no failure.
        """
        failed = {step.name for step in self.proof.steps if step.state == "failed"} if self.proof else set[str]()
        return failed <= {"pip check"} and judged(self.report)[0] != "failed"


@dataclass
class Repairing:
    """One repair of the environment in `prefix`."""

    prefix: Path
    matrix: Matrix
    watcher: Watcher
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    commands: Commands = field(init=False)

    def __post_init__(self) -> None:
        """Check that the folder is an environment. Raises FolderError: it is none, or may not be changed."""
        self.python = _interpreter(self.prefix)
        self._temporary = self.prefix / f".tfgpu-temporary-{secrets.token_hex(4)}"  # a new one: it is removed again
        self.commands = Commands(of_children(self.environ, os.getcwd(), str(self._temporary)))
        self._steps: list[RepairStep] = []
        self._tried: set[tuple[object, ...]] = set()
        self._unreachable = False

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other repairs of the same environment away. Raises FolderError: there is one just now."""
        claim = claims.Claim(str(self.prefix / _CLAIM))
        try:
            claim.take()
        except claims.HeldError:
            raise FolderError(f"{self.prefix}: another tfgpu install --repair is working there") from None
        except OSError as error:
            if error.errno not in _READ_ONLY:  # there, a repair can look, and change nothing
                raise InstallError(f"{claim.path} cannot be created: {why(error)}") from error
        try:
            yield
        finally:
            claim.release(remove=True)

    def run(self) -> Repaired:
        """Do what can be done, until nothing is left or the watcher does not agree.

        Raises InstallError: the environment cannot be examined, or may not be changed.
        """
        refused = self._finish_earlier()
        report = self._examine()
        while refused is None and len(self._steps) < MOST_ROUNDS and not self._unreachable:
            action = next(self._actions(report), None)
            if action is None:
                break
            if not self.watcher.agrees(action):
                refused = action
                break
            self._do(action, report.facts)
            report = self._examine()
        proof = self._prove(report.facts) if self._steps else None
        report = proof.report if proof and proof.report else report
        return Repaired(tuple(self._steps), report, proof, refused, self._unreachable)

    # ---------------------------------------------------------------------------------------------- looking

    def _examine(self) -> Report:
        self.watcher.phase("checking the environment")
        found = examine(self.python, lambda: self.matrix, environ=bare(self.environ))
        python = found.facts.python
        if not isinstance(python.version, Known):
            raise CommandError("examining the environment", python.version.reason, "", timed_out=True)
        kind = value_or(python.environment, "")
        if value_or(python.externally_managed, False) or kind in ("system", "pyenv"):
            raise FolderError(f"{self.prefix} is the Python of the system, which tfgpu does not change (PEP 668)")
        return make_report(found.facts, self.matrix, source="live", timings=found.timings, for_any_machine=True)

    def _prove(self, facts: Facts) -> Proof | None:
        release = self.release(facts)
        if release is None:
            return None

        def on_step(name: str) -> None:
            self.watcher.phase(f"verifying: {name}")

        return prove(self.prefix, release, on_step, matrix=self.matrix, environ=self.environ)

    def release(self, facts: Facts) -> Release | None:
        """The matrix row of the TensorFlow that is installed."""
        package = tensorflow_distribution(facts.python)
        if not isinstance(package, Known):
            return None
        version = map_fact(package, lambda one: one.version)
        row = published_row(self.matrix, version, facts.python.wheel_platform, package.value.name)
        return value_or(row, None)

    def _allowed(self, facts: Facts) -> allowed.Environment:
        packages = value_or(facts.python.packages, ())
        real = os.path.realpath(self.prefix)
        outside = (one.name for one in packages if one.location and not _is_below(one.location, real))
        return allowed.Environment(
            prefix=str(self.prefix),
            pythons=allowed.names_of(str(self.prefix), value_or(facts.python.executable, self.python)),
            releases=frozenset(one.version for one in packages if one.name in ANY),
            outside=frozenset(outside),
            uv=find_uv(self.environ),
        )

    # ------------------------------------------------------------------------------------ choosing what to do

    def _actions(self, report: Report) -> Iterator[Action]:
        """The possible actions, in the order of the findings; none twice, unless packages have changed since."""
        environment = self._allowed(report.facts)
        for finding in report.findings:
            if finding.severity is Severity.NOTE or finding.possible or not finding.root_cause:
                continue
            found = (*self._paths(finding, report.facts), *_by_fixes(finding, environment))
            yield from (one for one in found if one.key not in self._tried)
        # also where no GPU is there to miss them
        yield from (one for one in self._paths(None, report.facts) if one.key not in self._tried)

    def _paths(self, finding: Finding | None, facts: Facts) -> Iterator[Action]:
        if finding and finding.id not in _BY_PATHS:
            return
        release = self.release(facts)
        if release and (lacking := add_library_paths(self.prefix, release, dry_run=True)):
            yield Action(
                finding=finding.id if finding else "cuda.lib-path",
                title=finding.title if finding else "TensorFlow does not search the folders of its CUDA libraries",
                text="Add links within the environment, so that TensorFlow finds its libraries in any shell",
                added=lacking,
            )

    def _finish_earlier(self) -> Action | None:
        """Repeat what an earlier run did not finish; returns the action if the watcher does not agree."""
        path = self.prefix / PENDING
        if not path.is_file():
            return None
        report = self._examine()
        environment = self._allowed(report.facts)
        try:
            action = msgspec.json.decode(read_whole(str(path), _LARGEST), type=Action)
        except (OSError, msgspec.DecodeError):  # it was cut off, or is not ours
            return None
        # TensorFlow itself can be what is half installed, so that its release is not seen any more
        kept = allowed.releases_of(action.commands)
        environment = replace(environment, releases=environment.releases | kept)
        if not all(allowed.is_allowed(argv, environment) for argv in action.commands):
            return None
        if not self.watcher.agrees(action):
            return action
        self._do(action, report.facts)
        return None

    # -------------------------------------------------------------------------------------------------- doing

    def _do(self, action: Action, facts: Facts) -> None:
        """Do it, and record it; the watcher is told of a failure."""
        self._tried.add(action.key)
        pending = str(self.prefix / PENDING)
        begin, before = time.monotonic(), len(self.commands.ran)
        added: tuple[Added, ...] = ()
        try:
            if action.commands:
                writing.replace(pending, compact(action))
                self._tried.discard(("paths", ()))
                if not self._install(action):
                    os.unlink(pending)
            elif release := self.release(facts):
                self.watcher.phase("adding links")
                added = add_library_paths(self.prefix, release)
        except OSError as error:
            raise InstallError(f"{self.prefix}: {why(error)}") from error
        finally:
            self._steps.append(
                RepairStep(
                    finding=action.finding,
                    title=action.title,
                    text=action.text,
                    commands=tuple(self.commands.ran[before:]),
                    added=added,
                    seconds=round(time.monotonic() - begin, 1),
                )
            )

    def _install(self, action: Action) -> bool:
        """Run the commands; returns whether only some of them succeeded."""
        done = 0
        self._temporary.mkdir()
        try:
            for argv in action.commands:
                self.watcher.phase(shown(argv))
                self.commands.run(action.text, argv, timeout=INSTALL)
                done += 1
        except CommandError as error:
            self._unreachable = error.code != InstallError.code
            self.watcher.failed(str(error))
        finally:
            shutil.rmtree(self._temporary, ignore_errors=True)
        return 0 < done < len(action.commands)


def _by_fixes(finding: Finding, environment: allowed.Environment) -> Iterator[Action]:
    for fix in finding.fixes:
        if commands := allowed.argument_lists(fix.commands, environment):
            yield Action(finding=finding.id, title=finding.title, text=fix.text, commands=commands)


def shown(argv: Sequence[str]) -> str:
    """A command without the paths of its programs: "pip install keras==3.5.0"."""
    return " ".join(argv[2:] if argv[1] == "-m" else (*argv[1:3], *argv[5:]))


def _interpreter(prefix: Path) -> str:
    """The interpreter of an environment. Raises FolderError: the folder is no environment."""
    if not os.path.isdir(prefix):  # also where its name is too long
        raise FolderError(f"{prefix}: no such folder; tfgpu install {prefix} creates an environment")
    refuse_unfinished(prefix)
    python = python_of(prefix)
    if not os.path.lexists(python):
        raise FolderError(f"{prefix} is not an environment: there is no {os.path.relpath(python, prefix)} in it")
    if not (prefix / "pyvenv.cfg").is_file() and not (prefix / "conda-meta").is_dir():
        raise FolderError(
            f"{prefix} is neither a virtual environment nor a conda environment: tfgpu changes no other Python"
        )
    return python


def _is_below(path: str, folder: str) -> bool:
    return (os.path.realpath(path) + os.sep).startswith(folder + os.sep)
