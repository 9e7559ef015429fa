"""TensorFlow where there is no CUDA: on the CPU, and on the GPU of a Mac. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from packaging.version import Version

from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.plan.constraints import PlanRequest
from tfgpu_doctor.plan.delivered import older_than_five_years
from tfgpu_doctor.plan.install_commands import (
    OLD_PIP,
    OLDEST_OF_UV,
    list_gpus,
    missing_on_macos,
    newer_pip,
    what_may_be_missing,
)
from tfgpu_doctor.plan.records import Kind, Option
from tfgpu_doctor.plan.target import NO_GLIBC
from tfgpu_doctor.records.report import Fix
from tfgpu_doctor.records.versions import capability

# The newest wheels of tensorflow-metal on the index: arm64, macOS 12 and later; their METADATA names no TensorFlow. It
# came after TensorFlow 2.18.0, which 1.1.0 could not load (tensorflow issues 81987, 84167), and before 2.19.0.
METAL, METAL_PYTHONS = "1.2.0", ("3.9", "3.10", "3.11", "3.12")
METAL_FROM, METAL_TO = Version("2.18.0"), Version("2.19.0")
METAL_GUIDE = "https://developer.apple.com/metal/tensorflow-plugin/"


def on_macos(request: PlanRequest, interpreter: str | None) -> Iterator[Option]:
    """The GPU of a Mac with Apple silicon, then the CPU."""
    if request.target.machine == "arm64":
        for row in _rows(request):
            if METAL_FROM <= Version(row.version) < METAL_TO:
                wanted = request.target.python
                pythons = tuple(one for one in METAL_PYTHONS if one in row.python)
                python = wanted if wanted in pythons else pythons[-1]
                own = interpreter if python == wanted else None
                title = f"TensorFlow {row.version} with tensorflow-metal {METAL}: the GPU of Apple silicon"
                yield _option("metal", title, row, python, (f"tensorflow-metal=={METAL}",), own, pythons)
                break
    yield from on_cpu(request, interpreter)


def on_cpu(request: PlanRequest, interpreter: str | None) -> Iterator[Option]:
    """The newest release for the target's Python, and the newest with another Python where that is newer.

    Args:
        interpreter: a program of the machine that is the target's Python.
    """
    rows = list(_rows(request))
    wanted = request.target.python
    newest = next(iter(rows), None)
    here = next((row for row in rows if wanted in row.python), None)
    found = [(here, str(wanted), "")] if here else []
    if newest and newest is not here:
        python = newest.python[-1]
        found.append((newest, python, f" with Python {python}" if wanted else ""))
    for row, python, suffix in sorted(found, key=lambda one: older_than_five_years(request.matrix, one[0].released)):
        title = f"TensorFlow {row.version} on the CPU{suffix}"
        yield _option("cpu", title, row, python, (), interpreter if not suffix else None)


def _rows(request: PlanRequest) -> Iterator[Release]:
    target = request.target
    for row in request.matrix.stable(platform=target.platform, package="tensorflow"):
        asked = request.specifier is None or request.specifier.contains(row.version, prereleases=True)
        old = target.glibc == NO_GLIBC or (row.glibc and target.glibc and Version(target.glibc) < Version(row.glibc))
        if asked and row.python and not old and not row.yanked:
            yield row


def _option(
    kind: Kind,
    title: str,
    row: Release,
    python: str,
    beside: tuple[str, ...],
    interpreter: str | None,
    pythons: tuple[str, ...] | None = None,
) -> Option:
    commands = _commands(row, python, beside, interpreter)
    start = interpreter or f"python{python}"
    code = list_gpus(row.version) if kind == "metal" else "import tensorflow as tf; print(tf.__version__)"
    folder = "tf\\Scripts\\python" if row.platform.startswith("windows") else "~/tf/bin/python"
    there = interpreter is not None
    missing: Iterable[Fix] = ()
    if row.platform.startswith("macos"):
        missing = missing_on_macos(python, start, there=there)
    elif not row.platform.startswith("windows"):
        missing = what_may_be_missing(tuple(commands), python, start, there=there)
    return Option(
        kind=kind,
        title=title,
        tensorflow=row.version,
        package=row.package,
        python=python,
        pythons=pythons or row.python,
        cuda=None,
        cudnn=None,
        min_driver=None,
        released=row.released,
        commands=commands,
        missing=tuple(missing),
        then=(Fix("Check it", (f'{folder} -c "{code}"',)),),
        see=METAL_GUIDE if kind == "metal" else None,
    )


def _commands(
    row: Release, python: str, beside: tuple[str, ...], interpreter: str | None
) -> dict[str, tuple[str, ...]]:
    packages = " ".join(shlex.quote(one) for one in (f"{row.package}=={row.version}", *beside))
    if row.platform.startswith("windows"):
        return {"pip": (f"py -{python} -m venv tf", f"tf\\Scripts\\python -m pip install {packages}")}
    pip = "~/tf/bin/python -m pip install"
    made = (f"{interpreter or f'python{python}'} -m venv ~/tf",)
    if python == "2.7":  # has no module venv
        made = ("virtualenv -p python2.7 ~/tf",)
    upgrade = (f"{pip} --upgrade {newer_pip(python)}",) if capability(python) <= OLD_PIP else ()
    found = {"pip": (*made, *upgrade, f"{pip} {packages}")}
    if capability(python) >= OLDEST_OF_UV:
        found["uv"] = (f"uv venv --python {python} ~/tf", f"uv pip install --python ~/tf/bin/python {packages}")
    return found
