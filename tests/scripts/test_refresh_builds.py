"""What the libraries of a wheel were compiled with: fat binaries in bytes and in ELF files part by part, and cuDNN."""

from __future__ import annotations

import io
import random
import struct
from collections import Counter
from pathlib import Path

import pytest

from tests.healthy import MATRIX
from tests.scripts.wheel_records import ROOT, fat_binary, module
from tests.tables import each

pytest.importorskip("packaging")
pytest.importorskip("elftools")
pytest.importorskip("pypi_simple")

import binaries
import natives
import refresh_builds
from binaries import Cudnn, compiled_cudnn, fat_binaries
from fatbins import MAGIC, Images, Scanner
from refresh_builds import BEGIN, END, parts, render, rows
from sections import Section

from tfgpu_doctor.matrix.schema import FatBinaries

MLIR = fat_binary([60, 70], [90], "8.5")
CUDA_CPP = fat_binary([60, 70, 90], [90], "8.3")
RELOCATABLE = fat_binary([], [90], "8.1")
CODE, DATA = 0x1000, 0x3000  # where both segments lie, in the file and in memory
MESSAGE = b"Loaded runtime CuDNN library: \0 but source was compiled with: \0"
VERSION = struct.pack("<3I", 9, 3, 0)


def elf(code: bytes = b"", data: bytes = b"", kernels: bytes = b"", relocatable: bytes = b"") -> bytes:
    """A shared library: a segment of code, one of constants, and sections with fat binaries."""
    names = b"\0.nv_fatbin\0__nv_relfatbin\0.shstrtab\0"
    contents = (kernels, relocatable, names)
    body = bytearray(0x5000)
    body[CODE : CODE + len(code)], body[DATA : DATA + len(data)] = code, data
    headers = [bytes(64)]
    for name, content in zip((".nv_fatbin", "__nv_relfatbin", ".shstrtab"), contents, strict=True):
        at = names.index(name.encode())
        headers.append(
            struct.pack("<IIQQQQIIQQ", at, 3 if name == ".shstrtab" else 1, 0, 0, len(body), len(content), 0, 0, 1, 0)
        )
        body += content
    segments = [
        struct.pack("<IIQQQQQQ", 1, flags, at, at, at, 0x1000, 0x1000, 0x1000) for flags, at in ((5, CODE), (4, DATA))
    ]
    start = len(body)
    body += b"".join(headers)
    head = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 3, 62, 1, 0, 64, start, 0, 64, 56, 2, 64, 4, 3)
    body[: len(head)] = head
    body[64 : 64 + 112] = b"".join(segments)
    return bytes(body)


def load(at: int, target: int) -> bytes:
    """`lea rdx, [rip + ...]` at an offset of the code, for an address."""
    return b"\x48\x8d\x15" + struct.pack("<i", target - (CODE + at + 7))


def written(folder: Path, library: bytes) -> Path:
    (folder / "lib.so").write_bytes(library)
    return folder / "lib.so"


SPOKEN = DATA + 32 + MESSAGE.index(b" but")
PADDING = b"\x90" * 100
IMMEDIATE = b"\x48\xb8" + struct.pack("<II", 8, 6)  # movabs rax, 0x600000008
PRINT = CODE + 0x100  # a function


def printed(at: int, *numbers: int) -> bytes:
    """Calls of one function with these numbers, from an offset of the code on."""
    code = b""
    for number in numbers:
        code += b"\xbf" + struct.pack("<I", number) if number else b"\x31\xff"
        code += PADDING[:9]
        code += b"\xe8" + struct.pack("<i", PRINT - (CODE + at + len(code) + 5))
    return code


# (what stands before the reference to the message, by clang, cuDNN)
@each(
    ("before", "by_clang", "cudnn"),
    [
        (IMMEDIATE + PADDING, False, Cudnn(8, 6)),
        (PADDING + load(1300, DATA), False, Cudnn(9, 3)),  # a constant
        (printed(1200, 5, 0, 7) + PADDING, False, Cudnn(7, 0)),  # patch level, minor, major
        (printed(1200, 9, 3, 0) + PADDING, True, Cudnn(9, 3)),  # the major version first
        (printed(1200, 5, 0) + b"\xbf\x07\0\0\0" + PADDING, False, None),  # the last is not printed
        (b"\xbf" + struct.pack("<I", 6021) + PADDING[:20] + b"\xbf" + struct.pack("<I", 6000), False, Cudnn(6, 0)),
        (b"\xbf" + struct.pack("<I", 6021) + PADDING, False, None),
        (PADDING, False, None),
    ],
)
def test_the_cudnn_that_a_binary_compares_with(
    before: bytes, by_clang: bool, cudnn: Cudnn | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by_clang:
        monkeypatch.setattr(binaries, "_is_by_clang", lambda _: True)
    code = PADDING * 12 + before
    library = elf(code + load(len(code), SPOKEN) + PADDING, VERSION + bytes(20) + MESSAGE)
    with written(tmp_path, library).open("rb") as file:
        assert compiled_cudnn(file) == cudnn


def test_fat_binaries_are_counted_by_what_they_hold_and_relocatable_code_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "_PIECE", 100)
    with written(tmp_path, elf(kernels=2 * MLIR + CUDA_CPP, relocatable=5 * RELOCATABLE)).open("rb") as file:
        seen = fat_binaries(file)
    assert seen == Counter({Images((60, 70), (90,), (8, 5)): 2, Images((60, 70, 90), (90,), (8, 3)): 1})
    assert list(parts(seen)) == [
        FatBinaries(count=2, sass=("6.0", "7.0"), ptx={"9.0": "8.5"}),
        FatBinaries(count=1, sass=("6.0", "7.0", "9.0"), ptx={"9.0": "8.3"}),
    ]


def test_the_table_is_what_the_script_makes_of_every_linux_wheel_with_cuda() -> None:
    known = refresh_builds.known(MATRIX.data.builds)
    assert known.keys() == refresh_builds.wanted(MATRIX.data).keys()
    assert [one.requirement for one in known if not known[one].cudnn] == []
    table = rows(known)
    assert table == list(MATRIX.data.builds), "releases with the same contents share a row"
    section = Section(ROOT / "compat_matrix.yaml", BEGIN, END)
    assert section.whole(render(table)) == section.text


# ------------------------------------------------------------------------------------------- fat binaries in any bytes

TWO = fat_binary([75], [90], "9.0")


def images(*pieces: bytes) -> list[Images]:
    scanner = Scanner()
    return [one for piece in pieces for one in scanner.feed(piece)]


def test_what_nvcc_writes() -> None:
    """`nvcc -fatbin` 13.0 of an empty kernel for code=sm_75 and code=compute_90."""
    assert images((Path(__file__).parent / "empty_kernel.fatbin").read_bytes()) == [Images((75,), (90,), (9, 0))]


@each("size", [1, 3, 16, 17, 100, 4096])
def test_pieces_of_any_size_give_the_same(size: int) -> None:
    noise = random.Random(size).randbytes(300)
    data = noise + TWO + noise + fat_binary([60], [60], "5.0") + noise
    cut = [data[at : at + size] for at in range(0, len(data), size)]
    assert images(*cut) == images(data) == [Images((75,), (90,), (9, 0)), Images((60,), (60,), (5, 0))]


@each(
    "broken",
    [
        MAGIC,  # the number alone, as code that looks for fat binaries has it
        MAGIC + bytes(100),
        MAGIC + b"\xff" * 100,
        TWO[:16] + b"\x09" + TWO[17:],  # an unknown kind of entry
        TWO[:24] + b"\xff" * 8 + TWO[32:],  # an entry longer than the whole
    ],
)
def test_chance_occurrences_hide_nothing(broken: bytes) -> None:
    assert Images((75,), (90,), (9, 0)) in images(broken, bytes(64), TWO)
    assert images(TWO[:-1]) == [], "an unfinished one"


def test_names_before_the_kernels_are_collected_across_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(natives, "PIECE", 7)
    names: set[str] = set()
    seen: Counter[Images] = Counter()
    text = "names libcudart.so.8.0 libcudnn.so.6 cublas64_80.dll nvcuda.dll libcudart.8.0.dylib libm.so.6 libcuda.so"
    natives.scan(io.BytesIO(module(text + "\nfatbin sass 30 35 ptx 35 isa 5.0\nnames libcufft.so.9.0")), names, seen)
    assert names == {"libcudart.so.8.0", "libcudnn.so.6", "cublas64_80.dll", "nvcuda.dll", "libcudart.8.0.dylib"}
    assert set(seen) == {Images((30, 35), (35,), (5, 0))}
