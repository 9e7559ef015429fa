"""Rules about the package itself: dead ones, two at once, no wheel for the Python, builds without CUDA. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from packaging.version import Version

from tfgpu_doctor.check.engine import GUIDE, Problem, replacement, rule, write, write_all
from tfgpu_doctor.check.view import View, specifier
from tfgpu_doctor.manifests import Requirement
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.records.report import Evidence, Fix, Severity


@rule("tf.package-removed")
def package_removed(view: View) -> Iterator[Problem]:
    """tensorflow-gpu: an empty package since 2.12, and no longer needed since 2.1."""
    found = [one for one in (view.tensorflow, *view.others) if one and one.name in ("tensorflow-gpu", "tf-nightly-gpu")]
    for one in found:
        if one.installer == "conda":
            continue  # a metapackage that conda-forge keeps
        wanted = specifier(one.specifier)
        dead = wanted is not None and wanted.contains("2.12.0")
        better = replacement(view)
        yield Problem(
            f"{one.name} is dead" if not dead else f"{one.name} cannot be installed",
            "since 2.12 the package does nothing but raise an error; tensorflow itself has had the GPU in it since 2.1"
            if dead
            else "its last release is 2.11.0, and nothing will follow",
            (Evidence(one.text, str(one.place), "tensorflow", GUIDE),),
            (write(one, better),) if better else (),
            Severity.ERROR if dead else Severity.WARNING,
        )


@rule("tf.package-conflict")
def package_conflict(view: View) -> Iterator[Problem]:
    """Two distributions that put their files into the same folder."""
    names = {one.name for one in view.others} - {"tensorflow-base"}
    if view.tensorflow is None or not names or view.conda:
        return
    seen = [Evidence(one.text, str(one.place), f"{view.tensorflow.name} alone", GUIDE) for one in view.others]
    yield Problem(
        f"{view.tensorflow.name} and {', '.join(sorted(names))} overwrite each other",
        "each of them brings the folder tensorflow/; which files win depends on the order of installation",
        tuple(seen),
        tuple(Fix(f"Take {one.text!r} out of {one.place}") for one in view.others),
    )


@rule("tf.python-unsupported")
def python_unsupported(view: View) -> Iterator[Problem]:
    """No admitted release has a wheel for the Python, or for some of those that are admitted."""
    one, pythons, allowed = view.tensorflow, view.pythons, view.allowed
    if one is None or view.conda:
        return
    if not allowed:
        yield from _no_release(view, one)
        return
    if not pythons:
        return
    with_wheels = {python for row in allowed for python in row.python}
    without = [python for python in pythons if python not in with_wheels]
    newest = allowed[0]
    seen = Evidence(
        f"Python {', '.join(without)}",
        view.python_place,
        f"Python {newest.python[0]} to {newest.python[-1]}",
        f"{one.text} ({one.place}; wheels of {newest.version})",
    )
    if len(without) == len(pythons):
        yield Problem(
            f"{one.text} has no wheel for Python {without[-1]}",
            'pip will say "No matching distribution found"',
            (seen,),
            tuple(_other_python(view, one, newest)),
        )
    elif without and len(pythons) > 1 and one.specifier:
        yield Problem(
            f"{one.text} has no wheel for Python {', '.join(without)}, which {view.python_place} admits",
            "uv and Poetry resolve for every Python that is admitted, and will refuse; pip fails on those",
            (seen,),
            (Fix(f"In {view.python_place}, admit Python {newest.python[0]} to {newest.python[-1]} only"),),
            Severity.WARNING,
        )


def _no_release(view: View, one: Requirement) -> Iterator[Problem]:
    rows = view.matrix.releases(platform=view.target.platform, package=one.name)
    wanted = specifier(one.specifier)
    newest = next((row for row in rows if not row.prerelease), None)
    if newest is None or wanted is None or (one.name == "tensorflow-gpu" and wanted.contains("2.12.0")):
        return
    if any(
        wanted.contains(f"{newest.version.split('.')[0]}.{int(newest.version.split('.')[1]) + n}.0") for n in (1, 2, 3)
    ):
        return  # newer than this matrix
    yield Problem(
        f"No release of {one.name} matches {one.specifier} on {view.target.platform}",
        'pip will say "No matching distribution found"',
        (Evidence(one.text, str(one.place), f"a release such as {newest.version}", "names of the wheels"),),
        tuple(write_all(view, one)),
    )


def _other_python(view: View, one: Requirement, newest: Release) -> Iterator[Fix]:
    yield Fix(f"Use Python {newest.python[-1]}: {newest.package} {newest.version} has wheels for it")
    if better := replacement(view):
        yield write(one, better)


@rule("tf.windows-native")
def windows_native(view: View) -> Iterator[Problem]:
    """CUDA on Windows itself ended with 2.10."""
    row = view.release
    if (
        view.target.os == "windows"
        and view.wants_gpu
        and row
        and not row.gpu
        and Version(row.version) >= Version("2.11")
    ):
        yield Problem(
            f"TensorFlow {row.version} has no CUDA on Windows",
            "2.10 was the last release with GPU support on native Windows; the same code runs on the CPU there",
            (Evidence(f"TensorFlow {row.version} on Windows", view.where, "2.10, or WSL2", GUIDE),),
            (Fix("Run it in WSL2"), *_below(view, "2.11")),
        )


@rule("tf.cpu-build")
def cpu_build(view: View) -> Iterator[Problem]:
    """A GPU is meant to be used, but what will be installed holds no CUDA."""
    row, one, base = view.release, view.tensorflow, view.base
    if not view.wants_gpu or (row and view.target.os == "windows" and Version(row.version) >= Version("2.11")):
        return
    if one is None and base and base.tensorflow and not base.gpu:
        yield Problem(
            f"{base.image.reference} is the image without CUDA",
            "TensorFlow will run on the CPU, whatever GPU the container is given",
            (Evidence(base.image.reference, str(base.image.place), f"{base.image.reference}-gpu", "image tags"),),
            (Fix(f"In {base.image.place}, write {base.image.name}:{base.image.tag}-gpu"),),
        )
    elif one is not None and one.build and "cpu" in one.build:
        yield _cpu_problem(view, one, f"{one.text} asks conda for a CPU build")
    elif one is not None and row is not None and not row.gpu and not (view.conda or one.name == "tensorflow-base"):
        yield _cpu_problem(view, one, f"{row.package} {row.version} holds no CUDA on {row.platform}")


def _cpu_problem(view: View, one: Requirement, title: str) -> Problem:
    better = replacement(view)
    return Problem(
        title,
        "TensorFlow will run on the CPU, whatever GPU there is",
        (Evidence(one.text, str(one.place), "a build with CUDA", "compat_matrix.yaml"),),
        (write(one, better),) if better else (Fix("Use an x86_64 Linux machine, or a container: tfgpu plan"),),
    )


def _below(view: View, version: str) -> Iterable[Fix]:
    better = replacement(view, version)
    if view.tensorflow and better:
        yield Fix(f"Or, in {view.tensorflow.place}, write {better!r}, with CUDA and cuDNN beside it (tfgpu plan)")
