"""Files: what a name can stand for, and what reading makes of it; what is written over one loses nothing on the way."""

from __future__ import annotations

import errno
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.guard import guarded
from tfgpu_doctor.facts import reading, writing

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="modes, owners and pipes of POSIX")
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
    with guarded(20), path.open("ab") as stream, pytest.raises(OSError, match="larger than 3 MiB"):
        for _ in reading.chunks(str(path), 3 * reading.CHUNK):
            stream.write(b"x" * 2 * reading.CHUNK)
            stream.flush()


def test_a_limit_is_met_exactly(tmp_path: Path) -> None:
    path = tmp_path / "log"
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


def _slowly(path: Path) -> None:
    with path.open("wb", buffering=0) as stream:
        for _ in range(2):
            time.sleep(0.15)  # longer than the wait for a writer
            stream.write(TEXT)


def _for_ever(path: Path) -> None:
    with pytest.raises(BrokenPipeError), path.open("wb", buffering=0) as stream:
        while True:
            stream.write(TEXT)


def test_a_pipe_with_a_writer_that_takes_its_time_or_never_ends(tmp_path: Path) -> None:
    for number, data in enumerate((b"", TEXT * 100_000)):
        with piped(tmp_path / str(number), lambda path, data=data: path.write_bytes(data)) as path:
            assert reading.read_whole(path, 64 << 20) == data
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


# ------------------------------------------------------------------------------------------------------------- writing

UNWRITABLE = ("a pipe without a writer", "a folder", "a socket", "a link to itself", "a null character")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "report.json"
    path.write_text("old")
    return path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_keeps_its_mode_and_a_new_one_gets_what_the_umask_leaves(tmp_path: Path, file: Path) -> None:
    before = os.umask(0o027)
    try:
        writing.replace(str(tmp_path / "new"), b"new")
    finally:
        os.umask(before)
    assert mode(tmp_path / "new") == 0o640
    for kept in (0o600, 0o644, 0o664, 0o400 if os.geteuid() == 0 else 0o640):
        file.chmod(kept)
        writing.replace(str(file), b"new")
        assert (mode(file), file.read_text()) == (kept, "new")


def test_a_symbolic_link_stays_and_other_hard_links_keep_the_old_content(tmp_path: Path, file: Path) -> None:
    link = tmp_path / "latest.json"
    link.symlink_to("report.json")
    os.link(file, tmp_path / "other")
    writing.replace(str(link), b"new")
    assert link.is_symlink() and (file.read_text(), (tmp_path / "other").read_text()) == ("new", "old")
    file.unlink()
    writing.replace(str(link), b"newer")
    assert link.is_symlink() and file.read_text() == "newer", "a dangling link is written, too"


def test_where_nothing_can_take_its_place_it_is_written_in_place(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for reason in (errno.EBUSY, errno.EACCES, errno.EROFS):

        def refuse(*_: object, reason: int = reason) -> None:
            raise OSError(reason, os.strerror(reason))

        monkeypatch.setattr(os, "replace", refuse)
        file.write_text("old and longer")
        number = file.stat().st_ino
        writing.replace(str(file), b"new")
        assert (file.read_text(), file.stat().st_ino) == ("new", number)
        assert os.listdir(file.parent) == [file.name]


def test_a_full_disk_leaves_the_old_content(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        writing.replace(str(file), b"new")
    assert (file.read_text(), os.listdir(file.parent)) == ("old", [file.name])


def test_what_cannot_be_written_over(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to("no/where")
    odd = {odd_path(name, tmp_path / name): ODD[name][1] for name in UNWRITABLE}
    for path, reason in {**odd, **{f"{tmp_path}/{name}": "No such file" for name in ("dangling", "no/where")}}.items():
        with guarded(5, path, waiting=True), pytest.raises(OSError, match=reason):
            writing.replace(path, b"new")
        with pytest.raises(OSError, match=f"{reason}|does not exist"):
            writing.check(path)


def test_a_redirected_standard_output_is_not_replaced(tmp_path: Path) -> None:
    names = ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
    code = "from tfgpu_doctor.facts import writing; print('before')\n"
    code += f"for name in {names}: writing.replace(name, b'new'); print('after')"
    with (tmp_path / "out").open("wb") as stream:
        subprocess.run([sys.executable, "-c", code], stdout=stream, check=True, timeout=60)
    assert (tmp_path / "out").read_text() == "before\n" + "newafter\n" * 3


def test_a_summary_is_appended_to_a_regular_file_only(tmp_path: Path) -> None:
    path = tmp_path / "summary"
    assert writing.append(str(path), b"one\n", 10) and writing.append(str(path), b"two\n", 10)
    assert not writing.append(str(path), b"three\n", 10)
    assert path.read_text() == "one\ntwo\n"
    os.mkfifo(tmp_path / "pipe")
    for odd in (tmp_path / "pipe", Path("/dev/full")):
        with guarded(5, waiting=True), pytest.raises(OSError, match="not a file"):
            writing.append(str(odd), b"one", 10)
