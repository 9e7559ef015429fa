"""Makes the first option of a plan that can be made here, and verifies it; when that fails, nothing of it is left."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from msgspec import structs
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tfgpu_doctor import __version__
from tfgpu_doctor.facts import writing
from tfgpu_doctor.facts.facts import value_or
from tfgpu_doctor.facts.printable import clean_lines, utf8, without_commands
from tfgpu_doctor.facts.reading import why
from tfgpu_doctor.facts.report import Tool as Program
from tfgpu_doctor.facts.versions import capability
from tfgpu_doctor.findings.engine import now
from tfgpu_doctor.install import tools
from tfgpu_doctor.install.folder import Folder, InstallError, RefusedError, log_paths, python_of
from tfgpu_doctor.install.proof import UnprovenError, add_library_paths, prove
from tfgpu_doctor.install.tools import LOCK, MANIFEST, REPORT, Commands, Manifest, Method, ToolError
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.plan.constraints import PlanRequest, violations
from tfgpu_doctor.plan.install_commands import OLD_PIP, OLDEST_OF_UV, PIP_OF_OLD_PYTHONS, Installation
from tfgpu_doctor.plan.ranking import MachineState, make_plan
from tfgpu_doctor.plan.records import Option, Plan
from tfgpu_doctor.plan.target import Target

QUICK, DOWNLOADING = 600.0, 7200.0  # seconds for what downloads little, and for packages
_WHEELS = ("--only-binary", ":all:")  # no code of a package is run to build it
_BUILT_FROM_SOURCE = SpecifierSet(">=2.4,<2.7")  # these releases require packages that have no wheel
# why an option of these kinds cannot be made; the others need no other machine and no other driver
_WHY_NOT = {
    "driver": "it needs another driver",
    "python+driver": "it needs another driver",
    "container": "it is a container image",
    "wsl2": "it is for WSL2",
    "pre-release": "it is no stable release",
    "cpu": "it cannot use a GPU",
}

# Told what is done now, how far the whole is from 0 to 1, and the last line of the program that does it.
Tell = Callable[[str, float, str], None]


# ------------------------------------------------------------------------------------------------- what is to be made


@dataclass(frozen=True)
class Choice:
    """What is to be made, and with which program."""

    plan: Plan
    option: Option
    release: Release
    method: Method
    python: str  # "3.12"
    program: str  # path of uv, of conda, or of the Python whose venv and pip are used
    interpreter: str | None  # path of a Python of that version; None: uv or conda gets it
    packages: tuple[str, ...]  # what pip or uv is asked for
    conda: tuple[str, ...] = ()  # what conda is asked for besides Python and pip

    def steps(self, prefix: Path) -> Iterator[tuple[str, float, tuple[str, ...]]]:
        """Yield (what is done, seconds it may take, command) of each step that makes the environment."""
        python = python_of(prefix)
        create = f"creating the environment with {self.method} and Python {self.python}"
        pip: tuple[str, ...] = (python, "-I", "-m", "pip", "install", "--progress-bar", "off", *_WHEELS)
        if self.method == "uv":
            # with pip, since users type it; the folder exists, and contains our marker
            options = ("--seed", "--allow-existing", "--no-project", "--python", self.interpreter or self.python)
            yield create, DOWNLOADING, (self.program, "venv", *options, str(prefix))
            pip = (self.program, "pip", "install", "--python", python, *_WHEELS)
        elif self.method == "conda":
            specs = self.conda or (f"python={self.python}", "pip")
            channel = ("--channel", "conda-forge", "--override-channels")
            yield create, DOWNLOADING, (self.program, "install", "--yes", "--prefix", str(prefix), *channel, *specs)
        else:
            yield create, QUICK, (self.program, "-I", "-m", "venv", str(prefix))
            if capability(self.python) <= OLD_PIP:
                yield "upgrading pip", QUICK, (*pip, "--upgrade", PIP_OF_OLD_PYTHONS)
        if self.packages:
            yield "installing the packages", DOWNLOADING, (*pip, *self.packages)

    def freezing(self, prefix: Path) -> tuple[str, ...]:
        """Return the command that prints the exact versions, in the form in which they can be installed again."""
        if self.conda:
            return (self.program, "list", "--prefix", str(prefix), "--explicit", "--md5")
        return (python_of(prefix), "-I", "-m", "pip", "freeze", "--all")


def choose(
    request: PlanRequest,
    state: MachineState | None,
    *,
    repaired: frozenset[str],
    own_python: str,
    fixed_python: bool = False,
    method: Method | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Choice:
    """Return the first option of the plan that can be made here.

    Args:
        request: the machine and what is asked for.
        state: of the machine, where it is this one.
        repaired: ids of known issues that the installation repairs.
        own_python: the version that is preferred where several will do ("3.12").
        fixed_python: whether the target's Python was asked for, so that no other one will do.
        method: that was asked for; None: the first of uv, pip and conda that can make it.
        environ: where programs are looked for.

    Raises RefusedError: there is none; the message says why. Raises ToolError: the program of `method` is not here.
    """
    refused: list[str] = []
    plan = make_plan(request.matrix, request.target, specifier=request.specifier, state=state)
    for option in plan.options:
        try:
            if option.kind in _WHY_NOT:
                raise RefusedError(_WHY_NOT[option.kind])
            if fixed_python and option.python not in (None, request.target.python):
                raise RefusedError(f"Python {request.target.python} was asked for")
            asked = replace(request, repaired_issues=repaired)
            return _chosen(asked, plan, option, own_python, method, environ)
        except RefusedError as error:
            refused.append(f"{option.title}: {error}")
    raise RefusedError(_refusal(plan, tuple(refused)))


def _chosen(
    request: PlanRequest, plan: Plan, option: Option, own: str, method: Method | None, environ: Mapping[str, str]
) -> Choice:
    """How an option is made. Raises RefusedError: it cannot be."""
    matrix, target = request.matrix, request.target
    of_conda = option.kind == "conda-forge"
    release = matrix.tensorflow(option.tensorflow, target.platform, *(() if of_conda else (option.package,)))
    if release is None:
        raise RefusedError("the matrix has no such release")
    specs: tuple[str, ...] = ()
    pythons: tuple[str, ...] = (option.python or own,)
    methods: tuple[Method, ...] = ("conda",)
    if of_conda:
        (command,) = option.commands["conda"]
        words = shlex.split(command)
        specs = tuple(words[words.index("--override-channels") + 1 :])
    else:
        if release.version in _BUILT_FROM_SOURCE:
            raise RefusedError("it requires packages that have to be built; tfgpu plan has the commands")
        pythons = tuple(_pythons(request, release, option, own))
        installation = Installation(matrix, target, release, pythons[0])
        if not (installation.self_contained or installation.cuda_from_pip):
            raise RefusedError(
                f"CUDA {release.cuda} is not on the package index, and libraries of conda need LD_LIBRARY_PATH"
            )
        old = any(capability(one) < OLDEST_OF_UV for one in pythons)
        methods = ("pip", "conda") if old else ("uv", "pip", "conda")
    if method and method not in methods:
        raise RefusedError(f"it can be created with {' or '.join(methods)}, not with {method}")
    method, program, python, interpreter = _program((method,) if method else methods, pythons, method, environ)
    packages = () if specs else Installation(matrix, target, release, python).requirements
    return Choice(plan, option, release, method, python, program, interpreter, packages, specs)


def _program(
    methods: tuple[Method, ...], pythons: tuple[str, ...], asked: Method | None, environ: Mapping[str, str]
) -> tuple[Method, str, str, str | None]:
    """Return (method, program, Python version, path of that Python) of the first method that is possible here."""
    for method in methods:
        if method == "conda":
            if conda := tools.find_conda(environ):
                return method, conda, pythons[0], None
            continue
        uv = tools.find_uv(environ) if method == "uv" else None
        if method == "uv" and not uv:
            continue
        for python in pythons:
            if path := tools.find_python(python, environ, venv=method == "pip"):
                return method, uv or path, python, path
        if uv:
            return method, uv, pythons[0], None
    if asked == "pip" or (not asked and "pip" in methods):
        raise RefusedError(
            f"Python {pythons[0]} is not on this machine: install uv, which gets it, or Python {pythons[0]} with its "
            f"venv module (Debian and Ubuntu: apt install python{pythons[0]}-venv)"
        )
    if asked:
        raise ToolError(f"--method {asked}: {asked} is not on PATH")
    raise RefusedError(
        "it takes conda, mamba or micromamba, and none is on PATH; to get one: https://conda-forge.org/download/"
    )


def _pythons(request: PlanRequest, release: Release, option: Option, own: str) -> Iterator[str]:
    """The Pythons for which the release violates nothing: the one that was asked for, our own, the newest."""
    asked = request.target.python
    if asked in release.python:
        yield asked
        return
    for python in dict.fromkeys((own, *reversed(release.python))):
        if python in release.python:
            target = structs.replace(request.target, python=python)
            if not violations(replace(request, target=target), release):
                yield python
    if option.python and not asked:
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
        reasons = "; ".join((*plan.problems, *refused))
        return f"none of the options that tfgpu plan shows can be installed here. {reasons}"
    asked = (row for row in plan.ruled_out if all(one.constraint != "tensorflow" for one in row.violations))
    why = "no release of TensorFlow matches"
    if row := next(asked, None):
        reasons = "; ".join(f"{one.saw}, needed is {one.need}" for one in row.violations)
        why = f"TensorFlow {row.versions[0]} cannot be used: {reasons}"
    return f"{why}. tfgpu plan with the same options says more"


def host_target(target: Target, *, system: str, machine: str, libc: str | None) -> Target:
    """Return a target that somebody describes, with the C library of this machine.

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


# ---------------------------------------------------------------------------------------------------------- making it


@dataclass
class Making:
    """One installation."""

    choice: Choice
    matrix: Matrix
    folder: Folder
    tell: Tell
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    commands: Commands = field(init=False)

    def __post_init__(self) -> None:
        """Set the variables that the programs get."""
        self.commands = Commands(tools.of_children(self.environ, os.getcwd(), str(self.folder.temporary)))

    def run(self) -> Manifest:
        """Make and verify it.

        Raises InstallError: it cannot be made, or does not work. Then, and when this is interrupted, the folder is as
        it was before.
        """
        started, created, choice = time.monotonic(), now(), self.choice
        self.folder.require_room()
        with self.folder as folder:
            prefix = folder.path
            if choice.method == "conda":  # with its history, the folder is an environment of conda without packages
                history = prefix / "conda-meta" / "history"
                history.parent.mkdir()
                history.touch()
            for number, (what, limit, argv) in enumerate(choice.steps(prefix)):
                self._run(what, argv, limit, 0.05 + 0.1 * number)
            self._write(LOCK, utf8(self._run("writing the versions", choice.freezing(prefix), QUICK, 0.8)))
            self.tell("verifying it with tfgpu doctor", 0.85, "")
            try:
                added = add_library_paths(prefix, choice.release)
            except OSError as error:
                raise InstallError(f"{error.filename or prefix}: {why(error)}") from error
            step, report = prove(prefix, choice.release, self.matrix, self.environ)
            if step.state == "failed":
                raise UnprovenError(f"the environment was created, but does not work ({step.text})", report)
            self._write(REPORT, report.to_json())
            manifest = Manifest(
                schema=tools.SCHEMA,
                tool=Program(name="tfgpu", version=__version__),
                matrix=choice.plan.matrix,
                created=created,
                seconds=round(time.monotonic() - started, 1),
                method=choice.method,
                prefix=str(prefix),
                python=value_or(report.facts.python.version, choice.python),
                option=choice.option,
                commands=tuple(self.commands.ran),
                added=added,
                steps=(step,),
            )
            self._write(MANIFEST, manifest.to_json())
            folder.keep()
            return manifest

    def _run(self, what: str, argv: tuple[str, ...], limit: float, done: float) -> str:
        self.tell(what, done, "")
        return self.commands.run(what, argv, limit, lambda line: self.tell(what, done, line.strip()))

    def _write(self, name: str, data: bytes) -> None:
        try:
            writing.replace(str(self.folder.path / name), data)
        except OSError as error:
            raise InstallError(f"{self.folder.path / name} cannot be written: {why(error)}") from error


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
