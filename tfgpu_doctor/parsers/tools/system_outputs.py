"""The machine below Python, as tools print it: uname, os-release, lsb_release, lscpu, lspci, Python's banner.

>>> text = '''Linux host 4.13.0-46-generic #51-Ubuntu SMP Tue Jun 12 12:36:29 UTC 2018 x86_64 x86_64 x86_64 GNU/Linux
... Python 3.10.10 (tags/v3.10.10:aad5f6a, Feb  7 2023, 17:20:36) [MSC v.1929 64 bit (AMD64)] on win32
... 03:00.0 VGA compatible controller [0300]: NVIDIA Corporation GK104 [GeForce GTX 660 Ti] [10de:1183] (rev a1)
... 	Kernel driver in use: nouveau
... model name      : Intel(R) Core(TM) i5-3230M CPU @ 2.60GHz
... flags           : fpu vme sse4_2 avx f16c'''
>>> seen = parse([Line(number, line) for number, line in enumerate(text.splitlines(), 1)])
>>> seen.kernel, seen.machine, seen.python.value, seen.python_bits.value
(Seen(value='4.13.0-46-generic', line=1), Seen(value='x86_64', line=1), '3.10.10', 64)
>>> [(card.vendor, card.name, card.device_id, card.driver, card.line) for card in seen.cards]
[('nvidia', 'NVIDIA Corporation GK104 [GeForce GTX 660 Ti]', '10de:1183', 'nouveau', 3)]
>>> seen.cpu_model.value, seen.cpu_flags.value, seen.os.value
('Intel(R) Core(TM) i5-3230M CPU @ 2.60GHz', ('avx', 'f16c', 'fpu', 'sse4_2', 'vme'), 'linux')
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tfgpu_doctor.parsers.text import os_names
from tfgpu_doctor.parsers.text.lines import Line

T = TypeVar("T")
LONGEST = 4000

_WORTH_A_LOOK = re.compile(
    r"Linux |Darwin |Microsoft Windows|NAME=|ID=|VERSION|Distributor|Description:|Release:|Python "
    r"|on (?:linux|win32|darwin)|controller"
    r"|Kernel driver|[Mm]odel name|[Ff]lags|brand_string|are we in docker|OS Name|Processor|CPU:? +(?:Intel|AMD)",
)
_UNAME = re.compile(
    r"(?:^|[\s`])Linux (?P<host>\S{1,80}) (?P<kernel>\d\S{1,80}) #.{0,200}?\b"
    r"(?P<machine>x86_64|aarch64|armv7l|ppc64le|i686)\b"
)
_DARWIN = re.compile(r"^\s*Darwin \S{1,80} (?P<kernel>\d[\d.]{1,12}) .{0,200}?\b(?P<machine>x86_64|arm64)\s*$")
_WINDOWS = re.compile(
    r"Microsoft Windows \[[^\]\d]{1,20}(?P<version>\d[\d.]{1,24})\]|^\s*OS Name:\s+(?P<name>Microsoft Windows .{1,40})$"
)
_RELEASE = re.compile(
    r"^\s*(?P<key>ID|VERSION_ID|PRETTY_NAME|DISTRIB_ID|DISTRIB_RELEASE|DISTRIB_DESCRIPTION)=[\"']?(?P<value>[^\"'\n]{1,80}?)[\"']?\s*$"
)
_LSB = re.compile(r"^\s*(?P<key>Distributor ID|Description|Release):\s+(?P<value>\S.{0,80}?)\s*$")
_BANNER = re.compile(
    r"^\s*(?:>>> )?Python (?P<version>[23]\.\d{1,2}\.\d{1,2}(?:rc\d|[ab]\d)?)\+? "
    r"(?::: \S|(?:\|[^|]{1,80}\| )?(?:\([^()]{4,120}\)|\|[^|]{1,80}\|)(?: \([^()]{4,80}\))?)"
)
_COMPILER = re.compile(
    r"\[(?P<compiler>GCC [^\]]{1,80}|Clang [^\]]{1,80}|MSC v\.[^\]]{1,80}|GCC)\]"
    r"(?:(?: ::? [^\n]{1,40}?)? on (?P<platform>linux2?|win32|darwin)\b)?"
)
_MODEL = re.compile(
    r"^\s*(?:(?:[Mm]odel name|machdep\.cpu\.brand_string)\s*:\s+|(?:Processor|CPU)\s*:?\s+(?=(?:Intel|AMD)\b))"
    r"(?P<value>\S.{0,120}?)\s*$"
)
_FLAGS = re.compile(r"^\s*[Ff]lags\s*:\s+(?P<value>\S.*)$")
_MORE_FLAGS = re.compile(r"\s*[a-z][a-z0-9_]*(?:\s+[a-z][a-z0-9_]*)*\s*")
_CARD = re.compile(
    r"(?:^|\s|`)(?P<address>(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) "
    r"\"?(?P<kind>VGA compatible controller|3D controller|Display controller)"
    r"\"?(?: \[03[08][0-9]\])?:? (?P<name>[^\n]{3,160})"
)
_DEVICE_ID = re.compile(r"\[(?P<id>[0-9a-f]{4}:[0-9a-f]{4})\]")
_IN_USE = re.compile(r"^\s*Kernel driver in use: (?P<driver>[\w-]{1,30})")
_DOCKER = re.compile(r"==+ ?are we in docker ?=+")
_VENDORS = (
    ("nvidia", "nvidia"),
    ("advanced micro devices", "amd"),
    ("amd/ati", "amd"),
    ("intel", "intel"),
    ("aspeed", "aspeed"),
)
_PLATFORMS = {"linux": "linux", "linux2": "linux", "win32": "windows", "darwin": "macos"}


@dataclass(frozen=True)
class Seen(Generic[T]):
    """A value and the line that shows it."""

    value: T
    line: int


@dataclass(frozen=True)
class Card:
    """A display or 3D controller in the output of lspci."""

    address: str  # "01:00.0", "0000:65:00.0"
    vendor: str  # "nvidia", "amd", "intel", "aspeed"; "" for others
    name: str
    line: int
    device_id: str | None = None  # with -nn
    driver: str | None = None  # with -k: "nvidia", "nouveau", "vfio-pci"


@dataclass(frozen=True)
class SystemSeen:
    """What is shown of the machine; None for what is not."""

    os: Seen[str] | None = None  # "linux", "windows", "wsl2", "macos"
    kernel: Seen[str] | None = None
    machine: Seen[str] | None = None
    distribution: Seen[str] | None = None  # "Ubuntu 20.04.6 LTS"
    distribution_id: Seen[str] | None = None
    distribution_version: Seen[str] | None = None
    python: Seen[str] | None = None
    python_bits: Seen[int] | None = None
    cpu_model: Seen[str] | None = None
    cpu_flags: Seen[tuple[str, ...]] | None = None  # sorted
    in_docker: Seen[bool] | None = None
    cards: tuple[Card, ...] = ()


def parse(lines: Sequence[Line]) -> SystemSeen:
    """The first of each value; a later line that contradicts it is ignored."""
    values: dict[str, Seen[Any]] = {}
    cards: list[Card] = []
    for place, line in enumerate(lines):
        if not _WORTH_A_LOOK.search(line.text, 0, LONGEST):
            continue
        text = line.text[:LONGEST]
        for key, value in (*_system(text), *_python(text), *_processor(lines, place), *_container(lines, place)):
            values.setdefault(key, Seen(value, line.number))
        if card := _CARD.search(text):
            cards.append(_card(card, line.number))
        elif (use := _IN_USE.match(text)) and cards and line.number - cards[-1].line <= 6:
            last = cards[-1]
            cards[-1] = Card(last.address, last.vendor, last.name, last.line, last.device_id, use["driver"])
    return SystemSeen(cards=tuple(cards), **values)


_Values = list[tuple[str, Any]]


def _system(text: str) -> _Values:
    if match := _UNAME.search(text):
        wsl = "microsoft-standard" in match["kernel"].lower()
        values: _Values = [
            ("os", "wsl2" if wsl else "linux"),
            ("kernel", match["kernel"]),
            ("machine", match["machine"]),
        ]
        return [*values, ("distribution_id", "ubuntu")] if "-Ubuntu SMP" in match[0] else values
    if match := _DARWIN.match(text):
        return [("os", "macos"), ("kernel", match["kernel"]), ("machine", match["machine"])]
    if match := _WINDOWS.search(text):
        return [("os", "windows"), *([("distribution", match["name"].strip())] if match["name"] else [])]
    if match := _RELEASE.match(text) or _LSB.match(text):
        return _distribution(match["key"], match["value"].strip())
    return []


def _distribution(key: str, value: str) -> _Values:
    """A line of /etc/os-release or of lsb_release."""
    if key in ("PRETTY_NAME", "Description", "DISTRIB_DESCRIPTION"):
        return [("distribution", value)] if os_names.name(value).distribution_id else []
    if key in ("VERSION_ID", "Release", "DISTRIB_RELEASE"):
        return [("distribution_version", value)] if re.fullmatch(r"\d[\d.]{0,12}", value) else []
    identifier = os_names.name(value).distribution_id or (value.lower() if key == "ID" else None)
    return [("distribution_id", identifier), ("os", "linux")] if identifier else []


def _python(text: str) -> _Values:
    found: _Values = []
    if banner := _BANNER.match(text):
        found.append(("python", banner["version"]))
    if compiler := _COMPILER.search(text):
        if not (banner or compiler["platform"]):
            return []  # "[GCC 9.4.0]" alone may be a log's
        if platform := compiler["platform"]:
            found.append(("os", _PLATFORMS[platform]))
        if bits := re.search(r"(32|64) bit", compiler["compiler"]):
            found.append(("python_bits", int(bits[1])))
    return found


def _processor(lines: Sequence[Line], place: int) -> _Values:
    text = lines[place].text[:LONGEST]
    if model := _MODEL.match(text):
        return [("cpu_model", " ".join(model["value"].split()))]
    flags = _FLAGS.match(text)
    if flags is None or not {"fpu", "sse2", "fp", "asimd", "sse"} & set(flags["value"].lower().split()):
        return []
    words = flags["value"].split()
    for line in lines[place + 1 : place + 12]:  # lscpu's long line, wrapped
        if not line.text.strip() or not _MORE_FLAGS.fullmatch(line.text[:LONGEST]):
            break
        words += line.text[:LONGEST].split()
    return [("cpu_flags", tuple(sorted({word for word in words if re.fullmatch(r"[a-z0-9_]{1,30}", word)})))]


def _container(lines: Sequence[Line], place: int) -> _Values:
    """The section of tf_env_collect.sh."""
    if not _DOCKER.search(lines[place].text[:LONGEST]):
        return []
    answer = next((line.text.strip() for line in lines[place + 1 : place + 4] if line.text.strip()), "")
    return [("in_docker", answer == "Yes")] if answer in ("Yes", "No") else []


def _card(match: re.Match[str], number: int) -> Card:
    name = re.sub(r" ?\(rev [0-9a-f]{2}\).*$", "", match["name"]).strip().strip('"`')
    known = _DEVICE_ID.search(name)
    plain = name.replace(known[0], "").strip() if known else name
    vendor = next((short for word, short in _VENDORS if word in plain.lower()), "")
    return Card(match["address"], vendor, " ".join(plain.split()), number, known["id"] if known else None)
