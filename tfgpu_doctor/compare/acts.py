"""Which differences one act brings about, so that they are named together. Pure.

A new driver is a version, files and answers: their declarations say so. What came with a package, with a folder on a
search path or with a toolkit is found out here: an unset LD_LIBRARY_PATH is a variable and the libraries that it led
to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tfgpu_doctor.compare.differences import Difference, changed_elements
from tfgpu_doctor.compare.fact_path import FactPath, value_at
from tfgpu_doctor.compare.records import REAL
from tfgpu_doctor.records.distributions import TENSORFLOW
from tfgpu_doctor.records.facts import Candidate, Facts, Soname, value_or

_CUDNN = ("python.packages.nvidia-cudnn", "cuda.conda_packages.cudnn", "loader.sonames.libcudnn")
_PACKAGES = ("python.packages", "cuda.conda_packages")
_WHEEL = re.compile(r"[\\/]nvidia[\\/](\w+)[\\/]")


@dataclass(frozen=True)
class Act:
    """Differences that one act brings about."""

    name: str
    members: tuple[Difference, ...]

    @property
    def is_state(self) -> bool:
        """Whether something in it can be changed by somebody."""
        return any(member.grade == "state" and member.status in REAL for member in self.members)

    def changes(self, read: frozenset[str]) -> tuple[str, ...]:
        """The ids of its changes, the most telling first: what names the act, then facts that were read."""
        members = [member for member in self.members if member.status in REAL] or list(self.members)
        if self.is_state:
            members = [member for member in members if member.grade == "state"]

        def rank(member: Difference) -> tuple[bool, bool]:
            return member.id not in (self.name, f"{self.name}.version"), member.path.path not in read

        return tuple(member.id for member in sorted(members, key=rank))


def acts(differences: Iterable[Difference], good: Facts, bad: Facts) -> tuple[Act, ...]:
    """Put differences together by the acts that brought them about."""
    found = [replace(difference, group=_group(difference, good, bad)) for difference in differences]
    # the cuDNN that was loaded goes with whatever changed its file
    cudnn = next((member.group for prefix in _CUDNN for member in found if member.id.startswith(prefix)), "cudnn")
    by_name: dict[str, list[Difference]] = {}
    for difference in found:
        by_name.setdefault(cudnn if difference.group == "cudnn" else difference.group, []).append(difference)
    return tuple(Act(name, tuple(members)) for name, members in by_name.items())


def _group(difference: Difference, good: Facts, bad: Facts) -> str:
    path = difference.path
    if path.path in _PACKAGES:
        return "tensorflow" if path.key in TENSORFLOW else f"python.packages.{path.key}"
    if path.path == "loader.sonames" and path.key:
        before, after = value_at(good, path), value_at(bad, path)
        component = (before or after).component
        return "driver" if component == "driver" else _led_by(before, after, good, bad)
    if path.path == "cudnn.installed" and path.key:
        return _package([path.key], good, bad) or "cudnn"
    if path.path in ("gpus", "host.pci_gpus") and path.field is None:
        return "gpus"
    if path.path in ("python.tensorflow_paths", "python.tensorflow_leftovers"):
        return _group_of_files(difference, good, bad)
    return difference.group


def _group_of_files(difference: Difference, good: Facts, bad: Facts) -> str:
    """What put files of TensorFlow on the path, or left them there."""
    if difference.path.path == "python.tensorflow_paths" and _came_by_pythonpath(good, bad):
        return "variables.PYTHONPATH"
    return "tensorflow" if _came_or_went(good, bad) else difference.group


def _led_by(before: Soname | None, after: Soname | None, good: Facts, bad: Facts) -> str:
    """The change that leads the loader to another file, or away from it."""
    if before is None or after is None:
        return "tensorflow"
    candidates: tuple[Candidate, ...] = (*before.candidates, *after.candidates)
    package = _package([candidate.path for candidate in candidates], good, bad)
    if package:
        return package
    by_path = any(candidate.via == "LD_LIBRARY_PATH" and candidate.reachable for candidate in candidates)
    if by_path and len(set(_variable("LD_LIBRARY_PATH", good, bad))) > 1:
        return "variables.LD_LIBRARY_PATH"
    for kit, _, _ in changed_elements(good, bad, "cuda.toolkits"):
        if any(candidate.path.startswith(kit.rstrip("/") + "/") for candidate in candidates):
            return f"cuda.toolkits.{kit}"
    return "cudnn" if before.component == "cudnn" else "libraries"


def _package(files: list[str], good: Facts, bad: Facts) -> str | None:
    """The wheel of NVIDIA's that came, went or changed, and that one of the files belongs to."""
    folders = {match[1].replace("_", "-").lower() for file in files if (match := _WHEEL.search(file))}
    for name, _, _ in changed_elements(good, bad, "python.packages"):
        if any(name == f"nvidia-{folder}" or name.startswith(f"nvidia-{folder}-cu") for folder in folders):
            return f"python.packages.{name}"
    return None


def _variable(name: str, good: Facts, bad: Facts) -> tuple[str | None, str | None]:
    before, after = (value_at(facts, FactPath("variables", name)) for facts in (good, bad))
    return (before if isinstance(before, str) else None), (after if isinstance(after, str) else None)


def _came_by_pythonpath(good: Facts, bad: Facts) -> bool:
    """Whether a `tensorflow` lies in a folder of a PYTHONPATH that has changed."""
    values = _variable("PYTHONPATH", good, bad)
    folders = [folder.rstrip("/\\") for value in set(values) if value for folder in re.split(r"[:;]", value) if folder]
    files = (file for facts in (good, bad) for file in value_or(facts.python.tensorflow_paths, ()))
    is_below = any(file.startswith((f"{folder}/", f"{folder}\\")) for file in files for folder in folders)
    return values[0] != values[1] and is_below


def _came_or_went(good: Facts, bad: Facts) -> bool:
    """Whether a distribution of TensorFlow was installed or uninstalled."""
    packages = changed_elements(good, bad, "python.packages")
    return any(name in TENSORFLOW and (before is None or after is None) for name, before, after in packages)
