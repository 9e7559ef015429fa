"""What is written over a file keeps what its owner decided, and nothing is lost on the way."""

from __future__ import annotations

import errno
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.guard import guarded
from tfgpu_doctor.facts import writing

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="modes, owners and pipes of POSIX")


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


def test_what_is_no_file(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / "socket"))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("no/where")
    for name, reason in (
        ("socket", "it is a socket, not a file"),
        ("pipe", "it is a named pipe, not a file"),
        ("loop", "Too many levels"),
        ("dangling", "No such file"),
        (".", "a directory"),
        ("no/where", "No such file"),
        ("no\0where", "not a file name"),
    ):
        with guarded(5, name, waiting=True), pytest.raises(OSError, match=reason):
            writing.replace(f"{tmp_path}/{name}", b"new")
        with pytest.raises(OSError, match=f"{reason}|does not exist"):
            writing.check(f"{tmp_path}/{name}")


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
