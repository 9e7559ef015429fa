"""Chooses the first option of a plan that a program on this machine can install."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import msgspec
from packaging.version import Version

from tfgpu_doctor.install.records import Method, RefusedError
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.matrix.schema import SourceOnly
from tfgpu_doctor.plan.constraints import PlanRequest, violations
from tfgpu_doctor.plan.install_commands import Installation
from tfgpu_doctor.plan.ranking import MachineState, make_plan
from tfgpu_doctor.plan.records import Option, Plan
from tfgpu_doctor.plan.target import Target

MADE_HERE = ("as-is", "python", "conda-forge")  # kinds of options that need no other machine and no other driver
OLDEST_OF_UV = (3, 8)  # that uv can make an environment for
_WHY_NOT = {
    "driver": "it needs another driver",
    "python+driver": "it needs another driver",
    "container": "it is a container image",
    "wsl2": "it is for WSL2",
    "pre-release": "it is no stable release",
    "metal": "it is for a Mac",
    "cpu": "it cannot use a GPU",
}


@dataclass(frozen=True)
class Choice:
    """What is to be made, and with which program."""

    option: Option
    release: Release
    pythons: tuple[str, ...]  # that will do, the best first
    requirements: Callable[[str], tuple[str, ...]]  # of pip, for a Python
    conda: tuple[str, ...]  # what conda brings instead of pip: nothing, or TensorFlow itself
    methods: tuple[Method, ...]  # that can make it
    plan: Plan
    source_only: Callable[[str], tuple[SourceOnly, ...]] = lambda _: ()  # what is built, for a Python


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
    if option.kind == "conda-forge":
        release = matrix.tensorflow(option.tensorflow, target.platform)
        if release is None:
            return "the matrix has no such release"
        (command,) = option.commands["conda"]
        words = shlex.split(command)
        specs = tuple(words[words.index("--override-channels") + 1 :])
        return Choice(option, release, (option.python or "",), lambda _: (), specs, ("conda",), plan)
    release = matrix.tensorflow(option.tensorflow, target.platform, option.package)
    if release is None:
        return "the matrix has no such release"
    pythons = tuple(_pythons(request, release, option, preferred))

    def requirements(python: str) -> tuple[str, ...]:
        pins = (f"{one.package}=={one.version}" for one in matrix.source_only(release, python))
        return (*Installation(matrix, target, release, python).requirements, *pins)

    installation = Installation(matrix, target, release, pythons[0])
    if not (installation.self_contained or installation.cuda_from_pip):
        return f"CUDA {release.cuda} is not on the package index, and libraries of conda need LD_LIBRARY_PATH"
    old = any(tuple(map(int, one.split("."))) < OLDEST_OF_UV for one in pythons)
    methods: tuple[Method, ...] = ("pip", "conda") if old else ("uv", "pip", "conda")
    built = partial(matrix.source_only, release)
    return Choice(option, release, pythons, requirements, (), methods, plan, built)


def _pythons(request: PlanRequest, release: Release, option: Option, preferred: tuple[str, ...]) -> Iterator[str]:
    """The Pythons for which the release violates nothing: the one that was asked for, those preferred, the newest."""
    asked = request.target.python
    if asked in release.python:
        yield asked
        return
    for python in dict.fromkeys((*preferred, *reversed(release.python))):
        if python in release.python:
            target = msgspec.structs.replace(request.target, python=python)
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
    what = f"TensorFlow {row.versions[0]} cannot be used" if row else "no release of TensorFlow matches"
    why = "".join(f"; {one.saw}, needed is {one.need}" for one in row.violations) if row else ""
    return f"{what}{why.replace(';', ':', 1)}. tfgpu plan with the same options says more"


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
    return msgspec.structs.replace(target, os=system, glibc=glibc)
