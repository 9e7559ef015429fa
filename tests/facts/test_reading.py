"""What a name can stand for, and what the readers make of it: data, or one reason within a second; files of folders."""

from __future__ import annotations

import errno
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.guard import guarded
from tfgpu_doctor.facts import reading

TEXT = b"Could not load dynamic library 'libcudart.so.11.0'\n"


def _forbidden(path: Path) -> None:
    path.write_bytes(TEXT)
    path.chmod(0)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


# what cannot be read at all: how it is made, or its name, and a part of the reason
ODD: dict[str, tuple[Callable[[Path], object] | str, str]] = {
    "a pipe without a writer": (os.mkfifo, "it is a (named )?pipe"),
    "a folder": (Path.mkdir, "it is a directory, not a file"),
    "a socket": (_socket, "it is a socket, not a file"),
    "/dev/zero": ("/dev/zero", "it is a device, not a file"),
    "a link to a device": (lambda path: path.symlink_to("/dev/zero"), "it is a device, not a file"),
    "a dangling link": (lambda path: path.symlink_to("nowhere"), "No such file or directory"),
    "a link to itself": (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
    "nothing there": (lambda path: None, "No such file or directory"),
    "a null character": ("no\0where", "not a file name"),
    "half a surrogate pair": ("no\ud800where", "not a file name"),
    "a long name": ("x" * 5000, "(?i)name too long"),
    "an empty name": ("", "No such file or directory"),
    "/proc/self/mem": ("/proc/self/mem", "Input/output error"),
    **({"no permission": (_forbidden, "Permission denied")} if os.geteuid() != 0 else {}),
    **({"/proc/kmsg": ("/proc/kmsg", "it has no end|not permitted")} if os.access("/proc/kmsg", os.R_OK) else {}),
}


def odd_path(odd: str, path: Path) -> str:
    """Make it at this path; return the name that stands for it."""
    made, _ = ODD[odd]
    if isinstance(made, str):
        return made
    made(path)
    return str(path)


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
def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for odd, (_, reason) in ODD.items():
        path = odd_path(odd, tmp_path / odd.replace("/", " "))
        for reader, read in READERS.items():
            if (path, reader) == ("/proc/kmsg", "open"):
                continue  # opened without waiting; who reads it gets what is there
            with guarded(5, path, waiting=True), pytest.raises(OSError) as refused:
                read(path)
            assert refused.match(reason), (path, reader)
            assert "\n" not in reading.why(refused.value)


def test_what_has_no_end_in_sight_is_bounded(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as stream:
        stream.truncate(1 << 40)
    for path, most in ((str(tmp_path / "sparse"), 64 << 20), ("/proc/self/pagemap", 1 << 20), ("/proc/kcore", 1 << 20)):
        if os.access(path, os.R_OK):
            with guarded(20, path):
                assert len(reading.read_head(path, most)) <= most
                with pytest.raises(OSError, match=r"it is larger than 1 MiB|not permitted"):
                    reading.read_whole(path, 1 << 20)


def test_a_file_that_grows_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * reading.CHUNK)
    size = 0
    with guarded(20), path.open("ab") as stream:
        for part in reading.chunks(str(path), 3 * reading.CHUNK):
            size += len(part)
            stream.write(b"x" * 2 * reading.CHUNK)
            stream.flush()
    assert size == 3 * reading.CHUNK


def test_a_limit_is_met_exactly(tmp_path: Path) -> None:
    path, told = tmp_path / "log", list[str]()
    path.write_bytes(b"first\n" + b"-" * 5000 + b"\nlast")
    found = b"".join(reading.chunks(str(path), 100, told.append))
    assert found == b"first\n" + b"-" * 44 + b"\n" + b"-" * 45 + b"\nlast"
    assert told == ["the first and the last 5e-05 MB"]
    path.write_bytes(b"x" * 1000)
    assert len(reading.read_whole(str(path), 1000)) == 1000
    with pytest.raises(OSError, match=r"larger than 0\.000999 MB") as error:
        reading.read_whole(str(path), 999)
    assert error.value.errno == errno.EFBIG


@contextmanager
def piped(path: Path, write: Callable[[Path], object]) -> Iterator[str]:
    """A pipe, into which something is written meanwhile."""
    os.mkfifo(path)
    writer = threading.Thread(target=write, args=(path,))
    writer.start()
    with guarded(20, waiting=True):
        yield str(path)
        writer.join()


def test_a_pipe_with_a_writer(tmp_path: Path) -> None:
    for number, data in enumerate((TEXT, b"", TEXT * 100_000)):
        with piped(tmp_path / str(number), lambda path, data=data: path.write_bytes(data)) as path:
            assert reading.read_whole(path, 64 << 20) == data


def _slowly(path: Path) -> None:
    with path.open("wb", buffering=0) as stream:
        for _ in range(2):
            time.sleep(0.15)  # longer than the wait for a writer
            stream.write(TEXT)


def _for_ever(path: Path) -> None:
    with pytest.raises(BrokenPipeError), path.open("wb", buffering=0) as stream:
        while True:
            stream.write(TEXT)


def test_a_writer_that_takes_its_time_or_never_ends(tmp_path: Path) -> None:
    with piped(tmp_path / "slow", _slowly) as path:
        assert list(reading.chunks(path)) == [TEXT * 2], "the beginning tells what a text is"
    with piped(tmp_path / "endless", _for_ever) as path, pytest.raises(OSError, match="larger than 1 MiB"):
        reading.read_whole(path, 1 << 20)


def test_a_writer_that_never_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "IDLE", 0.1)
    os.mkfifo(tmp_path / "pipe")
    both = os.open(tmp_path / "pipe", os.O_RDWR)
    try:
        with guarded(5, waiting=True), pytest.raises(OSError, match=r"no data on this pipe for 0\.1 seconds"):
            reading.read_whole(str(tmp_path / "pipe"), 1000)
    finally:
        os.close(both)


def test_standard_input_that_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(OSError, match="it is closed"):
        reading.read_whole("-", 1000)


def test_environments_links_and_caches_are_left_out(tmp_path: Path) -> None:
    foreign = (".venv/x.txt", "mine/pyvenv.cfg", "mine/lib/y.txt", "node_modules/z", "1/2/3/4/5/6/7/u")
    for name in ("a/Dockerfile", *foreign):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "up").symlink_to("..")
    (tmp_path / "round").symlink_to(".")
    found = reading.files_below(str(tmp_path))
    assert [Path(one).relative_to(tmp_path).as_posix() for one in found.files] == ["a/Dockerfile"]
    left_out = {Path(one).relative_to(tmp_path).as_posix() for one in found.left_out}
    assert left_out == {".venv", "mine", "node_modules", "1/2/3/4/5/6/7"}
    with pytest.raises(OSError):
        reading.files_below(str(tmp_path / "none"))


def test_as_many_folders_as_can_be_looked_at(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "f").write_text("")
    found = reading.files_below(str(tmp_path), 3)
    assert len(found.files) == 2 and found.left_out[-1].endswith("more than 3 folders")
