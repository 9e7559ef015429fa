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
from tfgpu_doctor.facts.similar import did_you_mean
from tfgpu_doctor.facts.units import memory_size, read_size
from tfgpu_doctor.findings.inputs import visible_devices
from tfgpu_doctor.probes.process import end_running

if TYPE_CHECKING:
    from types import FrameType

    from tfgpu_doctor.facts.facts import TfDevice
    from tfgpu_doctor.facts.report import Report

KEYWORDS = ("min", "memory", "compute_capability")
_FORM = '@pytest.mark.gpu(min=2, memory="10GiB", compute_capability="8.0")'
_NO_GPU = ("gpu.none", "driver.missing", "driver.not-loaded")


@dataclass(frozen=True)
class UsableGpu:
    """A GPU that TensorFlow can use in this process: what the fixture `gpu` gives."""

    index: int  # its number in nvidia-smi
    uuid: str | None  # "GPU-5c16cb07-…"
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
    if arguments:
        given = ", ".join(map(repr, arguments))
        raise MarkError(f"it takes keywords only, not ({given}): write {_FORM}")
    if unknown := next((name for name in keywords if name not in KEYWORDS), None):
        hint = did_you_mean(unknown, KEYWORDS, 1) or f" Keywords: {', '.join(KEYWORDS)}."
        raise MarkError(f"unknown keyword {unknown!r}.{hint}")
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


class _EndedError(BaseException):
    """A signal came that ends this process."""


@contextmanager
def _leaving_nothing() -> Iterator[None]:
    """Let a signal that would end pytest at once end the doctor's children first; one that is handled is left to it."""
    is_main = threading.current_thread() is threading.main_thread()
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if is_main and hasattr(signal, name)]
    numbers = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]

    def leave(number: int, _frame: FrameType | None) -> None:
        raise _EndedError(number)

    for number in numbers:
        signal.signal(number, leave)
    try:
        yield
    except _EndedError as ended:
        end_running()  # that of other threads
        signal.signal(ended.args[0], signal.SIG_DFL)
        os.kill(os.getpid(), ended.args[0])
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def examine() -> Machine:
    """Ask the doctor which GPUs TensorFlow can use.

    Without an NVIDIA GPU or driver, TensorFlow need not be started to know: that takes 1 s instead of 7.
    """
    try:
        with _leaving_nothing(), warnings.catch_warnings():  # those of the project may be errors (-W error)
            warnings.simplefilter("ignore")
            saved = os.environ.get("TFGPU_DOCTOR_FROM") or None  # the variable of `tfgpu doctor --from`
            report = diagnose(saved=saved, import_tensorflow=bool(saved))
            if not saved and not _has_surely_none(report):
                report = diagnose()
    except TfgpuError as error:
        return Machine((), f"tfgpu doctor came to no result: {error}", "")
    gpus = usable(report)
    return Machine(gpus, "" if gpus and report.verdict == "ok" else _why(report), _stack(report))


def _has_surely_none(report: Report) -> bool:
    """True if no TensorFlow whatsoever can use a GPU here."""
    gpus: tuple[Gpu, ...] = value_or(report.facts.gpus, ())
    count: int = value_or(report.facts.driver.cuda_device_count, 0)
    if gpus or count:
        return False
    return any(one.severity is Severity.ERROR and one.id in _NO_GPU for one in root_causes(report.findings))


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


def usable(report: Report) -> tuple[UsableGpu, ...]:
    """Return the GPUs that TensorFlow lists, without those on which a matrix product failed, the largest first.

    TensorFlow numbers them as CUDA does, which has the order of CUDA_VISIBLE_DEVICES, or puts the fastest first; so
    each is the first GPU of its name that no other one is.
    """
    facts = report.facts
    known: tuple[Gpu, ...] = value_or(facts.gpus, ())
    left = list(known)
    entries: tuple[str, ...] = ()
    if (chosen := value_or(facts.variables, {}).get("CUDA_VISIBLE_DEVICES")) is not None:
        entries = visible_devices(chosen, known)
        left = [gpu for entry in entries for gpu in known if _is_named(entry, gpu)]
    failed = {one.device for one in value_or(facts.tensorflow.checks, ()) if (one.kind, one.ok) == ("matmul", False)}
    devices = [one for one in value_or(facts.tensorflow.devices, ()) if one.kind == "GPU"]
    found = []
    for number, device in enumerate(devices):
        alike = [gpu for gpu in left if value_or(gpu.name, None) == device.device_name]
        gpu = next(iter((*alike, *left)), Gpu(index=number))
        left = [one for one in left if one is not gpu]
        if f"/GPU:{number}" not in failed:
            found.append(_usable_gpu(number, device, gpu, "".join(entries[number : number + 1])))
    return tuple(sorted(found, key=lambda one: -(one.memory or 0)))


def _usable_gpu(number: int, device: TfDevice, gpu: Gpu, entry: str) -> UsableGpu:
    is_slice = value_or(gpu.mig_mode, False)  # NVML tells the memory of the whole GPU
    return UsableGpu(
        index=gpu.index,
        uuid=entry if entry.startswith("MIG-") else value_or(gpu.uuid, None),
        name=device.device_name or value_or(gpu.name, "") or "GPU of unknown name",
        memory=None if is_slice else value_or(gpu.memory_total, None),
        compute_capability=device.compute_capability or value_or(gpu.compute_capability, None),
        device=f"/GPU:{number}",
    )


def _is_named(entry: str, gpu: Gpu) -> bool:
    """True if an entry of CUDA_VISIBLE_DEVICES names the GPU, by its number or the begin of its UUID."""
    return entry == str(gpu.index) or (entry[:4] == "GPU-" and value_or(gpu.uuid, "").startswith(entry))
