"""The folder that becomes an environment: what is refused, and that only what a run has made is removed again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.runner import tfgpu
from tests.install.fakes import left_in
from tests.tables import each
from tfgpu_doctor.install.folder import _CONTENT, MARKER, Folder, FolderError, log_paths, read_path


def fill(folder: Folder) -> None:
    (folder.path / "lib").mkdir()
    (folder.path / "lib" / "a.so").write_text("")
    (folder.path / "bin").symlink_to("lib")


def written(folder: Path) -> None:
    """Files of a user, at the top and below, with the marker as anybody can write it."""
    (folder / ".git").mkdir(parents=True)
    (folder / "lib").mkdir()
    for name in (".git/HEAD", "thesis.txt", "lib/mine.py", "pyvenv.cfg"):
        (folder / name).write_text("precious")
    (folder / MARKER).write_bytes(_CONTENT)


NAMES = ("env", "two words", "größe 测试", "-dash", "%s;$HOME'`x`\"")


@each("name", NAMES)
@each("exists", [False, True])
def test_a_failure_leaves_the_folder_as_it_was(tmp_path: Path, name: str, exists: bool) -> None:
    path = tmp_path / name
    if exists:
        path.mkdir()
    before = left_in(tmp_path)
    with pytest.raises(RuntimeError), Folder(path) as folder:
        fill(folder)
        raise RuntimeError
    assert left_in(tmp_path) == before


def test_folders_above_that_were_made_are_removed_too(tmp_path: Path) -> None:
    with Folder(tmp_path / "a" / "b" / "env") as folder:
        fill(folder)
    assert left_in(tmp_path) == []
    with Folder(tmp_path / "a" / "b" / "env"):
        (tmp_path / "a" / "mine").write_text("of somebody else")
    assert left_in(tmp_path) == ["a", "a/mine"]
    first, second, *_ = log_paths(tmp_path / "x" / "y" / "env")
    assert (first, second) == (tmp_path / "env.tfgpu-install.log", tmp_path / "env.tfgpu-install.2.log")


def test_what_is_finished_stays_without_marker(tmp_path: Path) -> None:
    with Folder(tmp_path / "env") as folder:
        fill(folder)
        folder.keep()
    assert left_in(tmp_path) == ["env", "env/bin", "env/lib", "env/lib/a.so"]


def test_folders_that_cannot_be_written_to_are_removed(tmp_path: Path) -> None:
    with Folder(tmp_path / "env") as folder:
        fill(folder)
        (folder.path / "lib").chmod(0o500)
    assert left_in(tmp_path) == []


REFUSED = {
    "nothing in this folder is yours, delete it and run": written,
    "or was killed while it did": lambda path: (path.mkdir(), (path / MARKER).touch()),
    "is not empty": lambda path: (path.mkdir(), (path / "mine").write_text("")),
    "is an environment already": lambda path: (path.mkdir(), (path / "pyvenv.cfg").write_text("")),
    "is a file": lambda path: path.write_text(""),
    "is a symbolic link to .*nowhere: name the folder itself": lambda path: path.symlink_to("/nowhere"),
    "is a symbolic link to .*: name": lambda path: path.symlink_to(path.parent),
    "not a folder": lambda path: (path.parent.rmdir(), path.parent.write_text("")),
}


@each("message", REFUSED)
def test_what_is_refused_is_not_touched(tmp_path: Path, message: str) -> None:
    path = tmp_path / "above" / "env"
    path.parent.mkdir()
    REFUSED[message](path)
    before = left_in(tmp_path)
    with pytest.raises(FolderError, match=message):
        Folder(path)
    assert left_in(tmp_path) == before


@each("name", ["x" * 300, "y/" * 2200 + "z"])
@each("option", ["--dry-run", "--yes"])
def test_a_name_that_is_too_long_is_wrong_usage(option: str, name: str, tmp_path: Path) -> None:
    done = tfgpu("install", name, option, "--yes", "--gpu", "A100", "--driver", "570", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "File name too long" in done.stderr and "internal error" not in done.stderr
    assert left_in(tmp_path) == []


def test_what_others_put_there_meanwhile_is_kept(tmp_path: Path) -> None:
    said: list[str] = []
    with Folder(tmp_path / "env", said.append) as folder:
        fill(folder)
        (folder.path / "thesis.txt").write_text("precious")
        (folder.path / ".git").mkdir()
    assert left_in(tmp_path) == ["env", "env/.git", "env/thesis.txt"]
    assert said[-1] == f"kept in {folder.path}, which is no part of an environment: .git, thesis.txt"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_above_that_cannot_be_written_to(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(FolderError, match="is not writable"):
        Folder(tmp_path / "env")


@each("text", ["", " ", "a:b", "a\nb", "a\0b"])
def test_names_that_no_environment_can_have(text: str) -> None:
    with pytest.raises(FolderError):
        read_path(text)


def test_what_a_name_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert read_path("x/../env") == tmp_path / "env"
    assert read_path("-env") == tmp_path / "-env"
    assert read_path("~/env") == Path("/home/somebody/env")


def test_one_that_another_run_makes_or_has_left_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "env"
    seen = Folder(path)  # before the other one begins
    folder = Folder(path).__enter__()  # it makes an environment, or was killed
    (folder.path / "half").mkdir()
    half = ["env", "env/.tfgpu-temporary", f"env/{MARKER}", "env/half"]
    for late, message in ((lambda: Folder(path), "was killed while it did"), (seen.__enter__, "just put something")):
        with pytest.raises(FolderError, match=message):
            late()
        assert left_in(tmp_path) == half


def test_of_two_that_begin_at_once_the_second_loses_nothing_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "env"
    path.mkdir()
    first, second, late = (Folder(path) for _ in range(3))  # all have seen that it is empty
    with first:
        fill(first)
        with pytest.raises(FolderError, match="just put something there"):
            second.__enter__()
        first.keep()
    before = left_in(path)
    with pytest.raises(FolderError, match="just put something there"):
        late.__enter__()
    assert left_in(path) == before == ["bin", "lib", "lib/a.so"]


def test_a_second_interrupt_leaves_the_marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "env"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt), Folder(path) as folder:
        fill(folder)
        patch.setattr("shutil.rmtree", _interrupted)
        raise RuntimeError
    before = left_in(path)
    assert MARKER in before
    with pytest.raises(FolderError, match="was killed"):
        Folder(path)
    assert left_in(path) == before


def _interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt
