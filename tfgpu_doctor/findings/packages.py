"""What can be installed: TensorFlow for this Python, and a package that has been discontinued."""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.manifest_signs import CONDA_RECIPE, USE_PIP, conda_builds, in_manifests
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.findings.no_wheel import (
    FOR_64_BITS,
    for_glibc,
    musl_evidence,
    of_alpine,
    on_musl,
    pythons_of,
    requested_row,
    with_32_bits,
    with_old_pip,
)
from tfgpu_doctor.findings.pip_answers import ended_on_macos, newest_minor, offered, python_offered_to, requested
from tfgpu_doctor.findings.planned_wheels import no_release, without_wheels
from tfgpu_doctor.manifests import Requirement
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.plan.constraints import best_release
from tfgpu_doctor.plan.file_edits import replacement, write_python, write_tensorflow
from tfgpu_doctor.plan.planned import PlannedEnvironment, pinned, specifier
from tfgpu_doctor.records.distributions import TENSORFLOW
from tfgpu_doctor.records.facts import Message, Package, value_or
from tfgpu_doctor.records.report import Evidence, Fix, Severity
from tfgpu_doctor.records.versions import at_least, capability, minor

GUIDE = "https://www.tensorflow.org/install/pip"
_OLDEST_PYTHON = (3, 6)  # of the examination, probes/tensorflow_probe.py


def _another_python(context: Context) -> tuple[Fix, ...]:
    if value_or(context.facts.host.libc, "").startswith("musl"):
        return for_glibc(context)
    if value_or(context.facts.python.bits, 64) == 32:
        return (FOR_64_BITS,)
    if fixes := context.remedies.reinstall_best("it has wheels for that Python"):
        return fixes
    platform = value_or(context.facts.python.wheel_platform, "linux_x86_64")
    rows = context.matrix.stable(platform=platform, package="tensorflow")
    row = next((row for row in rows if context.remedies.can_use(row)), None)
    if row is None or context.remedies.image:
        return ()
    text = f"Create an environment with Python {context.remedies.installation(row).python}, and install TensorFlow "
    return (Fix(text=f"{text}{row.version} there", commands=context.remedies.new_environment(row)),)


PYTHON_UNSUPPORTED = finding(
    "tf.python-unsupported",
    layer="Python",
    severity=Severity.ERROR,
    title="There is no TensorFlow wheel for this Python",
    cause="TensorFlow is published as wheels, each for one Python version, operating system and processor type; pip "
    "offers only those that match",
    fixes=_another_python,
    docs=GUIDE,
)


@PYTHON_UNSUPPORTED.sign
def python_without_wheels(
    context: Context,
    python_version: str,
    wheel_platform: str | None = None,
    packages: tuple[Package, ...] | None = None,
    python_bits: int | None = None,
    libc: str | None = None,
) -> Problem | None:
    """No release has a wheel for this Python, or only releases as old as it; asked only where none is installed."""
    if not context.probed or any(package.name in TENSORFLOW for package in packages or ()):
        return None  # a person can install into another Python than the one that a text names: pip's answer decides
    if context.planned and context.planned.tensorflow:
        return None  # its line and that of its Python are judged together, in no_wheel_for_required_python
    if libc and libc.startswith("musl"):
        return on_musl(evidence(libc, context.source("host.libc"), "glibc"))
    # unknown for a Python that is too old to be examined
    return _outside_wheels(context, python_version, wheel_platform or "linux_x86_64", is_32_bit=python_bits == 32)


def _outside_wheels(context: Context, python_version: str, platform: str, *, is_32_bit: bool) -> Problem | None:
    """What the wheels of all releases say of a Python."""
    rows = context.matrix.stable(platform, "tensorflow")
    python = minor(python_version)
    last = None if is_32_bit else next((row.version for row in rows if python in row.python), None)
    if not rows or (last and capability(python) >= _OLDEST_PYTHON):
        return None
    newest = rows[0]
    ended = f"TensorFlow {last} was the last release for Python {python}"
    found = f"Python {python_version}{' (32-bit)' * is_32_bit}"
    source = f"TensorFlow {newest.version} on {platform} (wheels)"
    return Problem(
        title=ended if last else f"There is no TensorFlow wheel for Python {python}",
        evidence=(evidence(found, context.source("python.version"), f"64-bit {pythons_of(newest)}", source),),
    )


_NOTHING_OFFERED = (
    "pip offers no version at all: this Python is newer or older than every wheel, or 32-bit, or the system has no "
    "glibc (Alpine), or the index cannot be reached or has no TensorFlow"
)


def _python_of_pip(context: Context) -> Fix:
    command = context.remedies.filtered("python -m pip debug --verbose", most=20)
    return Fix(text="See which Python pip belongs to, and whether it is 64-bit", commands=(command,))


def _what_decides(context: Context) -> Fix:
    """Why pip offers nothing: the same command in the same environment would fail again."""
    newest = next(row for row in context.matrix.stable(package="tensorflow") if row.gpu)
    python = context.remedies.python
    system = "import platform as p, sys; print(sys.version, p.architecture()[0], p.machine(), p.libc_ver())"
    text = (
        f"See why no wheel matches. The wheels are for {pythons_of(newest)}, 64-bit, x86_64 or aarch64, and glibc. "
        "The second command fails if the index cannot be reached"
    )
    return Fix(text=text, commands=(f'{python} -c "{system}"', f"{python} -m pip download --no-deps pip"))


def _another_environment(context: Context) -> tuple[Fix, ...]:
    """A Python that has wheels, in an environment of its own."""
    row = best_release(context.facts, context.matrix, this_python=False)
    if row is None:
        return ()
    python = context.remedies.installation(row).python
    text = f"If the Python is the reason, create an environment with Python {python}, 64-bit, on a glibc system"
    return (Fix(text=text, commands=context.remedies.new_environment(row)),)


@PYTHON_UNSUPPORTED.sign(unless=("tf.package-removed",))
def no_matching_distribution(
    context: Context,
    messages: MessageLog,
    python_version: str | None = None,
    release: Release | None = None,
    wheel_platform: str | None = None,
    python_bits: int | None = None,
) -> Problem | None:
    """pip finds no matching distribution, or refuses a wheel; or the stated versions are incompatible."""
    refused = messages.all("no-distribution", "wheel-not-supported", "requires-python")
    if ended_on_macos(messages, wheel_platform):
        return None
    if not refused:
        return with_32_bits(context) if python_bits == 32 else _incompatible(context, python_version, release)
    if messages.has("index-unreachable") and not any(offered(message) for message in refused):
        return None  # pip got no list at all
    if (alpine := messages.all("musl-system")) and any(offered(message) in ([], None) for message in refused):
        seen = (*message_evidence(*refused, most=2), *musl_evidence(alpine))
        return on_musl(*seen, fixes=for_glibc(context))
    row = requested_row(context, refused, wheel_platform)
    if old := with_old_pip(context, refused, row, python_version):
        return old
    python, more = _pip_python(context, refused, python_version, wheel_platform)
    need = f"{pythons_of(row)} for TensorFlow {row.version}" if row else None
    seen = (*message_evidence(*refused, need=need), *more)
    no_wheel = None
    if row is not None and python and minor(python) not in row.python:
        no_wheel = f"TensorFlow {row.version} has no wheel for Python {python}"
    return _refused(context, refused, row, no_wheel, seen)


def _refused(
    context: Context,
    refused: tuple[Message, ...],
    row: Release | None,
    no_wheel: str | None,
    seen: tuple[Evidence, ...],
) -> Problem:
    """pip is offered other releases, or none at all."""
    for_it = _environment_for(context, row) if row else ()
    if any(offered(message) == [] for message in refused):
        return Problem(
            title=no_wheel or "pip is offered no TensorFlow at all",
            cause=_NOTHING_OFFERED,
            evidence=seen,
            fixes=(_what_decides(context), *for_it, *_another_environment(context)),
        )
    return Problem(title=no_wheel, evidence=seen, fixes=(*for_it, *_another_python(context), _python_of_pip(context)))


def _pip_python(
    context: Context, refused: tuple[Message, ...], stated: str | None, platform: str | None
) -> tuple[str | None, list[Evidence]]:
    """The Python that pip belongs to, by the versions that it offers or else as the text names it."""
    listed = next((message for message in refused if offered(message)), None)
    inferred = python_offered_to(context.matrix, listed, platform) if listed else None
    found = []
    if inferred and listed:
        found.append(evidence(f"the offered versions are those for Python {inferred}", f"line {listed.line}, inferred"))
    if stated and stated != inferred:
        found.append(evidence(f"Python {stated}", context.source("python.version")))
    return inferred or stated, found


def _environment_for(context: Context, row: Release) -> tuple[Fix, ...]:
    if not context.remedies.can_use(row):
        return ()
    text = f"Create an environment with Python {context.remedies.installation(row).python} for it"
    return (Fix(text=text, commands=context.remedies.new_environment(row)),)


def _incompatible(context: Context, python: str | None, release: Release | None) -> Problem | None:
    """A Python and a TensorFlow without a wheel for it are named; forms are often filled in carelessly."""
    if python is None or release is None or not release.python or minor(python) in release.python:
        return None
    command = "python -c 'import sys, tensorflow as tf; print(sys.version, tf.__version__)'"
    wheels = f"TensorFlow {release.version} (wheels)"
    return Problem(
        title=f"TensorFlow {release.version} has no wheel for Python {minor(python)}",
        severity=Severity.WARNING,
        cause="the stated versions are incompatible: one is mistyped, or a different Python is running",
        evidence=(evidence(f"Python {python}", context.source("python.version"), pythons_of(release), wheels),),
        fixes=(Fix(text="Print the versions that are running", commands=(command,)),),
    )


@in_manifests(PYTHON_UNSUPPORTED, unless=("tf.package-removed",))
def image_with_musl(view: PlannedEnvironment) -> Iterator[Problem]:
    """pip finds no wheel of TensorFlow in an image of Alpine."""
    if view.base and view.tensorflow and not view.conda:
        yield from of_alpine(view.base.image)


@in_manifests(PYTHON_UNSUPPORTED, unless=("tf.package-removed",))
def no_wheel_for_required_python(view: PlannedEnvironment) -> Iterator[Problem]:
    """No allowed release has a wheel for the Python, or for some of those that are allowed."""
    if view.tensorflow is None or view.conda:
        return
    if view.allowed:
        yield from without_wheels(view, view.tensorflow, view.allowed)
    else:
        yield from no_release(view, view.tensorflow)


@in_manifests(PYTHON_UNSUPPORTED, unless=("tf.package-removed",))
def no_conda_build_for_required_python(view: PlannedEnvironment) -> Iterator[Problem]:
    """conda-forge has no build of these versions for the Python."""
    rows, pythons, tensorflow = conda_builds(view), view.pythons, view.tensorflow
    if tensorflow is None or not rows or not pythons:
        return
    if any(python in row.python for row in rows for python in pythons):
        return
    first, last = rows[0].python[0], rows[0].python[-1]
    recipe = f"{CONDA_RECIPE}, {rows[0].version}"
    yield Problem(
        title=f"conda-forge has no {tensorflow.text} for Python {pythons[-1]}",
        cause="conda cannot solve the environment",
        evidence=(Evidence(f"Python {pythons[-1]}", view.python_place, f"Python {first} to {last}", recipe),),
        fixes=(write_python(view, rows[0].python), USE_PIP),
    )


def _require_tensorflow(context: Context) -> tuple[Fix, ...]:
    text = "Require tensorflow instead of tensorflow-gpu; update a dependency that requires tensorflow-gpu"
    return (*context.remedies.reinstall("the package tensorflow, with its CUDA libraries"), Fix(text=text))


PACKAGE_REMOVED = finding(
    "tf.package-removed",
    layer="Python",
    severity=Severity.ERROR,
    title="tensorflow-gpu has been discontinued",
    cause="2.11.0 was the last release, and 2.12.0 is an empty package that fails to install; the package tensorflow "
    "includes GPU support since 2.1",
    fixes=_require_tensorflow,
    docs=GUIDE,
)


@PACKAGE_REMOVED.sign
def empty_package_installed(context: Context, packages: tuple[Package, ...]) -> Problem | None:
    """tensorflow-gpu 2.12 contains nothing."""
    empty = next((p for p in packages if p.name == "tensorflow-gpu" and at_least(p.version, "2.12")), None)
    if empty is None:
        return None
    remedies = context.remedies
    same = remedies.reinstall("the package tensorflow of the same version", minor(empty.version))
    installed = same[0].commands if same else remedies.pip_install(*remedies.tensorflow)
    replaced = Fix(text="Replace it with tensorflow", commands=(remedies.pip_uninstall("tensorflow-gpu"), *installed))
    return Problem(
        evidence=(evidence(f"tensorflow-gpu {empty.version}", empty.location or "installed packages", "tensorflow"),),
        fixes=(replaced,) if installed else (),
    )


@PACKAGE_REMOVED.sign
def removal_message(messages: MessageLog, os: str | None = None) -> Problem | None:
    """The empty package prints what it is, or pip finds no such version."""
    seen = [*messages.all("package-removed")]
    for message in messages.all("no-distribution"):
        name, version = requested(message)
        if name.replace("_", "-") == "tensorflow-gpu" and version and _after_the_last(version, offered(message), os):
            seen.append(message)
    return Problem(evidence=message_evidence(*seen)) if seen else None


def _after_the_last(version: str, versions: list[str] | None, os: str | None) -> bool:
    """Whether tensorflow-gpu ended before that version, and nothing else explains what pip offers."""
    wanted, last_on_windows = newest_minor([version]), (2, 10)
    if versions:  # up to 2.10, the last for Windows, and no further: this Python is not the reason
        return newest_minor(versions) >= last_on_windows and wanted > newest_minor(versions)
    return versions is None and wanted > (last_on_windows if os == "windows" else (2, 11))


@in_manifests(PACKAGE_REMOVED)
def discontinued_package_required(view: PlannedEnvironment) -> Iterator[Problem]:
    """tensorflow-gpu or tf-nightly-gpu is required; conda-forge keeps the former as a metapackage."""
    # beside tensorflow it is one of two: tf.package-conflict
    for requirement in (view.tensorflow, *(view.others if view.conda else ())):
        if requirement is None or requirement.installer == "conda":
            continue
        if requirement.name not in ("tensorflow-gpu", "tf-nightly-gpu"):
            continue
        wanted, better = specifier(requirement.specifier), replacement(view)
        nothing = wanted is not None and wanted.contains("2.12.0")  # that one is empty
        nothing = nothing or (requirement is view.tensorflow and view.python is not None and view.release is None)
        if not nothing and pinned(requirement) and _renamed(view, requirement) is None:
            continue  # the GPU build of that release has no other name
        yield Problem(
            title=f"{requirement.name} cannot be installed" if nothing else f"{requirement.name} has been discontinued",
            cause=PACKAGE_REMOVED.cause,
            evidence=(Evidence(requirement.text, str(requirement.place), "tensorflow", GUIDE),),
            fixes=tuple(_under_its_name(view, requirement, better)),
            severity=Severity.ERROR if nothing else Severity.WARNING,
        )


def _renamed(view: PlannedEnvironment, one: Requirement) -> Release | None:
    """The release that is asked for by its number, under the name `tensorflow`; before 2.1 that was the CPU build."""
    row = view.matrix.tensorflow(pinned(one) or "", view.target.platform)
    return row if row and row.gpu else None


def _under_its_name(view: PlannedEnvironment, one: Requirement, better: str | None) -> Iterator[Fix]:
    """The same release as `tensorflow`; another one only where none is asked for by its number."""
    row = _renamed(view, one)
    if row and view.pythons and not set(view.pythons) & set(row.python):
        yield write_python(view, row.python)
    elif row:
        yield write_tensorflow(one, f"tensorflow{one.specifier}")
    elif better and pinned(one) is None:
        yield write_tensorflow(one, better)
