"""What ``nvidia-smi`` prints: the table in all its layouts, and the sentences with which it fails.

>>> table = '''
... +-----------------------------------------------------------------------------------------+
... | NVIDIA-SMI 550.90.07              Driver Version: 550.90.07      CUDA Version: 12.4     |
... |-----------------------------------------+------------------------+----------------------+
... | GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
... | Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
... |                                         |                        |               MIG M. |
... |=========================================+========================+======================|
... |   0  NVIDIA GeForce RTX 4060        Off |   00000000:0E:00.0  On |                  N/A |
... | 32%   43C    P3             26W /  115W |     917MiB /   8188MiB |      4%      Default |
... |                                         |                        |                  N/A |
... +-----------------------------------------+------------------------+----------------------+'''
>>> seen = parse(table)
>>> seen.driver_version, seen.cuda_version, seen.failure
('550.90.07', '12.4', None)
>>> seen.gpus[0].name.value, seen.gpus[0].pci_bus_id.value, seen.gpus[0].memory_total.value // 2**20
('NVIDIA GeForce RTX 4060', '0000:0e:00.0', 8188)
>>> parse("Failed to initialize NVML: Driver/library version mismatch").failure
'Failed to initialize NVML: Driver/library version mismatch'

The answer of ``nvidia-smi --query-gpu=... --format=csv``, in any choice and order of columns.

>>> text = '''index, name, compute_cap, memory.total [MiB], power.draw [W], mig.mode.current
... 0, NVIDIA H100 80GB HBM3, 9.0, 81559 MiB, 71.55 W, [N/A]'''
>>> gpu, = parse_csv(text)
>>> gpu.name.value, gpu.compute_capability.value, gpu.memory_total.value // 2**20, gpu.power.value, gpu.mig_mode.reason
('NVIDIA H100 80GB HBM3', '9.0', 81559, 71.55, 'nvidia-smi answers [N/A]')
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from tfgpu_doctor.records.facts import Fact, Gpu, GpuProcess, Known, Unknown, map_fact

# ------------------------------------------------------------------------------------------ nvidia smi

SOURCE = "nvidia-smi"
MIB = 1024 * 1024
# the table shortens the names
COMPUTE_MODES = {
    "Default": "default",
    "E. Process": "exclusive_process",
    "E. Thread": "exclusive_thread",
    "Prohibited": "prohibited",
}
LONGEST = 200  # characters of a row of the table
T = TypeVar("T")

# R610 and later write "KMD Version" and "CUDA UMD Version"; `-q` and `--version` write names before a wide colon
_BANNER = re.compile(r"NVIDIA-SMI +\d")
DRIVER_VERSION = re.compile(r"\b(?:Driver|KMD) Version\s*: *(\d+\.[\d.]*\d)", re.IGNORECASE)
CUDA_VERSION = re.compile(r"\bCUDA (?:UMD )?Version\s*: *(\d+\.\d+)", re.IGNORECASE)
FAILURES = re.compile(
    r"(NVIDIA-SMI has failed because .*"
    r"|Failed to initialize NVML: .*"
    r"|NVIDIA-SMI couldn't find .*"
    r"|Unable to determine the device handle for .*"
    r"|No devices were found.*)"
)
LOST = re.compile(
    r"Unable to determine the device handle for (?:GPU\d+: )?GPU ?([0-9A-Fa-f]+:[0-9A-Fa-f]+:[0-9A-Fa-f.]+): (.*)"
)

_FIRST_CELL = re.compile(r"(\d+) +(\S.*?) +(On|Off|WDDM|TCC|MCDM|N/A|ERR!)")
_BUS_CELL = re.compile(r"([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9]) +(\S+)")
_STATE_CELL = re.compile(r"(?P<fan>\S+) +(?P<temp>\S+) +(?P<perf>\S+) +(?P<power>\S+) */ *(?P<cap>\S+)")
_MEMORY_CELL = re.compile(r"(?P<used>\d+) *MiB */ *(?P<total>\d+) *MiB")
_LOAD_CELL = re.compile(r"(?P<load>\S+) +(?P<mode>\S.*)")
_MIG_CELL = re.compile(r"(\d+) +(\d+) +(\d+) +(\d+)")
_PROCESS = re.compile(r"\| +(\d+) +(?:\S+ +\S+ +)??(\d+) +([CGM+]+) +(\S.{0,200}?) +(\d+ ?MiB|N/A) *\|")


@dataclass(frozen=True)
class SmiText:
    """What a piece of text holds of nvidia-smi's output."""

    driver_version: str | None = None
    cuda_version: str | None = None  # newest CUDA that the driver supports, not what is installed
    failure: str | None = None  # the sentence with which it failed
    gpus: tuple[Gpu, ...] = ()


def parse(text: str) -> SmiText:
    """Read the banner, the table and the known failures out of `text`, which may hold other lines, too."""
    banner = _BANNER.search(text)  # "CUDA version: 11.2" above it is what somebody states
    begin = banner.start() if banner else 0
    driver, cuda = DRIVER_VERSION.search(text, begin), CUDA_VERSION.search(text, begin)
    failure = FAILURES.search(text)
    return SmiText(
        driver_version=driver[1] if driver else None,
        cuda_version=cuda[1] if cuda else None,
        failure=failure[1].strip() if failure else None,
        gpus=tuple(_gpus(text)),
    )


def lost_gpus(text: str) -> dict[str, str]:
    """Bus id → reason of each GPU that nvidia-smi could not open.

    >>> lost_gpus("Unable to determine the device handle for GPU0000:20:00.0: Unknown Error")
    {'0000:20:00.0': 'Unknown Error'}
    """
    return {found[1].lower(): found[2].strip() for found in LOST.finditer(text)}


def _gpus(text: str) -> Iterator[Gpu]:
    """Walk the rows: a GPU begins with a row that has an index and a bus id, and ends at a ruled line."""
    processes, instances = _processes(text), _mig_instances(text)
    rows: list[list[str]] = []
    nameless = 0
    for line in [*text.splitlines(), "+"]:
        row = line.strip().strip(">").strip()
        cells = (
            [cell.strip() for cell in row.strip("|").split("|")] if row.startswith("|") and len(row) <= LONGEST else []
        )
        if len(cells) == 3 and _FIRST_CELL.fullmatch(cells[0]) and _BUS_CELL.fullmatch(cells[1]):
            rows = [cells]
        elif len(cells) == 3 and rows:
            rows.append(cells)
        elif len(cells) == 3 and _STATE_CELL.fullmatch(cells[0]) and _MEMORY_CELL.fullmatch(cells[1]):
            yield _without_name(nameless, cells[1])
            nameless += 1
        elif rows:
            yield _gpu(rows, processes, instances)
            rows = []


def _gpu(rows: list[list[str]], processes: Fact[dict[int, list[GpuProcess]]], instances: dict[int, list[str]]) -> Gpu:
    """One GPU from its two or three rows of three cells."""
    first, bus = _FIRST_CELL.fullmatch(rows[0][0]), _BUS_CELL.fullmatch(rows[0][1])
    assert first and bus  # this is how the caller found the rows
    index = int(first[1])
    state_cell, memory_cell, load_cell = rows[1] if len(rows) > 1 else ("", "", "")
    state, load = _cells(_STATE_CELL.fullmatch(state_cell)), _cells(_LOAD_CELL.fullmatch(load_cell))
    memory = _MEMORY_CELL.fullmatch(memory_cell)
    used, total = (int(memory["used"]) * MIB, int(memory["total"]) * MIB) if memory else (None, None)
    ecc, mig = rows[0][2], _switch(rows[2][2]) if len(rows) > 2 else None
    broken = any("ERR!" in cell for row in rows for cell in row)
    return Gpu(
        index=index,
        name=Known(first[2], SOURCE),
        pci_bus_id=Known(bus_id(bus[1]), SOURCE),
        memory_total=_shown("memory", total),
        memory_used=_shown("memory", used),
        memory_free=_shown("memory", total - used if total is not None and used is not None else None),
        processes=map_fact(processes, lambda found: tuple(found.get(index, ()))),
        utilization=_number(load.get("load", ""), "%"),
        temperature=_number(state.get("temp", ""), "C"),
        power=map_fact(_number(state.get("power", ""), "W"), float),
        power_limit=map_fact(_number(state.get("cap", ""), "W"), float),
        performance_state=_number(state.get("perf", "").removeprefix("P"), ""),
        ecc_mode=_shown("ECC", True if ecc.isdecimal() else _switch(ecc)),
        ecc_uncorrected=_number(ecc, ""),
        mig_mode=_shown("MIG mode", mig),
        mig_instances=_shown("MIG devices", tuple(instances.get(index, ())) if mig else None),
        compute_mode=_shown("compute mode", COMPUTE_MODES.get(load.get("mode", ""))),
        persistence_mode=_shown("persistence mode", _switch(first[3])),
        fault=Known("nvidia-smi shows ERR! for this GPU", SOURCE) if broken else Unknown("none"),
    )


def _without_name(index: int, memory_cell: str) -> Gpu:
    """A GPU of which only the row with its memory was pasted."""
    memory = _MEMORY_CELL.fullmatch(memory_cell)
    used, total = (int(memory["used"]) * MIB, int(memory["total"]) * MIB) if memory else (0, 0)
    return Gpu(
        index=index,
        memory_total=Known(total, SOURCE),
        memory_used=Known(used, SOURCE),
        memory_free=Known(total - used, SOURCE),
    )


def _cells(match: re.Match[str] | None) -> dict[str, str]:
    """The values of a cell; none where it has another form."""
    return match.groupdict() if match else {}


def bus_id(text: str) -> str:
    """A bus id in the form of sysfs.

    >>> bus_id("00000000:65:00.0"), bus_id("0000:0B:00.0"), bus_id("00010000:0B:00.0")
    ('0000:65:00.0', '0000:0b:00.0', '10000:0b:00.0')
    """
    domain, _, rest = text.lower().partition(":")
    return f"{domain.lstrip('0').rjust(4, '0')}:{rest}"


def _switch(text: str) -> bool | None:
    """On and off in the table's words; a star marks a change that waits for a reset."""
    return {"On": True, "Off": False, "Enabled": True, "Disabled": False}.get(text.rstrip("*"))


def _shown(what: str, value: T | None) -> Fact[T]:
    return Unknown(f"nvidia-smi's table shows no {what}") if value is None else Known(value, SOURCE)


def _number(text: str, unit: str) -> Fact[int]:
    digits = text.removesuffix(unit)
    if not digits.isdecimal():
        return Unknown(f"nvidia-smi's table shows {text or 'nothing'}")
    return Known(int(digits), SOURCE)


def _mig_instances(text: str) -> dict[int, list[str]]:
    """GPU → its MIG devices, from the table that follows the words "MIG devices:"."""
    found: dict[int, list[str]] = {}
    _, _, table = text.partition("MIG devices:")
    for line in table.partition("Processes:")[0].splitlines():
        if numbers := _MIG_CELL.fullmatch(line.strip().strip("|").split("|")[0].strip()):
            found.setdefault(int(numbers[1]), []).append(f"GPU instance {numbers[2]}, compute instance {numbers[3]}")
    return found


def _processes(text: str) -> Fact[dict[int, list[GpuProcess]]]:
    """GPU → its processes, from the table that begins with "Processes:" (before R331 "Compute processes:")."""
    _, header, table = text.partition("rocesses:")
    if not header:
        return Unknown("nvidia-smi's table shows no processes")
    found: dict[int, list[GpuProcess]] = {}
    for row in _PROCESS.finditer(table):
        size = row[5].removesuffix("MiB").strip()
        memory = int(size) * MIB if size.isdecimal() else None
        found.setdefault(int(row[1]), []).append(GpuProcess(pid=int(row[2]), memory=memory, name=row[4]))
    return Known(found, SOURCE)


# ------------------------------------------------------------------------------------------ nvidia smi csv

CSV_SOURCE = "nvidia-smi --query-gpu"


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
    "clocks.max.mem": ("memory_clock_max", _integer),
    "pstate": ("performance_state", lambda text: int(text.removeprefix("P"))),
    "ecc.mode.current": ("ecc_mode", _on),
    "mig.mode.current": ("mig_mode", _on),
    "compute_mode": ("compute_mode", _snake),
    "persistence_mode": ("persistence_mode", _on),
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


def parse_csv(text: str) -> tuple[Gpu, ...]:
    """Read the GPUs; a value that the driver refuses, or that is not of its column's form, is unknown.

    Text without the header line gives no GPU: the columns could only be guessed.
    """
    lines = text.replace("\0", "\N{REPLACEMENT CHARACTER}").splitlines()  # csv refuses NUL before Python 3.11
    rows = [row for row in csv.reader(lines, skipinitialspace=True) if row]
    header = [cell.split(" [")[0].strip() for cell in rows[0]] if rows else []
    header = [_ALIASES.get(cell, cell) for cell in header]
    if not set(header) & set(COLUMNS):
        return ()
    return tuple(_csv_gpu(number, dict(zip(header, row, strict=False))) for number, row in enumerate(rows[1:]))


def _csv_gpu(number: int, cells: dict[str, str]) -> Gpu:
    index = cells.get("index", "")
    known = [(*COLUMNS[column], text) for column, text in cells.items() if column in COLUMNS]
    fields = {field: _fact(convert, text) for field, convert, text in known}
    failure = next((text for text in cells.values() if "GPU is lost" in text or "requires reset" in text.lower()), None)
    fault: Fact[str] = Known(failure.strip("[] "), CSV_SOURCE) if failure else Unknown("none")
    return Gpu(index=int(index) if index.isdecimal() else number, fault=fault, **fields)


def _fact(convert: Callable[[str], Any], text: str) -> Fact[Any]:
    if not text or text.startswith("["):
        return Unknown(f"nvidia-smi answers {text or 'nothing'}")
    try:
        return Known(convert(text), CSV_SOURCE)
    except (ValueError, KeyError, IndexError):
        return Unknown(f"nvidia-smi answers {text!r}")
