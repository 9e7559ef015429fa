"""Makes the first option of a plan that can be made here, and verifies it; when that fails, nothing of it is left."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import structs
from packaging.specifiers import SpecifierSet

from tfgpu_doctor.facts import writing
from tfgpu_doctor.facts.facts import Host, value_or
from tfgpu_doctor.facts.printable import utf8
from tfgpu_doctor.facts.reading import why
from tfgpu_doctor.facts.report import Report, Severity, root_causes
from tfgpu_doctor.facts.versions import capability
from tfgpu_doctor.install import tools
from tfgpu_doctor.install.tools import InstallError
from tfgpu_doctor.matrix.compatibility import XLA_COMPILER, newer_pip
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.plan.constraints import PlanRequest, violations
from tfgpu_doctor.plan.diagnosis import make_report
from tfgpu_doctor.plan.install_commands import (
    INSTALL_UV,
    OLDEST_OF_UV,
    XLA_FILE,
    Installation,
    library_paths,
    xla_line,
)
from tfgpu_doctor.plan.ranking import MachineState, make_plan
from tfgpu_doctor.plan.records import Option, Plan
from tfgpu_doctor.plan.target import Target, glibc_of
from tfgpu_doctor.probes.examine import examine

Method: TypeAlias = Literal["uv", "pip", "conda"]
State: TypeAlias = Literal["ok", "warning", "failed"]
REPORT = "tfgpu-report.json"  # of the doctor, within the environment; tfgpu compare shows what has changed since
_WHEELS = ("--only-binary", ":all:")  # no code of a package is run to build it
_BUILT_FROM_SOURCE = SpecifierSet(">=2.4,<2.7")  # these releases require packages that have no wheel
_AS_IT_IS = ("as-is", "python", "conda-forge")  # options that need no other machine and no other driver
_BEFORE = {**dict.fromkeys(("driver", "python+driver"), "update the driver first"), "container": "a container image"}
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
            if newer := newer_pip(self.python):
                yield "upgrading pip", (*pip, "--upgrade", newer)
        if self.packages:
            yield "installing the packages", (*pip, *self.packages)

    def after(self, prefix: Path) -> Iterator[str]:
        """Yield what `make` does then, without a command."""
        paths, site = library_paths(self.release, cuda_from_pip=self.release.extra is None), "site-packages"
        if self.method != "conda" and paths.files:
            also = f"; writes {site}/{XLA_FILE}, by which XLA finds its compiler" * paths.needs_xla_line
            yield f"links {site}/nvidia/*/lib/*.so* into {site}/{paths.folder}, where TensorFlow looks{also}"
        yield f"tfgpu doctor examines it, with the report in {prefix / REPORT}; if it does not work, it is removed"


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

    Raises InstallError: there is none; the message says why.
    """
    reasons = []
    plan = make_plan(request.matrix, request.target, specifier=request.specifier, state=state)
    for option in plan.options:
        try:
            if option.kind not in _AS_IT_IS:
                raise InstallError(f"{_BEFORE.get(option.kind, 'not a virtual environment')}; tfgpu plan shows how")
            if fixed_python and option.python != request.target.python:
                raise InstallError(f"Python {request.target.python} was asked for; to get it: --python {option.python}")
            return _chosen(request, option, own_python, method, environ)
        except InstallError as error:
            reasons.append(f"{option.title}: {error}")
    raise InstallError(_refusal(plan, reasons))


def _chosen(request: PlanRequest, option: Option, own: str, asked: Method | None, environ: Mapping[str, str]) -> Choice:
    """How an option is made. Raises InstallError: it cannot be."""
    matrix, target, from_conda = request.matrix, request.target, option.kind == "conda-forge"
    release = matrix.tensorflow(option.tensorflow, target.platform, "tensorflow" if from_conda else option.package)
    if release is None:
        raise InstallError("the matrix has no such release")
    specs: tuple[str, ...] = ()
    pythons: tuple[str, ...] = (option.python or own,)
    methods: tuple[Method, ...] = ("conda",)
    if from_conda:
        words = shlex.split(option.commands["conda"][0])
        specs = tuple(words[words.index("--override-channels") + 1 :])
    else:
        pythons = _pythons(request, release, option, own)
        methods = ("pip", "conda") if any(capability(one) < OLDEST_OF_UV for one in pythons) else ("uv", "pip", "conda")
        installation = Installation(matrix, target, release, pythons[0])
        if release.version in _BUILT_FROM_SOURCE or not (installation.self_contained or installation.cuda_from_pip):
            raise InstallError("it needs more than wheels of the package index; tfgpu plan has the commands")
    if asked and asked not in methods:
        raise InstallError(f"it can be created with {' or '.join(methods)}, not with {asked}")
    method, program, python, interpreter = _program((asked,) if asked else methods, pythons, environ)
    packages = () if from_conda else Installation(matrix, target, release, python).requirements
    return Choice(option, release, method, python, program, interpreter, packages, specs)


def _pythons(request: PlanRequest, release: Release, option: Option, own: str) -> tuple[str, ...]:
    """The Python that was asked for, or those for which the release violates nothing: our own, then the newest."""
    target = request.target
    if target.python in release.python:
        return (target.python,)
    others = (one for one in dict.fromkeys((own, *reversed(release.python))) if one in release.python)
    requests = {one: replace(request, target=structs.replace(target, python=one)) for one in others}
    able = (one for one, there in requests.items() if not violations(there, release))
    return (*able, option.python or own)


def _program(
    methods: tuple[Method, ...], pythons: tuple[str, ...], environ: Mapping[str, str]
) -> tuple[Method, str, str, str | None]:
    """Return (method, program, Python version, path of that Python) of the first method that is possible here."""
    programs = {"uv": tools.find_uv(environ), "conda": tools.find_conda(environ)}
    for method in methods:
        program = programs.get(method)
        if method == "conda" and program:
            return method, program, pythons[0], None
        if method == "pip" or program:
            found = ((one, tools.find_python(one, environ, venv=method == "pip")) for one in pythons)
            python, path = next((one for one in found if one[1]), (pythons[0], None))
            if starts := program or path:
                return method, starts, python, path
    if "pip" in methods:
        raise InstallError(
            f"Python {pythons[0]} is not on this machine: install uv, which gets it, or Python {pythons[0]} with its "
            f"venv module (Debian and Ubuntu: apt install python{pythons[0]}-venv)"
        )
    where = "https://conda-forge.org/download/" if method == "conda" else INSTALL_UV
    raise InstallError(f"it takes {method}, which is not on PATH; to get it: {where}")


def _refusal(plan: Plan, reasons: list[str]) -> str:
    if plan.target.os == "windows":
        return "on Windows, TensorFlow uses a GPU only in WSL2: install there; tfgpu plan --os windows shows how"
    if plan.options and plan.options[0].kind == "cpu":
        return (
            "this machine has no NVIDIA GPU; to create an environment for another one, name it: --gpu 'RTX 4090' "
            "--driver 570; for the CPU alone, tfgpu plan shows the commands"
        )
    asked = (row for row in plan.ruled_out if all(one.constraint != "tensorflow" for one in row.violations))
    violated = ((row.versions[0], one) for row in [*asked][:1] for one in row.violations)
    against = [f"TensorFlow {version}: {one.saw}, needed is {one.need}" for version, one in violated]
    causes = (*plan.problems, *(reasons or against or ["no release of TensorFlow matches"]))
    return "\n  ".join(("nothing that tfgpu plan shows can be installed here:", *causes))


def host_target(target: Target, here: Host) -> Target:
    """Return a target that somebody describes, with the C library of this machine.

    Raises InstallError: for another operating system or architecture than this machine's.
    """
    system, machine = value_or(here.os, "linux"), value_or(here.machine, "x86_64")
    if target.os not in (system, "linux" if system == "wsl2" else system) or target.machine != machine:
        raise InstallError(
            f"this machine is {system} {machine}: an environment for {target.os} {target.machine} must be created there"
        )
    return structs.replace(target, os=system, glibc=glibc_of(here))


# ---------------------------------------------------------------------------------------------------------- making it


def make(choice: Choice, prefix: Path, matrix: Matrix, tell: Callable[[str], None]) -> tuple[State, str]:
    """Make and verify it; return how the doctor's examination ended.

    Args:
        choice: what is made.
        prefix: the folder, as read_path has it.
        matrix: for the doctor.
        tell: told each step.

    Raises InstallError: it cannot be made, or does not work. Then, and when this is interrupted, the folder is as it
    was before.
    """
    tools.require_room(prefix)
    try:
        with tools.claimed(prefix, tell) as temporary:
            env = tools.of_children(os.environ, temporary)
            if choice.method == "conda":  # with its history, the folder is an environment of conda without packages
                (prefix / "conda-meta").mkdir()
                (prefix / "conda-meta" / "history").touch()
            for what, argv in choice.steps(prefix):
                tell(what)
                tools.run(what, argv, env)
            tell("verifying it with tfgpu doctor")
            add_library_paths(prefix, choice.release)
            report = prove(prefix, matrix, os.environ)
            state, text = judged(report, choice.release)
            if state == "failed":
                raise InstallError(f"the environment was created, but does not work ({text})")
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
