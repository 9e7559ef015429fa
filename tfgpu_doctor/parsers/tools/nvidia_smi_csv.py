"""The answer of ``nvidia-smi --query-gpu=... --format=csv``, in any choice and order of columns.

>>> text = '''index, name, compute_cap, memory.total [MiB], power.draw [W], mig.mode.current
... 0, NVIDIA H100 80GB HBM3, 9.0, 81559 MiB, 71.55 W, [N/A]'''
>>> gpu, = parse(text)
>>> gpu.name.value, gpu.compute_capability.value, gpu.memory_total.value // 2**20, gpu.power.value, gpu.mig_mode.reason
('NVIDIA H100 80GB HBM3', '9.0', 81559, 71.55, 'nvidia-smi answers [N/A]')
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from typing import Any

from tfgpu_doctor.parsers.tools.nvidia_smi import MIB, bus_id
from tfgpu_doctor.records.facts import Fact, Gpu, Known, Unknown

SOURCE = "nvidia-smi --query-gpu"


def _integer(text: str) -> int:
    return int(text.split()[0])


def _decimal(text: str) -> float:
    return float(text.split()[0])


def _bytes(text: str) -> int:
    return int(text.split()[0]) * MIB


def _on(text: str) -> bool:
    return {"Enabled": True, "Disabled": False, "On": True, "Off": False, "Yes": True, "No": False}[text]


def _snake(text: str) -> str:
    return text.lower().replace(" ", "_")


# column → field of Gpu and conversion; `nvidia-smi --help-query-gpu` lists the columns
COLUMNS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "name": ("name", str),
    "uuid": ("uuid", str),
    "pci.bus_id": ("pci_bus_id", bus_id),
    "compute_cap": ("compute_capability", str),
    "memory.total": ("memory_total", _bytes),
    "memory.used": ("memory_used", _bytes),
    "memory.free": ("memory_free", _bytes),
    "utilization.gpu": ("utilization", _integer),
    "temperature.gpu": ("temperature", _integer),
    "power.draw": ("power", _decimal),
    "power.limit": ("power_limit", _decimal),
    "clocks.sm": ("sm_clock", _integer),
    "clocks.max.sm": ("sm_clock_max", _integer),
    "clocks.mem": ("memory_clock", _integer),
    "clocks.max.mem": ("memory_clock_max", _integer),
    "pstate": ("performance_state", lambda text: int(text.removeprefix("P"))),
    "ecc.mode.current": ("ecc_mode", _on),
    "mig.mode.current": ("mig_mode", _on),
    "compute_mode": ("compute_mode", _snake),
    "persistence_mode": ("persistence_mode", _on),
    "display_active": ("display_active", _on),
    "pcie.link.gen.current": ("pcie_generation", _integer),
    "pcie.link.gen.max": ("pcie_generation_max", _integer),
    "pcie.link.width.current": ("pcie_width", _integer),
    "pcie.link.width.max": ("pcie_width_max", _integer),
}
# nvidia-smi heads some columns otherwise than it is asked for them
_ALIASES = {
    "clocks.current.sm": "clocks.sm",
    "clocks.current.memory": "clocks.mem",
    "clocks.max.memory": "clocks.max.mem",
}
QUERY = ("--query-gpu=" + ",".join(["index", *COLUMNS]), "--format=csv")


def is_header(line: str) -> bool:
    """Whether a line names columns, most of which are known; a single known word may stand in any list."""
    cells = [cell.split(" [")[0].strip() for cell in line[:2000].split(",")]
    known = [cell for cell in cells if _ALIASES.get(cell, cell) in COLUMNS or cell == "index"]
    return len(known) >= 2 and len(known) * 2 > len(cells)


def parse(text: str) -> tuple[Gpu, ...]:
    """Read the GPUs; a value that the driver refuses, or that is not of its column's form, is unknown.

    Text without the header line gives no GPU: the columns could only be guessed.
    """
    lines = text.replace("\0", "\N{REPLACEMENT CHARACTER}").splitlines()  # csv refuses NUL before Python 3.11
    rows = [row for row in csv.reader(lines, skipinitialspace=True) if row]
    header = [cell.split(" [")[0].strip() for cell in rows[0]] if rows else []
    header = [_ALIASES.get(cell, cell) for cell in header]
    if not set(header) & set(COLUMNS):
        return ()
    return tuple(_gpu(number, dict(zip(header, row, strict=False))) for number, row in enumerate(rows[1:]))


def _gpu(number: int, cells: dict[str, str]) -> Gpu:
    index = cells.get("index", "")
    known = [(*COLUMNS[column], text) for column, text in cells.items() if column in COLUMNS]
    fields = {field: _fact(convert, text) for field, convert, text in known}
    failure = next((text for text in cells.values() if "GPU is lost" in text or "requires reset" in text.lower()), None)
    fault: Fact[str] = Known(failure.strip("[] "), SOURCE) if failure else Unknown("none")
    return Gpu(index=int(index) if index.isdecimal() else number, fault=fault, **fields)


def _fact(convert: Callable[[str], Any], text: str) -> Fact[Any]:
    if not text or text.startswith("["):
        return Unknown(f"nvidia-smi answers {text or 'nothing'}")
    try:
        return Known(convert(text), SOURCE)
    except (ValueError, KeyError, IndexError):
        return Unknown(f"nvidia-smi answers {text!r}")
