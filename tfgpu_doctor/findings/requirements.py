"""Bounds of versions: what packages require, what is installed, what pip answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from tfgpu_doctor.facts.distributions import TENSORFLOW
from tfgpu_doctor.facts.facts import Message, Package, Packages, ShadowedModule
from tfgpu_doctor.facts.versions import at_least, minor, parts
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.matrix.offers import versions_offered

# ----------------------------------------------------------------------------------------------------------------------
# Versions of packages against what TensorFlow and each other require.


def allows(bound: str, version: str) -> bool | None:
    """Whether a specifier contains a version; None where either cannot be read."""
    try:
        return SpecifierSet(bound).contains(Version(version), prereleases=True)
    except ValueError:
        return None


def without_gaps(bound: str) -> str:
    """The bounds without single versions between them, of which pip takes none as it takes the newest."""
    return ",".join(part for part in bound.split(",") if not part.startswith("!="))


def narrowed(bounds: Iterable[str]) -> str:
    """What meets all of these bounds, with one lower bound where several are given."""
    parts = [part for bound in dict.fromkeys(bounds) for part in without_gaps(bound).split(",") if part]
    lower = [part for part in parts if part.startswith(">=")]
    highest = max(lower, key=lambda part: Version(part.removeprefix(">=")), default=None)
    return ",".join(dict.fromkeys(part for part in parts if part not in lower or part == highest))


# The first version that ends the import of releases before another. What else a wheel excludes as too new does not:
# beside NumPy to 2.4 and protobuf to 7, 2.4.4 to 2.20.0 trained
_ENDS_IMPORT = {"numpy": (("2", "2.18"), ("1.24", "2.7")), "protobuf": (("4", "2.12"),)}


def stops(name: str, version: str, release: str, bound: str = "") -> bool:
    """Whether TensorFlow cannot be imported with a version that it excludes; one below the bound is too old for it."""
    floor = re.search(r"[>~]=(\d[\d.]*)", bound)
    too_new = any(at_least(version, first) and at_least(release, runs) is False for first, runs in _ENDS_IMPORT[name])
    return bool(too_new or (floor and at_least(version, floor[1]) is False))


# ----------------------------------------------------------------------------------------------------------------------
# What the metadata of the installed TensorFlow requires, and of the packages that it brings along.


_INSTALLED_BY_WHEEL = ("pip", "uv", "poetry")
# required by TensorFlow's wheels, and used by tools and features that many do without
SELDOM_USED = frozenset(
    {"libclang", "tensorboard", "tensorflow-io-gcs-filesystem", "tensorflow-estimator", "setuptools", "requests"}
)


def from_wheel(packages: Packages) -> Package | None:
    """The TensorFlow that pip has installed; conda and distributions split packages in their own way."""
    tensorflow = next((one for one in packages if one.name in TENSORFLOW and one.requires), None)
    return tensorflow if tensorflow and tensorflow.installer in _INSTALLED_BY_WHEEL else None


def first_of_each(packages: Packages) -> dict[str, Package]:
    """The packages that Python imports: of two with one name, the first on sys.path."""
    return {one.name: one for one in reversed(packages)}


def requirements(packages: Packages, python: str, platform: str | None) -> Iterator[tuple[Package, Requirement]]:
    """What TensorFlow requires, and what that requires in turn, each with the package that asks for it."""
    tensorflow, there = from_wheel(packages), first_of_each(packages)
    todo = [tensorflow] if tensorflow else []
    seen = set(SELDOM_USED)
    while todo:
        package = todo.pop(0)
        for required in required_by(package, python, platform):
            yield package, required
            name = str(canonicalize_name(required.name))
            if name in there and name not in seen and there[name].installer in _INSTALLED_BY_WHEEL:
                todo.append(there[name])
            seen.add(name)


def bounds_of(packages: Packages, python: str, platform: str | None) -> dict[str, list[tuple[Package, str]]]:
    """Which versions of each required package are allowed, and who says so."""
    bounds: dict[str, list[tuple[Package, str]]] = {}
    for asking, one in requirements(packages, python, platform):
        bounds.setdefault(str(canonicalize_name(one.name)), []).append((asking, str(one.specifier)))
    return bounds


def unusable(
    shadowed: tuple[ShadowedModule, ...], packages: Packages, python: str, platform: str | None
) -> list[ShadowedModule]:
    """The modules from other folders that are no package, or of a version that TensorFlow's requirements refuse."""
    bounds = bounds_of(packages, python, platform)
    return [
        one
        for one in shadowed
        if one.version is None or any(allows(bound, one.version) is False for _, bound in bounds.get(one.package, ()))
    ]


def required_by(package: Package, python: str, platform: str | None) -> Iterator[Requirement]:
    """The requirements that apply to this Python and system; those of extras do not."""
    system, _, machine = (platform or "linux_x86_64").partition("_")
    environment = {
        "python_version": ".".join(python.split(".")[:2]),
        "python_full_version": python,
        "sys_platform": {"macos": "darwin", "windows": "win32"}.get(system, system),
        "platform_system": {"macos": "Darwin", "windows": "Windows"}.get(system, "Linux"),
        "platform_machine": machine,
        "os_name": "nt" if system == "windows" else "posix",
        "extra": "",
    }
    for line in package.requires:
        try:
            required = Requirement(line)
            if required.marker is None or required.marker.evaluate(environment):
                yield required
        except ValueError:
            continue


# ----------------------------------------------------------------------------------------------------------------------
# What pip answers about TensorFlow: what it was asked for, and which versions it offers.


def read_requirement(text: str) -> Requirement | None:
    """What pip prints as a requirement; None: it is none."""
    try:
        return Requirement(text.replace("'", "").strip().rstrip(".,"))
    except (ValueError, RecursionError):  # the latter of a marker in hundreds of parentheses
        return None


def requested(message: Message) -> tuple[str, str | None]:
    """The package and the version that were asked for: ("tensorflow", "2.13.0")."""
    text = message.values.get("requirement") or message.values.get("wanted") or ""
    requirement = read_requirement(text)
    if requirement is None:
        name = re.match(r"[\w.-]+", text)
        return (name[0] if name else "tensorflow"), None
    versions = [one.version for one in requirement.specifier if one.operator in ("==", "~=", "===", "<=")]
    return requirement.name, versions[0].removesuffix(".*") if versions else None


def offered(message: Message) -> list[str] | None:
    """The list that pip printed; None where it printed none, empty where it says "none"."""
    text = message.values.get("versions")
    if text is None:
        return None
    return [] if text.strip() == "none" else [one.strip() for one in text.split(",") if re.match(r"\s*\d", one)]


def newest_minor(versions: Iterable[str]) -> tuple[int, ...]:
    """The newest major and minor version of a list, (2, 11)."""
    return max((parts(one) or ())[:2] for one in versions)


def python_offered_to(matrix: Matrix, message: Message, platform: str | None) -> str | None:
    """The Python to which pip offers just these versions, where there is only one."""
    versions = offered(message)
    found = versions_offered(matrix, requested(message)[0], versions, platform) if versions else None
    return found[0][0] if found and len(found[0]) == 1 else None


KERAS_3 = "2.16"  # the first TensorFlow with it
KERAS_2_VALUES = ("1", "true", "True")  # of TF_USE_LEGACY_KERAS: tensorflow/python/util/lazy_loader.py


def companion_bound(name: str, release: Release) -> str | None:
    version = release.version
    if name == "keras":
        # 2.6 has no upper bound for Keras, and cannot be imported with a newer one (keras 2.7 needs TensorFlow 2.7)
        return "~=2.6.0" if release.keras and version.startswith("2.6.") else release.keras
    since, until = {"tensorflow-estimator": ("1.13", "2.16"), "tensorboard": ("0", "2.21")}.get(name, ("2.16", "99"))
    if not at_least(version, since) or at_least(version, until) is not False:
        return None  # not required by this release
    return f"~={minor(version)}.0"
