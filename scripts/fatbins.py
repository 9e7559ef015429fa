"""For which architectures the CUDA kernels inside a shared library, DLL or dylib are compiled. Pure; reads a stream.

nvcc puts the kernels of each translation unit into a "fat binary": a header and entries, one for each architecture, of
SASS (kind 2) or PTX (kind 1). NVIDIA's fatbinary_section.h names the magic number; the rest is what cuobjdump prints:

    header  u32 magic 0xBA55ED50, u16 version, u16 size of this header, u64 bytes of all entries
    entry   u16 kind, u16 version, u32 size of this header, u64 bytes of its payload, 8 bytes,
            u16 minor and u16 major version (PTX: of its instruction set), u32 architecture, ...

They are found by the magic number, so sections need not be known and a compressed stream can be read front to back.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

MAGIC = struct.pack("<I", 0xBA55ED50)
LARGEST = 1 << 28  # bytes; a larger "fat binary" is a chance occurrence of the magic number
_HEADER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQ8xHHI")
_PTX, _SASS = 1, 2


class Images(NamedTuple):
    """What one fat binary holds: architectures as numbers (70 for 7.0), and the PTX instruction set."""

    sass: tuple[int, ...]
    ptx: tuple[int, ...]
    isa: tuple[int, int] | None  # (6, 3); None: no PTX


class Scanner:
    """Finds fat binaries in bytes that come in pieces."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> Iterator[Images]:
        """The fat binaries that end in this piece."""
        data = self._rest + piece
        at = data.find(MAGIC)
        while at >= 0:
            end = _end(data, at)
            if end is None or end > len(data):
                self._rest = data[at:]
                return
            if end > at and (images := _images(data[at:end])):
                yield images
            at = data.find(MAGIC, max(end, at + len(MAGIC)))
        self._rest = data[-len(MAGIC) + 1 :]


def _end(data: bytes, at: int) -> int | None:
    """Where the fat binary at `at` ends; `at` itself when it is none; None when more bytes are needed to tell."""
    if at + _HEADER.size > len(data):
        return None
    _, version, header, size = _HEADER.unpack_from(data, at)
    plausible = version == 1 and header == _HEADER.size and 0 < size < LARGEST
    return at + header + size if plausible else at


def _images(data: bytes) -> Images | None:
    """The entries of a whole fat binary; None when they make no sense."""
    sass, ptx, isa = set(), set(), None
    at = _HEADER.size
    while at + _ENTRY.size <= len(data):
        kind, _, header, size, minor, major, architecture = _ENTRY.unpack_from(data, at)
        if kind not in (_PTX, _SASS) or header < _ENTRY.size or at + header + size > len(data):
            return None
        if kind == _PTX:
            ptx.add(architecture)
            isa = (major, minor)
        else:
            sass.add(architecture)
        at += header + size
    return Images(tuple(sorted(sass)), tuple(sorted(ptx)), isa)
