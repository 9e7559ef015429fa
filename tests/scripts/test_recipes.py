"""What documents give to paste: commands that tfgpu has, inputs of the action, files; and the pages of findings."""

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

from scripts import finding_pages
from tests.cli.runner import tfgpu
from tests.manifests.shapes import SHAPES
from tests.tables import each
from tfgpu_doctor.cli import cli
from tfgpu_doctor.findings.pages import all_ids
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


# ------------------------------------------------------- pages about findings, whose links tests/test_site.py follows

DOCUMENTS = finding_pages.documents()


def outside_of_code(text: str) -> str:
    """The document without its fenced blocks."""
    return re.sub(r"^(`{3,})[^\n]*\n.*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)


def test_each_finding_has_a_page_and_a_place_in_the_list_which_git_has_as_it_is_today() -> None:
    assert set(DOCUMENTS) == {"index.md", *(f"{finding_id}.md" for finding_id in all_ids())}
    assert re.findall(r"^- \[([^]]+)\]", DOCUMENTS["index.md"], re.MULTILINE) == list(all_ids())
    written = finding_pages.LIST.read_text(encoding="utf-8")
    assert written == finding_pages.contents(linked=False), "python scripts/finding_pages.py"


def test_blocks_of_code_are_closed_and_apart() -> None:
    for text in DOCUMENTS.values():
        fences = [line for line in text.splitlines() if line.startswith("```")]
        assert len(fences) % 2 == 0
        assert all(fence == "```" for fence in fences[1::2])
        assert all(re.fullmatch(r"```(?:text|sh|bat)", fence) for fence in fences[::2])
        assert "```" not in outside_of_code(text)


def test_no_markup_stands_in_the_prose_by_accident() -> None:
    for text in map(outside_of_code, DOCUMENTS.values()):
        assert not re.search(r"(?<!\\)<(?!!-- -->)", text)
        headings = [line for line in text.splitlines() if line.startswith("#")]
        assert all(re.match(r"#{1,3} \S", line) for line in headings)
