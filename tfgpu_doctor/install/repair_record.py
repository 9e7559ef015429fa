"""Records what a repair did: in the environment's tfgpu-install.json, and the output of its programs in a log."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from tfgpu_doctor import __version__
from tfgpu_doctor.diagnosis.reports import now
from tfgpu_doctor.files import writing
from tfgpu_doctor.files.reading import read_whole
from tfgpu_doctor.install.records import MANIFEST, REPORT, SCHEMA, Manifest, Package, Repair
from tfgpu_doctor.install.repair import Repaired, Repairing
from tfgpu_doctor.plan.records import Option
from tfgpu_doctor.records.facts import value_or
from tfgpu_doctor.records.report import Severity
from tfgpu_doctor.records.report import Tool as Program

LOG = "tfgpu-repair.log"  # within the environment
_LARGEST = 16 << 20


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
    manifest = msgspec.structs.replace(manifest, repairs=(*manifest.repairs, repair), steps=steps, added=kept)
    writing.replace(str(prefix / MANIFEST), manifest.to_json())
    if repaired.healthy:
        writing.replace(str(prefix / REPORT), repaired.report.to_json())


def write_log(repairing: Repairing, message: str) -> Path | None:
    """Keep what the programs wrote; None where none was run, or it cannot be written."""
    path = repairing.prefix / LOG
    with suppress(OSError):
        if repairing.commands.log:
            text = "".join([f"{now()}\n", *repairing.commands.log, message, "\n"])
            writing.replace(str(path), text.encode("utf-8", "replace"))
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
