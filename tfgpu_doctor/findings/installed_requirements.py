"""What the metadata of the installed TensorFlow requires."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.markers import UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement

from tfgpu_doctor.records.distributions import TENSORFLOW
from tfgpu_doctor.records.facts import Package

_INSTALLED_BY_WHEEL = ("pip", "uv", "poetry")


def from_wheel(packages: tuple[Package, ...]) -> Package | None:
    """The TensorFlow that pip has installed; conda and distributions split packages in their own way."""
    tensorflow = next((one for one in packages if one.name in TENSORFLOW and one.requires), None)
    return tensorflow if tensorflow and tensorflow.installer in _INSTALLED_BY_WHEEL else None


def required_by(tensorflow: Package, python: str, platform: str | None) -> Iterator[Requirement]:
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
    for line in tensorflow.requires:
        try:
            required = Requirement(line)
            if required.marker is None or required.marker.evaluate(environment):
                yield required
        except (InvalidRequirement, UndefinedEnvironmentName):
            continue
