"""The GPUs that TensorFlow names in its log, from 0.x to today.

>>> text = '''I tensorflow/core/common_runtime/gpu/gpu_device.cc:885] Found device 0 with properties:
... name: Tesla M40 (24GB)
... major: 5 minor: 2 memoryClockRate (GHz) 1.112
... pciBusID 0000:82:00.0
... Total memory: 22.40GiB
... Free memory: 96.62MiB'''
>>> gpu, = gpus([Line(number, line) for number, line in enumerate(text.splitlines(), 1)])
>>> gpu.index, gpu.name, gpu.compute_capability, gpu.pci_bus_id, gpu.memory_free // 2**20, gpu.line
(0, 'Tesla M40 (24GB)', '5.2', '0000:82:00.0', 96, 2)
>>> text = ("2026-11-21 14:03:06.072129: I tensorflow/core/common_runtime/gpu/gpu_device.cc:1616] Created device "
...         "/device:GPU:0 with 14563 MB memory:  -> device: 0, name: Quadro RTX 5000, pci bus id: 0000:41:00.0, "
...         "compute capability: 7.5")
>>> gpu, = gpus([Line(1, text)])
>>> gpu.name, gpu.compute_capability, gpu.created, gpu.memory_limit // 2**20
('Quadro RTX 5000', '7.5', True, 14563)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tfgpu_doctor.parsers.text.lines import Line

LONGEST = 1000  # characters of a line that are looked at
_BLOCK = 5  # lines that follow "Found device 0 with properties:" at most

_WORTH_A_LOOK = re.compile(
    r"name: |pciBusID|[tT]otal ?[mM]emory|[fF]ree ?[mM]emory|deviceMemory|major: |device \(|Found dev"
)
_UNITS = {"G": 2**30, "M": 2**20, "K": 2**10}

_FOUND = re.compile(r"Found device (\d{1,3}) with properties")
_NAME_ALONE = re.compile(r"\s*name: (?P<name>\S.{0,80}?)\s*$")
_NAME_MAJOR = re.compile(r"\bname: (?P<name>\S.{0,80}?) major: (?P<major>\d{1,2}) minor: (?P<minor>\d)")
_MAJOR_ALONE = re.compile(r"\s*major: (?P<major>\d{1,2}) minor: (?P<minor>\d)")
_BUS_NAME = re.compile(
    r"(?:pciBusID: (?P<bus>\S{1,40}) )?\bname: (?P<name>\S.{0,80}?) computeCapability: (?P<capability>\d{1,2}\.\d)"
)
_BUS_ALONE = re.compile(r"\s*pciBusID:? (?P<bus>[0-9A-Fa-f]{2,8}:[0-9A-Fa-f:.]{4,12})")
_TOTAL = re.compile(r"(?:[tT]otal ?[mM]emory|deviceMemorySize): (\d{1,6}\.?\d{0,2}) ?([GMK])iB")
_FREE = re.compile(r"[fF]ree ?[mM]emory: (\d{1,6}\.?\d{0,2}) ?([GMK])iB")
_DESCRIBED = re.compile(
    r"\bdevice: (?P<index>\d{1,3}), name: (?P<name>[^,]{1,80}), pci bus id: (?P<bus>[^\s,)\"']{1,40})"
    r"(?:, compute capability: (?P<capability>\d{1,2}\.\d))?"
)
_DESCRIPTION_BEGINS = re.compile(r"\bdevice: \d{1,3}, name: ")
_WITH_MEMORY = re.compile(r"with (\d{1,9}) MB memory")
_XLA = re.compile(
    r"StreamExecutor(?: \S{1,20})? device \((?P<index>\d{1,3})\): (?P<name>[^,]{1,80}), "
    r"Compute Capability (?P<capability>\d{1,2}\.\d)"
)


@dataclass(frozen=True)
class GpuSeen:
    """A GPU as TensorFlow's log describes it; None for what it does not say."""

    line: int  # where its name stands first
    index: int | None = None  # TensorFlow's number, which CUDA_VISIBLE_DEVICES shifts
    name: str | None = None
    compute_capability: str | None = None
    pci_bus_id: str | None = None  # in the form of sysfs
    memory_total: int | None = None
    memory_free: int | None = None
    memory_limit: int | None = None  # what TensorFlow keeps for itself
    created: bool = False  # TensorFlow made a device of it


def gpus(lines: Sequence[Line]) -> tuple[GpuSeen, ...]:
    """Every GPU once, with all that the log says of it, in the order of their first mention."""
    found: list[GpuSeen] = []
    for one in _mentions(lines):
        place = next((place for place, known in enumerate(found) if _same(known, one)), None)
        if place is None:
            found.append(one)
        else:
            found[place] = _merged(found[place], one)
    return tuple(found)


def _mentions(lines: Sequence[Line]) -> Iterator[GpuSeen]:
    block = _Block()
    for place, line in enumerate(lines):
        block.left -= 1
        if not _WORTH_A_LOOK.search(line.text, 0, LONGEST):
            continue
        text = line.text[:LONGEST]
        if header := _FOUND.search(text):
            yield from block.finish()
            block.gpu, block.left = GpuSeen(line.number, index=int(header[1])), _BLOCK
        elif (row := _row(text, line.number, block.gpu if block.left >= 0 else None)) is not None:
            if block.left < 0:
                yield from block.finish()
            block.gpu, block.left = row, max(block.left, 3)
        elif described := list(_described(text, lines, place)):
            yield from block.finish()
            yield from described
    yield from block.finish()


@dataclass
class _Block:
    """The GPU that the lines describe one value after the other, and for how many lines more."""

    gpu: GpuSeen | None = None
    left: int = 0

    def finish(self) -> Iterator[GpuSeen]:
        """What was described, where it has a name."""
        if self.gpu and self.gpu.name:
            yield self.gpu
            self.gpu, self.left = None, -1


def _row(text: str, number: int, block: GpuSeen | None) -> GpuSeen | None:
    """The block with what a line of it adds; None for a line of no block."""
    known = _BUS_NAME.search(text) or _NAME_MAJOR.search(text) or (_row_of(block, text) if block else None)
    total, free = _TOTAL.search(text), _FREE.search(text)
    if not (known or (block and (total or free))):
        return None
    base = block or GpuSeen(number)
    if known:
        base = _with(base, known.groupdict(), number)
    return replace(base, memory_total=_bytes(total) or base.memory_total, memory_free=_bytes(free) or base.memory_free)


def _row_of(block: GpuSeen, text: str) -> re.Match[str] | None:
    """A line that says something only inside of a block."""
    return _MAJOR_ALONE.match(text) or _BUS_ALONE.match(text) or (None if block.name else _NAME_ALONE.match(text))


def _with(gpu: GpuSeen, values: dict[str, str | None], number: int) -> GpuSeen:
    name, bus, major = values.get("name"), values.get("bus"), values.get("major")
    capability = values.get("capability") or (f"{major}.{values['minor']}" if major else None)
    return replace(
        gpu,
        line=number if name else gpu.line,
        name=name or gpu.name,
        compute_capability=capability or gpu.compute_capability,
        pci_bus_id=_bus(bus) if bus else gpu.pci_bus_id,
    )


def _described(text: str, lines: Sequence[Line], place: int) -> Iterator[GpuSeen]:
    """GPUs out of "device: 0, name: ..., pci bus id: ...", which a paste may have wrapped."""
    if _DESCRIPTION_BEGINS.search(text) and not _DESCRIBED.search(text) and place + 1 < len(lines):
        text = f"{text.rstrip()} {lines[place + 1].text[:LONGEST].lstrip()}"
    for match in [*_DESCRIBED.finditer(text), *_XLA.finditer(text)]:
        values = match.groupdict()
        limit = _WITH_MEMORY.search(text)
        yield GpuSeen(
            lines[place].number,
            index=int(values["index"]),
            name=values["name"].strip(),
            compute_capability=values["capability"],
            pci_bus_id=_bus(values["bus"]) if values.get("bus") else None,
            memory_limit=int(limit[1]) * 2**20 if limit else None,
            created=bool(values.get("bus")) and "gnoring" not in text,  # "Ignoring visible gpu device (device: 0, ..."
        )


def _bus(text: str) -> str | None:
    """A bus id in the form of sysfs."""
    domain, colon, rest = text.strip("<>").lower().partition(":")
    return f"{domain.lstrip('0').rjust(4, '0')}:{rest}" if colon and rest.count(":") == 1 else None


def _bytes(match: re.Match[str] | None) -> int | None:
    return int(float(match[1]) * _UNITS[match[2]]) if match else None


def _same(known: GpuSeen, new: GpuSeen) -> bool:
    """Whether two mentions mean one GPU: the bus id decides, else TensorFlow's number and the name."""
    if known.pci_bus_id and new.pci_bus_id:
        return known.pci_bus_id == new.pci_bus_id
    return known.name == new.name and (known.index == new.index or None in (known.index, new.index))


def _merged(known: GpuSeen, new: GpuSeen) -> GpuSeen:
    """What both say; the first mention of a value counts."""
    return GpuSeen(
        line=known.line,
        index=known.index if known.index is not None else new.index,
        name=known.name or new.name,
        compute_capability=known.compute_capability or new.compute_capability,
        pci_bus_id=known.pci_bus_id or new.pci_bus_id,
        memory_total=known.memory_total or new.memory_total,
        memory_free=known.memory_free or new.memory_free,
        memory_limit=known.memory_limit or new.memory_limit,
        created=known.created or new.created,
    )
