"""The machine below Python, as tools print it: uname, os-release, lsb_release, lscpu, lspci, Python's banner.

Versions of CUDA and cuDNN as tools and files print them, and their library files in listings: ``ls``, ``find``,
``locate``, ``ldd``, ``ldconfig -p``, ``dir``. The lines of TensorFlow's own log are none of these: a library named
there is wanted, not there.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from msgspec import structs

from tfgpu_doctor.facts.facts import Fact, Known, PciGpu
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.parsers import platform_hints
from tfgpu_doctor.parsers.lines import Line, any_case

# ------------------------------------------------------------------------------------------ pci names

# of lspci, for a device that its pci.ids does not have; of Windows, without a driver
_NO_NAME = re.compile(r"\bDevice(?: (?P<number>[0-9a-f]{4}))?$|^Microsoft Basic Display Adapter$")


def named(gpus: Fact[tuple[PciGpu, ...]], matrix: Matrix) -> Fact[tuple[PciGpu, ...]]:
    """The same devices, those without a name with that of the matrix.

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


# ------------------------------------------------------------------------------------------ system outputs

LONGEST = 4000

_WORTH_A_LOOK = re.compile(
    r"Linux |Darwin |Microsoft Windows|NAME=|ID=|VERSION|Distributor|Description:|Release:|Python |on (?:linux|win32"
    r"|darwin)|controller|Kernel driver|[Mm]odel name|[Ff]lags|brand_string|OS Name|Processor|CPU:? +(?:Intel|AMD)",
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
_CARD = re.compile(
    r"(?:^|\s|`)(?P<address>(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) \"?(?P<kind>VGA compatible controller"
    r"|3D controller|Display controller)\"?(?: \[03[08][0-9]\])?:? (?P<name>[^\n]{3,160})"
)
_DEVICE_ID = re.compile(r"\[(?P<id>[0-9a-f]{4}:[0-9a-f]{4})\]")
_IN_USE = re.compile(r"^\s*Kernel driver in use: (?P<driver>[\w-]{1,30})")
_PLATFORMS = {"linux": "linux", "linux2": "linux", "win32": "windows", "darwin": "macos"}
_NAMES_SYSTEM = ("PRETTY_NAME", "Description", "DISTRIB_DESCRIPTION")
_NUMBERS_SYSTEM = ("VERSION_ID", "Release", "DISTRIB_RELEASE")


@dataclass(frozen=True)
class SystemSeen:
    """What is shown of the machine."""

    facts: dict[str, Known[Any]]  # fields of Host, and "python" and "python_bits"
    cards: tuple[PciGpu, ...]  # of NVIDIA, without an address's domain as lspci leaves it out
    cards_line: int | None  # of the first display controller, whoever made it


_ASKS_KERNEL = re.compile(r"\buname -r\s*$")
_KERNEL = re.compile(r"\d+\.\d+\.\d+[\w.+-]{0,60}")


def parse(lines: Sequence[Line]) -> SystemSeen:
    """The first of each value; a later line that contradicts it is ignored."""
    facts: dict[str, Known[Any]] = {}
    cards: list[tuple[PciGpu, int]] = []
    for line in lines:
        if not _WORTH_A_LOOK.search(line.text, 0, LONGEST):
            continue
        text = line.text[:LONGEST]
        for key, value in (*_system(text), *_python(text), *_processor(text)):
            facts.setdefault(key, Known(value, f"line {line.number}"))
        if card := _CARD.search(text):
            cards.append((_card(card), line.number))
        elif (use := _IN_USE.match(text)) and cards and line.number - cards[-1][1] <= 6:
            cards[-1] = structs.replace(cards[-1][0], driver=use["driver"]), cards[-1][1]
    for asked, line in itertools.pairwise(lines):
        if _ASKS_KERNEL.search(asked.text[:LONGEST]) and _KERNEL.fullmatch(line.text.strip()):
            facts.setdefault("kernel", Known(line.text.strip(), f"line {line.number}"))
    nvidia = tuple(card for card, _ in cards if card.name and "nvidia" in card.name.lower())
    return SystemSeen(facts, nvidia, cards[0][1] if cards else None)


_Values = Iterator[tuple[str, Any]]


def _system(text: str) -> _Values:
    if match := _UNAME.search(text) or _DARWIN.match(text):
        wsl = "microsoft-standard" in match["kernel"].lower()
        yield "os", "macos" if match.re is _DARWIN else "wsl2" if wsl else "linux"
        yield "kernel", match["kernel"]
        yield "machine", match["machine"]
        if "-Ubuntu SMP" in match[0]:
            yield "distribution_id", "ubuntu"
    elif match := _WINDOWS.search(text):
        yield "os", "windows"
        if match["name"]:
            yield "distribution", match["name"].strip()
    elif match := _RELEASE.match(text) or _LSB.match(text):
        yield from _distribution(match["key"], match["value"].strip())


def _distribution(key: str, value: str) -> _Values:
    named, _ = platform_hints.distribution(value)
    if key in _NUMBERS_SYSTEM:
        if re.fullmatch(r"\d[\d.]{0,12}", value):
            yield "distribution_version", value
    elif key in _NAMES_SYSTEM:
        if named:
            yield "distribution", value
    elif identifier := named or (value.lower() if key == "ID" else None):
        yield "distribution_id", identifier
        yield "os", "linux"


def _python(text: str) -> _Values:
    banner, compiler = _BANNER.match(text), _COMPILER.search(text)
    if banner:
        yield "python", banner["version"]
    if compiler and (banner or compiler["platform"]):  # "[GCC 9.4.0]" alone may be a log's
        if compiler["platform"]:
            yield "os", _PLATFORMS[compiler["platform"]]
        if bits := re.search(r"(32|64) bit", compiler["compiler"]):
            yield "python_bits", int(bits[1])


def _processor(text: str) -> _Values:
    if model := _MODEL.match(text):
        yield "cpu_model", " ".join(model["value"].split())
    elif flags := _FLAGS.match(text):
        words = set(flags["value"].lower().split())
        if {"fpu", "sse2", "fp", "asimd", "sse"} & words:
            yield "cpu_flags", tuple(sorted(word for word in words if re.fullmatch(r"[a-z0-9_]{1,30}", word)))


def _card(match: re.Match[str]) -> PciGpu:
    name = re.sub(r" ?\(rev [0-9a-f]{2}\).*$", "", match["name"]).strip().strip('"`')
    known = _DEVICE_ID.search(name)
    plain = name.replace(known[0], "").strip() if known else name
    return PciGpu(address=match["address"], device_id=known["id"] if known else "10de", name=" ".join(plain.split()))


# ------------------------------------------------------------------------------------------ toolkit outputs

_LONGEST_LINE = 1000

_TOOLKIT_WORDS = re.compile(r"release \d|CUDNN_M|[Cc][Uu][Dd][Aa]|cudnn", re.ASCII)
_NVCC = re.compile(
    r"compilation tools, release (?P<release>\d{1,2}\.\d{1,2}),? ?(?:V(?P<version>\d{1,2}\.\d{1,2}\.\d{1,4}))?"
)
_VERSION_TXT = re.compile(r"\s*CUDA Version (?P<version>\d{1,2}\.\d{1,2}\.\d{1,4})\s*")
_JSON_KEY = re.compile(r"\s*\"(?:cuda|cuda_cudart|cuda_nvcc)\"\s*:\s*\{")
# its patch may be a date
_JSON_VERSION = re.compile(r"\"version\"\s*:\s*\"(?P<version>\d{1,2}\.\d{1,2}(?:\.\d{1,3}(?!\d))?)[\d.]{0,11}\"")
_DEFINE = re.compile(r"#\s*define\s+CUDNN_(?P<part>MAJOR|MINOR|PATCHLEVEL)\s+(?P<number>\d{1,4})\b")
_DEB = re.compile(
    r"\s*[ihr][ci]\s+(?:(?P<cudnn>libcudnn\d{1,2}(?:-dev|-cuda-\d{1,2})?|cudnn\d?)"
    r"|(?P<cuda>cuda(?:-toolkit)?-\d{1,2}-\d|nvidia-cuda-toolkit|cuda|cuda-toolkit))"
    r"(?::\w{1,10})?\s+(?:\d+:)?(?P<version>\d(?:[\d.]*\d)?)[\w.+~:-]{0,60}\s"
)
_FOLDER = re.compile(r"(?:-> |^\s*|\s)(?:/usr/local/)?cuda-(?P<version>\d{1,2}\.\d{1,2})/?(?:\s|$)")
_LONG_LISTING = re.compile(r"\s*[dl][rwxst-]{9}")
_LISTED_NAME = re.compile(r"(?:/usr/local/)?[\w.+-]{1,40}/?")


@dataclass(frozen=True)
class VersionSeen:
    """A version of a part of the stack, and which output shows it."""

    component: str  # "cuda" (a toolkit), "cudnn"
    version: str
    line: int
    via: str  # "nvcc", "version.txt", "version.json", "cudnn.h", "deb", "folder"


def parse_versions(lines: Sequence[Line]) -> tuple[VersionSeen, ...]:
    """Everything, in the order of the text."""
    return tuple(
        seen
        for place, line in enumerate(lines)
        if _TOOLKIT_WORDS.search(line.text, 0, _LONGEST_LINE)
        for seen in _versions_of(line.text[:_LONGEST_LINE], lines, place)
    )


def _versions_of(text: str, lines: Sequence[Line], place: int) -> Iterator[VersionSeen]:
    number = lines[place].number
    if match := _NVCC.search(text):
        yield VersionSeen("cuda", match["version"] or match["release"], number, "nvcc")
    elif match := _VERSION_TXT.fullmatch(text):
        yield VersionSeen("cuda", match["version"], number, "version.txt")
    elif _JSON_KEY.match(text):
        for line in lines[place : place + 5]:
            if match := _JSON_VERSION.search(line.text):
                yield VersionSeen("cuda", match["version"], line.number, "version.json")
                return
    elif (match := _DEFINE.search(text)) and match["part"] == "MAJOR":
        yield VersionSeen("cudnn", _defined(lines[place : place + 8]), number, "cudnn.h")
    elif match := _DEB.match(text):
        yield VersionSeen("cudnn" if match["cudnn"] else "cuda", match["version"], number, "deb")
    elif "cuda-" in text and (_LONG_LISTING.match(text) or all(map(_LISTED_NAME.fullmatch, text[:200].split()))):
        for match in _FOLDER.finditer(text[:200]):  # of a row of `ls`: of the long form, or names alone
            yield VersionSeen("cuda", match["version"], number, "folder")


def _defined(lines: Sequence[Line]) -> str:
    """The three numbers of cudnn.h, which grep may show in any order after the first."""
    defined = [found for line in reversed(lines) for found in _DEFINE.finditer(line.text)]
    numbers = {found["part"]: found["number"] for found in defined}
    return ".".join(numbers[part] for part in ("MAJOR", "MINOR", "PATCHLEVEL") if part in numbers)


# ------------------------------------------------------------------------------------------ library listings

_STEM = (
    r"(?:cuda(?:rt)?|cudnn(?:_\w{1,40})?|cublas(?:Lt)?|cufftw?|curand|cusolver(?:Mg)?|cusparse(?:Lt)?|cupti"
    r"|nvrtc(?:-builtins)?|nvJitLink|nccl|nvinfer(?:_\w{1,20})?|nvidia-ml|nvidia-ptxjitcompiler)"
)
_FILE = (
    rf"(?:lib(?P<stem>{_STEM})(?:\.(?P<mac>[\d.]{{1,12}}))?\.(?:so|dylib)(?P<suffix>(?:\.\d{{1,4}}){{0,5}})"
    rf"|(?P<dll>(?:cudart|cublas|cublasLt|cufft|cufftw|curand|cusolver|cusparse|cudnn|cudnn_\w{{1,30}}|nvrtc"
    rf"|nvrtc-builtins|nvJitLink|cupti)(?:64)?_[\d_]{{1,12}}\.dll|nvcuda\.dll|zlibwapi\.dll))"
)
_DLL_DIGITS = any_case(r"_(\d{1,3})\.dll$")
_NAME = re.compile(_FILE)
_LIBRARY_WORDS = any_case(r"lib(?:cu|nv|nccl)|\.dll")
_LISTING = re.compile(r"\s*[-lrwxsdT.+@]{10,12}\s+\d+\s+\S+\s+\S+\s+[\d.,]+[KMG]?\s+.{5,40}?\s(?=\S+(?: -> |\s*$))")
_ARROW = re.compile(
    rf"\s*(?P<folder>~?/?(?:[^\s/:]{{1,100}}/){{0,20}})(?P<soname>{_FILE})(?P<flags> \([^()]{{1,80}}\))?"
    r" (?P<arrow>->|=>) (?P<path>not found|\S{1,300})(?: \(0x[0-9a-f]+\))?\s*"
)
_TOKEN = re.compile(rf"(?P<folder>~?/?(?:[^\s/:]{{1,100}}/){{0,20}})(?P<soname>{_FILE})[@*]?")
_OTHER_FILE = re.compile(r"[\w./+-]{0,200}\.(?:a|so|dylib|h)[\d.]{0,20}")
_WINDOWS_LIBRARY = any_case(rf"\s*(?P<folder>[A-Za-z]:\\(?:[^\\/:*?\"<>|]{{1,100}}\\){{0,20}})(?P<soname>{_FILE})\s*")


@dataclass(frozen=True)
class LibrarySeen:
    """A library file that a listing shows, or shows to be missing."""

    soname: str  # as listed: "libcudart.so.11.0", "cudnn64_8.dll"
    component: str  # "cudart", "cudnn", "cudnn_cnn_infer", "cuda" (the driver's), "cublas" ...
    found: bool
    line: int
    via: str  # "ldd", "ldconfig", "ls", "list" (find, locate, ls without details), "dir"
    path: str | None = None
    version: str | None = None  # from the file's name, two numbers at least; one for cuDNN and for DLLs


def parse_libraries(lines: Sequence[Line]) -> tuple[LibrarySeen, ...]:
    """Every library of every listing, in the order of the text."""
    return tuple(
        seen
        for line in lines
        if _LIBRARY_WORDS.search(line.text, 0, _LONGEST_LINE)
        for seen in _libraries_of(line.text[:_LONGEST_LINE], line.number)
    )


def _libraries_of(text: str, number: int) -> Iterator[LibrarySeen]:
    listed = _LISTING.match(text)
    plain = text[listed.end() :] if listed else text
    if match := _ARROW.fullmatch(plain):
        target = match["path"]
        if match["arrow"] == "->":
            yield _seen(match, number, "ls", target)
        else:
            found = target if target != "not found" else None
            seen = _seen(match, number, "ldconfig" if match["flags"] else "ldd", target)
            yield replace(seen, path=found, found=found is not None)
    elif match := _WINDOWS_LIBRARY.fullmatch(text):
        yield _seen(match, number, "dir")
    else:  # a row of `ls` may hold other files, too; a sentence holds words
        words = plain.split()[:50]
        matches = [_TOKEN.fullmatch(word) for word in words]
        if all(match or _OTHER_FILE.fullmatch(word) for match, word in zip(matches, words, strict=True)):
            yield from (_seen(match, number, "ls" if listed else "list") for match in matches if match)


def _seen(match: re.Match[str], number: int, via: str, target: str | None = None) -> LibrarySeen:
    """The record; a link's target or the file that the loader found may tell more of the version."""
    dll = match["dll"] or ""  # "cudnn" of cudnn64_8.dll, "cuda" of nvcuda.dll
    name = "cuda.dll" if dll == "nvcuda.dll" else dll
    component = match["stem"] or re.sub(r"(?:64)?(?:_[\d_]{1,40})?\.dll$", "", name)
    path = match["folder"] + match["soname"] if match["folder"] else None
    return LibrarySeen(match["soname"], component, True, number, via, path, _version_of(match, component, target))


def _version_of(match: re.Match[str], component: str, target: str | None) -> str | None:
    """Two numbers at least; of cuDNN its major alone, too, which is what programs ask for, and what a DLL tells."""
    behind = _NAME.search(target) if target else None
    suffixes = [(one["suffix"] or one["mac"] or "").strip(".") for one in (behind, match) if one]
    if version := next((suffix for suffix in suffixes if "." in suffix), None):
        return version
    if component == "cudnn" and suffixes[-1]:
        return suffixes[-1]
    return _of_dll(match["dll"], component) if match["dll"] else None


def _of_dll(name: str, component: str) -> str | None:
    found = _DLL_DIGITS.search(name)
    digits = found[1] if found else ""
    # "101" of cudart is 10.1 and "80" is 8.0; "12" of cudart and "8" of cudnn are whole
    if component == "cudart" and (len(digits) == 3 or (len(digits) == 2 and int(digits) >= 50)):
        return f"{digits[:-1]}.{digits[-1]}"
    return digits or None if component in ("cudart", "cudnn") else None


# ------------------------------------------------------------------------------------------ ldconfig

_LINE = re.compile(r"^\s+(?P<soname>\S+) \((?P<flags>[^)]*)\) => (?P<path>.+)$")


@dataclass(frozen=True)
class CacheEntry:
    """One library of /etc/ld.so.cache."""

    soname: str
    flags: tuple[str, ...]  # ("libc6", "x86-64"), ("libc6", "AArch64"); a 32-bit one has "libc6" alone
    path: str


def parse_cache(text: str) -> tuple[CacheEntry, ...]:
    """Return the entries in the order of the cache, which is the loader's.

    >>> parse_cache('''1 libs found in cache `/etc/ld.so.cache'
    ... \\tlibcuda.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libcuda.so.1
    ... Cache generated by: ldconfig (Debian GLIBC 2.36-9) stable release version 2.36
    ... ''')
    (CacheEntry(soname='libcuda.so.1', flags=('libc6', 'x86-64'), path='/lib/x86_64-linux-gnu/libcuda.so.1'),)
    """
    return tuple(
        CacheEntry(match["soname"], tuple(flag.strip() for flag in match["flags"].split(",")), match["path"])
        for match in map(_LINE.match, text.splitlines())
        if match
    )
