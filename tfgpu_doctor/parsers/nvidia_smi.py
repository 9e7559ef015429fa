"""What ``nvidia-smi`` prints: the table in all its layouts, and the sentences with which it fails.

>>> parse("Failed to initialize NVML: Driver/library version mismatch").failure
'Failed to initialize NVML: Driver/library version mismatch'

The answer of ``nvidia-smi --query-gpu=... --format=csv``, in any choice and order of columns.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tfgpu_doctor.facts.facts import Fact, Gpu, GpuProcess, Known, Unknown, map_fact, value_or

# ------------------------------------------------------------------------------------------ nvidia smi

SOURCE = "nvidia-smi"
MIB = 1024 * 1024
LONGEST = 200  # characters of a row of the table

# R610 and later write "KMD Version" and "CUDA UMD Version"; `-q` and `--version` write names before a wide colon
_BANNER = re.compile(r"NVIDIA-SMI +\d")
DRIVER_VERSION = re.compile(r"\b(?:Driver|KMD) Version\s*: *(\d+\.[\d.]*\d)", re.IGNORECASE)
CUDA_VERSION = re.compile(r"\bCUDA (?:UMD )?Version\s*: *(\d+\.\d+)", re.IGNORECASE)
FAILURES = re.compile(
    r"(NVIDIA-SMI has failed because .*|Failed to initialize NVML: .*|NVIDIA-SMI couldn't find .*"
    r"|Unable to determine the device handle for .*|No devices were found.*)"
)
LOST = re.compile(
    r"Unable to determine the device handle for (?:GPU\d+: )?GPU ?([0-9A-Fa-f]+:[0-9A-Fa-f]+:[0-9A-Fa-f.]+): (.*)"
)

_FIRST_CELL = re.compile(r"(\d+) +(\S.*?) +(On|Off|WDDM|TCC|MCDM|N/A|ERR!)")
_BUS_CELL = re.compile(r"([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9]) +(\S+)")
_STATE_CELL = re.compile(r"\S+ +(\S+) +(\S+) +(\S+) */ *(\S+)")
_MEMORY_CELL = re.compile(r"(?P<used>\d+) *MiB */ *(?P<total>\d+) *MiB")
_LOAD_CELL = re.compile(r"(\S+) +(\S.*)")
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
        is_row = row.startswith("|") and len(row) <= LONGEST
        cells = [cell.strip() for cell in row.strip("|").split("|")] if is_row else []
        if len(cells) == 3 and _FIRST_CELL.fullmatch(cells[0]) and _BUS_CELL.fullmatch(cells[1]):
            rows = [cells]
        elif len(cells) == 3 and rows:
            rows.append(cells)
        elif len(cells) == 3 and _STATE_CELL.fullmatch(cells[0]) and _MEMORY_CELL.fullmatch(cells[1]):
            yield Gpu(index=nameless, **_fields(_memory(cells[1]), SOURCE))  # its first row was not pasted
            nameless += 1
        elif rows:
            yield _gpu(rows, processes, instances)
            rows = []


def _gpu(rows: list[list[str]], processes: Fact[dict[int, list[GpuProcess]]], instances: dict[int, list[str]]) -> Gpu:
    """One GPU from its two or three rows of three cells."""
    first, bus = _FIRST_CELL.fullmatch(rows[0][0]), _BUS_CELL.fullmatch(rows[0][1])
    assert first and bus  # this is how the caller found the rows
    index, ecc = int(first[1]), rows[0][2]
    state_cell, memory_cell, load_cell = rows[1] if len(rows) > 1 else ("", "", "")
    state, load = _STATE_CELL.fullmatch(state_cell), _LOAD_CELL.fullmatch(load_cell)
    cells = {
        "name": first[2],
        "pci.bus_id": bus[1],
        "persistence_mode": first[3],
        "temperature.gpu": state[1] if state else "",
        "power.draw": state[3] if state else "",
        "power.limit": state[4] if state else "",
        "utilization.gpu": load[1] if load else "",
        "compute_mode": load[2] if load else "",
        "ecc.mode.current": "On" if ecc.isdecimal() else ecc,
        "mig.mode.current": rows[2][2] if len(rows) > 2 else "",
        **_memory(memory_cell),
    }
    fields = _fields(cells, SOURCE)
    sliced = value_or(fields["mig_mode"], False)
    broken = any("ERR!" in cell for row in rows for cell in row)
    return Gpu(
        index=index,
        processes=map_fact(processes, lambda found: tuple(found.get(index, ()))),
        ecc_uncorrected=_fact(_integer, ecc, SOURCE),
        mig_instances=Known(tuple(instances.get(index, ())), SOURCE) if sliced else Unknown("MIG is not enabled"),
        fault=Known("nvidia-smi shows ERR! for this GPU", SOURCE) if broken else Unknown("none"),
        **fields,
    )


def _memory(cell: str) -> dict[str, str]:
    sizes = _MEMORY_CELL.fullmatch(cell)
    used, total = (int(sizes["used"]), int(sizes["total"])) if sizes else (None, None)
    free = None if total is None or used is None else total - used
    found = {"memory.used": used, "memory.total": total, "memory.free": free}
    return {column: "" if size is None else f"{size} MiB" for column, size in found.items()}


def bus_id(text: str) -> str:
    """A bus id in the form of sysfs.

    >>> bus_id("00000000:65:00.0"), bus_id("0000:0B:00.0"), bus_id("00010000:0B:00.0")
    ('0000:65:00.0', '0000:0b:00.0', '10000:0b:00.0')
    """
    domain, _, rest = text.lower().partition(":")
    return f"{domain.lstrip('0').rjust(4, '0')}:{rest}"


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


_QUANTITY = re.compile(r"P?(\d{1,9}(?:\.\d{1,9})?) ?(?:%|C|W|MiB|MHz)?")
_MODES = ("default", "exclusive_process", "exclusive_thread", "prohibited")


def _decimal(text: str) -> float:
    quantity = _QUANTITY.fullmatch(text)
    if quantity is None:
        raise ValueError(text)
    return float(quantity[1])


def _integer(text: str) -> int:
    return int(_decimal(text))


def _on(text: str) -> bool:
    """On and off; in the table a star marks a change that waits for a reset."""
    return {"Enabled": True, "Disabled": False, "On": True, "Off": False}[text.rstrip("*")]


def _mode(text: str) -> str:
    """The compute mode, which the table shortens: "E. Process"."""
    return _MODES[_MODES.index(text.lower().replace("e. ", "exclusive_").replace(" ", "_"))]


# column → field of Gpu and conversion; `nvidia-smi --help-query-gpu` lists the columns
COLUMNS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "name": ("name", str),
    "uuid": ("uuid", str),
    "pci.bus_id": ("pci_bus_id", bus_id),
    "compute_cap": ("compute_capability", str),
    "memory.total": ("memory_total", lambda text: _integer(text) * MIB),
    "memory.used": ("memory_used", lambda text: _integer(text) * MIB),
    "memory.free": ("memory_free", lambda text: _integer(text) * MIB),
    "utilization.gpu": ("utilization", _integer),
    "temperature.gpu": ("temperature", _integer),
    "power.draw": ("power", _decimal),
    "power.limit": ("power_limit", _decimal),
    "clocks.sm": ("sm_clock", _integer),
    "clocks.max.sm": ("sm_clock_max", _integer),
    "clocks.max.mem": ("memory_clock_max", _integer),
    "ecc.mode.current": ("ecc_mode", _on),
    "mig.mode.current": ("mig_mode", _on),
    "compute_mode": ("compute_mode", _mode),
    "persistence_mode": ("persistence_mode", _on),
    "pcie.link.gen.current": ("pcie_generation", _integer),
    "pcie.link.gen.max": ("pcie_generation_max", _integer),
    "pcie.link.width.current": ("pcie_width", _integer),
    "pcie.link.width.max": ("pcie_width_max", _integer),
}
# nvidia-smi heads some columns otherwise than it is asked for them
_ALIASES = {"clocks.current.sm": "clocks.sm", "clocks.max.memory": "clocks.max.mem"}
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
    failure = next((text for text in cells.values() if "GPU is lost" in text or "requires reset" in text.lower()), None)
    fault: Fact[str] = Known(failure.strip("[] "), CSV_SOURCE) if failure else Unknown("none")
    return Gpu(index=int(index) if index.isdecimal() else number, fault=fault, **_fields(cells, CSV_SOURCE))


def _fields(cells: dict[str, str], source: str) -> dict[str, Fact[Any]]:
    known = ((*COLUMNS[column], text) for column, text in cells.items() if column in COLUMNS)
    return {field: _fact(convert, text, source) for field, convert, text in known}


def _fact(convert: Callable[[str], Any], text: str, source: str) -> Fact[Any]:
    if not text or text.startswith("["):
        return Unknown(f"nvidia-smi answers {text or 'nothing'}")
    try:
        return Known(convert(text), source)
    except (ValueError, KeyError):
        return Unknown(f"nvidia-smi answers {text!r}")
