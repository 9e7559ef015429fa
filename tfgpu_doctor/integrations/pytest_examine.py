"""What tests need to know of the machine, found out once for all workers; TensorFlow runs in child processes."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfgpu_doctor.integrations.pytest_gpus import Machine, usable
from tfgpu_doctor.records.printable import utf8

if TYPE_CHECKING:
    from tfgpu_doctor.records.facts import Gpu
    from tfgpu_doctor.records.report import Report

_SAVED = "TFGPU_DOCTOR_FROM"  # the variable of `tfgpu doctor --from`
_LARGEST = 1 << 20  # bytes of the file that workers share
_POLL = 0.05  # seconds


def examine() -> Machine:
    """Ask the doctor which GPUs TensorFlow can use.

    Without an NVIDIA GPU or driver, TensorFlow need not be started to know: that takes 1 s instead of 7.
    """
    from tfgpu_doctor.commands import TfgpuError, diagnose

    try:
        with warnings.catch_warnings():  # those of the project may be errors (-W error)
            warnings.simplefilter("ignore")
            saved = os.environ.get(_SAVED) or None
            if not saved:
                quick = diagnose(import_tensorflow=False)
                if reason := _surely_none(quick):
                    return Machine((), reason, stack_of(quick))
            report = diagnose(saved=saved)
    except TfgpuError as error:
        return Machine((), f"tfgpu doctor came to no result: {error}", "")
    gpus = usable(report)
    return Machine(gpus, "" if gpus and report.verdict == "ok" else _why(report), stack_of(report))


def _surely_none(report: Report) -> str:
    """Why no TensorFlow whatsoever can use a GPU here; "" where that is open."""
    from tfgpu_doctor.records.facts import value_or
    from tfgpu_doctor.records.report import Severity

    gpus: tuple[Gpu, ...] = value_or(report.facts.gpus, ())
    count: int = value_or(report.facts.driver.cuda_device_count, 0)
    if gpus or count:
        return ""
    for finding in report.findings:
        certain = finding.severity is Severity.ERROR and finding.root_cause and not finding.possible
        if certain and finding.id in ("gpu.none", "driver.missing", "driver.not-loaded"):
            return f"{finding.id}: {finding.title}"
    return ""


def _why(report: Report) -> str:
    """The first problem that the doctor found, or what it could not determine."""
    from tfgpu_doctor.records.facts import Unknown
    from tfgpu_doctor.records.report import Severity

    errors = [one for one in report.findings if one.severity is Severity.ERROR]
    for finding in sorted(errors, key=lambda one: (one.possible, not one.root_cause)):
        return f"{finding.id}: {finding.title}"
    devices = report.facts.tensorflow.devices
    return f"could not be determined: {devices.reason}" if isinstance(devices, Unknown) else ""


def shared(folder: str) -> Machine:
    """The same, found out by the first process that asks; the others wait for it, and read what it has written.

    A worker on another machine does not find the folder, and examines its own machine.
    """
    from tfgpu_doctor.files import reading, writing
    from tfgpu_doctor.files.claims import Claim, HeldError

    if not os.path.isdir(folder):
        return examine()
    result, claim = os.path.join(folder, "machine.json"), Claim(os.path.join(folder, "claim"), b"tfgpu")
    while not claim.held:
        try:
            claim.take()
        except HeldError:
            time.sleep(_POLL)
        except OSError:  # no place to write to
            return examine()
    try:
        if os.path.exists(result):
            return Machine.decode(reading.read_whole(result, _LARGEST).decode())
        machine = examine()
        writing.replace(result, utf8(machine.encode()))
        return machine
    finally:
        claim.release()


# ------------------------------------------------------------------------------------------------ the header line


def stack() -> str:
    """The stack without starting TensorFlow: "TensorFlow 2.21.0, driver 580.65.06, 2 × NVIDIA H200"."""
    from tfgpu_doctor.commands import leaving_nothing
    from tfgpu_doctor.probes import driver
    from tfgpu_doctor.records.facts import value_or

    if os.environ.get(_SAVED):
        return examine().stack
    with leaving_nothing():
        found = driver.examine()
    gpus = [value_or(gpu.name, "GPU of unknown name") for gpu in value_or(found.gpus, ())]
    return _line(_installed_version(), value_or(found.driver.version, None), gpus)


def stack_of(report: Report) -> str:
    """The same of a report."""
    from tfgpu_doctor.records.facts import value_or

    facts = report.facts
    gpus = [value_or(gpu.name, "GPU of unknown name") for gpu in value_or(facts.gpus, ())]
    version = value_or(facts.tensorflow.version, None) or _installed_version()
    return _line(version, value_or(facts.driver.version, None), gpus)


def _line(tensorflow: str | None, driver: str | None, gpus: Sequence[str]) -> str:
    from tfgpu_doctor.records.printable import one_line

    counted = [f"{gpus.count(name)} × {name}" for name in dict.fromkeys(gpus)]
    parts = (
        f"TensorFlow {tensorflow}" if tensorflow else "no TensorFlow",
        f"driver {driver}" if driver else "no NVIDIA driver",
        *(counted or ["no NVIDIA GPU"]),
    )
    return one_line(", ".join(parts))


def _installed_version() -> str | None:
    from importlib import metadata

    from tfgpu_doctor.records.distributions import TENSORFLOW

    for name in TENSORFLOW:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None
