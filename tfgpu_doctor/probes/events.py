"""The lines that the TensorFlow probe writes, each of which is checked once, here: what is no event is no answer. Pure.

The docstring of :mod:`tfgpu_doctor.probes.tensorflow_probe` shows two of them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from tfgpu_doctor.records.facts import Build, ComputeCheck, Package, TfDevice
from tfgpu_doctor.records.printable import utf8

PhaseName = Literal["interpreter", "packages", "import", "keras", "build", "devices", "details", "compute", "xla"]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]


class Interpreter(Struct, frozen=True):
    """The phase "interpreter"."""

    executable: str | None
    version: str
    implementation: str
    bits: int
    prefix: str
    environment: str
    externally_managed: bool
    user_site: str | None
    platform: str
    machine: str
    sys_path: tuple[str, ...]
    address_space: tuple[int, ...] = ()


class Packages(Struct, frozen=True):
    """The phase "packages"."""

    packages: tuple[Package, ...]
    pip: bool
    tensorflow_paths: tuple[str, ...]
    leftovers: tuple[str, ...]


class Imported(Struct, frozen=True):
    """The phase "import"."""

    version: str | None
    file: str | None
    problem: str | None


class Built(Struct, frozen=True):
    """The phase "build"."""

    build: Build
    source: str


class Devices(Struct, frozen=True):
    """The phases "devices" and "details"."""

    devices: tuple[TfDevice, ...]


class Nothing(Struct, frozen=True):
    """The phase "keras"; "compute" and "xla", whose checks are events of their own."""


ANSWERS: dict[str, type[Struct]] = {
    "interpreter": Interpreter,
    "packages": Packages,
    "import": Imported,
    "keras": Nothing,
    "build": Built,
    "devices": Devices,
    "details": Devices,
    "compute": Nothing,
    "xla": Nothing,
}


class Line(Struct, frozen=True, tag_field="event", tag=str.lower):
    """What all events have."""

    tfgpu: Literal["patient/1"]
    phase: PhaseName


class Start(Line, frozen=True):
    """A phase begins."""


class End(Line, frozen=True):
    """A phase has ended; `data` is its answer, of the type that ANSWERS names, where it did what it should."""

    outcome: Literal["ok", "raised", "skipped"]
    seconds: Seconds | None = None
    note: str | None = None
    exception: str | None = None
    traceback: tuple[str, ...] = ()
    data: Any = None


class Computation(Struct, frozen=True):
    """What is computed, and on which device."""

    device: str
    kind: str


class Checking(Line, frozen=True):
    """A computation begins."""

    data: Computation

    def begins(self, check: Check) -> bool:
        """Whether `check` is the end of this computation."""
        done = check.data
        return (self.phase, self.data.device, self.data.kind) == (check.phase, done.device, done.kind)


class Check(Line, frozen=True):
    """A computation has ended."""

    data: ComputeCheck


class Libraries(Struct, frozen=True):
    """Paths in the process's memory map."""

    libraries: tuple[str, ...]


class Loaded(Line, frozen=True):
    """The CUDA libraries that are loaded now."""

    data: Libraries


class FoundCudnn(Struct, frozen=True):
    """The cuDNN that is loaded, or why it does not answer."""

    library: str
    version: Annotated[int, Meta(ge=0, lt=10**8)] | None = None
    problem: str | None = None


class Cudnn(Line, frozen=True):
    """cudnnGetVersion()."""

    data: FoundCudnn


Event = Start | End | Checking | Check | Loaded | Cudnn
_DECODER: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


def parse_event(line: str) -> Event | None:
    """Read a line of the script; None for anything else that came through its standard output."""
    try:
        event = _DECODER.decode(utf8(line))
        if isinstance(event, End):
            answer = msgspec.convert(event.data, ANSWERS[event.phase]) if event.outcome == "ok" else None
            return msgspec.structs.replace(event, data=answer)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return event
