"""Rules over what package managers say."""

from __future__ import annotations

import re

from packaging.requirements import InvalidRequirement, Requirement

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, rule
from tfgpu_doctor.findings.message_log import Said, heard
from tfgpu_doctor.inference.python_from_versions import versions_offered
from tfgpu_doctor.matrix.compatibility import minor
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.records.facts import Message
from tfgpu_doctor.records.report import Evidence, Fix, Severity

PIP_GUIDE = "https://www.tensorflow.org/install/pip"
_LAST_GPU_PACKAGE = {
    "linux": (2, 11),
    "windows": (2, 10),
}  # tensorflow-gpu 2.12.0 is a stub that refuses to be installed (its own page on the index)


def _wanted(message: Message) -> tuple[str, str | None]:
    """The package and the version that somebody asked for: ("tensorflow", "2.13.0")."""
    text = message.values.get("requirement") or message.values.get("wanted") or ""
    try:
        asked = Requirement(text.replace("'", "").strip().rstrip(".,"))
    except InvalidRequirement:
        name = re.match(r"[\w.-]+", text)
        return (name[0] if name else "tensorflow"), None
    versions = [one.version for one in asked.specifier if one.operator in ("==", "~=", "===", "<=", "<")]
    return asked.name, versions[0].removesuffix(".*") if versions else None


def offered(message: Message) -> list[str] | None:
    """The list that pip printed; None where it printed none, empty where it says "none"."""
    text = message.values.get("versions")
    if text is None:
        return None
    return [] if text.strip() == "none" else [one.strip() for one in text.split(",") if re.match(r"\s*\d", one)]


def python_of(matrix: Matrix, versions: list[str], package: str, platform: str | None) -> str | None:
    """The Python to which pip offers just these versions, where only one fits."""
    betrayed = versions_offered(matrix, package, versions, platform) if versions else None
    return betrayed.pythons[0] if betrayed and len(betrayed.pythons) == 1 else None


@rule(
    "tf.package-removed",
    Severity.ERROR,
    "The package tensorflow-gpu is no more",
    needs=("derived.told",),
    wants=("host.os",),
    docs=PIP_GUIDE,
)
def package_removed(context: Context, said: Said, os: str | None) -> Problem | None:
    """tensorflow-gpu is a stub since December 2022; its own text says so, or pip finds no such version."""
    seen = [*said.all("package-removed")]
    for message in said.all("no-distribution"):
        name, version = _wanted(message)
        if name.replace("_", "-") == "tensorflow-gpu" and version and _beyond_the_end(version, offered(message), os):
            seen.append(message)
    if not seen:
        return None
    return Problem(
        cause="tensorflow-gpu ended with 2.11: since 2.1 the package tensorflow holds the GPU build as well",
        evidence=heard(*seen),
        fixes=(
            *context.remedies.reinstall_best("the package tensorflow, with its CUDA libraries"),
            Fix(
                text="Name tensorflow instead of tensorflow-gpu in requirements and environment files; a "
                "dependency that asks for it needs a newer release"
            ),
        ),
    )


def _beyond_the_end(version: str, versions: list[str] | None, os: str | None) -> bool:
    """Whether tensorflow-gpu had ended before that version, and no other reason is in sight for what pip offers."""
    wanted, last = _minor_of(version), _LAST_GPU_PACKAGE.get(os or "linux", _LAST_GPU_PACKAGE["linux"])
    if versions:  # up to 2.10, the last for Windows, and no further: this Python is not what is in the way
        newest = max(map(_minor_of, versions))
        return newest >= _LAST_GPU_PACKAGE["windows"] and wanted > newest
    return versions is None and wanted > last


def _minor_of(version: str) -> tuple[int, int]:
    number = re.match(r"(\d+)\.(\d+)", version)
    return (int(number[1]), int(number[2])) if number else (0, 0)


@rule(
    "tf.python-unsupported",
    Severity.ERROR,
    "That TensorFlow has no wheel for this Python",
    needs=("derived.told",),
    wants=("python.version", "derived.release", "python.wheel_platform", "python.bits"),
    requires=("tf.package-removed",),
    docs=PIP_GUIDE,
)
def python_unsupported(
    context: Context,
    said: Said,
    python: str | None,
    release: Release | None,
    platform: str | None,
    bits: int | None,
) -> Problem | None:
    """pip finds no matching distribution, or refuses a wheel; or what is stated does not go together."""
    seen: list[Message] = list(said.all("no-distribution"))
    seen += said.all("wheel-not-supported", "requires-python")
    if ended_on_macos(said, platform):
        return None
    if not seen:
        return _too_narrow(context) if bits == 32 else _stated_only(context, said, python, release)
    if said.has("index-unreachable") and all(offered(m) == [] or offered(m) is None for m in seen):
        return None  # pip saw no list at all
    told = next((m for m in seen if offered(m)), None)
    guessed = python_of(context.matrix, offered(told) or [], _wanted(told)[0], platform) if told else None
    wanted = next((v for m in seen if (v := _wanted(m)[1])), None)
    row = context.matrix.tensorflow(wanted, platform or "linux_x86_64") if wanted else None
    more: list[Evidence] = []
    if guessed:
        more.append(evidence(f"the offered versions are those of Python {guessed}", f"line {told.line if told else 0}"))
    if python and python != guessed:
        more.append(evidence(f"Python {python}", context.source("python.version")))
    need = f"Python {row.python[0]} to {row.python[-1]} for TensorFlow {row.version}" if row and row.python else None
    here = guessed or python
    title = (
        f"TensorFlow {row.version} has no wheel for Python {here}"
        if row and here and minor(here) not in row.python
        else None
    )
    nothing = any(offered(m) == [] for m in seen)
    cause = "pip offers only what has a wheel for this Python, this system and this processor"
    if nothing:
        cause += "; here that is nothing: a Python newer or older than any wheel, a 32-bit one, or no way to the index"
    return Problem(
        title=title,
        cause=cause,
        evidence=(*heard(*seen, need=need), *more),
        fixes=(
            *(
                (
                    Fix(
                        text=f"Make an environment with Python {row.python[-1]} for it",
                        commands=context.remedies.new_environment(row.python[-1], f"tensorflow=={row.version}"),
                    ),
                )
                if row and row.python
                else ()
            ),
            *context.remedies.reinstall_best("or take a release that has one"),
            Fix(
                text="See which Python pip belongs to, and whether it is 64-bit",
                commands=("python -m pip debug --verbose | head -n 20",),
            ),
        ),
    )


def ended_on_macos(said: Said, platform: str | None) -> tuple[Message, ...]:
    """pip's answer to whoever wants tensorflow-gpu on a Mac: nothing after 1.1 (the index has no such wheel)."""
    if not (platform or "").startswith("macos"):
        return ()
    asked = [m for m in said.all("no-distribution") if _wanted(m)[0].replace("_", "-") == "tensorflow-gpu"]
    lists = [versions for m in asked if (versions := offered(m))]
    return tuple(asked) if lists and all(max(map(_minor_of, one)) <= (1, 1) for one in lists) else ()


def _too_narrow(context: Context) -> Problem:
    return Problem(
        title="This Python has 32 bits; TensorFlow's wheels have 64",
        cause="there never was a 32-bit wheel for a PC; one that is copied in place or forced in cannot be loaded",
        evidence=(evidence("32-bit Python", context.source("python.bits"), "64-bit Python"),),
        fixes=(
            Fix(
                text="Install a 64-bit Python that this TensorFlow has wheels for, and install TensorFlow there",
                commands=("python -c \"import struct; print(8 * struct.calcsize('P'))\"",),
            ),
        ),
    )


def _stated_only(context: Context, said: Said, python: str | None, release: Release | None) -> Problem | None:
    """A Python and a TensorFlow that never went together are named; forms are often filled carelessly."""
    if python is None or release is None or not release.python or minor(python) in release.python:
        return None
    return Problem(
        title=f"TensorFlow {release.version} has no wheel for Python {minor(python)}",
        severity=Severity.WARNING,
        cause="as stated, the two do not go together: one of the numbers is wrong, or it is another Python that runs",
        evidence=(
            evidence(
                f"Python {python}",
                context.source("python.version"),
                f"{release.python[0]} to {release.python[-1]}",
                f"TensorFlow {release.version} (wheels)",
            ),
        ),
        fixes=(
            Fix(
                text="See what really runs",
                commands=("python -c 'import sys, tensorflow as tf; print(sys.version, tf.__version__)'",),
            ),
        ),
    )


@rule(
    "tf.known-bug",
    Severity.ERROR,
    "The extra and-cuda of this release cannot be installed",
    needs=("derived.told",),
    wants=("derived.release",),
    docs=PIP_GUIDE,
)
def extra_not_on_index(context: Context, said: Said, release: Release | None) -> Problem | None:
    """2.14 and 2.15.0 ask for TensorRT packages of which the public index has no wheel for this Python."""
    seen = said.all("extra-not-on-index")
    if not seen and (missing := said.all("dependency-not-on-index")):
        return _dependency_not_there(missing)
    if not seen:
        return None
    version = release.version if release else "2.15.0"
    return Problem(
        title=f"The extra and-cuda of TensorFlow {version} cannot be installed",
        cause="it names versions of TensorRT that the public index does not have; 2.15.1 does without TensorRT",
        evidence=heard(*seen),
        fixes=(
            Fix(
                text="Install the next release, whose extra needs no TensorRT",
                commands=context.remedies.pip_install("tensorflow[and-cuda]==2.15.1"),
            ),
        ),
    )


def _dependency_not_there(seen: tuple[Message, ...]) -> Problem:
    package = seen[0].values["package"]
    return Problem(
        title=f"The index has no {package} of the version that this release asks for",
        cause="the package that asks for it names a version that was never put there, or that is not there for this "
        "Python and system",
        evidence=heard(*seen),
        fixes=(
            Fix(text="See which versions there are", commands=(f"python -m pip index versions {package}",)),
            Fix(text="Take the release before, or another one whose dependencies are there"),
        ),
    )
