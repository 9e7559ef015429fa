"""What the libraries of a TensorFlow wheel were compiled with, beyond what build_info.py says of it. Reads ELF files.

Fat binaries: every one is looked at, part by part, because the union of a wheel's architectures says nothing of any
one part. Kernels written in CUDA C++ have SASS and PTX for the last architecture of the build; the elementwise ones
that MLIR generates have PTX alone for it (and its instruction set is that of the build's CUDA since 2.17: TensorFlow
pull request 65448). fatbins.py reads the headers of the entries and needs no payload: the header of a PTX entry has the
version of its instruction set. That was held against the text's own `.version`, which stands uncompressed at the start
of its LZ4 block, in three entries of every kind, in the wheels of 2.12 to 2.17 and 2.21. Relocatable code
(__nv_relfatbin) is left out: it was linked into what is in .nv_fatbin, and no driver sees it.

cuDNN: CudnnSupport::Init() compares the loaded version with the one it was compiled with, and prints both ("but source
was compiled with"). In that function, which is in libtensorflow_framework until 2.4, the version stands in one of four
ways: major and minor as the two halves of a movabs (2.14); in a constant of .rodata whose address is loaded (2.21); as
the arguments of three calls of the function that prints a number, in this order with clang (2.20), the patch level
first with GCC (1.8 to 1.14, 2.4); as CUDNN_VERSION itself and without its patch level, 6021 and 6000 (1.0 to 1.4).
"""

from __future__ import annotations

import mmap
import re
import struct
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import IO, NamedTuple

from elftools.elf.elffile import ELFFile
from fatbins import Images, Scanner

MESSAGE = b"but source was compiled with"
BEFORE, AFTER = 4096, 512  # bytes of code around the reference to the message in which an immediate stands
NEAR = 256  # bytes before it in which the address of a constant is loaded
_LEA = re.compile(rb"[\x48\x4c]\x8d[\x05\x0d\x15\x1d\x25\x2d\x35\x3d]", re.DOTALL)  # lea reg, [rip + displacement]
_MOVABS = re.compile(rb"[\x48\x49][\xb8-\xbf](.)\0\0\0(.)\0\0\0", re.DOTALL)
_EDI = re.compile(rb"\xbf(..)\0\0|\x31\xff", re.DOTALL)  # mov edi, number; xor edi, edi
_PRINTED = 768  # bytes before the reference to the message in which the numbers are printed
_CALL = 64  # bytes from a first argument to the call
_CUDNN = range(4, 12)  # major versions
_PIECE = 1 << 22


class Cudnn(NamedTuple):
    """A version of cuDNN."""

    major: int
    minor: int


class Segment(NamedTuple):
    """A part of an ELF file that is loaded."""

    offset: int
    size: int
    address: int
    code: bool


def fat_binaries(file: IO[bytes]) -> Counter[Images]:
    """Count the fat binaries of a library by what they hold."""
    seen: Counter[Images] = Counter()
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for start, end in _without_relocatable(file, len(data)):
            scanner = Scanner()
            for at in range(start, end, _PIECE):
                seen.update(scanner.feed(data[at : min(end, at + _PIECE)]))
    return seen


def _without_relocatable(file: IO[bytes], size: int) -> Iterator[tuple[int, int]]:
    section = ELFFile(file).get_section_by_name("__nv_relfatbin")
    start = section["sh_offset"] if section else size
    yield 0, start
    if section:
        yield start + section["sh_size"], size


def compiled_cudnn(file: IO[bytes]) -> Cudnn | None:
    """The cuDNN that a library was compiled with; None: it does not use cuDNN, or in a way that is not known."""
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        text = data.find(MESSAGE)
        if text < 0:
            return None
        segments = [
            Segment(one["p_offset"], one["p_filesz"], one["p_vaddr"], bool(one["p_flags"] & 1))
            for one in ELFFile(file).iter_segments("PT_LOAD")
        ]
        start = data.rfind(b"\0", 0, text) + 1  # a message begins before or with these words
        places = list(_references(data, segments, {_address(segments, start), _address(segments, text)}))
        arguments = partial(_arguments, last_first=not _is_by_clang(file))
        for way in (_immediates, _constants, arguments, _numbers):
            found = {version for at in places for version in way(data, segments, at)}
            if len(found) > 1:
                raise ValueError(f"several versions of cuDNN: {sorted(found)}")
            if found:
                return found.pop()
    return None


def _address(segments: list[Segment], offset: int) -> int:
    holder = next(one for one in segments if one.offset <= offset < one.offset + one.size)
    return offset - holder.offset + holder.address


def _references(data: mmap.mmap, segments: list[Segment], addresses: set[int]) -> Iterator[int]:
    """Offsets of the instructions that load one of the addresses."""
    for one in segments:
        if one.code:
            for at, target in _loaded(data, one, one.offset, one.offset + one.size):
                if target in addresses:
                    yield at


def _loaded(data: mmap.mmap, code: Segment, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Offsets of the instructions that load an address relative to their own, and that address."""
    for found in _LEA.finditer(data, start, end - 4):
        (displacement,) = struct.unpack_from("<i", data, found.end())
        yield found.start(), found.end() + 4 - code.offset + code.address + displacement


def _holder(segments: list[Segment], at: int) -> Segment:
    return next(one for one in segments if one.code and one.offset <= at < one.offset + one.size)


def _immediates(data: mmap.mmap, segments: list[Segment], at: int) -> Iterator[Cudnn]:
    code = _holder(segments, at)
    start, end = max(code.offset, at - BEFORE), min(code.offset + code.size, at + AFTER)
    for found in _MOVABS.finditer(data, start, end):
        if found[1][0] in _CUDNN:
            yield Cudnn(found[1][0], found[2][0])


def _constants(data: mmap.mmap, segments: list[Segment], at: int) -> Iterator[Cudnn]:
    code = _holder(segments, at)
    for _, target in _loaded(data, code, max(code.offset, at - NEAR), at):
        if version := _constant(data, segments, target):
            yield version


def _is_by_clang(file: IO[bytes]) -> bool:
    section = ELFFile(file).get_section_by_name(".comment")
    return section is not None and b"clang" in section.data()


def _arguments(data: mmap.mmap, segments: list[Segment], at: int, *, last_first: bool) -> Iterator[Cudnn]:
    """Three numbers in calls of one function."""
    start = max(_holder(segments, at).offset, at - _PRINTED)
    calls = [(number, _called(data, place)) for place, number in _first_arguments(data, start, at)]
    for three in zip(calls, calls[1:], calls[2:], strict=False):
        major, minor, _patch = (number for number, _ in (reversed(three) if last_first else three))
        if major in _CUDNN and set.intersection(*(called for _, called in three)):
            yield Cudnn(major, minor)


def _first_arguments(data: mmap.mmap, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Where the first argument of a call is set to a number, and that number."""
    for found in _EDI.finditer(data, start, end):
        yield found.end(), int.from_bytes(found[1] or b"", "little")


def _called(data: mmap.mmap, start: int) -> set[int]:
    """The offsets of what may be called after an instruction: any byte of another one can look like a call."""
    places = (at for at in range(start, start + _CALL) if data[at] == 0xE8)
    return {at + 5 + struct.unpack_from("<i", data, at + 1)[0] for at in places}


def _numbers(data: mmap.mmap, segments: list[Segment], at: int) -> Iterator[Cudnn]:
    """CUDNN_VERSION, where the same without the patch level stands beside it."""
    start = max(_holder(segments, at).offset, at - NEAR)
    numbers = {number for _, number in _first_arguments(data, start, at + NEAR)}
    for number in numbers:
        if number // 1000 in _CUDNN and number % 100 and number - number % 100 in numbers:
            yield Cudnn(number // 1000, number // 100 % 10)


def _constant(data: mmap.mmap, segments: list[Segment], address: int) -> Cudnn | None:
    """Three numbers in .rodata that may be a version of cuDNN."""
    for one in segments:
        at = address - one.address + one.offset
        if not one.code and one.offset <= at <= one.offset + one.size - 12:
            major, minor, patch = struct.unpack_from("<3I", data, at)
            if major in _CUDNN and minor < 64 and patch < 256:
                return Cudnn(major, minor)
    return None
