"""The GPUs that a test may use, what it asks for, and how they are dealt to the workers of pytest-xdist.

What the machine has is found out once for all workers; TensorFlow runs in child processes.
"""

from __future__ import annotations

import json
import os
import re
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from tfgpu_doctor.records.printable import utf8
from tfgpu_doctor.records.similar import did_you_mean
from tfgpu_doctor.records.units import memory_size, read_size

if TYPE_CHECKING:
    from tfgpu_doctor.records.facts import Gpu, TfDevice
    from tfgpu_doctor.records.report import Report


@dataclass(frozen=True)
class UsableGpu:
    """A GPU that TensorFlow can use in this process: what the fixture `gpu` gives."""

    index: int  # its number in nvidia-smi
    uuid: str | None  # "GPU-5c16cb07-…"
    name: str
    memory: int | None  # bytes in total; None: unknown, as of a slice of a GPU in MIG mode
    compute_capability: str | None  # "9.0"
    visible: str  # what stands for it in CUDA_VISIBLE_DEVICES
    device: str  # its name in TensorFlow: "/GPU:0"

    def __str__(self) -> str:
        """Its name with what marks can ask for."""
        memory = "memory unknown" if self.memory is None else memory_size(self.memory)
        return f"{self.name} ({memory}, compute capability {self.compute_capability or 'unknown'})"


class Needs(NamedTuple):
    """What a test asks for."""

    min: int = 1  # number of GPUs
    memory: int = 0  # bytes that each of them must have
    capability: tuple[int, int] = (0, 0)  # least compute capability of each

    def and_also(self, other: Needs) -> Needs:
        """What meets both."""
        return Needs(max(self.min, other.min), max(self.memory, other.memory), max(self.capability, other.capability))

    def fits(self, gpu: UsableGpu) -> bool:
        """Whether it is such a GPU; what is unknown of it does not count as enough."""
        return (not self.memory or (gpu.memory or 0) >= self.memory) and (
            not any(self.capability) or capability(gpu.compute_capability) >= self.capability
        )

    def met_by(self, gpus: Iterable[UsableGpu]) -> bool:
        """Whether enough of them are such GPUs."""
        return sum(map(self.fits, gpus)) >= self.min

    def __str__(self) -> str:
        """As words: "2 GPUs with at least 10 GiB of memory and compute capability 8.0"."""
        asked = [f"{memory_size(self.memory)} of memory"] if self.memory else []
        asked += ["compute capability {}.{}".format(*self.capability)] if any(self.capability) else []
        number = "a GPU" if self.min == 1 else f"{self.min} GPUs"
        return f"{number} with at least {' and '.join(asked)}" if asked else number


def capability(text: str | None) -> tuple[int, int]:
    """A compute capability, so that they compare as numbers; (0, 0) where it is unknown.

    >>> capability("12.0") > capability("9.0"), capability(None)
    (True, (0, 0))
    """
    major, _, minor = (text or "0.0").partition(".")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else (0, 0)


class Machine(NamedTuple):
    """What the doctor found, in as much as tests depend on it."""

    gpus: tuple[UsableGpu, ...]  # those that TensorFlow can use
    reason: str  # why there are none, or fewer than the machine has; "" where nothing is wrong
    stack: str  # "TensorFlow 2.21.0, driver 580.65.06, 2 × NVIDIA H200"

    def encode(self) -> str:
        """As JSON, for other processes."""
        return json.dumps([list(map(astuple, self.gpus)), self.reason, self.stack])

    @classmethod
    def decode(cls, text: str) -> Machine:
        """Read what encode() has written."""
        gpus, reason, stack = json.loads(text)
        return cls(tuple(UsableGpu(*gpu) for gpu in gpus), reason, stack)


def usable(report: Report) -> tuple[UsableGpu, ...]:
    """The GPUs that TensorFlow lists, without those on which a matrix product failed.

    TensorFlow numbers them as CUDA does, which has the order of CUDA_VISIBLE_DEVICES, or puts the fastest first; so
    each is the first GPU of its name that no other one is.
    """
    from tfgpu_doctor.findings.inputs import visible_devices
    from tfgpu_doctor.records.facts import value_or

    facts = report.facts
    known: tuple[Gpu, ...] = value_or(facts.gpus, ())
    chosen = value_or(facts.variables, {}).get("CUDA_VISIBLE_DEVICES")
    entries = None if chosen is None else visible_devices(chosen, known)
    failed = {
        check.device for check in value_or(facts.tensorflow.checks, ()) if check.kind == "matmul" and not check.ok
    }
    left = list(known) if entries is None else [gpu for one in entries for gpu in known if _is_named(gpu, one)]
    found = []
    for number, device in enumerate(one for one in value_or(facts.tensorflow.devices, ()) if one.kind == "GPU"):
        gpu = _taken(left, device.device_name)
        entry = entries[number] if entries and number < len(entries) else None
        if f"/GPU:{number}" not in failed:
            found.append(_usable_gpu(number, device, gpu, entry))
    return tuple(found)


def _is_named(gpu: Gpu, entry: str) -> bool:
    from tfgpu_doctor.records.facts import value_or

    return entry == str(gpu.index) or (entry[:4] == "GPU-" and value_or(gpu.uuid, "").startswith(entry))


def _taken(left: list[Gpu], name: str | None) -> Gpu | None:
    """Take the first GPU of this name out of the list; of another name, where none has it."""
    from tfgpu_doctor.records.facts import value_or

    same = [gpu for gpu in left if value_or(gpu.name, None) == name] or left
    if not same:
        return None
    left.remove(same[0])
    return same[0]


def _usable_gpu(number: int, device: TfDevice, gpu: Gpu | None, entry: str | None) -> UsableGpu:
    from tfgpu_doctor.records.facts import Known, value_or

    uuid = value_or(gpu.uuid, None) if gpu else None
    is_sliced = gpu is None or value_or(gpu.mig_mode, False)  # NVML tells the memory of the whole GPU
    driver_name = gpu.name.value if gpu and isinstance(gpu.name, Known) else "GPU of unknown name"
    return UsableGpu(
        index=gpu.index if gpu else number,
        uuid=entry if entry and entry.startswith("MIG-") else uuid,
        name=device.device_name or driver_name,
        memory=None if is_sliced or gpu is None else value_or(gpu.memory_total, None),
        compute_capability=device.compute_capability or (value_or(gpu.compute_capability, None) if gpu else None),
        visible=entry or uuid or str(number),
        device=f"/GPU:{number}",
    )


def groups(gpus: Sequence[UsableGpu], needs: Iterable[Needs]) -> tuple[tuple[UsableGpu, ...], ...]:
    """The groups of GPUs of which each worker gets one, so that every test can run in every worker.

    All groups have as many GPUs as the test with the largest `min`, and only such GPUs as meet all tests that this
    machine can run at all. Where those tests together ask for what no group has, there is one group: all GPUs.
    """
    strictest = Needs()
    for one in needs:
        if one.met_by(gpus):
            strictest = strictest.and_also(one)
    fitting = [gpu for gpu in gpus if strictest.fits(gpu)]
    size = strictest.min
    return chunks(fitting, size) or (tuple(gpus),)


def chunks(gpus: Sequence[UsableGpu], size: int) -> tuple[tuple[UsableGpu, ...], ...]:
    """Groups of `size` GPUs, with those left over in none."""
    return tuple(tuple(gpus[at : at + size]) for at in range(0, len(gpus) - size + 1, size))


def renumbered(group: Iterable[UsableGpu]) -> tuple[UsableGpu, ...]:
    """The GPUs as TensorFlow numbers them in a process that sees only these."""
    return tuple(replace(gpu, device=f"/GPU:{number}") for number, gpu in enumerate(group))


# ------------------------------------------------------------------------------------------------- what a mark asks for

KEYWORDS = ("min", "memory", "compute_capability")
_FORM = '@pytest.mark.gpu(min=2, memory="10GiB", compute_capability="8.0")'


class MarkError(ValueError):
    """The mark is wrong; the message says what, and how it is written."""


def read(arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Needs:
    """What one mark asks for. Raises MarkError: an argument is unknown, or has no such value."""
    if arguments:
        given = ", ".join(map(repr, arguments))
        raise MarkError(f"it takes keywords only, not ({given}): write {_FORM}")
    for name in keywords:
        if name not in KEYWORDS:
            hint = did_you_mean(name, KEYWORDS, 1) or f" Keywords: {', '.join(KEYWORDS)}."
            raise MarkError(f"unknown keyword {name!r}.{hint}")
    return Needs(
        min=_count(keywords.get("min", 1)),
        memory=_bytes(keywords["memory"]) if "memory" in keywords else 0,
        capability=_capability(keywords["compute_capability"]) if "compute_capability" in keywords else (0, 0),
    )


def all_of(marks: Iterable[Any]) -> Needs:
    """What the marks of a test, of its class and its module ask for together. Raises MarkError: one is wrong."""
    needs = Needs()
    for mark in marks:
        needs = needs.and_also(read(mark.args, mark.kwargs))
    return needs


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise MarkError(f"min={value!r} is not a number of GPUs such as 2")
    return value


def _bytes(value: object) -> int:
    size = read_size(value) if isinstance(value, str) else value
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise MarkError(f'memory={value!r} is not a size such as "10GiB", "512MiB" or "10G"')
    return size


def _capability(value: object) -> tuple[int, int]:
    """8.0 is taken as "8.0", since no minor number has two digits."""
    text = str(value) if isinstance(value, (str, float)) else ""
    if not re.fullmatch(r"[1-9]\d?\.\d", text, re.ASCII):
        raise MarkError(f'compute_capability={value!r} is not a compute capability such as "8.0"')
    return capability(text)


# ------------------------------------------------------------------------------------------------- what the machine has

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
    from tfgpu_doctor.files.writing import Claim, HeldError

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


# ------------------------------------------------------------------------------------------------ what each worker gets

VISIBLE, GROWTH = "CUDA_VISIBLE_DEVICES", "TF_FORCE_GPU_ALLOW_GROWTH"


class Share(NamedTuple):
    """What the tests of a process have."""

    machine: Machine
    gpus: tuple[UsableGpu, ...]
    limited_by: str = ""  # why these are fewer than the machine has
    problem: str = ""  # why this process has no GPUs of its own, though it should
    note: str = ""  # what is worth a line in the summary

    def missing(self, needs: Needs) -> str:
        """Why a test with these needs cannot run here, with what was asked and what was found; "" where it can."""
        if needs.met_by(self.gpus):
            return ""
        from tfgpu_doctor.records.printable import one_line

        machine = self.machine
        if not machine.gpus:
            found = f"no GPU that TensorFlow can use: {machine.reason or 'TensorFlow lists none'}; run tfgpu doctor"
        elif needs.met_by(machine.gpus):
            found = f"found {_listed(self.gpus)}: {self.limited_by}"
        else:
            also = f"; {machine.reason}; run tfgpu doctor" if machine.reason else ""
            found = f"found {_listed(machine.gpus)}{also}"
        return one_line(f"needs {needs}: {found}")


def _listed(gpus: Sequence[UsableGpu]) -> str:
    names = [str(gpu) for gpu in gpus]
    return ", ".join(f"{names.count(name)} × {name}" for name in dict.fromkeys(names))


def alone(needs: Sequence[Needs]) -> Share:
    """Of a process that runs all tests: all GPUs, those first that meet every test."""
    machine = examine()
    return Share(machine, _best_first(machine.gpus, needs))


def _best_first(gpus: tuple[UsableGpu, ...], needs: Sequence[Needs]) -> tuple[UsableGpu, ...]:
    """`gpu` gives the first one, so that it meets every test where any GPU does."""
    first = [gpu for group in groups(gpus, needs) for gpu in group]
    return (*first, *(gpu for gpu in gpus if gpu not in first))


def of_worker(given: Mapping[str, Any] | None, number: int, count: int, needs: Sequence[Needs]) -> Share:
    """Of a worker, the `number`-th of `count`; `given` is what the controller gave it.

    Its variables are set, unless the controller has set them before the worker began. One to which the controller gave
    nothing runs on another machine, or was started with GPUs of its own (--tx): it keeps all that it sees.
    """
    if given is None:
        return alone(needs)
    if "machine" in given:
        return _dealt_before(given)
    machine = shared(given.get("folder", ""))
    dealt = groups(machine.gpus, needs)
    mine = dealt[number % len(dealt)]
    sharing = ""
    if count == 1 or not machine.gpus:
        return Share(machine, _best_first(machine.gpus, needs))
    if count > len(dealt):
        os.environ.setdefault(GROWTH, "true")  # else the first process takes nearly all memory of a GPU
        sharing = note(count, dealt)
    if len(mine) == len(machine.gpus):
        return Share(machine, mine, note=sharing)
    from tfgpu_doctor.probes.cuda_state import is_initialized

    if is_initialized():
        problem = (
            f"CUDA was initialized in this process while tests were collected, so that {VISIBLE} has no effect any "
            f"more: set gpus_per_worker = {len(mine)} in the configuration of pytest, or use no GPU while a test file "
            "is imported"
        )
        return Share(machine, _best_first(machine.gpus, needs), problem=problem, note=problem)
    os.environ[VISIBLE] = ",".join(gpu.visible for gpu in mine)
    return Share(machine, renumbered(mine), f"the others are for other workers ({len(dealt)} groups)", note=sharing)


def note(workers: int, dealt: Sequence[Sequence[UsableGpu]]) -> str:
    """A sentence on GPUs that several workers use; "" where each has its own."""
    number = sum(map(len, dealt))
    if workers <= len(dealt) or not number:
        return ""
    gpus = "1 GPU" if number == 1 else f"{number} GPUs"
    return f"{workers} workers share {gpus}; with -n {len(dealt)}, each has its own"


def deal_before(per_worker: int, workers: int) -> tuple[Machine, list[dict[str, str]]]:
    """What each worker gets before it starts (--gpus-per-worker): the variables that are to be set in it."""
    machine = examine()
    dealt = chunks(machine.gpus, per_worker)
    if not dealt:
        return machine, [{} for _ in range(workers)]
    more = {GROWTH: "true"} if workers > len(dealt) and GROWTH not in os.environ else {}
    visible = [",".join(gpu.visible for gpu in group) for group in dealt]
    return machine, [{VISIBLE: visible[number % len(dealt)], **more} for number in range(workers)]


def _dealt_before(given: Mapping[str, Any]) -> Share:
    machine = Machine.decode(given["machine"])
    entries = (given.get("visible") or "").split(",")
    mine = renumbered(gpu for entry in entries for gpu in machine.gpus if gpu.visible == entry) or machine.gpus
    return Share(machine, mine, f"this worker has {len(mine)} of {len(machine.gpus)} GPUs (gpus_per_worker)")
