"""Makes the first option of a plan that can be made here, and proves it; when that fails, nothing of it is left."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from msgspec import structs
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from tfgpu_doctor import __version__
from tfgpu_doctor.files import writing
from tfgpu_doctor.files.reading import why
from tfgpu_doctor.findings.engine import now
from tfgpu_doctor.install import tools
from tfgpu_doctor.install.folder import (
    TEMPORARY,
    Folder,
    InstallError,
    Package,
    RefusedError,
    Sizes,
    log_paths,
    python_of,
    require,
    sizes_of,
)
from tfgpu_doctor.install.proof import add_library_paths, prove
from tfgpu_doctor.install.tools import (
    INSTALL,
    LOCK,
    MANIFEST,
    REPORT,
    SCHEMA,
    Commands,
    Interpreter,
    Interpreters,
    Manifest,
    Method,
    ToolError,
    UnprovenError,
    dropped,
    lock_text,
    of_children,
)
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.plan.constraints import PlanRequest, violations
from tfgpu_doctor.plan.install_commands import OLDEST_OF_UV, Installation
from tfgpu_doctor.plan.ranking import MachineState, make_plan
from tfgpu_doctor.plan.records import Option, Plan
from tfgpu_doctor.plan.target import Target
from tfgpu_doctor.records.printable import clean_lines, utf8, without_commands
from tfgpu_doctor.records.report import Tool as Program
from tfgpu_doctor.records.units import count
from tfgpu_doctor.records.versions import capability

MADE_HERE = ("as-is", "python", "conda-forge")  # kinds of options that need no other machine and no other driver
_WHY_NOT = {
    "driver": "it needs another driver",
    "python+driver": "it needs another driver",
    "container": "it is a container image",
    "wsl2": "it is for WSL2",
    "pre-release": "it is no stable release",
    "cpu": "it cannot use a GPU",
}


_BUILT_FROM_SOURCE = SpecifierSet(">=2.4,<2.7")  # these releases require packages that have no wheel


@dataclass(frozen=True)
class Choice:
    """What is to be made, and with which program."""

    request: PlanRequest
    plan: Plan
    option: Option
    release: Release
    pythons: tuple[str, ...]  # that will do, the best first
    methods: tuple[Method, ...]  # that can make it
    conda: tuple[str, ...] = ()  # what conda brings instead of pip: nothing, or TensorFlow itself

    def requirements(self, python: str) -> tuple[str, ...]:
        """What pip is asked for."""
        installation = Installation(self.request.matrix, self.request.target, self.release, python)
        return () if self.conda else installation.requirements


def choose(
    request: PlanRequest,
    state: MachineState | None,
    *,
    repaired: frozenset[str],
    first_pythons: tuple[str, ...],
    fixed_python: bool = False,
    method: Method | None = None,
) -> Choice:
    """The first option of the plan that can be made here.

    Args:
        request: the machine and what is asked for.
        state: of the machine, where it is this one.
        repaired: ids of known issues that the installation repairs.
        first_pythons: the versions to be preferred where several will do.
        fixed_python: whether the target's Python was asked for, so that no other one will do.
        method: that was asked for; None: any.

    Raises RefusedError: there is none; the message says why. Raises TargetError: no such release.
    """
    refused: list[str] = []
    plan = make_plan(request.matrix, request.target, specifier=request.specifier, state=state)
    for option in plan.options:
        if option.kind not in MADE_HERE:
            refused.append(f"{option.title}: {_WHY_NOT[option.kind]}")
            continue
        if option.kind == "python" and fixed_python:
            refused.append(f"{option.title}: Python {request.target.python} was asked for")
            continue
        found = _made_by(replace(request, repaired_issues=repaired), option, plan, first_pythons)
        if isinstance(found, Choice) and method and method not in found.methods:
            found = f"it can be created with {' or '.join(found.methods)}, not with {method}"
        if isinstance(found, Choice):
            return found
        refused.append(f"{option.title}: {found}")
    raise RefusedError(_refusal(plan, tuple(refused)))


def _made_by(request: PlanRequest, option: Option, plan: Plan, preferred: tuple[str, ...]) -> Choice | str:
    """How an option is made, or why it cannot be."""
    matrix, target = request.matrix, request.target
    of_conda = option.kind == "conda-forge"
    release = matrix.tensorflow(option.tensorflow, target.platform, *(() if of_conda else (option.package,)))
    if release is None:
        return "the matrix has no such release"
    if of_conda:
        (command,) = option.commands["conda"]
        words = shlex.split(command)
        specs = tuple(words[words.index("--override-channels") + 1 :])
        return Choice(request, plan, option, release, (option.python or "",), ("conda",), specs)
    if release.version in _BUILT_FROM_SOURCE:
        return "it requires packages that have to be built; tfgpu plan has the commands"
    pythons = tuple(_pythons(request, release, option, preferred))
    installation = Installation(matrix, target, release, pythons[0])
    if not (installation.self_contained or installation.cuda_from_pip):
        return f"CUDA {release.cuda} is not on the package index, and libraries of conda need LD_LIBRARY_PATH"
    old = any(capability(one) < OLDEST_OF_UV for one in pythons)
    return Choice(request, plan, option, release, pythons, ("pip", "conda") if old else ("uv", "pip", "conda"))


def _pythons(request: PlanRequest, release: Release, option: Option, preferred: tuple[str, ...]) -> Iterator[str]:
    """The Pythons for which the release violates nothing: the one that was asked for, those preferred, the newest."""
    asked = request.target.python
    if asked in release.python:
        yield asked
        return
    for python in dict.fromkeys((*preferred, *reversed(release.python))):
        if python in release.python:
            target = structs.replace(request.target, python=python)
            if not violations(replace(request, target=target), release):
                yield python
    if option.python and not request.target.python:
        yield option.python


def _refusal(plan: Plan, refused: tuple[str, ...]) -> str:
    if plan.target.os == "macos":
        return "TensorFlow has no CUDA on macOS: use a virtual environment and python -m pip install tensorflow"
    if plan.target.os == "windows":
        return "on Windows, TensorFlow uses a GPU only in WSL2: install there; tfgpu plan --os windows shows how"
    if plan.options and plan.options[0].kind == "cpu":
        return (
            "this machine has no NVIDIA GPU; to create an environment for another one, name it: --gpu 'RTX 4090' "
            "--driver 570"
        )
    if refused:
        return f"none of the options that tfgpu plan shows can be installed here. {'; '.join(refused)}"
    asked = (row for row in plan.ruled_out if all(one.constraint != "tensorflow" for one in row.violations))
    row = next(asked, None)
    why = "no release of TensorFlow matches"
    if row:
        reasons = "; ".join(f"{one.saw}, needed is {one.need}" for one in row.violations)
        why = f"TensorFlow {row.versions[0]} cannot be used: {reasons}"
    return f"{why}. tfgpu plan with the same options says more"


def host_target(target: Target, *, system: str, machine: str, libc: str | None) -> Target:
    """A target that somebody describes, with the C library of this machine.

    Raises RefusedError: for another operating system or architecture than this machine's, or without glibc.
    """
    if libc and libc.startswith("musl"):
        raise RefusedError(
            f"this system has {libc} (Alpine), and TensorFlow has no wheels for it: use a system with glibc, such as "
            "Debian or Ubuntu"
        )
    machine = {"amd64": "x86_64"}.get(machine, machine)  # as Windows calls it
    if target.os not in (system, "linux" if system == "wsl2" else system) or target.machine != machine:
        raise RefusedError(
            f"this machine is {system} {machine}: an environment for {target.os} {target.machine} must be created there"
        )
    version = (libc or "").removeprefix("glibc ")
    try:
        glibc = str(Version(version)) if version else None
    except ValueError:
        glibc = None
    return structs.replace(target, os=system, glibc=glibc)


# The phases and how far the whole has come at the begin of each, as measured with uv and an empty cache.
PHASES = {"interpreter": 0.0, "environment": 0.02, "packages": 0.05, "installation": 0.1, "proof": 0.85}
_DOWNLOADING = re.compile(r"\s*Downloading (\S+\.whl \([^)]+\))")
_INSTALLED = re.compile(r"\s*(?:Downloaded\s+(\S+)|Processing\s.*/([\w.]+)-[\w.+!]+-\S+\.whl)")  # of uv, of pip
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

    def _tool(self) -> tuple[tools.Pip, Interpreter | None, str]:
        """The program that makes it, the interpreter that it uses (None: it must be downloaded), and its Python."""
        pythons, specs = self.choice.pythons, self.choice.conda
        methods = (self.method,) if self.method else self.choice.methods
        found = [tool for one in methods if (tool := tools.find_tool(one, self.environ, specs, pythons[0]))]
        if not found and self.method:
            raise ToolError(f"--method {self.method}: {self.method} is not on PATH")
        if not found:
            raise RefusedError(_needs_conda(self.choice))
        for tool in found:
            if tool.method == "conda":
                return tool, None, pythons[0]
            for python in pythons:
                if interpreter := self._interpreters.find(python, venv=tool.needs_venv):
                    return tool, interpreter, python
        return found[0], None, pythons[0]

    def _get_interpreter(self, python: str) -> Interpreter:
        """Let uv install a Python into the folder."""
        uv = tools.find_uv(self.environ)
        if uv is None:
            raise RefusedError(
                f"Python {python} is not on this machine: install uv, which gets it, or Python {python} with its venv "
                f"module (Debian and Ubuntu: apt install python{python}-venv)"
            )
        self.watcher.phase(f"getting Python {python}", PHASES["interpreter"])
        target = self.folder.path / "python"
        argv = [uv, "python", "install", "--install-dir", str(target), python]
        self.commands.run(f"getting Python {python}", argv, timeout=INSTALL)
        home = next(target.glob("cpython-*"), None)
        found = home and Interpreters(self.commands.env, python_of(home)).own
        if not found:
            raise RefusedError(f"uv installed Python {python}, but it does not start")
        return found

    # --------------------------------------------------------------------------------------------------- making it

    def _resolve(self, tool: tools.Pip, interpreter: Interpreter | None, python: str) -> Resolution:
        prefix = self.folder.path
        version = interpreter.version if interpreter else python
        label = f"creating the environment with {tool.method} and Python {version}"
        self.watcher.phase(label, PHASES["environment"])
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

            packages = tool.resolve(self.commands, prefix, wanted, look)
        sizes = sizes_of(packages)
        require(self.folder.file_system, sizes)
        path, ignored = interpreter.path if interpreter else "", dropped(self.environ)
        return Resolution(
            self.choice, tool.method, self.folder.named, path, version, requirements, packages, sizes, ignored
        )

    def _install(self, tool: tools.Pip, resolution: Resolution) -> tuple[Package, ...]:
        prefix, packages = resolution.prefix, resolution.packages
        if isinstance(tool, tools.Conda) and not resolution.requirements:
            packages, text = tool.listed(self.commands, prefix)
            self._write(LOCK, utf8(text))
            return packages
        text = lock_text(packages, python=resolution.python, platform=resolution.choice.release.platform)
        lock = self._write(LOCK, utf8(text))
        label, begin = f"installing {count(len(packages), 'package')}", PHASES["installation"]
        share = (PHASES["proof"] - begin) / (sum(one.size or 1 for one in packages) or 1)
        sizes = {one.name: one.size or 1 for one in packages}
        self.watcher.phase(label, begin)

        def look(line: str) -> None:
            """A line names a package: it and those before it are roughly done."""
            nonlocal begin
            found = _INSTALLED.match(line)
            name = canonicalize_name(found[1] or found[2]) if found else ""
            if size := sizes.pop(name, None):
                begin += size * share
                self.watcher.phase(label, begin, name)

        tool.install(self.commands, prefix, lock, look)
        return packages

    def _prove(self, resolution: Resolution, packages: tuple[Package, ...]) -> Manifest:
        prefix, release = resolution.prefix, resolution.choice.release
        try:
            added = add_library_paths(prefix, release)
            proof = prove(
                prefix,
                release,
                lambda name: self.watcher.phase(f"verifying: {name}", PHASES["proof"]),
                matrix=self.matrix,
                environ=self.environ,
            )
        except OSError as error:
            raise InstallError(f"{error.filename or prefix}: {why(error)}") from error
        if not proof.ok:
            failed = "; ".join(f"{step.name}: {step.text}" for step in proof.steps if step.state == "failed")
            raise UnprovenError(f"the environment was created, but does not work ({failed})", proof)
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

    def _write(self, name: str, data: bytes) -> Path:
        try:
            writing.replace(str(self.folder.path / name), data)
        except OSError as error:
            raise InstallError(f"{self.folder.path / name} cannot be written: {why(error)}") from error
        return self.folder.path / name


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
