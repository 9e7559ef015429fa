"""What the metadata of the installed TensorFlow requires, and of the packages that it brings along."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tfgpu_doctor.findings.version_bounds import allows
from tfgpu_doctor.records.distributions import TENSORFLOW
from tfgpu_doctor.records.facts import Package, ShadowedModule

_INSTALLED_BY_WHEEL = ("pip", "uv", "poetry")
# required by TensorFlow's wheels, and used by tools and features that many do without
SELDOM_USED = frozenset(
    {"libclang", "tensorboard", "tensorflow-io-gcs-filesystem", "tensorflow-estimator", "setuptools", "requests"}
)


def from_wheel(packages: tuple[Package, ...]) -> Package | None:
    """The TensorFlow that pip has installed; conda and distributions split packages in their own way."""
    tensorflow = next((one for one in packages if one.name in TENSORFLOW and one.requires), None)
    return tensorflow if tensorflow and tensorflow.installer in _INSTALLED_BY_WHEEL else None


def first_of_each(packages: tuple[Package, ...]) -> dict[str, Package]:
    """The packages that Python imports: of two with one name, the first on sys.path."""
    return {one.name: one for one in reversed(packages)}


def requirements(
    packages: tuple[Package, ...], python: str, platform: str | None
) -> Iterator[tuple[Package, Requirement]]:
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


def bounds_of(packages: tuple[Package, ...], python: str, platform: str | None) -> dict[str, list[tuple[Package, str]]]:
    """Which versions of each required package are allowed, and who says so."""
    bounds: dict[str, list[tuple[Package, str]]] = {}
    for asking, one in requirements(packages, python, platform):
        bounds.setdefault(str(canonicalize_name(one.name)), []).append((asking, str(one.specifier)))
    return bounds


def refused_versions(
    there: dict[str, Package], bounds: dict[str, list[tuple[Package, str]]]
) -> Iterator[tuple[str, tuple[Package, str]]]:
    """The packages whose version is refused, with the first that refuses it."""
    for name, asked in bounds.items():
        if first := next((pair for pair in asked if allows(pair[1], there[name].version) is False), None):
            yield name, first


def unusable(
    shadowed: tuple[ShadowedModule, ...], packages: tuple[Package, ...], python: str, platform: str | None
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
