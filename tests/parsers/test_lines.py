"""From bytes to lines: every encoding and line end that pastes come in, numbers that hold, and bounded memory."""

from __future__ import annotations

import codecs
import json
import random
import tracemalloc
import unicodedata
from collections.abc import Iterable, Iterator

from tfgpu_doctor.parsers import lines
from tfgpu_doctor.parsers import messages as catalogue
from tfgpu_doctor.parsers.lines import Line

TELLING = "E tensorflow/stream_executor/cuda/cuda_driver.cc:271] failed call to cuInit: CUDA_ERROR_NO_DEVICE"
THREE = f"first\n{TELLING}\nthird"
MEBIBYTE = 1 << 20


def texts(*chunks: bytes) -> list[str]:
    return [line.text for line in lines.read(chunks).lines]


def cut(data: bytes, size: int) -> list[bytes]:
    """The bytes in chunks, as a pipe hands them over."""
    return [data[start : start + size] for start in range(0, len(data), size)]


def peak(chunks: Iterable[bytes]) -> tuple[lines.Excerpt, int]:
    """What is read, and the most memory that reading took, in bytes; the text itself lies outside."""
    chunks = list(chunks)
    tracemalloc.start()
    try:
        excerpt = lines.read(chunks)
        return excerpt, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


ENCODED = {
    "UTF-8": THREE.encode(),
    "UTF-8 with a mark": codecs.BOM_UTF8 + THREE.encode(),
    "UTF-16, little endian": codecs.BOM_UTF16_LE + THREE.encode("utf-16-le"),
    "UTF-16, big endian": codecs.BOM_UTF16_BE + THREE.encode("utf-16-be"),
    "UTF-16 without a mark": THREE.encode("utf-16-le"),
    "UTF-16, big endian, without a mark": THREE.encode("utf-16-be"),
    "Windows' line ends": THREE.replace("\n", "\r\n").encode(),
    "PowerShell": codecs.BOM_UTF16_LE + THREE.replace("\n", "\r\n").encode("utf-16-le"),
}


def test_encodings_and_chunks_that_end_anywhere() -> None:
    for name, data in ENCODED.items():
        for size in (21, 64, 97, len(data)):
            assert texts(*cut(data, size)) == THREE.split("\n"), (name, size)


def test_other_encodings_and_what_is_no_text() -> None:
    (line,) = texts("Could not load dynamic library — für Gerät".encode("cp1252"))
    assert line.startswith("Could not load dynamic library") and line.endswith("t")
    (line,) = texts("サーバー failed call to cuInit".encode("shift-jis"))
    assert "failed call to cuInit" in line
    noise = random.Random(4).randbytes(300_000)
    excerpt = lines.read([noise, b"\n" + TELLING.encode() + b"\n" + noise])
    assert TELLING in [line.text for line in excerpt.lines]
    assert not any(unicodedata.category(one) == "Cc" for line in excerpt.lines for one in line.text)
    empty = [lines.read(chunks) for chunks in ([], [b""], [b"", b""])]
    assert {(one.lines, one.total, one.left_out) for one in empty} == {((), 0, 0)}


def test_a_progress_bar_is_drawn_over_itself() -> None:
    bar = "\r".join(f"{n}/100 [{'=' * (n // 10):<10}] - loss: 0.{n:02}" for n in range(1, 101))
    found = lines.read([f"Epoch 1\n{bar}\n{TELLING}".encode()]).lines
    assert [line.number for line in found] == [1, *[2] * lines.PIECES, 3]
    assert found[-2].text.startswith("100/100")
    assert found[-1].text == TELLING
    found = lines.read([f"9/10 [====>]\r{TELLING}\n10/10".encode()]).lines
    assert Line(1, TELLING) in found, "a line over the bar is read by itself"


def training(steps: int, telling: dict[int, str]) -> Iterator[bytes]:
    """A log of that many lines, one a chunk in places, with telling lines at their numbers."""
    block: list[str] = []
    for number in range(1, steps + 1):
        block.append(telling.get(number, f"step {number}: loss {number % 97 / 7:.5f}, {number % 13} images/s"))
        if len(block) == 1000 or number == steps:
            yield ("\n".join(block) + "\n").encode()
            block = []


def test_some_thousand_lines_are_kept_whole() -> None:
    written = [f"line {n}: {'x' * (n % 70)}" for n in range(1, lines.WHOLE + 1)]
    excerpt = lines.read(["\n".join(written).encode()])
    assert [line.text for line in excerpt.lines] == [text.rstrip() for text in written]
    assert [line.number for line in excerpt.lines] == list(range(1, lines.WHOLE + 1))
    assert excerpt.left_out == 0


def test_one_telling_line_in_the_middle_of_many() -> None:
    whole = b"".join(training(300_000, {150_000: TELLING}))
    excerpt = lines.read(cut(whole, 65_536))
    assert excerpt == lines.read(cut(whole, 1 << 20)) and excerpt.total == 300_000
    assert Line(150_000, TELLING) in excerpt.lines
    assert {149_997, 149_998, 149_999, 150_001, 150_002, 150_003, 300_000} <= {line.number for line in excerpt.lines}
    assert excerpt.left_out > 290_000
    assert len(excerpt.lines) < lines.WHOLE + lines.TAIL + 100
    (message,) = [one for one in catalogue.read(excerpt.lines) if one.kind == "cuinit-failed"]
    assert message.line == 150_000


def test_memory_does_not_grow_with_the_text() -> None:
    _, short = peak(training(20_000, {}))
    _, long = peak(training(60_000, {}))
    assert long < 1.1 * short
    assert long < 8 * MEBIBYTE


def test_a_line_that_comes_again_and_again() -> None:
    again = {n: f"{TELLING} ({n:06})" for n in range(5_000, 60_000, 2)}
    excerpt = lines.read(training(60_000, again))
    kept = [line for line in excerpt.lines if "cuInit" in line.text and line.number < 60_000 - lines.TAIL]
    assert lines.PER_SHAPE <= len(kept) <= lines.PER_SHAPE + 1
    assert kept[0].number == 5_000


def test_many_kinds_of_lines_stay_bounded() -> None:
    words = random.Random(7)
    kinds = {n: f"error in {''.join(words.choices('abcdefghijklmnop', k=12))}" for n in range(1, 40_001)}
    excerpt, most = peak(training(40_000, kinds))
    assert lines.MOST <= len(excerpt.lines) <= lines.MOST + lines.TAIL
    assert excerpt.lines[-1].number == 40_000
    assert most < 24 * MEBIBYTE


def test_a_line_of_ten_megabytes() -> None:
    endless = b"0123456789 abcdef" * (10 * MEBIBYTE // 17)
    excerpt, most = peak([b"before\n", *cut(endless, 65_536), f"\n{TELLING}\n".encode()])
    assert excerpt.total == 3
    assert {line.number for line in excerpt.lines} == {1, 2, 3}
    assert excerpt.lines[-1] == Line(3, TELLING)
    assert max(len(line.text) for line in excerpt.lines) <= lines.LONGEST
    assert sum(line.number == 2 for line in excerpt.lines) < 30
    assert excerpt.size == len(endless) + len(b"before\n") + len(TELLING) + 2
    assert most < 8 * MEBIBYTE
    (line,) = texts(b"begin" + b"=" * 3000 + b"end")
    assert line == f"begin{'=' * lines.LONGEST_RUN}end", "one character over and over is cut"


TEXT = ["epoch 1\n", "failed call to cuInit: CUDA_ERROR_NO_DEVICE\n", 'a "quoted" word\n', "end"]
TRACEBACK = ["\x1b[0;31mImportError\x1b[0m: libcublas.so.12: cannot open shared object file", "again"]
OUTPUTS = [
    {"output_type": "display_data", "data": {"image/png": "A" * 5000, "text/plain": ["<Figure>"]}},
    {"output_type": "stream", "name": "stdout", "text": TEXT},
    {"output_type": "error", "traceback": TRACEBACK},
]
BOOK = {"cells": [{"cell_type": "code", "source": ["import tensorflow\n", "x"], "outputs": OUTPUTS}], "nbformat": 4}


def test_what_a_notebook_shows_is_found_in_any_layout() -> None:
    texts = (TEXT[1].strip(), TRACEBACK[0].replace("\x1b[0;31m", "").replace("\x1b[0m", ""), "import tensorflow")
    for data in (json.dumps(BOOK, separators=(",", ":")), f"\ufeff{json.dumps(BOOK)}", json.dumps(BOOK, indent=1)):
        found = [line.text for line in lines.read([data[:2000].encode(), data[2000:].encode()]).lines]
        for text in texts:
            assert any(text in line and not line.endswith('",') for line in found), text
    deep = lines.read([b'{"cells":' + b"[" * 100_000]).lines
    assert deep[0].text.startswith('{"cells":[['), "what is cut off or too deep is read as it is"
