"""What a stranger's file can make `tfgpu fleet` do is bounded: bytes after unpacking, documents, nodes, lines."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.records.test_report import report
from tfgpu_doctor.files import reading
from tfgpu_doctor.files.reading import unpacked
from tfgpu_doctor.fleet import unwrapping
from tfgpu_doctor.fleet.reading import Gathering, _lines, read_fleet
from tfgpu_doctor.fleet.unwrapping import Absent, Document, LeftOut, documents

MIB = 1 << 20


def test_what_unpacks_to_too_much_is_read_in_part() -> None:
    taken = 0
    with pytest.raises(OSError, match="more than 100 times as large; if that is right, unpack it with gunzip first"):
        for piece in unpacked(iter([gzip.compress(b"\n" * (80 * MIB))])):
            taken += len(piece)
    assert taken <= reading.FREE + MIB


def test_a_packed_file_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LARGEST_UNPACKED", 3 * MIB)
    with pytest.raises(OSError, match="unpacked, it is larger than 3 MiB; split it"):
        list(unpacked(iter([gzip.compress(b"x" * (5 * MIB))])))


def test_what_is_packed_well_is_read(tmp_path: Path) -> None:
    """Reports of nodes that are alike, packed to a hundredth: below the limit they are read as they are."""
    (tmp_path / "all.jsonl.gz").write_bytes(gzip.compress(report().to_json() * 20))
    assert len(read_fleet([str(tmp_path / "all.jsonl.gz")]).results) == 20


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    yield from (data[start : start + size] for start in range(0, len(data), size))


def test_blank_lines_are_counted_and_not_read() -> None:
    """Each run of them is one step for the reader, and the lines behind them keep their numbers."""
    data = b"a\n" + b"\n" * (5 * MIB) + b'{"schema": "tfgpu.report/1"}\n'
    lines = list(_lines(pieces(data, MIB), "x", Gathering()))
    assert len(lines) < 20
    (found,) = documents(iter(lines))
    assert isinstance(found, Document) and found.line == 5 * MIB + 2


def test_lines_are_those_of_the_text(subtests: pytest.Subtests) -> None:
    for size in [1, 2, 3, 5, 1500, MIB]:
        with subtests.test(size=size):
            data = b"a\n\nbc\n" + b"\n" * 1500 + b"d\n\ne"
            read = _lines(pieces(data, size), "x", Gathering())
            found = [line for one in read for line in ([b""] * one if isinstance(one, int) else [one])]
            assert found == data.split(b"\n")


def test_documents_without_an_end_are_read_up_to_a_limit(subtests: pytest.Subtests) -> None:
    for line in [b"{", b"n: {", b"n%d: {"]:
        with subtests.test(line=line), pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(unwrapping, "MOST_CUT", 50)
            monkeypatch.setattr(unwrapping, "MOST_OPEN", 50)
            taken = 0

            def lines(line: bytes = line) -> Iterator[bytes]:
                nonlocal taken
                for number in range(5000):
                    taken += 1
                    yield line % number if b"%" in line else line

            *_, last = documents(lines())
            assert taken < 60
            assert isinstance(last, LeftOut)
            assert last.reason == "more than 50 documents have no end; what follows is left out"


def test_folded_names_of_nodes_are_unfolded_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unwrapping, "_MOST_ABSENT", 30)
    found = list(documents([b"clush: n%d-[1-20000]: timeout" % number for number in range(100)]))
    assert len([one for one in found if isinstance(one, Absent)]) == 30
    (left_out,) = (one for one in found if isinstance(one, LeftOut))
    assert left_out.reason == "more than 30 nodes gave no answer; the others are left out"


def test_documents_that_cannot_be_read_are_read_up_to_a_limit(subtests: pytest.Subtests) -> None:
    for joint in [b",", b"\n"]:
        with subtests.test(joint=joint), pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr("tfgpu_doctor.fleet.reading.MOST_REFUSED", 20)
            data = joint.join([b'{"schema":"tfgpu.x/1"}'] * 500)
            one = Gathering()
            one.take_file(b"[" + data + b"]" if joint == b"," else data, "x")
            reasons = {row.reason: row.count for row in one.gathered().unreadable}
            assert sum(reasons.values()) < 25
            assert "more than 20 documents of it cannot be read; what follows is left out" in reasons
