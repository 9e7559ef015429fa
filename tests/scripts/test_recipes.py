"""What README.md and docs/ci.md give to paste: commands that tfgpu has, inputs of the action, files that are made."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import pytest
import yaml

from tests.cli.runner import tfgpu
from tests.manifests.shapes import SHAPES
from tests.tables import each
from tfgpu_doctor.cli import cli
from tfgpu_doctor.manifests import KINDS
from tfgpu_doctor.manifests.reading import is_yaml, kind_of

ROOT = Path(__file__).parents[2]
PROBLEM = "TensorFlow 2.16.1 loads CUDA 12.3"
DOCKERFILE = "FROM nvidia/cuda:11.8.0-cudnn8-runtime-ubuntu22.04\nRUN pip install tensorflow==2.16.1\n"
HOOK = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))[0]


def blocks(document: str) -> list[str]:
    """The code blocks of a page that are there to be pasted."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return re.findall(r"^```(?:sh|yaml|groovy)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


BLOCKS = blocks("docs/ci.md")
FILES = {found[1]: block for block in BLOCKS if (found := re.match(r"(?:#!.*\n)?(?:#|//) ([\w./-]+)\n", block))}
CALLS = [
    shlex.split(call)
    for block in BLOCKS
    for call in re.findall(r"bin/tfgpu (.+?)(?= (?:&&|\|\|) |$)", block, re.MULTILINE)
]
CHECKS = [words for words in CALLS if words[0] == "check"]


def test_the_blocks_are_well_formed() -> None:
    """README has blocks of docs/ci.md only, word for word."""
    workflows = (".github/workflows/check.yml", ".github/workflows/gpu.yml")
    assert {*FILES} == {*workflows, ".gitlab-ci.yml", ".pre-commit-config.yaml", "/etc/slurm/prolog.sh", "Jenkinsfile"}
    assert set(blocks("README.md")) <= set(BLOCKS)
    read = {name: yaml.safe_load(text) for name, text in FILES.items() if is_yaml(name)}
    steps: list[dict[str, Any]] = read[workflows[1]]["jobs"]["gpu"]["steps"]
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    assert all(read.values()) and set(steps[-1]["with"]) <= set(action["inputs"])
    assert read[workflows[0]]["permissions"]["security-events"] == "write"
    scripts = [block for block in BLOCKS if block not in FILES.values()] + [FILES["/etc/slurm/prolog.sh"]]
    for script in scripts if shutil.which("sh") else ():
        assert subprocess.run(["sh", "-n", "-c", script], timeout=30, check=False).returncode == 0, script


def test_nothing_is_asked_for_where_it_is_not() -> None:
    """No package index has tfgpu, and who takes the name decides what is installed; no address is made up."""
    files = [*ROOT.glob("*.md"), ROOT / "action.yml", *ROOT.glob("docs/**/*.md"), *ROOT.glob("tfgpu_doctor/**/*.py")]
    elsewhere = r"pip install [^\n]*(?<![/\w])tfgpu-doctor|\buses: (?!\./|actions/|github/)|/OWNER/"
    assert [path for path in files if re.search(elsewhere, path.read_text(encoding="utf-8"))] == []


@each("words", CALLS)
def test_tfgpu_has_these_options(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("baseline.json", "now.json"):
        (tmp_path / name).touch()
    command = cli.get_command(click.Context(cli), words[0])
    assert command is not None
    command.make_context(words[0], words[1:])


@each("words", CHECKS)
def test_check_finds_the_problem_and_writes_its_file(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(DOCKERFILE, encoding="utf-8")
    done = tfgpu(*words, cwd=tmp_path)
    assert done.returncode == 1 and PROBLEM in done.stdout
    made = tmp_path / words[-1]
    if made.suffix == ".xml":
        assert len(list(ElementTree.parse(made).getroot().iter("failure"))) > 0
    else:
        assert "Dockerfile" in made.read_text(encoding="utf-8")


def test_the_hook_runs_for_every_kind_of_file_that_is_read() -> None:
    names = {name for shape in SHAPES.values() for name in shape.files}
    read = {name for name in names if kind_of(name) or is_yaml(name)}
    by_keys = {"kubernetes", "compose", "conda", "workflow"}
    assert {kind_of(name) for name in read} - {None} | by_keys == set(KINDS), "no example of a kind"
    more = ("a/Dockerfile.gpu", "Containerfile", "conda-lock.yml", "pylock.gpu.toml", "x/requirements", "a.yaml.j2")
    assert [name for name in (*sorted(read), *more) if not re.search(HOOK["files"], name)] == []
    others = ("train.py", "README.md", "Makefile", "setup.sh", "a.toml.bak")
    assert [name for name in others if re.search(HOOK["files"], name)] == []


def test_the_hook_is_a_command_that_passes_with_the_arguments_of_the_recipe(tmp_path: Path) -> None:
    (repo,) = yaml.safe_load(FILES[".pre-commit-config.yaml"])["repos"]
    (hook,) = repo["hooks"]
    program, *words = HOOK["entry"].split()
    assert (program, HOOK["language"], HOOK["pass_filenames"], hook["id"]) == ("tfgpu", "python", False, HOOK["id"])
    (tmp_path / "Dockerfile").write_text(DOCKERFILE, encoding="utf-8")
    done = tfgpu(*words, *hook["args"], cwd=tmp_path)
    assert done.returncode == 1 and PROBLEM in done.stdout
