"""The GPUs that a test may use, and what it asks for. TensorFlow runs in child processes."""

from __future__ import annotations

import os
import re
import signal
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from tfgpu_doctor.commands import TfgpuError, diagnose
from tfgpu_doctor.facts.facts import Gpu, Unknown, value_or
from tfgpu_doctor.facts.printable import one_line
from tfgpu_doctor.facts.report import Severity, root_causes
from tfgpu_doctor.facts.units import memory_size, read_size
from tfgpu_doctor.probes.process import end_running

if TYPE_CHECKING:
    from tfgpu_doctor.facts.report import Report

KEYWORDS = ("min", "memory", "compute_capability")
_FORM = '@pytest.mark.gpu(min=2, memory="10GiB", compute_capability="8.0")'
_NO_GPU = ("gpu.none", "driver.missing", "driver.not-loaded")


@dataclass(frozen=True)
class UsableGpu:
    """A GPU that TensorFlow can use in this process: what the fixture `gpu` gives."""

    name: str
    memory: int | None  # bytes in total; None: unknown, as of a slice of a GPU in MIG mode
    compute_capability: str | None  # "9.0"
    device: str  # its name in TensorFlow: "/GPU:0"

    def __str__(self) -> str:
        """Its name with what marks can ask for."""
        memory = "memory unknown" if self.memory is None else memory_size(self.memory)
        return f"{self.name} ({memory}, compute capability {self.compute_capability or 'unknown'})"


class MarkError(ValueError):
    """The mark is wrong; the message says what, and how it is written."""


class SettingError(ValueError):
    """TFGPU_DOCTOR_FROM names no report: a mistake of whoever runs the tests, and no machine without a GPU."""


class Needs(NamedTuple):
    """What a test asks for."""

    min: int = 1  # number of GPUs
    memory: int = 0  # bytes that each of them must have
    capability: tuple[int, int] = (0, 0)  # least compute capability of each

    @classmethod
    def of(cls, marks: Iterable[Needs]) -> Needs:
        """Return what marks of a test, its class and its module ask for together: the largest of each value."""
        return cls(*map(max, zip(cls(), *marks, strict=True)))

    def fits(self, gpu: UsableGpu) -> bool:
        """True if it is such a GPU; what is unknown of it does not count as enough."""
        return (gpu.memory or 0) >= self.memory and capability(gpu.compute_capability) >= self.capability

    def __str__(self) -> str:
        """As words: "2 GPUs with at least 10 GiB of memory and compute capability 8.0"."""
        asked = [f"{memory_size(self.memory)} of memory"] if self.memory else []
        asked += ["compute capability {}.{}".format(*self.capability)] if any(self.capability) else []
        number = "a GPU" if self.min == 1 else f"{self.min} GPUs"
        return f"{number} with at least {' and '.join(asked)}" if asked else number


def capability(text: str | None) -> tuple[int, int]:
    """Read a compute capability, so that they compare as numbers; (0, 0) where it is unknown.

    >>> capability("12.0") > capability("9.0"), capability(None)
    (True, (0, 0))
    """
    major, _, minor = (text or "0.0").partition(".")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else (0, 0)


def read(arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Needs:
    """Read what a mark asks for. Raises MarkError: an argument is unknown, or has no such value."""
    if arguments or not keywords.keys() <= {*KEYWORDS}:
        raise MarkError(f"it takes the keywords {', '.join(KEYWORDS)}: write {_FORM}")
    number, size, least = keywords.get("min", 1), keywords.get("memory", 1), keywords.get("compute_capability", "0.0")
    if type(number) is not int or number < 1:  # True is an int, too
        raise MarkError(f"min={number!r} is not a number of GPUs such as 2")
    memory = read_size(size) if isinstance(size, str) else size
    if type(memory) is not int or memory < 1:
        raise MarkError(f'memory={size!r} is not a size such as "10GiB", "512MiB" or "10G"')
    if not isinstance(least, (str, float)) or not re.fullmatch(r"\d{1,2}\.\d", str(least), re.ASCII):
        raise MarkError(f'compute_capability={least!r} is not a compute capability such as "8.0"')
    return Needs(number, memory if "memory" in keywords else 0, capability(str(least)))


# ------------------------------------------------------------------------------------------------- what the machine has


class Machine(NamedTuple):
    """What the doctor found, in as much as tests depend on it."""

    gpus: tuple[UsableGpu, ...]  # those that TensorFlow can use, those with most memory first
    reason: str  # why there are none, or fewer than the machine has; "" where nothing is wrong
    stack: str  # "TensorFlow 2.21.0, driver 580.65.06, 2 × NVIDIA H200"

    def missing(self, needs: Needs) -> str:
        """Return why such a test cannot run here, with what was asked and what was found; "" where it can."""
        if sum(map(needs.fits, self.gpus)) >= needs.min:
            return ""
        if self.gpus:
            also = f"; {self.reason}; run tfgpu doctor" if self.reason else ""
            found = f"found {_counted(list(map(str, self.gpus)))}{also}"
        else:
            found = f"no GPU that TensorFlow can use: {self.reason or 'TensorFlow lists none'}; run tfgpu doctor"
        return one_line(f"needs {needs}: {found}")


@contextmanager
def _leaving_nothing() -> Iterator[None]:
    """Let a signal that would end pytest at once end the doctor's children first; one that is handled is left to it."""
    is_main = threading.current_thread() is threading.main_thread()
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if is_main and hasattr(signal, name)]
    numbers = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]

    def leave(number: int, _frame: object) -> None:
        end_running()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    for number in numbers:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def examine() -> Machine:
    """Ask the doctor which GPUs TensorFlow can use.

    Without an NVIDIA GPU or driver, TensorFlow need not be started to know: that takes 1 s instead of 7.
    Raises SettingError: the report that is given cannot be used.
    """
    saved = os.environ.get("TFGPU_DOCTOR_FROM") or None  # the variable of `tfgpu doctor --from`
    try:
        with _leaving_nothing(), warnings.catch_warnings():  # those of the project may be errors (-W error)
            warnings.simplefilter("ignore")
            report = diagnose(saved=saved, import_tensorflow=bool(saved))
            roots = root_causes(report.findings)
            if not saved and not any(one.severity is Severity.ERROR and one.id in _NO_GPU for one in roots):
                report = diagnose()
    except TfgpuError as error:
        if saved:
            raise SettingError(f"TFGPU_DOCTOR_FROM: {error}") from error
        return Machine((), f"tfgpu doctor came to no result: {error}", "")
    gpus = usable(report)
    return Machine(gpus, "" if gpus and report.verdict == "ok" else _why(report), _stack(report))


def _why(report: Report) -> str:
    """Return the first problem that the doctor found, or what it could not determine."""
    errors = (one for one in report.findings if one.severity is Severity.ERROR)
    if first := min(errors, key=lambda one: (one.possible, not one.root_cause), default=None):
        return f"{first.id}: {first.title}"
    devices = report.facts.tensorflow.devices
    return f"could not be determined: {devices.reason}" if isinstance(devices, Unknown) else ""


def _stack(report: Report) -> str:
    facts = report.facts
    names = [value_or(gpu.name, "GPU of unknown name") for gpu in value_or(facts.gpus, ())]
    tensorflow, driver = value_or(facts.tensorflow.version, ""), value_or(facts.driver.version, "")
    software = f"TensorFlow {tensorflow}" if tensorflow else "no TensorFlow"
    drives = f"driver {driver}" if driver else "no NVIDIA driver"
    return one_line(f"{software}, {drives}, {_counted(names) or 'no NVIDIA GPU'}")


def _counted(names: Sequence[str]) -> str:
    return ", ".join(f"{names.count(name)} × {name}" for name in dict.fromkeys(names))


def _memory(gpu: Gpu) -> int:
    """Return the memory of a GPU; 0 where it is unknown, as of a slice, for which NVML tells that of the whole."""
    return 0 if value_or(gpu.mig_mode, False) else value_or(gpu.memory_total, 0)


def _capability(gpu: Gpu) -> str:
    return value_or(gpu.compute_capability, "")


def usable(report: Report) -> tuple[UsableGpu, ...]:
    """Return the GPUs that TensorFlow lists, without those on which a matrix product failed, the largest first."""
    facts = report.facts
    known: tuple[Gpu, ...] = value_or(facts.gpus, ())
    failed = {one.device for one in value_or(facts.tensorflow.checks, ()) if (one.kind, one.ok) == ("matmul", False)}
    listed = [one for one in value_or(facts.tensorflow.devices, ()) if one.kind == "GPU"]
    found = []
    for number, device in enumerate(listed):
        # the one that it is, or cannot be told from: TensorFlow numbers them in another order than the driver
        alike = [gpu for gpu in known if value_or(gpu.name, None) == device.device_name] or [*known]
        found.append(
            UsableGpu(
                name=device.device_name or "GPU of unknown name",
                memory=min(map(_memory, alike), default=0) or None,
                compute_capability=device.compute_capability
                or min(map(_capability, alike), key=capability, default="")
                or None,
                device=f"/GPU:{number}",
            )
        )
    return tuple(sorted((one for one in found if one.device not in failed), key=lambda one: -(one.memory or 0)))
