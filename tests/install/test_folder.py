"""The folder that becomes an environment: what is refused, and that only what a run has made is removed again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.runner import tfgpu
from tests.install.fakes import left_in
from tests.tables import each
from tfgpu_doctor.install.tools import UNFINISHED, InstallError, claimed, read_path


def fill(path: Path) -> None:
    (path / "lib").mkdir()
    (path / "lib" / "a.so").write_text("")
    (path / "bin").symlink_to("lib")
    (path / "lib").chmod(0o500)


@each("name", ("env", "two words", "größe 测试", "-dash", "%s;$HOME'`x`\"", "a/b/env"))
@each("exists", [False, True])
def test_a_failure_leaves_the_folder_as_it_was(tmp_path: Path, name: str, exists: bool) -> None:
    path = tmp_path / name
    if exists:
        path.mkdir(parents=True, exist_ok=True)
    before, told = left_in(tmp_path), list[str]()
    with pytest.raises(RuntimeError), claimed(path, told.append) as temporary:
        Path(temporary, "x").touch()
        fill(path)
        raise RuntimeError
    assert (left_in(tmp_path), told) == (before, [f"removing {path}"])


def test_what_others_put_there_meanwhile_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a" / "env"
    with pytest.raises(RuntimeError), claimed(path, print):
        fill(path)
        (path / "thesis.txt").write_text("precious")
        (path / ".git").mkdir()
        raise RuntimeError
    assert left_in(tmp_path) == ["a", "a/env", "a/env/.git", "a/env/thesis.txt"]
    with pytest.raises(InstallError, match="is not empty"), claimed(path, print):
        raise AssertionError("it is claimed")


REFUSED = {
    "is not empty": lambda path: (path.mkdir(), (path / "mine").write_text("")),
    "is not a folder": lambda path: path.write_text(""),
    "is a symbolic link to /nowhere: name the folder itself": lambda path: path.symlink_to("/nowhere"),
    "above is not a folder": lambda path: (path.parent.rmdir(), path.parent.write_text("")),
    "above is not writable": lambda path: path.parent.chmod(0o500),
}


@each("message", [one for one in REFUSED if os.geteuid() or "writable" not in one])
def test_what_is_refused_is_not_touched(tmp_path: Path, message: str) -> None:
    path = tmp_path / "above" / "env"
    path.parent.mkdir()
    REFUSED[message](path)
    before = left_in(tmp_path)
    with pytest.raises(InstallError, match=message) as caught:
        read_path(str(path))
    assert (caught.value.code, left_in(tmp_path)) == (2, before)


@each(
    ("name", "message"),
    [
        *((name, "File name too long") for name in ("x" * 300, "y/" * 2200 + "z")),
        *((name, "the folder has no name") for name in ("", " ")),
        *((name, "which PATH or scripts cannot have") for name in ("a:b", "a\nb", "a\0b")),
    ],
)
def test_a_name_that_cannot_be_is_wrong_usage(name: str, message: str, tmp_path: Path) -> None:
    done = tfgpu("install", name, "--yes", "--gpu", "A100", "--driver", "570", cwd=tmp_path)
    assert (done.returncode, done.stdout, left_in(tmp_path)) == (2, "", [])
    assert message in " ".join(done.stderr.split()) and "internal error" not in done.stderr


def test_what_a_name_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert (read_path("x/../env"), read_path("-env")) == (tmp_path / "env", tmp_path / "-env")
    assert read_path("~/env") == tmp_path / "home" / "env"


def test_one_that_another_run_makes_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "env" / UNFINISHED).mkdir(parents=True)
    with pytest.raises(InstallError, match="is not empty"), claimed(tmp_path / "env", print):
        raise AssertionError("it is claimed")
    assert left_in(tmp_path) == ["env", f"env/{UNFINISHED}"]
