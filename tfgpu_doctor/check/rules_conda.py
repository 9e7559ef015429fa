"""Rules about TensorFlow from conda-forge, held against the builds that it has. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.check.engine import Problem, rule
from tfgpu_doctor.check.view import View, specifier
from tfgpu_doctor.matrix.compatibility import capability, minor, runs_on
from tfgpu_doctor.matrix.schema import CondaBuild
from tfgpu_doctor.records.report import Evidence, Fix

RECIPE = "conda-forge's tensorflow recipe"
_WITH_PIP = Fix("Or take TensorFlow from pip instead: tfgpu plan has the commands")


def builds(view: View) -> tuple[CondaBuild, ...]:
    """The builds of conda-forge that the match spec admits on the platform; none where another channel may serve."""
    one = view.tensorflow
    channels = view.environment.channels
    if one is None or not view.conda or (channels and "conda-forge" not in channels):
        return ()
    wanted = specifier(one.specifier)
    rows = (row for row in view.matrix.data.conda_forge if row.platform == view.target.platform)
    return tuple(row for row in rows if wanted is not None and wanted.contains(row.version))


@rule("tf.python-unsupported")
def python_unsupported(view: View) -> Iterator[Problem]:
    """conda-forge has no build of these versions for the Python."""
    rows, pythons, one = builds(view), view.pythons, view.tensorflow
    if one is None or not rows or not pythons or any(python in row.python for row in rows for python in pythons):
        return
    has = f"Python {rows[0].python[0]} to {rows[0].python[-1]}"
    yield Problem(
        f"conda-forge has no {one.text} for Python {pythons[-1]}",
        "conda will say that the environment cannot be solved",
        (Evidence(f"Python {pythons[-1]}", view.python_place, has, f"{RECIPE}, {rows[0].version}"),),
        (Fix(f"In {view.python_place}, write python={rows[0].python[-1]}"), _WITH_PIP),
    )


@rule("tf.cpu-build")
def cpu_build(view: View) -> Iterator[Problem]:
    """conda-forge has CPU builds only of these versions, or for this platform."""
    rows, one = builds(view), view.tensorflow
    if one and rows and view.wants_gpu and not any(row.cuda for row in rows):
        yield Problem(
            f"conda-forge has no GPU build of {one.text} for {view.target.platform}",
            "TensorFlow will run on the CPU, whatever GPU there is",
            (Evidence(one.text, str(one.place), "a build with CUDA", f"{RECIPE}, {rows[0].version}"),),
            (_WITH_PIP,),
        )


@rule("cuda.version-mismatch")
def cuda_mismatch(view: View) -> Iterator[Problem]:
    """A CUDA is pinned for which conda-forge has no build of these versions."""
    rows = [row for row in builds(view) if row.cuda]
    pins = [one for one in view.cudas if "." in one.version]
    for pin in pins:
        if rows and not any(minor(pin.version) in map(minor, row.cuda) for row in rows):
            has = ", ".join(rows[0].cuda)
            yield Problem(
                f"conda-forge has no build of TensorFlow {rows[0].version} for CUDA {pin.version}",
                "conda will not solve the environment, or take a CPU build",
                (Evidence(pin.text, pin.place, f"CUDA {has}", f"{RECIPE}, {rows[0].version}"),),
                (Fix(f"In {pin.place}, write cuda-version={rows[0].cuda[0]}, or leave the choice to conda"), _WITH_PIP),
            )


@rule("gpu.arch-too-old")
def arch_too_old(view: View) -> Iterator[Problem]:
    """The target's card is older than the kernels of every build."""
    yield from _architecture(view, newer=False)


@rule("gpu.arch-too-new")
def arch_too_new(view: View) -> Iterator[Problem]:
    """The target's card is newer than the kernels of every build."""
    yield from _architecture(view, newer=True)


def _architecture(view: View, *, newer: bool) -> Iterator[Problem]:
    rows = [row for row in builds(view) if row.cuda and (row.sass or row.ptx)]
    for gpu in view.target.gpus if rows else ():
        card = gpu.compute_capability
        above = capability(card) > max(capability(one) for one in (*rows[0].sass, *rows[0].ptx))
        if above == newer and not any(runs_on(row, card) == "sass" for row in rows):
            name = gpu.name or f"compute capability {card}"
            has = f"one of SASS {' '.join(rows[0].sass)}"
            yield Problem(
                f"conda-forge's TensorFlow {rows[0].version} has no kernels for {name}",
                "its builds hold no SASS for the card",
                (Evidence(f"{name}: compute capability {card}", "--gpu", has, f"{RECIPE}, {rows[0].version}"),),
                (Fix("See which build has: tfgpu plan --gpu NAME"),),
            )
