"""Makes the first option of a plan that can be made here, and verifies it; when that fails, nothing of it is left."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import structs
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tfgpu_doctor.facts import writing
from tfgpu_doctor.facts.facts import value_or
from tfgpu_doctor.facts.printable import clean_lines, utf8, without_commands
from tfgpu_doctor.facts.reading import why
from tfgpu_doctor.facts.report import EXIT_USAGE, Finding, Report, Severity, root_causes
from tfgpu_doctor.facts.versions import capability
from tfgpu_doctor.install import tools
from tfgpu_doctor.install.tools import InstallError
from tfgpu_doctor.matrix.compatibility import XLA_COMPILER
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.parsers import lines, text_to_facts
from tfgpu_doctor.plan.constraints import PlanRequest, violations
from tfgpu_doctor.plan.diagnosis import make_report
from tfgpu_doctor.plan.gate import joined
from tfgpu_doctor.plan.install_commands import (
    OLD_PIP,
    OLDEST_OF_UV,
    PIP_OF_OLD_PYTHONS,
    XLA_FILE,
    Installation,
    library_paths,
    xla_line,
)
from tfgpu_doctor.plan.ranking import MachineState, make_plan
from tfgpu_doctor.plan.records import Option, Plan
from tfgpu_doctor.plan.target import Target
from tfgpu_doctor.probes.examine import examine

Method: TypeAlias = Literal["uv", "pip", "conda"]
State: TypeAlias = Literal["ok", "warning", "failed"]
REPORT = "tfgpu-report.json"  # of the doctor, within the environment; tfgpu compare shows what has changed since
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
# Set by somebody for other programs, or for a TensorFlow of their own: they lead elsewhere, or change what it does.
_DISTURBING = re.compile(r"(?:PYTHON|PIP_|UV_|VIRTUAL_ENV|CONDA_|LD_|XLA_|TF_|KERAS_|CUDA_(?!VISIBLE)|CUDNN_).*")
# What findings of these layers are about can be repaired in the environment; the others are about the machine.
_OF_THE_ENVIRONMENT = ("tf.", "cuda.", "cudnn.", "xla.", "compute.", "gpu.arch-")


@dataclass(frozen=True)
class Choice:
    """What is to be made, and with which program."""

    option: Option
    release: Release
    method: Method
    python: str  # "3.12"
    program: str  # path of uv, of conda, or of the Python whose venv and pip are used
    interpreter: str | None  # path of a Python of that version; None: uv or conda gets it
    packages: tuple[str, ...]  # what pip or uv is asked for
    conda: tuple[str, ...] = ()  # what conda is asked for besides Python and pip

    def steps(self, prefix: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield what is done, and the command, of each step that makes the environment."""
        python = str(prefix / "bin" / "python")
        create = f"creating the environment with {self.method} and Python {self.python}"
        pip: tuple[str, ...] = (python, "-I", "-m", "pip", "install", "--progress-bar", "off", *_WHEELS)
        if self.method == "uv":
            # with pip, since users type it; the folder exists, and contains our temporary files
            options = ("--seed", "--allow-existing", "--no-project", "--python", self.interpreter or self.python)
            yield create, (self.program, "venv", *options, str(prefix))
            pip = (self.program, "pip", "install", "--python", python, *_WHEELS)
        elif self.method == "conda":
            specs = self.conda or (f"python={self.python}", "pip")
            channel = ("--channel", "conda-forge", "--override-channels")
            yield create, (self.program, "install", "--yes", "--prefix", str(prefix), *channel, *specs)
        else:
            yield create, (self.program, "-I", "-m", "venv", str(prefix))
            if capability(self.python) <= OLD_PIP:
                yield "upgrading pip", (*pip, "--upgrade", PIP_OF_OLD_PYTHONS)
        if self.packages:
            yield "installing the packages", (*pip, *self.packages)


# ------------------------------------------------------------------------------------------------- what is to be made


def choose(
    request: PlanRequest,
    state: MachineState | None,
    *,
    own_python: str,
    method: Method | None = None,
    fixed_python: bool = False,
    environ: Mapping[str, str] = os.environ,
) -> Choice:
    """Return the first option of the plan that can be made here.

    Args:
        request: the machine and what is asked for, with the issues that the installation repairs.
        state: of the machine, where it is this one.
        own_python: the version that is preferred where several will do ("3.12").
        method: that was asked for; None: the first of uv, pip and conda that can make it.
        fixed_python: whether the target's Python was asked for, so that no other one will do.
        environ: where programs are looked for.

    Raises InstallError: there is none, or the program of `method` is not here; the message says why.
    """
    reasons = []
    plan = make_plan(request.matrix, request.target, specifier=request.specifier, state=state)
    for option in plan.options:
        try:
            if option.kind in _WHY_NOT:
                raise InstallError(_WHY_NOT[option.kind])
            if fixed_python and option.python not in (None, request.target.python):
                raise InstallError(f"Python {request.target.python} was asked for")
            return _chosen(request, option, own_python, method, environ)
        except InstallError as error:
            if error.code == EXIT_USAGE:
                raise
            reasons.append(f"{option.title}: {error}")
    raise InstallError(_refusal(plan, reasons))


def _chosen(
    request: PlanRequest, option: Option, own: str, method: Method | None, environ: Mapping[str, str]
) -> Choice:
    """How an option is made. Raises InstallError: it cannot be."""
    matrix, target = request.matrix, request.target
    specs: list[str] = []
    pythons: tuple[str, ...] = (option.python or own,)
    methods: tuple[Method, ...] = ("conda",)
    if option.kind == "conda-forge":
        release = matrix.tensorflow(option.tensorflow, target.platform)
        words = shlex.split(option.commands["conda"][0])
        specs = words[words.index("--override-channels") + 1 :]
    elif release := matrix.tensorflow(option.tensorflow, target.platform, option.package):
        pythons = tuple(_pythons(request, release, option, own))
        methods = ("pip", "conda") if any(capability(one) < OLDEST_OF_UV for one in pythons) else ("uv", "pip", "conda")
    if release is None:
        raise InstallError("the matrix has no such release")
    if not specs:
        if release.version in _BUILT_FROM_SOURCE:
            raise InstallError("it requires packages that have to be built; tfgpu plan has the commands")
        installation = Installation(matrix, target, release, pythons[0])
        if not (installation.self_contained or installation.cuda_from_pip):
            cuda = f"CUDA {release.cuda}"
            raise InstallError(f"{cuda} is not on the package index, and libraries of conda need LD_LIBRARY_PATH")
    if method and method not in methods:
        raise InstallError(f"it can be created with {' or '.join(methods)}, not with {method}")
    method, program, python, interpreter = _program((method,) if method else methods, pythons, method, environ)
    packages = () if specs else Installation(matrix, target, release, python).requirements
    return Choice(option, release, method, python, program, interpreter, packages, tuple(specs))


def _pythons(request: PlanRequest, release: Release, option: Option, own: str) -> Iterator[str]:
    """The Pythons for which the release violates nothing: the one that was asked for, our own, the newest."""
    asked = request.target.python
    if asked in release.python:
        yield asked
        return
    for python in dict.fromkeys((own, *reversed(release.python))):
        there = replace(request, target=structs.replace(request.target, python=python))
        if python in release.python and not violations(there, release):
            yield python
    if option.python and not asked:
        yield option.python


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
    if "pip" in methods:
        raise InstallError(
            f"Python {pythons[0]} is not on this machine: install uv, which gets it, or Python {pythons[0]} with its "
            f"venv module (Debian and Ubuntu: apt install python{pythons[0]}-venv)"
        )
    if asked:
        raise InstallError(f"--method {asked}: {asked} is not on PATH", EXIT_USAGE)
    raise InstallError(
        "it takes conda, mamba or micromamba, and none is on PATH; to get one: https://conda-forge.org/download/"
    )


def _refusal(plan: Plan, reasons: list[str]) -> str:
    if plan.target.os == "macos":
        return "TensorFlow has no CUDA on macOS: use a virtual environment and python -m pip install tensorflow"
    if plan.target.os == "windows":
        return "on Windows, TensorFlow uses a GPU only in WSL2: install there; tfgpu plan --os windows shows how"
    if plan.options and plan.options[0].kind == "cpu":
        return (
            "this machine has no NVIDIA GPU; to create an environment for another one, name it: --gpu 'RTX 4090' "
            "--driver 570"
        )
    if reasons:
        return (
            f"none of the options that tfgpu plan shows can be installed here. {'; '.join((*plan.problems, *reasons))}"
        )
    asked = (row for row in plan.ruled_out if all(one.constraint != "tensorflow" for one in row.violations))
    cause = "no release of TensorFlow matches"
    if row := next(asked, None):
        against = "; ".join(f"{one.saw}, needed is {one.need}" for one in row.violations)
        cause = f"TensorFlow {row.versions[0]} cannot be used: {against}"
    return f"{cause}. tfgpu plan with the same options says more"


def host_target(target: Target, *, system: str, machine: str, libc: str | None) -> Target:
    """Return a target that somebody describes, with the C library of this machine.

    Raises InstallError: for another operating system or architecture than this machine's, or without glibc.
    """
    if libc and libc.startswith("musl"):
        raise InstallError(
            f"this system has {libc} (Alpine), and TensorFlow has no wheels for it: use a system with glibc, such as "
            "Debian or Ubuntu"
        )
    if target.os not in (system, "linux" if system == "wsl2" else system) or target.machine != machine:
        raise InstallError(
            f"this machine is {system} {machine}: an environment for {target.os} {target.machine} must be created there"
        )
    glibc = None
    with suppress(ValueError):
        glibc = str(Version((libc or "").removeprefix("glibc ")))
    return structs.replace(target, os=system, glibc=glibc)


# ---------------------------------------------------------------------------------------------------------- making it


def make(
    choice: Choice, prefix: Path, matrix: Matrix, tell: Callable[[str], None], log: list[str]
) -> tuple[State, str]:
    """Make and verify it; return how the doctor's examination ended.

    Args:
        choice: what is made.
        prefix: the folder, as read_path has it.
        matrix: for the doctor.
        tell: told each step.
        log: takes what the programs print.

    Raises InstallError: it cannot be made, or does not work. Then, and when this is interrupted, the folder is as it
    was before.
    """
    tools.require_room(prefix)
    with tools.claimed(prefix, tell) as temporary:
        env = tools.of_children(os.environ, os.getcwd(), temporary)
        try:
            if choice.method == "conda":  # with its history, the folder is an environment of conda without packages
                (prefix / "conda-meta").mkdir()
                (prefix / "conda-meta" / "history").touch()
            for what, argv in choice.steps(prefix):
                tell(what)
                tools.run(what, argv, env, log)
            tell("verifying it with tfgpu doctor")
            add_library_paths(prefix, choice.release)
            report = prove(prefix, matrix, os.environ)
            state, text = judged(report, choice.release)
            if state == "failed":
                raise InstallError(f"the environment was created, but does not work ({text})", report=report)
            writing.replace(str(prefix / REPORT), report.to_json())
        except OSError as error:
            raise InstallError(f"{error.filename or prefix}: {why(error)}") from error
    return state, text


def add_library_paths(prefix: Path, release: Release) -> None:
    """Let TensorFlow find the CUDA libraries of an environment in any shell, as the commands of a plan do.

    Raises OSError: a file cannot be written.
    """
    paths = library_paths(release, cuda_from_pip=release.extra is None)
    for site in prefix.glob("lib*/python*/site-packages"):
        # a folder that a link leads to may belong to somebody else
        if prefix.resolve() not in site.resolve().parents or not (site / "tensorflow").is_dir():
            continue
        folder = site / paths.folder
        for file in sorted(one for pattern in paths.files for one in site.glob(pattern) if folder.is_dir()):
            if file.parent != folder and not (folder / file.name).exists():
                (folder / file.name).unlink(missing_ok=True)  # it leads nowhere
                (folder / file.name).symlink_to(os.path.relpath(file, folder))
        if paths.needs_xla_line and (site / XLA_COMPILER).is_dir():
            writing.replace(str(site / XLA_FILE), utf8(f"{xla_line()}\n"))


def prove(prefix: Path, matrix: Matrix, environ: Mapping[str, str]) -> Report:
    """Examine an environment as `tfgpu doctor` does, in a shell in which nothing is set for Python or CUDA."""
    bare = {name: value for name, value in environ.items() if not _DISTURBING.fullmatch(name)}
    found = examine(str(prefix / "bin" / "python"), lambda: matrix, environ=bare)
    return make_report(found.facts, matrix, source="live", timings=found.timings, for_any_machine=True)


def judged(report: Report, release: Release) -> tuple[State, str]:
    """Return what the doctor's report says about the environment; what needs a GPU may be left open."""
    errors = [one for one in root_causes(report.findings) if one.severity is Severity.ERROR]
    own = [one for one in errors if one.id.startswith(_OF_THE_ENVIRONMENT)]
    titles = "; ".join(f"{one.title} ({one.id})" for one in own or errors)
    version = value_or(report.facts.tensorflow.version, None)
    if own:
        return "failed", titles
    if version != release.version:
        return "failed", f"TensorFlow {version or 'of an unknown version'} was imported, not {release.version}"
    if errors:
        return "warning", f"{titles}: what needs a GPU was not verified"
    passed = dict.fromkeys(one.kind for one in value_or(report.facts.tensorflow.checks, ()) if one.ok)
    if report.verdict == "unknown" or not passed:
        return "warning", "what needs a GPU could not be determined"
    return "ok", f"verified on the GPU: {', '.join(passed)}"


def explained(error: InstallError, matrix: Matrix, prefix: Path) -> Report | None:
    """Return what the doctor says of an environment that does not work, or of what a program wrote."""
    if error.report is None:
        excerpt = lines.read([utf8(error.output)]) if error.output else None
        facts = text_to_facts.read(excerpt, matrix) if excerpt else None
        return make_report(facts, matrix, source="text", timings={}) if facts else None

    # no fixes whose commands are for the environment, which has been removed
    def remaining(one: Finding) -> Finding:
        return structs.replace(one, fixes=joined(fix for fix in one.fixes if str(prefix) not in " ".join(fix.commands)))

    return structs.replace(error.report, findings=tuple(map(remaining, error.report.findings)))


def keep_log(log: list[str], prefix: Path, message: str) -> Path | None:
    """Write the output of the programs to a new file beside the folder; None if there is none, or it cannot be written.

    Where the folder above does not exist either, it lies in the nearest one that does.
    """
    if not log:
        return None
    above = next(one for one in prefix.parents if one.is_dir())
    text = without_commands(clean_lines("".join([*log, message, "\n"])))
    with suppress(OSError):
        for number in count(1):
            path = above / f"{prefix.name}.tfgpu-install.{f'{number}.' if number > 1 else ''}log"
            with suppress(FileExistsError):
                writing.create(str(path), utf8(text))
                return path
    return None
