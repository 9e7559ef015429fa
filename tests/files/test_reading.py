"""What a name can stand for, and what the readers make of it: data, or one reason within a second."""

from __future__ import annotations

import errno
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.guard import guarded
from tfgpu_doctor.files import reading

Maker = Callable[[Path], "Path | str"]
TEXT = b"Could not load dynamic library 'libcudart.so.11.0'\n"


def _socket(path: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))
    return path


def _loop(path: Path) -> Path:
    path.symlink_to(path)
    return path


def _dangling(path: Path) -> Path:
    path.symlink_to(path.with_name("nowhere"))
    return path


def _pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def _link_to_a_device(path: Path) -> Path:
    path.symlink_to("/dev/zero")
    return path


def _forbidden(path: Path) -> Path:
    path.write_bytes(TEXT)
    path.chmod(0)
    return path


def _sparse(path: Path) -> Path:
    with path.open("wb") as stream:
        stream.truncate(1 << 40)
    return path


# what cannot be read at all → part of the reason
ODD: dict[str, tuple[Maker, str]] = {
    "a pipe without a writer": (_pipe, "it is a (named )?pipe"),
    "a folder": (_folder, "it is a directory, not a file"),
    "a socket": (_socket, "it is a socket, not a file"),
    "/dev/zero": (lambda _: "/dev/zero", "it is a device, not a file"),
    "/dev/full": (lambda _: "/dev/full", "it is a device, not a file"),
    "a link to a device": (_link_to_a_device, "it is a device, not a file"),
    "a dangling link": (_dangling, "No such file or directory"),
    "a link to itself": (_loop, "Too many levels of symbolic links"),
    "a null character": (lambda _: "no\0where", "not a file name"),
    "half a surrogate pair": (lambda _: "no\ud800where", "not a file name"),
    "a long name": (lambda _: "x" * 5000, "(?i)name too long"),
    "nothing there": (lambda path: path, "No such file or directory"),
    "an empty name": (lambda _: "", "No such file or directory"),
    "/proc/self/mem": (lambda _: "/proc/self/mem", "Input/output error"),
}
if os.geteuid() != 0:
    ODD["no permission"] = (_forbidden, "Permission denied")
if os.access("/proc/kmsg", os.R_OK):
    ODD["/proc/kmsg"] = (lambda _: "/proc/kmsg", "it has no end|Operation not permitted")
READERS: dict[str, Callable[[str], object]] = {
    "whole": lambda path: reading.read_whole(path, 1000),
    "head": lambda path: reading.read_head(path, 1000),
    "chunks": lambda path: list(reading.chunks(path, 1000)),
    "open": lambda path: reading.open_regular(path).read(1),
}


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "WRITER", 0.1)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has none of these")
def test_what_is_no_file_is_refused(tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests) -> None:
    for reader in READERS:
        for odd in ODD:
            with subtests.test(reader=reader, odd=odd):
                tmp_path = tmp_path_factory.mktemp("row")
                if (odd, reader) == ("/proc/kmsg", "open"):
                    pytest.skip("opened without waiting; who reads it gets what is there")
                make, reason = ODD[odd]
                path = str(make(tmp_path / "odd"))
                with guarded(5, odd, waiting=True), pytest.raises(OSError) as refused:
                    READERS[reader](path)
                assert refused.match(reason)
                assert "\n" not in reading.why(refused.value)


def test_what_has_no_end_in_sight_is_bounded(
    tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests
) -> None:
    for path, most in [("sparse", 64 << 20), ("/proc/self/pagemap", 1 << 20), ("/proc/kcore", 1 << 20)]:
        with subtests.test(path=path):
            tmp_path = tmp_path_factory.mktemp("row")
            path = str(_sparse(tmp_path / "sparse")) if path == "sparse" else path
            if not os.access(path, os.R_OK):
                pytest.skip(f"no {path} here")
            with guarded(20, path):
                assert len(reading.read_head(path, most)) <= most
                with pytest.raises(OSError, match=r"it is larger than 1 MiB|not permitted"):
                    reading.read_whole(path, 1 << 20)


def test_a_file_that_grows_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * reading.CHUNK)
    parts = reading.chunks(str(path), 3 * reading.CHUNK)
    size = 0
    with guarded(20):
        for part in parts:
            size += len(part)
            with path.open("ab") as stream:
                stream.write(b"x" * 2 * reading.CHUNK)
    assert size == 3 * reading.CHUNK


def test_both_ends_of_a_large_file(tmp_path: Path) -> None:
    path, told = tmp_path / "log", list[str]()
    path.write_bytes(b"first\n" + b"-" * 5000 + b"\nlast")
    found = b"".join(reading.chunks(str(path), 100, told.append))
    assert found == b"first\n" + b"-" * 44 + b"\n" + b"-" * 46 + b"\nlast"
    assert told == ["the first and the last 5e-05 MB"]
    path.write_text("first" + "-" * 5000 + "last", encoding="utf-16")
    wide = b"".join(reading.chunks(str(path), 100)).decode("utf-16")
    assert wide.startswith("first") and wide.endswith("last")


def test_the_limit_is_met_exactly(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 1000)
    assert len(reading.read_whole(str(path), 1000)) == 1000
    with pytest.raises(OSError, match=r"larger than 0\.000999 MB") as error:
        reading.read_whole(str(path), 999)
    assert error.value.errno == errno.EFBIG


# ------------------------------------------------------------------------------------------------------------ pipes


def test_a_pipe_with_a_writer(tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests) -> None:
    for data in [TEXT, b"", TEXT * 100_000]:
        with subtests.test(data=data):
            tmp_path = tmp_path_factory.mktemp("row")
            path = _pipe(tmp_path / "pipe")
            writer = threading.Thread(target=path.write_bytes, args=(data,))
            writer.start()
            with guarded(20, waiting=True):
                assert reading.read_whole(str(path), 64 << 20) == data
                writer.join()


def test_a_writer_that_takes_its_time(tmp_path: Path) -> None:
    path = _pipe(tmp_path / "pipe")

    def write() -> None:
        with path.open("wb", buffering=0) as stream:
            time.sleep(0.3)  # longer than the wait for a writer
            stream.write(TEXT)
            time.sleep(0.3)
            stream.write(TEXT)

    writer = threading.Thread(target=write)
    writer.start()
    assert list(reading.chunks(str(path))) == [TEXT * 2], "the beginning tells what a text is"
    writer.join()


def test_a_writer_that_never_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "IDLE", 0.1)
    path = _pipe(tmp_path / "pipe")
    both = os.open(path, os.O_RDWR)
    try:
        with guarded(5, waiting=True), pytest.raises(OSError, match=r"no data on this pipe for 0\.1 seconds"):
            reading.read_whole(str(path), 1000)
    finally:
        os.close(both)


def test_a_writer_without_end(tmp_path: Path) -> None:
    path = _pipe(tmp_path / "pipe")

    def write() -> None:
        with pytest.raises(BrokenPipeError), path.open("wb", buffering=0) as stream:
            while True:
                stream.write(TEXT)

    writer = threading.Thread(target=write)
    writer.start()
    with guarded(20, waiting=True), pytest.raises(OSError, match="larger than 1 MiB"):
        reading.read_whole(str(path), 1 << 20)
    writer.join()


# --------------------------------------------------------------------------------------------------- standard input


def test_standard_input_that_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(OSError, match="it is closed"):
        reading.read_whole("-", 1000)
