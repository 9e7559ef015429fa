"""Versions of CUDA, cuDNN and the driver as tools and files print them.

>>> text = '''Cuda compilation tools, release 11.8, V11.8.89
... $ cat /usr/include/cudnn_version.h | grep CUDNN_MAJOR -A 2
... #define CUDNN_MAJOR 8
... #define CUDNN_MINOR 1
... #define CUDNN_PATCHLEVEL 0
... ii  libcudnn8      8.1.0.77-1+cuda11.2      amd64        cuDNN runtime libraries
... NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.256.02  Thu May  2 14:37:44 UTC 2024
... lrwxrwxrwx 1 root root 20 Feb  3  2022 cuda -> /usr/local/cuda-11.2'''
>>> for one in parse([Line(number, line) for number, line in enumerate(text.splitlines(), 1)]):
...     print(one.line, one.component, one.version, one.via)
1 cuda 11.8.89 nvcc
3 cudnn 8.1.0 cudnn.h
6 cudnn 8.1.0.77 deb
7 driver 470.256.02 /proc/driver/nvidia/version
8 cuda 11.2 folder
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tfgpu_doctor.parsers.text.lines import Line

LONGEST = 1000

_WORTH_A_LOOK = re.compile(r"release \d|CUDNN_M|[Cc][Uu][Dd][Aa]|NVRM|nvidia|cudnn", re.ASCII)
_NVCC = re.compile(
    r"compilation tools, release (?P<release>\d{1,2}\.\d{1,2}),? ?(?:V(?P<version>\d{1,2}\.\d{1,2}\.\d{1,4}))?"
)
_VERSION_TXT = re.compile(r"\s*CUDA Version (?P<version>\d{1,2}\.\d{1,2}\.\d{1,4})\s*")
_JSON_KEY = re.compile(r"\s*\"(?P<key>cuda|cuda_cudart|cuda_nvcc)\"\s*:\s*\{")
_JSON_VERSION = re.compile(r"\"version\"\s*:\s*\"(?P<version>\d{1,2}\.\d{1,2})(?P<patch>\.\d{1,10})?\"")
_DEFINE = re.compile(r"#\s*define\s+CUDNN_(?P<part>MAJOR|MINOR|PATCHLEVEL)\s+(?P<number>\d{1,4})\b")
_KERNEL = re.compile(
    r"NVRM version:(?: NVIDIA UNIX .{0,60}?Kernel Module(?: for \S{1,20})?)?\s{1,6}(?P<version>\d{3}\.[\d.]{0,10}\d)"
)
_DEB = re.compile(r"\s*[ihr][ci]\s+(?P<name>[a-z0-9][\w.+-]{1,60})(?::\w{1,10})?\s+(?P<version>\d[\w.+~:-]{0,60})\s")
_APT = re.compile(
    r"\s*(?P<name>[a-z0-9][\w.+-]{1,60})/\S{1,60} (?P<version>\d[\w.+~:-]{0,60}) \w{1,10}(?: \[installed.*)?\s*"
)
_RPM = re.compile(
    r"\s*(?P<name>(?:libcudnn\d|cuda(?:-toolkit)?-\d{1,2}-\d|nvidia-driver)\S{0,30}?)-(?P<version>\d[\w.]{0,40})-\S{1,60}\.(?:x86_64|aarch64)\s*"
)
_PACKAGES = (
    ("cudnn", re.compile(r"libcudnn\d{1,2}(?:-dev|-cuda-\d{1,2})?|cudnn\d?")),
    ("cuda", re.compile(r"cuda(?:-toolkit)?-(?P<major>\d{1,2})-(?P<minor>\d)|nvidia-cuda-toolkit|cuda|cuda-toolkit")),
    (
        "driver",
        re.compile(
            r"nvidia-driver(?:-\d{3})?(?:-open|-server)?|libnvidia-compute-\d{3}\S{0,10}|nvidia-\d{3}|libcuda1|nvidia-utils"
        ),
    ),
)
_UPSTREAM = re.compile(r"(?:\d+:)?(?P<version>\d[\d.]*)")
_FOLDER = re.compile(r"(?:-> |^\s*|\s)(?:/usr/local/)?cuda-(?P<version>\d{1,2}\.\d{1,2})/?(?:\s|$)")
_LONG_LISTING = re.compile(r"\s*[dl][rwxst-]{9}")
_NAME = re.compile(r"(?:/usr/local/)?[\w.+-]{1,40}/?")
_WHICH = re.compile(r"\s*/usr/local/cuda-(?P<version>\d{1,2}\.\d{1,2})/bin/nvcc\s*")


@dataclass(frozen=True)
class VersionSeen:
    """A version of a part of the stack, and which output shows it."""

    component: str  # "cuda" (a toolkit), "cudnn", "driver"
    version: str
    line: int
    via: str  # "nvcc", "version.txt", "version.json", "cudnn.h", "deb", "rpm", "/proc/driver/nvidia/version", "folder"


def parse(lines: Sequence[Line]) -> tuple[VersionSeen, ...]:
    """Everything, in the order of the text."""
    return tuple(
        seen
        for place, line in enumerate(lines)
        if _WORTH_A_LOOK.search(line.text, 0, LONGEST)
        for seen in _of_line(line.text[:LONGEST], lines, place)
    )


def _of_line(text: str, lines: Sequence[Line], place: int) -> Iterator[VersionSeen]:
    number = lines[place].number
    if match := _NVCC.search(text):
        yield VersionSeen("cuda", match["version"] or match["release"], number, "nvcc")
    elif match := _VERSION_TXT.fullmatch(text):
        yield VersionSeen("cuda", match["version"], number, "version.txt")
    elif _JSON_KEY.match(text):
        yield from _json(lines, place)
    elif (match := _DEFINE.search(text)) and match["part"] == "MAJOR":
        yield from _defines(lines, place)
    elif match := _KERNEL.search(text):
        yield VersionSeen("driver", match["version"], number, "/proc/driver/nvidia/version")
    elif match := _DEB.match(text) or _APT.fullmatch(text):
        yield from _package(match, number, "deb")
    elif match := _RPM.fullmatch(text):
        yield from _package(match, number, "rpm")
    elif match := _WHICH.fullmatch(text):
        yield VersionSeen("cuda", match["version"], number, "folder")
    elif "cuda-" in text and _is_listing(text[:200]):
        for match in _FOLDER.finditer(text[:200]):
            yield VersionSeen("cuda", match["version"], number, "folder")


def _is_listing(text: str) -> bool:
    """Whether this is a row of `ls`: of the long form, or names alone."""
    return _LONG_LISTING.match(text) is not None or all(_NAME.fullmatch(word) for word in text.split())


def _json(lines: Sequence[Line], place: int) -> Iterator[VersionSeen]:
    """The "cuda" entry of version.json; its patch may be a date."""
    for line in lines[place : place + 5]:
        if match := _JSON_VERSION.search(line.text[:LONGEST]):
            patch = match["patch"] or ""
            yield VersionSeen("cuda", match["version"] + (patch if len(patch) < 5 else ""), line.number, "version.json")
            return


def _defines(lines: Sequence[Line], place: int) -> Iterator[VersionSeen]:
    """The three numbers, which grep may show in any order after the first."""
    numbers: dict[str, str] = {}
    for line in lines[place : place + 8]:
        for match in _DEFINE.finditer(line.text[:LONGEST]):
            numbers.setdefault(match["part"], match["number"])
    parts = [numbers[part] for part in ("MAJOR", "MINOR", "PATCHLEVEL") if part in numbers]
    yield VersionSeen("cudnn", ".".join(parts), lines[place].number, "cudnn.h")


def _package(match: re.Match[str], number: int, via: str) -> Iterator[VersionSeen]:
    upstream = _UPSTREAM.match(match["version"])
    for component, pattern in _PACKAGES:
        named = pattern.fullmatch(match["name"])
        if named is None or upstream is None:
            continue
        version = upstream["version"].strip(".")
        if component == "driver" and not re.match(r"\d{3}\.", version):
            continue
        yield VersionSeen(component, version, number, via)
