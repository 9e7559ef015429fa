"""What the package depends on has a row and a reason; what runs in CI is named by its hash; SECURITY.md names tests."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.tables import each

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def project() -> dict[str, Any]:
    return tomllib.loads(text_of("pyproject.toml"))


def names(requirements: list[str]) -> list[str]:
    return [re.match(r"[\w.-]+", one)[0] for one in requirements]  # type: ignore[index]


def rows() -> list[list[str]]:
    table = text_of("CONTRIBUTING.md").partition("## Dependencies")[2].partition("\n## ")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"][2:]


def test_every_dependency_has_a_row_and_a_reason() -> None:
    assert [row[0] for row in rows()] == names(project()["project"]["dependencies"])
    for row in rows():
        assert len(row) == 6 and all(row), row
        assert row[3] in ("pure", "C"), row
        assert re.fullmatch(r"\d+(\.\d+)+, \d{4}-\d{2}", row[4]), row


def test_what_builds_the_package_is_known() -> None:
    assert names(project()["build-system"]["requires"]) == ["hatchling", "pyyaml"]


# what a dependency is imported as, where that is not its name
IMPORTED_AS = {"nvidia-ml-py": "pynvml", "pyelftools": "elftools", "pyyaml": "yaml"}
OF_THE_USER = {"tensorflow", "keras", "tf_keras", "numpy", "distutils", "pkg_resources", "importlib_metadata"}


@each("workflow", WORKFLOWS)
def test_workflows_run_what_a_hash_names_and_may_only_read(workflow: Path) -> None:
    content = yaml.safe_load(workflow.read_text(encoding="utf-8"))
    assert content["permissions"] == {"contents": "read"}
    steps = [step for job in content["jobs"].values() for step in job["steps"]]
    used = [step["uses"] for step in steps if "uses" in step]
    assert [one for one in used if not re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}", one)] == []
    assert all(step["with"]["persist-credentials"] is False for step in steps if "checkout" in step.get("uses", ""))


def test_advisories_are_looked_for_every_night_as_before_a_release() -> None:
    if not WORKFLOWS:
        pytest.skip("no .github in this copy of the sources")
    (command,) = re.findall(r"^ +(python3 -m venv audit .*)$", text_of("CONTRIBUTING.md"), re.MULTILINE)
    steps = yaml.safe_load(text_of(".github/workflows/nightly.yml"))["jobs"]["advisories"]["steps"]
    assert steps[-1]["run"] == command


@cache
def functions_of(file: str) -> set[str]:
    tree = ast.parse(text_of(file)) if (ROOT / file).is_file() else ast.Module([], [])
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def promises() -> list[str]:
    section = text_of("SECURITY.md").partition("## What is promised")[2].partition("\n## ")[0]
    return re.split(r"\n- ", section)[1:]


@each("promise", promises())
def test_every_promise_names_tests_that_exist(promise: str) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", promise)
    assert named, "no test holds it"
    assert [f"{file}::{test}" for file, test in named if test not in functions_of(file)] == []


def test_the_promises_are_found() -> None:
    assert len(promises()) > 6
    assert "(SECURITY.md)" in text_of("README.md")
