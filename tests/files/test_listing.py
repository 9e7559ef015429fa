"""The files below a folder: what is of the project, and no more than can be looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfgpu_doctor.files import reading


def names(folder: Path) -> list[str]:
    return [Path(one).relative_to(folder).as_posix() for one in reading.files_below(str(folder)).files]


def test_environments_links_and_caches_are_left_out(tmp_path: Path) -> None:
    for name in (
        "a/Dockerfile",
        ".venv/x.txt",
        "mine/pyvenv.cfg",
        "mine/lib/y.txt",
        "node_modules/z",
        "1/2/3/4/5/6/7/u",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "up").symlink_to("..")
    (tmp_path / "round").symlink_to(".")
    assert names(tmp_path) == ["a/Dockerfile"]
    left_out = {Path(one).relative_to(tmp_path).as_posix() for one in reading.files_below(str(tmp_path)).left_out}
    assert left_out == {".venv", "mine", "node_modules", "1/2/3/4/5/6/7"}


def test_as_many_as_can_be_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_FOLDERS", 3)
    for number in range(5):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "f").write_text("")
    found = reading.files_below(str(tmp_path))
    assert len(found.files) == 2
    assert found.left_out[-1].endswith("more than 3 folders")


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        reading.files_below(str(tmp_path / "none"))
