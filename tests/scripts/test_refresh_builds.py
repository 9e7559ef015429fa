"""What the libraries of a wheel were compiled with: fat binaries part by part, and cuDNN, as ELF files hold them."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path

import pytest

from tests.healthy import MATRIX
from tests.scripts.wheel_records import fat_binary
from tests.tables import each

pytest.importorskip("packaging")
pytest.importorskip("elftools")
pytest.importorskip("pypi_simple")

import binaries
import refresh_builds
from binaries import Cudnn, compiled_cudnn, fat_binaries
from fatbins import Images
from refresh_builds import BEGIN, END, Contents, Release, parts, render, rows

from tfgpu_doctor.matrix.loader import parse
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


def written(tmp_path: Path, library: bytes) -> Path:
    path = tmp_path / "lib.so"
    path.write_bytes(library)
    return path


SPOKEN = DATA + 32 + MESSAGE.index(b" but")
PADDING = b"\x90" * 100
# (what stands before the reference to the message, cuDNN)
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


@each(
    ("before", "cudnn"),
    [
        (IMMEDIATE + PADDING, Cudnn(8, 6)),
        (PADDING + load(1300, DATA), Cudnn(9, 3)),  # a constant
        (printed(1200, 5, 0, 7) + PADDING, Cudnn(7, 0)),  # patch level, minor, major
        (printed(1200, 5, 0) + b"\xbf\x07\0\0\0" + PADDING, None),  # the last is not printed
        (b"\xbf" + struct.pack("<I", 6021) + PADDING[:20] + b"\xbf" + struct.pack("<I", 6000), Cudnn(6, 0)),
        (b"\xbf" + struct.pack("<I", 6021) + PADDING, None),
        (PADDING, None),
    ],
)
def test_the_cudnn_that_a_binary_compares_with(tmp_path: Path, before: bytes, cudnn: Cudnn | None) -> None:
    check(tmp_path, before, cudnn)


def test_clang_prints_the_major_version_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "_is_by_clang", lambda _: True)
    check(tmp_path, printed(1200, 9, 3, 0) + PADDING, Cudnn(9, 3))


def check(tmp_path: Path, before: bytes, cudnn: Cudnn | None) -> None:
    """Read a library in which this code stands before the reference to the message."""
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


TEXT = f"""schema: tfgpu.matrix/1
revision: "2026-01-01"
sources: {{wheel: {{title: "the wheel"}}, wheel-binaries: {{title: "its libraries"}}, ptx-isa: {{title: "PTX"}}, table: {{title: "a table"}}}}
cuda:
- {{version: "12.5", min_driver_linux: "555.42.02", min_driver_windows: null, minor_compat_min_linux: "525.60.13", minor_compat_min_windows: null, compute_capabilities: [], source: table, minor_compat_source: table, capabilities_source: table}}
- {{version: "12.3", min_driver_linux: "545.23.06", min_driver_windows: null, minor_compat_min_linux: "525.60.13", minor_compat_min_windows: null, compute_capabilities: [], source: table, minor_compat_source: table, capabilities_source: table}}
ptx:
- {{isa: "8.5", cuda: "12.5", source: ptx-isa}}
- {{isa: "8.3", cuda: "12.3", source: ptx-isa}}
{BEGIN}
builds: []
{END}
tensorflow:
"""  # noqa: E501
CONTENTS = Contents("linux_x86_64", "9.3", (FatBinaries(count=2, sass=("6.0",), ptx={"9.0": "8.5"}),))


def test_releases_with_the_same_contents_share_a_row_and_the_table_can_be_read_again() -> None:
    other = CONTENTS._replace(cudnn="8.9")
    found = {Release("tensorflow", one, "linux_x86_64"): CONTENTS for one in ("2.20.0", "2.21.0")}
    found |= {Release("tensorflow-gpu", "2.9.1", "linux_x86_64"): other}
    table = rows(found)
    assert [row.releases for row in table] == [{"tensorflow": "2.21.0 2.20.0"}, {"tensorflow-gpu": "2.9.1"}]
    read = parse(TEXT.replace(f"{BEGIN}\nbuilds: []\n{END}", render(table)).replace("tensorflow:\n", ""), "x")
    assert read.builds == tuple(table)
    assert refresh_builds.known(read.builds) == found


def test_the_table_speaks_of_every_linux_wheel_with_cuda() -> None:
    known = refresh_builds.known(MATRIX.data.builds)
    assert known.keys() == refresh_builds.wanted(MATRIX.data).keys()
    assert [one.requirement for one in known if not known[one].cudnn] == []
