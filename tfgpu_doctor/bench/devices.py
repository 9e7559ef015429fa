"""Which cases to run: from what was asked for and the devices that TensorFlow lists. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfgpu_doctor.bench.results import Figure
from tfgpu_doctor.bench.workloads.training import Judgement
from tfgpu_doctor.facts.units import count

SPREADS = ("terms", "rows")
_DEVICE = re.compile(r"/?(?:device:)?(?:cpu(?::0)?|gpu(?::(\d+))?)", re.IGNORECASE)


class DeviceError(Exception):
    """Devices were asked for that are not there; the message names what was found."""


class NoGpuError(DeviceError):
    """GPUs were asked for, and TensorFlow lists none."""


class RequestError(ValueError):
    """What was asked for cannot be measured; the message says which option is wrong, and what to give."""


@dataclass(frozen=True)
class GpuFound:
    """A GPU as TensorFlow lists it."""

    name: str
    compute_capability: str | None = None  # "9.0"


@dataclass(frozen=True)
class Case:
    """One process to be started: a label, physical GPUs to be seen (by index), and how many logical devices."""

    label: str
    devices: tuple[str, ...]  # "/CPU:0", "/GPU:1", as TensorFlow in the worker will name them
    gpus: tuple[int, ...]  # physical GPUs that the worker makes visible
    spread: str = "one device"
    virtual: bool = False
    sees: tuple[int, ...] = ()  # of a process that all cases share: the GPUs of all of them, which it makes visible

    @property
    def terms(self) -> int:
        """How many matrix powers a sample computes: one a device in *terms*, else two."""
        return len(self.devices) if self.spread == "terms" else 2

    def dtype(self, requested: str) -> str:
        """The type in which it computes: TF32 exists on GPUs only; the CPU beside it computes in float32."""
        return "float32" if requested == "tf32" and self.devices[0].startswith("/CPU") else requested


def parse_gpus(text: str, alone: str = "--devices cpu") -> int | None:
    """Read --gpus: a number, or None for "all"; `alone` is what measures the CPU alone.

    Raises RequestError: neither a positive number nor "all".
    """
    if text.lower() == "all":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise RequestError(f"--gpus {text}: must be a number from 1 up, or all (the CPU alone: {alone})")
    return int(text)


def parse_devices(names: Sequence[str]) -> tuple[str, ...]:
    """Read --devices cpu,gpu:0,gpu:1: normalised names, each once.

    Raises RequestError: one is no device.
    """
    found = dict[str, None]()
    for name in names:
        match = _DEVICE.fullmatch(name)
        if match is None:
            raise RequestError(f"--devices: {name!r} is not a device; for example cpu,gpu:0,gpu:1")
        found["/CPU:0" if "cpu" in name.lower() else f"/GPU:{int(match[1] or 0)}"] = None
    return tuple(found)


@dataclass(frozen=True)
class Selection:
    """What was asked for: how many GPUs, or exactly which devices, or logical ones."""

    gpus: int | None = 1  # to use together; None: all
    explicit: bool = False  # the number of GPUs was given, and fewer are an error
    devices: tuple[str, ...] | None = None  # exactly these instead: each alone, and all GPUs among them together
    virtual: int | None = None  # split the first GPU (or the CPU, where there is none) into so many logical devices

    def cases(self, found: Sequence[GpuFound], spreads: Sequence[str] = SPREADS) -> tuple[Case, ...]:
        """Return the cases: CPU, one GPU, and several GPUs in each way of spreading the work.

        Args:
            found: the GPUs that TensorFlow lists.

        Raises DeviceError: more GPUs were asked for than there are.
        """
        cpu = [Case("CPU", ("/CPU:0",), ())]
        if self.devices is not None:
            return self._named(found, cpu if "/CPU:0" in self.devices else [], spreads)
        wanted = max(len(found), 1) if self.gpus is None else self.gpus
        if self.explicit and self.virtual is None and len(found) < wanted:
            requested = "all GPUs" if self.gpus is None else count(wanted, "GPU")
            raise _absent(requested, found)
        cases = [*cpu, *([Case("1 GPU", ("/GPU:0",), (0,))] if found else [])]
        several = _together(tuple(range(min(wanted, len(found)))), spreads)
        if self.virtual is not None:
            kind, gpus = ("GPU", (0,)) if found else ("CPU", ())
            names = tuple(f"/{kind}:{index}" for index in range(self.virtual))
            several = [Case(f"{self.virtual} virtual {kind}s, {way}", names, gpus, way, True) for way in spreads]
        return (*cases, *several)

    def _named(self, found: Sequence[GpuFound], cases: list[Case], spreads: Sequence[str]) -> tuple[Case, ...]:
        indices = tuple(int(name.rpartition(":")[2]) for name in self.devices or () if name.startswith("/GPU"))
        for index in indices:
            if index >= len(found):
                raise _absent(f"GPU {index}", found)
            # the worker sees this GPU alone, so that it is its GPU 0
            label = "1 GPU" if indices == (0,) else f"1 GPU (GPU {index})"
            cases.append(Case(label, ("/GPU:0",), (index,)))
        return (*cases, *_together(indices, spreads))


def _together(indices: tuple[int, ...], spreads: Sequence[str]) -> list[Case]:
    names = tuple(f"/GPU:{place}" for place in range(len(indices)))
    ways = spreads if len(indices) > 1 else ()
    return [Case(f"{len(indices)} GPUs, {way}", names, indices, way) for way in ways]


def plain(text: str) -> str:
    """Return a text with labels of several devices in words that need no explanation: "2 GPUs, a power each"."""
    return text.replace("PUs, terms", "PUs, a power each").replace("PUs, rows", "PUs, rows shared")


def _absent(requested: str, found: Sequence[GpuFound]) -> DeviceError:
    """Return the error that TensorFlow does not list what was requested."""
    if not found:
        return NoGpuError(f"{requested} requested, but TensorFlow lists no GPU")
    listed = ", ".join(gpu.name for gpu in found)
    return DeviceError(f"{requested} requested, but TensorFlow lists {len(found)}: {listed}")


# ---------------------------------------------------------------------------------------------------------------------
# What a case computes, as the runner needs to know it: any workload, one size, one type. Pure.


Scalar = int | float | str | None
Ask = Callable[..., dict[str, Any]]
Key = tuple[str, str]  # label and type: what one process is for


@dataclass(frozen=True, eq=False)
class Job:
    """What one case computes."""

    case: Case
    workload: str  # the file of workloads/
    parameters: dict[str, Any]  # for the worker
    dtype: str  # in which the case computes
    unit: str  # of throughput
    work: float  # of one step, in `unit` times seconds
    judge: Callable[[dict[str, Any], str, dict[str, Any]], Judgement]
    flop: float | None = None  # of one step
    bytes_moved: float | None = None  # of one step, at least
    scaling: str | None = None  # "strong", "weak": how the work grows with the devices
    point: Mapping[str, Scalar] = field(default_factory=dict)  # what tells it from the other jobs of one benchmark
    process: str = ""  # a name: jobs of one case that take turns have a process each; without, they share the case's
    step_name: str = "sample"
    blocks: bool = False  # several steps are queued together and waited for once, as training does
    least: int = 0  # steps for which the deadline must have the time; else it is not measured
    explain: Callable[[str], str] = lambda why: why  # a failure in words of this workload
    farewell: bool = False  # the worker has something to check or to tell others at the end
    patience: float = 0.0  # seconds that one answer may take, where that is more than what holds for every workload
    virtual_memory_mib: int = 2048
    derive: Callable[[Sequence[float]], tuple[Figure, ...]] = lambda _: ()  # what the samples show
    # what `verify` is asked with; its argument asks the worker of the case, for a reference to be made
    verify: Callable[[Ask], Mapping[str, Any]] = lambda _: {}

    @property
    def key(self) -> Key:
        """Which process it has."""
        return self.case.label + self.process, self.dtype
