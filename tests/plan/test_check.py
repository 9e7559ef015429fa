"""Signs over manifests: files on which each fires, passes, and cannot know."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.healthy import MATRIX
from tests.tables import each, read_rows
from tfgpu_doctor.facts.facts import Facts
from tfgpu_doctor.facts.report import Fix, Report, Severity
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.manifests.reading import joined, read
from tfgpu_doctor.plan.check import judge
from tfgpu_doctor.plan.file_edits import FileEdits
from tfgpu_doctor.plan.planned import PlannedEnvironment
from tfgpu_doctor.plan.target import describe

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))
NAMES = {  # how a file begins, and what it is called
    "FROM ": "Dockerfile",
    "[project]": "pyproject.toml",
    "dependencies:": "environment.yml",
    "services:": "compose.yaml",
    "{apiVersion": "pod.yaml",
}


def written(*lines: str, base: str | None = None, python: str | None = None) -> str:
    """A Dockerfile on an image, a project for some Pythons, or a requirements file."""
    if base:
        return f"FROM {base}\nRUN pip install " + " ".join(f"'{line}'" for line in lines)
    if python:
        return f"[project]\nname = 'a'\nrequires-python = '{python}'\ndependencies = {list(lines)}"
    return "\n".join(lines)


def name_of(file: str) -> str:
    return next((name for start, name in NAMES.items() if file.startswith(start)), "requirements.txt")


def judged(*files: str, **target: Any) -> Report:
    environments = [environment for one in files for environment in read(name_of(one), one)]
    if isinstance(target.get("gpu"), str):
        target["gpu"] = (target["gpu"],)
    return judge(joined(environments), describe(MATRIX, **target), MATRIX, "2026-11-21T00:00:00Z")


def ids(report: Report, severity: str | None = None) -> list[str]:
    return [one.id for one in report.findings if severity in (None, one.severity.value)]


GOOD = "tensorflow[and-cuda]==2.20.0"
CUDA_11 = "nvidia/cuda:11.8.0-cudnn8-runtime-ubuntu22.04"


@each(("identity", "severity", "file", "target"), ROWS["FIRES"])
def test_fires(identity: str, severity: str, file: str, target: dict[str, Any]) -> None:
    report = judged(file, **target)
    assert identity in ids(report, severity), [(one.id, one.severity.value, one.title) for one in report.findings]
    finding = next(one for one in report.findings if one.id == identity)
    assert finding.evidence and finding.cause
    verdicts = [(ids(report, "error"), "broken"), (ids(report, "warning"), "degraded"), (True, "ok")]
    assert report.verdict == next(verdict for found, verdict in verdicts if found)
    for one in report.findings:  # what an edit brings is not installed by hand
        if any(fix.edits for fix in one.fixes):
            assert not [command for fix in one.fixes for command in fix.commands if " install " in command]


@each(("name", "file", "target"), ROWS["PASSES"])
def test_passes(name: str, file: str, target: dict[str, Any]) -> None:
    report = judged(file, **target)
    assert [(one.id, one.title) for one in report.findings if one.severity is not Severity.NOTE] == []
    assert report.verdict == "ok"


def test_every_rule_has_a_row() -> None:
    over_manifests = {i for i, one in DECLARATIONS.items() if any("planned" in sign.inputs for sign in one.signs)}
    assert over_manifests <= {identity for identity, *_ in ROWS["FIRES"]}


@each(("found", "files", "target"), ROWS["ALL"])
def test_all_that_is_found(found: list[str], files: list[str], target: dict[str, Any]) -> None:
    """One problem without its echoes, and no problem hidden by another one."""
    assert ids(judged(*files, **target)) == found


def test_a_second_tensorflow_is_only_removed() -> None:
    """The file gets no second release, and what is wrong with the first is named, too."""
    for second in ("tensorflow-gpu", "tensorflow-cpu==2.15.1"):
        for lines in ((GOOD, second), (second, GOOD)):
            report = judged(written(*lines, python=">=3.14"))
            assert ids(report, "error") == ["tf.python-unsupported", "tf.package-conflict"]
            edits = [edit for one in report.findings for fix in one.fixes[:1] for edit in fix.edits]
            assert [(edit.old, edit.new) for edit in edits if edit.line == 4] == [(second, "")]


@each(("line", "better"), ROWS["SAME"].items())
def test_the_same_release_is_advised_where_it_can_be(line: str, better: list[str]) -> None:
    """A line is changed to its release, then to its minor version; to the best where its extra is broken."""
    report = judged(line, gpu="A100", driver="535.104.05")
    edits = [edit for one in report.findings for fix in one.fixes for edit in fix.edits]
    assert {edit.new for edit in edits if edit.old == line and not edit.beside} == {*better}


@each(("file", "machine", "says", "never"), ROWS["NO_EDIT"])
def test_every_problem_of_a_file_has_a_fix(file: str, machine: dict[str, Any], says: str, never: str) -> None:
    """Also where no line of the file can bring what is needed."""
    report = judged(file, **machine)
    assert report.findings and all(one.fixes for one in report.findings)
    texts = " ".join(fix.text for one in report.findings for fix in one.fixes)
    assert says in texts and never not in texts


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.full)])
def test_fixes_differ(step: int) -> None:
    """No two fixes write one release on one line."""
    for machine, base, release in [*product(ROWS["MACHINES"], ROWS["IMAGES"], ROWS["RELEASES"])][::step]:
        for one in judged(written(f"tensorflow=={release}", base=base), **machine).findings:
            texts = [
                [(edit.path, edit.line, edit.beside, re.findall(r"^[\w-]+|[\d.]+", edit.new)) for edit in fix.edits]
                for fix in one.fixes
                if fix.edits
            ]
            assert all(edits not in texts[:n] for n, edits in enumerate(texts)), (machine, base, release, one.id)


def test_a_variable_is_unset_on_the_line_that_sets_it() -> None:
    (environment,) = read("Dockerfile", f"FROM python:3.12\nENV A=1\nENV B=1\nRUN pip install '{GOOD}'")
    edits = FileEdits(Facts(), MATRIX, PlannedEnvironment(environment, describe(MATRIX), MATRIX))
    assert edits.where_it_belongs(Fix("Unset it", ("unset B",))).text == "Remove B from Dockerfile:3"


@each(("base", "release", "edit"), ROWS["CUDA"])
def test_cuda_and_cudnn_come_by_the_image_or_by_the_line_of_tensorflow(base: str, release: str, edit: str) -> None:
    """Or not at all: no other line is changed for them."""
    text = written(f"tensorflow=={release}", base=f"nvidia/cuda:{base}")
    first = next(one for one in judged(text).findings if one.id.startswith(("cuda.", "cudnn.")))
    assert [one.new for fix in first.fixes for one in fix.edits] == [edit]
    old = f"nvidia/cuda:{base}" if edit.startswith("nvidia") else f"tensorflow=={release}"
    assert not {*ids(judged(text.replace(old, edit)))} & {"cudnn.missing", first.id}


def test_a_release_before_the_extra_gets_a_plan() -> None:
    old = judged("dependencies: [python=3.8, cudatoolkit=10.1, {pip: [tensorflow==2.10.1]}]")
    (found,) = (one for one in old.findings if one.id == "cuda.version-mismatch")
    assert [fix.commands for fix in found.fixes] == [("tfgpu plan --tensorflow 2.10",)]


def test_tensorflow_gpu_keeps_its_release() -> None:
    report = judged(written("tensorflow-gpu==2.9.3", "scipy==1.9.0", "pandas==1.1.5", "protobuf==3.19.5"))
    (edit,) = (edit for one in report.findings for fix in one.fixes for edit in fix.edits)
    assert (edit.old, edit.new) == ("tensorflow-gpu==2.9.3", "tensorflow==2.9.3")
