"""`tfgpu check` on projects as public repositories have them: what an expert would say is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.manifests.real_shapes import SHAPES, Shape

from tests.cli.runner import tfgpu


def answer(shape: Shape, folder: Path) -> str:
    """All that the command says, without the breaks of lines."""
    for name, text in shape.files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    done = tfgpu("check", *shape.named, cwd=folder, environ={"COLUMNS": "250"})
    return " ".join((done.stdout + done.stderr).split())


def test_what_an_expert_would_say(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name in SHAPES:
        with subtests.test(name=name):
            shape = SHAPES[name]
            said = answer(shape, tmp_path / name.replace("/", " "))
            assert [one for one in shape.says if one not in said] == [], said
            assert [one for one in shape.never if one in said] == [], said


def test_the_stage_that_is_asked_for(tmp_path: Path) -> None:
    text = "FROM python:3.12 AS cpu\nRUN pip install tensorflow-cpu\nFROM cpu AS gpu\nRUN pip install keras==2.3\n"
    (tmp_path / "Dockerfile").write_text(text, encoding="utf-8")
    cpu = tfgpu("check", "Dockerfile", "--target", "cpu", cwd=tmp_path)
    assert ("Dockerfile, stage cpu" in cpu.stdout, "keras" in cpu.stdout) == (True, False)
    none = tfgpu("check", "Dockerfile", "--target", "docs", cwd=tmp_path)
    assert (none.returncode, "there is no stage docs (cpu, gpu)" in none.stderr) == (2, True)
