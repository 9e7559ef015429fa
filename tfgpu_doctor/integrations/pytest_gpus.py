"""The GPUs that a test may use, what it asks of them, and how they are dealt to the workers of pytest-xdist. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

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
        from tfgpu_doctor.records.units import memory_size

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
        from tfgpu_doctor.records.units import memory_size

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
