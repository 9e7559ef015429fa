"""Names for PCI devices that the machine's own pci.ids does not have, or that a text gives by their numbers alone."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import structs

from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.parsers.text.lines import Line
from tfgpu_doctor.records.facts import Fact, Known, PciGpu

_IDS = re.compile(
    r"(?:(?P<address>(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) 03[08][0-9]: )?\b(?P<id>10de:[0-9a-f]{4})\b"
)
# of lspci, for a device that its pci.ids does not have; of Windows, without a driver
_NO_NAME = re.compile(r"\bDevice(?: (?P<number>[0-9a-f]{4}))?$|^Microsoft Basic Display Adapter$")


def by_number(lines: Iterable[Line], matrix: Matrix) -> Fact[tuple[PciGpu, ...]] | None:
    """The GPUs of NVIDIA that a text names by vendor and device id alone (lspci -n, the kernel's log); None: none.

    >>> from tfgpu_doctor.parsers.text import lines
    >>> by_number(lines.read([b"01:00.0 0300: 10de:2684 (rev a1)"]).lines, Matrix.load()).value[0].name
    'GeForce RTX 4090'
    """
    found: dict[str, PciGpu] = {}
    first = 0
    for line in lines:
        small = line.text.lower()
        for match in _IDS.finditer(small) if "10de:" in small else ():
            device_id, place = match["id"], match["address"] or ""
            if model := matrix.gpu_of_device(device_id):
                found.setdefault(place or device_id, PciGpu(place, device_id, name=model.name))
                first = first or line.number
    return Known(tuple(found.values()), f"line {first}: PCI device id") if found else None


def named(gpus: Fact[tuple[PciGpu, ...]], matrix: Matrix) -> Fact[tuple[PciGpu, ...]]:
    """The same devices, those without a name with that of the matrix.

    >>> from tfgpu_doctor.records.facts import Known
    >>> card = PciGpu("0000:01:00.0", "10de:2684")
    >>> named(Known((card,), "/sys/bus/pci/devices"), Matrix.load()).value[0].name
    'GeForce RTX 4090'
    """
    if not isinstance(gpus, Known):
        return gpus
    return structs.replace(gpus, value=tuple(_named(one, matrix) for one in gpus.value))


def _named(gpu: PciGpu, matrix: Matrix) -> PciGpu:
    nameless = _NO_NAME.search(gpu.name or "")
    number = nameless["number"] if nameless else None
    device_id = f"10de:{number}" if number and ":" not in gpu.device_id else gpu.device_id
    model = matrix.gpu_of_device(device_id) if nameless or not gpu.name else None
    return structs.replace(gpu, device_id=device_id, name=model.name) if model else gpu
