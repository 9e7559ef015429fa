"""Fat binaries are found and read in bytes that come in any pieces."""

from __future__ import annotations

import io
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.scripts.wheel_records import fat_binary, module
from tests.tables import each

pytest.importorskip("packaging")

import natives
from fatbins import MAGIC, Images, Scanner

TWO = fat_binary([75], [90], "9.0")


def images(*pieces: bytes) -> list[Images]:
    scanner = Scanner()
    return [one for piece in pieces for one in scanner.feed(piece)]


def test_what_nvcc_writes() -> None:
    """`nvcc -fatbin` 13.0 of an empty kernel for code=sm_75 and code=compute_90."""
    written = (Path(__file__).parent / "empty_kernel.fatbin").read_bytes()
    assert images(written) == [Images((75,), (90,), (9, 0))]


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
