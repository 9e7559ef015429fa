"""Makes an environment by a plan and proves it; when that fails or is interrupted, nothing of it is left."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from msgspec import structs
from packaging.utils import canonicalize_name

from tfgpu_doctor import __version__
from tfgpu_doctor.files import writing
from tfgpu_doctor.files.reading import why
from tfgpu_doctor.findings.engine import now
from tfgpu_doctor.install import tools
from tfgpu_doctor.install.choice import Choice
from tfgpu_doctor.install.folder import TEMPORARY, Folder, Sizes, log_paths, python_of, require, sizes_of
from tfgpu_doctor.install.proof import add_library_paths, prove
from tfgpu_doctor.install.records import (
    LOCK,
    MANIFEST,
    REPORT,
    SCHEMA,
    InstallError,
    Manifest,
    Method,
    Package,
    Proof,
    RefusedError,
    UnprovenError,
)
from tfgpu_doctor.install.resolved import lock_text, with_archives
from tfgpu_doctor.install.tools import INSTALL, Commands, Interpreter, Interpreters, dropped, of_children
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.records.printable import clean_lines, utf8, without_commands
from tfgpu_doctor.records.report import Tool as Program
from tfgpu_doctor.records.units import count
from tfgpu_doctor.records.versions import minor

# The phases and how far the whole has come at the begin of each, as measured with uv and an empty cache.
PHASES = {"interpreter": 0.0, "environment": 0.02, "packages": 0.05, "installation": 0.1, "proof": 0.85}
_DOWNLOADING = re.compile(r"\s*Downloading (\S+\.whl \([^)]+\))")
_WANTED = f"{TEMPORARY}/requirements.txt"


@dataclass(frozen=True)
class Resolution:
    """What will be installed, before it is."""

    choice: Choice
    method: Method
    prefix: Path
    interpreter: str
    python: str
    requirements: tuple[str, ...]
    packages: tuple[Package, ...]  # empty: conda has installed them already
    sizes: Sizes
    dropped: tuple[str, ...]  # variables that the programs do not get


class Watcher(Protocol):
    """Receives the progress of an installation, and agrees to it."""

    def phase(self, label: str, done: float, detail: str = "") -> None:
        """Report the progress, from 0 to 1; `detail` is the current package."""

    def agrees(self, resolution: Resolution) -> bool:
        """Whether to go on with what was resolved."""

    def removing(self, message: str) -> None:
        """Say that what was made is being removed."""


@dataclass
class Making:
    """One installation."""

    choice: Choice
    matrix: Matrix
    folder: Folder
    watcher: Watcher
    method: Method | None = None  # None: uv if it is here, else pip
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    clock: Callable[[], float] = time.monotonic
    commands: Commands = field(init=False)

    def __post_init__(self) -> None:
        """Set the variables that the programs get."""
        self.commands = Commands(of_children(self.environ, os.getcwd(), str(self.folder.temporary)))
        self._interpreters = Interpreters(self.environ)

    def run(self) -> Manifest | None:
        """Make it; returns None if the watcher did not agree.

        Raises InstallError: it cannot be made, or does not work. Then, and when this is interrupted, the folder is as
        it was before.
        """
        started, created = self.clock(), now()
        tool, interpreter, python = self._tool()
        with self.folder as folder:
            if tool.method != "uv":  # which says how large the packages are before it downloads them
                require(folder.file_system, Sizes(None, None))
            if interpreter is None and tool.method != "conda":
                interpreter = self._get_interpreter(python)
            resolution = self._resolve(tool, interpreter, python)
            if not self.watcher.agrees(resolution):
                return None
            packages = self._install(tool, resolution)
            manifest = self._prove(resolution, packages)
            manifest = structs.replace(manifest, created=created, seconds=round(self.clock() - started, 1))
            self._write(MANIFEST, manifest.to_json())
            folder.keep()
            return manifest

    # ------------------------------------------------------------------------------------ before anything is made

    def _tool(self) -> tuple[tools.Tool, Interpreter | None, str]:
        """The program that makes it, the interpreter that it uses (None: it must be downloaded), and its Python."""
        pythons, specs = self.choice.pythons, self.choice.conda
        methods = (self.method,) if self.method else self.choice.methods
        found = [tool for one in methods if (tool := tools.find_tool(one, self.environ, specs, pythons[0]))]
        if not found and not self.method:
            raise RefusedError(_needs_conda(self.choice))
        if not found:
            tools.require_tool(methods[0], specs, pythons[0], self.environ)
        for tool in found:
            if tool.method == "conda":
                return tool, None, pythons[0]
            for python in pythons:
                if interpreter := self._interpreters.find(python, venv=tool.needs_venv):
                    return tool, interpreter, python
        return found[0], None, pythons[0]

    def _get_interpreter(self, python: str) -> Interpreter:
        """Let uv install a Python into the folder; uv comes from PATH, or from pip for this run."""
        self.watcher.phase(f"getting Python {python}", PHASES["interpreter"])
        uv = tools.find_uv(self.environ) or self._get_uv(python)
        target = self.folder.path / "python"
        argv = [uv, "python", "install", "--install-dir", str(target), python]
        self.commands.run(f"getting Python {python}", argv, timeout=INSTALL)
        home = next(target.glob("cpython-*"), None)
        found = home and Interpreters(self.commands.env, python_of(home)).own
        if not found:
            raise RefusedError(f"uv installed Python {python}, but it does not start")
        return found

    def _get_uv(self, python: str) -> str:
        target = self.folder.temporary / "uv"
        argv = [sys.executable, "-I", "-m", "pip", "install", "--target", str(target), "uv"]
        try:
            self.commands.run("getting uv", argv)
        except InstallError as error:
            raise RefusedError(
                f"Python {python} is not on this machine, and without uv it cannot be got: {error}. Install uv, or "
                f"Python {python} with its venv module (Debian and Ubuntu: apt install python{python}-venv)"
            ) from error
        return str(target / "bin" / "uv")  # Windows finds uv.exe by that name

    # --------------------------------------------------------------------------------------------------- making it

    def _resolve(self, tool: tools.Tool, interpreter: Interpreter | None, python: str) -> Resolution:
        prefix = self.folder.path
        made_with = f"Python {interpreter.version}" if interpreter else f"Python {python}"
        self.watcher.phase(f"creating the environment with {tool.method} and {made_with}", PHASES["environment"])
        tool.create(self.commands, prefix, interpreter)
        requirements = self.choice.requirements(python)
        wanted = self._write(_WANTED, utf8("".join(f"{one}\n" for one in requirements)))
        packages: tuple[Package, ...] = ()
        if requirements:
            label = "choosing the packages" + (", which pip downloads for that" if tool.method != "uv" else "")
            self.watcher.phase(label, PHASES["packages"])

            def look(line: str) -> None:
                if found := _DOWNLOADING.match(line):
                    self.watcher.phase(label, PHASES["packages"], found[1])

            built = self.choice.source_only(python)
            chosen = tool.resolve(self.commands, prefix, wanted, look, built)
            packages = tuple(with_archives(chosen, built))
        sizes = sizes_of(packages)
        require(self.folder.file_system, sizes)
        path, version = (interpreter.path, interpreter.version) if interpreter else ("", python)
        return Resolution(
            self.choice,
            tool.method,
            self.folder.named,
            path,
            version,
            requirements,
            packages,
            sizes,
            dropped(self.environ),
        )

    def _install(self, tool: tools.Tool, resolution: Resolution) -> tuple[Package, ...]:
        prefix, packages = resolution.prefix, resolution.packages
        if isinstance(tool, tools.Conda) and not resolution.requirements:
            packages, text = tool.listed(self.commands, prefix)
            self._write(LOCK, utf8(text))
            return packages
        what = count(len(packages), "package")
        platform = resolution.choice.release.platform
        built = self.choice.source_only(minor(resolution.python))
        text = lock_text(packages, python=resolution.python, platform=platform)
        lock = self._write(LOCK, utf8(text))
        self._installing(what, 0.0)
        counted = _Counted(packages, lambda done, name: self._installing(what, done, name))
        tool.install(self.commands, prefix, lock, counted.look, built)
        return packages

    def _installing(self, what: str, done: float, name: str = "") -> None:
        begin, end = PHASES["installation"], PHASES["proof"]
        self.watcher.phase(f"installing {what}", begin + (end - begin) * done, name)

    def _prove(self, resolution: Resolution, packages: tuple[Package, ...]) -> Manifest:
        prefix, release = resolution.prefix, resolution.choice.release
        try:
            added = add_library_paths(prefix, release)
            proof = prove(prefix, release, self._verifying, matrix=self.matrix, environ=self.environ)
        except OSError as error:
            raise InstallError(f"{error.filename or prefix}: {why(error)}") from error
        if not proof.ok:
            raise UnprovenError(_unproven(proof), proof)
        if proof.report:
            self._write(REPORT, proof.report.to_json())
        plan = resolution.choice.plan
        return Manifest(
            schema=SCHEMA,
            tool=Program(name="tfgpu", version=__version__),
            matrix=plan.matrix,
            created="",
            seconds=0.0,
            method=resolution.method,
            prefix=str(prefix),
            interpreter=resolution.interpreter,
            python=resolution.python,
            option=resolution.choice.option,
            requirements=resolution.requirements,
            packages=packages,
            commands=tuple(self.commands.ran),
            added=added,
            steps=proof.steps,
        )

    def _verifying(self, name: str) -> None:
        self.watcher.phase(f"verifying: {name}", PHASES["proof"])

    def _write(self, name: str, data: bytes) -> Path:
        try:
            writing.replace(str(self.folder.path / name), data)
        except OSError as error:
            raise InstallError(f"{self.folder.path / name} cannot be written: {why(error)}") from error
        return self.folder.path / name


class _Counted:
    """The share of the packages that is installed, by the output of pip or uv."""

    _LINE = re.compile(r"\s*(?:Downloaded\s+(\S+)|Processing\s.*/([\w.]+)-[\w.+!]+-\S+\.whl)")  # of uv, of pip

    def __init__(self, packages: tuple[Package, ...], tell: Callable[[float, str], None]) -> None:
        self._sizes = {package.name: package.size or 1 for package in packages}
        self._all = sum(self._sizes.values()) or 1
        self._tell = tell

    def look(self, line: str) -> None:
        """A line names a package: those before it are roughly done."""
        found = self._LINE.match(line)
        name = canonicalize_name(found[1] or found[2]) if found else ""
        if self._sizes.pop(name, None):
            self._tell(1 - sum(self._sizes.values()) / self._all, name)


def _unproven(proof: Proof) -> str:
    failed = [f"{step.name}: {step.text}" for step in proof.steps if step.state == "failed"]
    return f"the environment was created, but does not work ({'; '.join(failed)})"


def _needs_conda(choice: Choice) -> str:
    """Why nothing but conda will do, and how to get it."""
    others = ", ".join(one.title for one in choice.plan.options if one is not choice.option)
    return (
        f"{'; '.join((*choice.plan.problems, choice.option.title))} is what can be created here, which takes conda, "
        "mamba or micromamba, and none is on PATH. To get one: https://conda-forge.org/download/. "
        f"Other options that tfgpu plan shows: {others or 'none'}"
    )


def keep_log(commands: Commands, prefix: Path, *, message: str) -> Path | None:
    """Write the output of the programs to a log beside the folder; None if none was run, or it cannot be written.

    It is a new file: what has that name already, or a link to somewhere else, is left alone.
    """
    if not commands.log:
        return None
    text = without_commands(clean_lines("".join([*commands.log, message, "\n"])))
    with suppress(OSError):
        for path in log_paths(prefix):
            with suppress(FileExistsError):
                writing.create(str(path), utf8(text))
                return path
    return None
