"""Records what a repair did: in the environment's tfgpu-install.json, and the output of its programs in a log."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
from packaging.utils import canonicalize_version

from tfgpu_doctor import __version__
from tfgpu_doctor.diagnosis.reports import now
from tfgpu_doctor.files import writing
from tfgpu_doctor.files.reading import read_whole
from tfgpu_doctor.install.records import LOCK, MANIFEST, REPORT, SCHEMA, Manifest, Package, Repair
from tfgpu_doctor.install.repair import Repaired, Repairing
from tfgpu_doctor.install.resolved import lock_text
from tfgpu_doctor.plan.records import Option
from tfgpu_doctor.records.facts import Facts, value_or
from tfgpu_doctor.records.facts import Package as Distribution
from tfgpu_doctor.records.printable import utf8
from tfgpu_doctor.records.report import Severity
from tfgpu_doctor.records.report import Tool as Program

LOG = "tfgpu-repair.log"  # within the environment
_LARGEST = 16 << 20
_SEEDS = ("pip", "setuptools", "wheel")  # that every new environment has
_THEN = "# Then with pip install --no-deps:\n"


def remaining(repaired: Repaired) -> tuple[str, ...]:
    """The ids of the problems that are left."""
    grave = (Severity.ERROR, Severity.WARNING)
    return tuple(one.id for one in repaired.report.findings if one.root_cause and one.severity in grave)


def write(repairing: Repairing, repaired: Repaired) -> None:
    """Add the repair to the record of the environment, or make one where tfgpu did not make the environment.

    Raises OSError: it cannot be written.
    """
    prefix = repairing.prefix
    repair = Repair(now(), repaired.steps, repaired.healthy, remaining(repaired))
    manifest = _read(prefix) or _new(repairing, repaired)
    steps = repaired.proof.steps if repaired.proof else manifest.steps
    added = {one.path: one for one in (*manifest.added, *(new for step in repaired.steps for new in step.added))}
    kept = tuple(one for one in added.values() if (prefix / one.path).is_symlink() or (prefix / one.path).exists())
    packages = _packages(manifest, repaired.report.facts, prefix)
    manifest = msgspec.structs.replace(
        manifest, repairs=(*manifest.repairs, repair), steps=steps, added=kept, packages=packages
    )
    _write_lock(prefix, manifest, repaired.report.facts)
    writing.replace(str(prefix / MANIFEST), manifest.to_json())
    if repaired.healthy:
        writing.replace(str(prefix / REPORT), repaired.report.to_json())


def _packages(manifest: Manifest, facts: Facts, prefix: Path) -> tuple[Package, ...]:
    """What is in the environment now: with wheel and hashes where it is what the resolver had chosen."""
    chosen = {_key(one): one for one in manifest.packages}
    names = {one.name for one in manifest.packages}
    here = (one for one in _installed(facts, prefix) if one.name in names or one.name not in _SEEDS)
    found = {one.name: chosen.get(_key(one), Package(one.name, one.version)) for one in here}
    if _is_of_conda(manifest):  # which lists more than Python's packages
        found = {**{one.name: one for one in manifest.packages}, **found}
    return tuple(found[name] for name in sorted(found)) or manifest.packages


def _installed(facts: Facts, prefix: Path) -> Iterator[Distribution]:
    folder = os.path.realpath(prefix) + os.sep
    for one in value_or(facts.python.packages, ()):
        if one.location is None or os.path.realpath(one.location).startswith(folder):
            yield one


def _key(package: Package | Distribution) -> tuple[str, str]:
    return package.name, canonicalize_version(package.version)  # METADATA has 2023.07.22, and the wheel 2023.7.22


def _is_of_conda(manifest: Manifest) -> bool:
    return manifest.method == "conda" and not manifest.requirements


def _write_lock(prefix: Path, manifest: Manifest, facts: Facts) -> None:
    """Let the lock file name what is installed now; one of conda's keeps its lines, and names what pip has brought."""
    path = str(prefix / LOCK)
    if not os.path.isfile(path):
        return
    if _is_of_conda(manifest):
        kept = read_whole(path, _LARGEST).decode("utf-8", "replace").split(_THEN)[0]
        brought = (f"#   {one.name}=={one.version}\n" for one in _installed(facts, prefix) if one.installer != "conda")
        text = "".join((kept, _THEN, *sorted(brought)))
    else:
        platform = value_or(facts.python.wheel_platform, "this platform")
        text = lock_text(manifest.packages, python=manifest.python, platform=platform)
    writing.replace(path, utf8(text))


def write_log(repairing: Repairing, message: str) -> Path | None:
    """Keep what the programs wrote; None where none was run, or it cannot be written."""
    path = repairing.prefix / LOG
    with suppress(OSError):
        if repairing.commands.log:
            text = "".join([f"{now()}\n", *repairing.commands.log, message, "\n"])
            writing.replace(str(path), utf8(text))
            return path
    return None


def _read(prefix: Path) -> Manifest | None:
    try:
        return msgspec.json.decode(read_whole(str(prefix / MANIFEST), _LARGEST), type=Manifest)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # none, or not one of this version
        return None


def _new(repairing: Repairing, repaired: Repaired) -> Manifest:
    """The record of an environment that was there."""
    facts, python = repaired.report.facts, repaired.report.facts.python
    version = value_or(python.version, "")
    release = repairing.release(facts)
    packages = value_or(python.packages, ())
    option = Option(
        kind="as-is",
        title=f"TensorFlow {release.version} as it was installed" if release else "TensorFlow as it was installed",
        tensorflow=release.version if release else "",
        package=release.package if release else "tensorflow",
        python=version,
        cuda=release.cuda if release else None,
        cudnn=release.cudnn if release else None,
        min_driver=None,
    )
    return Manifest(
        schema=SCHEMA,
        tool=Program(name="tfgpu", version=__version__),
        matrix=repaired.report.matrix,
        created=now(),
        seconds=0.0,
        method="conda" if value_or(python.environment, "") == "conda" else "pip",
        prefix=str(repairing.prefix),
        interpreter=repairing.python,
        python=version,
        option=option,
        requirements=(),
        packages=tuple(Package(one.name, one.version) for one in packages),
        commands=(),
        added=(),
        steps=(),
    )
