"""Findings about packages."""

from __future__ import annotations

import re

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.inference.python_from_versions import versions_offered
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.records.distributions import TENSORFLOW
from tfgpu_doctor.records.facts import Message, Package, Phase
from tfgpu_doctor.records.report import Evidence, Fix, Severity
from tfgpu_doctor.records.versions import capability, minor

PIP_GUIDE = "https://www.tensorflow.org/install/pip"


SOURCE_TABLE = "https://www.tensorflow.org/install/source"


PROVIDERS = frozenset(TENSORFLOW)  # distributions that bring the module `tensorflow`


# `tensorflow` on Windows and Apple silicon was an empty wheel that depends on one of these (2.10 to 2.16, wheels)
_HALVES = frozenset({"tensorflow-intel", "tensorflow-macos", "tensorflow-cpu-aws"})


# same minor as TensorFlow until Keras 3 came with 2.16 (Requires-Dist of the wheels)
_COMPANIONS = ("keras", "tensorboard", "tensorflow-estimator", "tf-keras")


OLDEST_PYTHON = (3, 6)  # what patient.py runs on


def _strangers(packages: tuple[Package, ...], release: Release | None) -> list[Evidence]:
    """Companions whose version the TensorFlow release beside them does not allow."""
    found = []
    asked = _asked_for(packages)
    for package in packages:
        if release is None or package.name not in _COMPANIONS:
            continue
        need = _keras_for(release) if package.name == "keras" else _same_minor(package.name, release.version)
        need = asked.get(package.name, need)  # 2.4 asks for tensorboard ~=2.4, which is anything below 3
        if need and not allows(need, package.version):
            found.append(
                evidence(
                    f"{package.name} {package.version}",
                    package.location or "installed packages",
                    f"{package.name} {need}",
                    f"TensorFlow {release.version} (wheel)",
                )
            )
    return found


def _keras_for(release: Release) -> str | None:
    """2.6 put no upper bound on Keras, and cannot be imported with a newer one (keras 2.7 asks for what 2.7 has)."""
    return "~=2.6.0" if release.keras and release.version.startswith("2.6.") else release.keras


def _asked_for(packages: tuple[Package, ...]) -> dict[str, str]:
    """What the metadata of the installed TensorFlow asks of its companions; extras apart."""
    found: dict[str, str] = {}
    for line in next((package.requires for package in packages if package.name in PROVIDERS and package.requires), ()):
        try:
            wanted = Requirement(line.replace("(", "").replace(")", "") if "extra" not in line else "none")
        except InvalidRequirement:
            continue
        found[wanted.name.lower().replace("_", "-")] = str(wanted.specifier)
    return found


def _same_minor(name: str, tensorflow: str) -> str | None:
    version = _version(tensorflow)
    if name == "tensorflow-estimator" and not Version("1.13") <= version < Version("2.16"):
        return None
    if name == "tensorboard" and version >= Version("2.21"):
        return None  # 2.21 no longer requires it
    if name == "tf-keras" and version < Version("2.16"):
        return None
    return f"~={version.major}.{version.minor}.0"


def allows(specifier: str, version: str) -> bool:
    """Whether `version` satisfies a requirement's specifier; true where either cannot be parsed."""
    try:
        return SpecifierSet(specifier).contains(version, prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return True


def _version(text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        return Version("0")


def _abi(
    context: Context,
    release: Release,
    packages: tuple[Package, ...],
    phases: tuple[Phase, ...] | None,
    name: str,
    need: str | None,
) -> Problem | None:
    """Outside the wheel's bounds is an error when the import failed or the major differs from all that are allowed."""
    package = next((p for p in packages if p.name == name), None)
    if package is None or need is None or allows(need, package.version):
        return None
    failed = next((p for p in phases or () if p.name == "import" and p.outcome in ("raised", "died")), None)
    imported = any(p.name == "import" and p.outcome == "ok" for p in phases or ())
    # conda's builds have bounds of their own, which its solver keeps
    of_conda = package.installer == "conda" and any(p.name == "tensorflow" and p.installer == "conda" for p in packages)
    if imported or (of_conda and not failed):
        return None
    seen = evidence(
        f"{name} {package.version}",
        package.location or "installed packages",
        f"{name} {need}",
        f"TensorFlow {release.version} (wheel)",
    )
    more = (evidence(failed.exception, "import tensorflow"),) if failed and failed.exception else ()
    return Problem(
        cause=f"TensorFlow {release.version} was compiled for another {name}",
        evidence=(seen, *more),
        fixes=(
            Fix(text=f"Install a {name} that fits", commands=context.remedies.pip_install(f"{name}{need}")),
            *context.remedies.reinstall_best(f"or a release that fits {name} {package.version}")[:1],
        ),
    )


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


def ended_on_macos(said: MessageLog, platform: str | None) -> tuple[Message, ...]:
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


def _stated_only(context: Context, said: MessageLog, python: str | None, release: Release | None) -> Problem | None:
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


def _dependency_not_there(seen: tuple[Message, ...]) -> Problem:
    package = seen[0].values["package"]
    return Problem(
        title=f"The index has no {package} of the version that this release asks for",
        cause="the package that asks for it names a version that was never put there, or that is not there for this "
        "Python and system",
        evidence=message_evidence(*seen),
        fixes=(
            Fix(text="See which versions there are", commands=(f"python -m pip index versions {package}",)),
            Fix(text="Take the release before, or another one whose dependencies are there"),
        ),
    )


PYTHON_UNSUPPORTED = finding(
    "tf.python-unsupported",
    layer="Python",
    severity=Severity.ERROR,
    title="No TensorFlow is published for this Python",
    docs="https://www.tensorflow.org/install/pip",
)


@PYTHON_UNSUPPORTED.sign
def python_unsupported(
    context: Context,
    python_version: str,
    wheel_platform: str | None = None,
    packages: tuple[Package, ...] | None = None,
    python_bits: int | None = None,
    messages: MessageLog | None = None,
) -> Problem | None:
    """No release has a wheel for this Python, or only releases as old as it; asked only where none is installed."""
    if (messages is not None and messages.from_text) or any(p.name in PROVIDERS for p in packages or ()):
        return None  # of a pasted text, what pip says decides
    wheel_platform = wheel_platform or "linux_x86_64"  # a Python too old to be examined does not tell it
    rows = [row for row in context.matrix.releases(platform=wheel_platform, package="tensorflow") if not row.prerelease]
    minor = ".".join(python_version.split(".")[:2])
    last = next((row.version for row in rows if minor in row.python), None)
    if not rows or (last and python_bits != 32 and capability(minor) >= OLDEST_PYTHON):
        return None
    newest = rows[0]
    seen = evidence(
        f"Python {python_version}" + (" (32-bit)" if python_bits == 32 else ""),
        context.source("python.version"),
        f"64-bit Python {newest.python[0]} to {newest.python[-1]}",
        f"TensorFlow {newest.version} on {wheel_platform} (wheels)",
    )
    wanted = newest.python[-1]
    fixes = context.remedies.reinstall_best("it has wheels for that Python") or (
        Fix(
            text=f"Make an environment with Python {wanted}, and install TensorFlow there",
            commands=context.remedies.new_environment(wanted, "tensorflow"),
        ),
    )
    ended = f"TensorFlow for Python {minor} ended with {last}"
    return Problem(
        title=ended if last and python_bits != 32 else f"No TensorFlow is published for Python {minor}",
        cause='pip says "Could not find a version that satisfies the requirement tensorflow (from versions: none)"',
        evidence=(seen,),
        fixes=fixes,
    )


@PYTHON_UNSUPPORTED.sign(unless=("tf.package-removed",))
def python_unsupported_reported(
    context: Context,
    messages: MessageLog,
    python_version: str | None = None,
    release: Release | None = None,
    wheel_platform: str | None = None,
    python_bits: int | None = None,
) -> Problem | None:
    """pip finds no matching distribution, or refuses a wheel; or what is stated does not go together."""
    seen: list[Message] = list(messages.all("no-distribution"))
    seen += messages.all("wheel-not-supported", "requires-python")
    if ended_on_macos(messages, wheel_platform):
        return None
    if not seen:
        return _too_narrow(context) if python_bits == 32 else _stated_only(context, messages, python_version, release)
    if messages.has("index-unreachable") and all(offered(m) == [] or offered(m) is None for m in seen):
        return None  # pip saw no list at all
    told = next((m for m in seen if offered(m)), None)
    guessed = python_of(context.matrix, offered(told) or [], _wanted(told)[0], wheel_platform) if told else None
    wanted = next((v for m in seen if (v := _wanted(m)[1])), None)
    row = context.matrix.tensorflow(wanted, wheel_platform or "linux_x86_64") if wanted else None
    more: list[Evidence] = []
    if guessed:
        more.append(evidence(f"the offered versions are those of Python {guessed}", f"line {told.line if told else 0}"))
    if python_version and python_version != guessed:
        more.append(evidence(f"Python {python_version}", context.source("python.version")))
    need = f"Python {row.python[0]} to {row.python[-1]} for TensorFlow {row.version}" if row and row.python else None
    here = guessed or python_version
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
        evidence=(*message_evidence(*seen, need=need), *more),
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


PACKAGE_REMOVED = finding(
    "tf.package-removed",
    layer="Python",
    severity=Severity.ERROR,
    title="The package tensorflow-gpu is dead",
    docs="https://www.tensorflow.org/install/pip",
)


@PACKAGE_REMOVED.sign
def package_removed(context: Context, packages: tuple[Package, ...]) -> Problem | None:
    """tensorflow-gpu 2.12 is an empty package whose only job is to fail."""
    dead = next((p for p in packages if p.name == "tensorflow-gpu" and _version(p.version) >= Version("2.12")), None)
    if dead is None:
        return None
    return Problem(
        cause="since 2.12 it is an empty package; tensorflow itself has held the GPU support since 2.0",
        evidence=(evidence(f"tensorflow-gpu {dead.version}", dead.location or "installed packages", "tensorflow"),),
        fixes=(
            Fix(
                text="Replace it",
                commands=(
                    context.remedies.pip_uninstall("tensorflow-gpu"),
                    *context.remedies.pip_install("tensorflow[and-cuda]"),
                ),
            ),
        ),
    )


@PACKAGE_REMOVED.sign
def package_removed_reported(context: Context, messages: MessageLog, os: str | None = None) -> Problem | None:
    """tensorflow-gpu is a stub since December 2022; its own text says so, or pip finds no such version."""
    seen = [*messages.all("package-removed")]
    for message in messages.all("no-distribution"):
        name, version = _wanted(message)
        if name.replace("_", "-") == "tensorflow-gpu" and version and _beyond_the_end(version, offered(message), os):
            seen.append(message)
    if not seen:
        return None
    return Problem(
        cause="tensorflow-gpu ended with 2.11: since 2.1 the package tensorflow holds the GPU build as well",
        evidence=message_evidence(*seen),
        fixes=(
            *context.remedies.reinstall_best("the package tensorflow, with its CUDA libraries"),
            Fix(
                text="Name tensorflow instead of tensorflow-gpu in requirements and environment files; a "
                "dependency that asks for it needs a newer release"
            ),
        ),
    )
