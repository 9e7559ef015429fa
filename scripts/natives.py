"""What TensorFlow's extension module says where build_info.py does not: linked CUDA libraries and compiled kernels."""

from __future__ import annotations

import re
from collections import Counter
from typing import IO, NamedTuple, Protocol

from fatbins import Images, Scanner

# _pywrap_tensorflow.so (1.0), _pywrap_tensorflow_internal.so, .pyd on Windows: all kernels but those of contrib
MAIN = re.compile(r"(?:.*/)?_pywrap_tensorflow(?:_internal)?\.(?:so|pyd)")
# 1.4 to 1.13 link CUDA to this one instead, without kernels; in 2.22 and later it holds kernels
FRAMEWORK = re.compile(r"(?:.*/)?libtensorflow_framework\.so(?:\.\d)?")
# Every translation unit of a build is compiled for the same architectures: read whole, the modules of 1.0 to 2.3 had
# one list in all their 110 to 240 fat binaries, but for one without PTX that comes with NCCL since 1.13. So the first
# ones tell, and most of a module, of up to 1.2 GB, is not read.
ENOUGH = 24
PIECE = 1 << 22
# the strings of an ELF's .dynstr, a PE's import table, a Mach-O's load commands; they stand before the kernels
_NAMES = re.compile(rb"(lib(?:cu[a-z]+|nccl)(?:\.so\.[0-9.]+|\.[0-9.]+\.dylib)|cu[a-z]+64_[0-9]+\.dll|nvcuda\.dll)\0")
_LONGEST_NAME = 64
# PTX ISA version → the first toolkit with it: "Release History" of NVIDIA's PTX ISA manual, as _ptx_utils.py of
# cuda-python has it
TOOLKITS = {(4, 3): "7.5", (5, 0): "8.0", (6, 0): "9.0", (6, 1): "9.1", (6, 2): "9.2", (6, 3): "10.0", (6, 4): "10.1"}


class Native(NamedTuple):
    """Read off a wheel's extension module."""

    libraries: tuple[str, ...]  # CUDA libraries that it names, sorted
    sass: tuple[str, ...]
    ptx: tuple[str, ...]
    cuda: str | None  # by the number of cudart that it links, else by the instruction set of its PTX


class OpenArchive(Protocol):
    """What is needed of a zip file, local or remote."""

    def namelist(self) -> list[str]: ...

    def open(self, name: str) -> IO[bytes]: ...


def has_native(archive: OpenArchive) -> bool:
    """Whether a wheel has TensorFlow's extension module; an empty one has not."""
    return any(MAIN.fullmatch(name) for name in archive.namelist())


def read_native(archive: OpenArchive) -> Native:
    """Read the extension module up to its first kernels, or to its end when it has none."""
    names: set[str] = set()
    seen: Counter[Images] = Counter()
    for member in sorted(archive.namelist()):
        if MAIN.fullmatch(member) or FRAMEWORK.fullmatch(member):  # the latter come first
            with archive.open(member) as stream:
                scan(stream, names, seen)
    if len({images.sass for images in seen}) > 1 or len({images.ptx for images in seen if images.ptx}) > 1:
        raise ValueError(f"the kernels are not all compiled for the same architectures: {dict(seen)}")
    images = max(seen, key=lambda one: (len(one.ptx), seen[one]), default=Images((), (), None))
    linked = {match.group(1) for name in names if (match := re.search(r"cudart(?:\.so\.|64_|\.)([0-9.]+[0-9])", name))}
    numbers = {number if "." in number else f"{number[:-1]}.{number[-1]}" for number in linked}
    return Native(
        libraries=tuple(sorted(names)),
        sass=tuple(map(_dotted, images.sass)),
        ptx=tuple(map(_dotted, images.ptx)),
        cuda=min(numbers) if numbers else TOOLKITS.get(images.isa or (0, 0)),
    )


def scan(stream: IO[bytes], names: set[str], seen: Counter[Images]) -> None:
    """Collect library names and fat binaries until there are enough of the latter."""
    scanner = Scanner()
    tail, found = b"", 0
    while found < ENOUGH and (piece := stream.read(PIECE)):
        if not found:  # kernels come last, and their bytes are no place for names
            window = tail + piece
            names |= {match.decode() for match in _NAMES.findall(window)}
            tail = window[-_LONGEST_NAME:]
        for images in scanner.feed(piece):
            seen[images] += 1
            found += 1


def _dotted(architecture: int) -> str:
    return f"{architecture // 10}.{architecture % 10}"
