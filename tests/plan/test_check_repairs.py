"""The advice of `tfgpu check`, made in the files, passes the check that gave it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest
from packaging.requirements import Requirement

from tests.healthy import MATRIX
from tests.tables import each
from tfgpu_doctor.manifests.editing import apply
from tfgpu_doctor.manifests.pyproject import loads
from tfgpu_doctor.manifests.reading import read
from tfgpu_doctor.plan.check import judge, repair
from tfgpu_doctor.plan.target import Target, describe
from tfgpu_doctor.records.report import Finding, Report, Severity
from tfgpu_doctor.render.outlines.check import not_changed

PYTHONS = ("3.9", "3.11", "3.13")
TENSORFLOWS = (
    *("tensorflow", "tensorflow==2.20.0", "tensorflow[and-cuda]==2.20.0", "tensorflow[and-cuda]==2.21.0"),
    *("tensorflow==2.15.1", "tensorflow[and-cuda]==2.16.1", "tensorflow==2.12.1", "tensorflow-gpu==2.10.1"),
    *("tensorflow-gpu", "tensorflow-cpu==2.17.1", "tensorflow>=2.10,<2.14", "tensorflow==2.15.7", "tensorflow<2.12"),
)
OTHERS = (
    *("", "numpy>=2", "numpy==1.21.0", "numpy<2", "keras==3.1.0", "keras<3", "protobuf==3.20.3", "protobuf>=6"),
    *("tensorflow-cpu==2.15.1", "tf-keras==2.15.0", "nvidia-cudnn-cu12==9.1.0.70", "nvidia-cudnn-cu12==8.9.7.29"),
    *("tensorflow-text==2.10.0", "ml-dtypes==0.2.0", "tensorflow-probability==0.20.0"),
)


def poetry(python: str, lines: list[str]) -> str:
    """[tool.poetry.dependencies] of the same requirements."""
    page = ["[tool.poetry]", 'name = "a"', "[tool.poetry.dependencies]", f'python = "~{python}"']
    for line in lines:
        one = Requirement(line)
        version = f'"{one.specifier or "*"}"'
        page.append(f"{one.name} = " + (f'{{ version = {version}, extras = ["and-cuda"] }}' if one.extras else version))
    return "\n".join(page) + "\n"


def files(form: str, python: str, lines: list[str]) -> tuple[str, str]:
    """A file of a form, with a Python and requirements."""
    if form == "Dockerfile":
        quoted = " ".join(f"'{line}'" for line in lines)
        return form, f"FROM python:{python}-slim\nRUN pip install --no-cache-dir {quoted} && rm -rf /tmp/x\n"
    if form == "environment.yml":
        items = "".join(f"    - {line}\n" for line in lines)
        return form, f"name: a\ndependencies:\n  - python={python}\n  - pip\n  - pip:\n{items}"
    if form == "pyproject.toml":
        listed = "".join(f'  "{line}",\n' for line in lines)
        return form, f'[project]\nname = "a"\nrequires-python = "=={python}.*"\ndependencies = [\n{listed}]\n'
    return "pyproject.toml", poetry(python, lines)


T4_470 = {"gpu": ("T4",), "driver": "470"}
CASES = [
    (form, python, tensorflow, other)
    for form, python, tensorflow, other in itertools.product(
        ("Dockerfile", "environment.yml", "pyproject.toml", "poetry"), PYTHONS, TENSORFLOWS, OTHERS
    )
    if tensorflow.split("==")[0] != other.split("==")[0]  # a key of TOML stands once
]


def is_left(one: Finding) -> bool:
    """True for what an edit should have repaired; CUDA for a release without an extra is installed by hand."""
    if not one.fixes or one.severity is Severity.NOTE:
        return False
    return bool(one.fixes[0].edits) or (one.severity is Severity.ERROR and one.id != "cuda.missing")


def remaining(form: str, python: str, tensorflow: str, other: str, **machine: object) -> list[str]:
    """What is still found after the repair, and the file then; nothing where all is well."""
    name, text = files(form, python, [line for line in (tensorflow, other) if line])
    target = describe(MATRIX, **machine)  # type: ignore[arg-type]

    def judged(texts: Mapping[str, str]) -> Report:
        environments = read(name, texts.get(name, text), None, lambda _: "", quote=True)
        return judge(environments, target, MATRIX, "2026-11-22T00:00:00Z")

    done = repair(judged({}), lambda _: text, judged, {"Dockerfile"})
    # what has no wheel for any Python that TensorFlow has is left without advice
    found = [f"{one.severity.value}: {one.title}" for one in done.report.findings if is_left(one)]
    found += [f"{one.edit.old} -> {one.edit.new}: {one.reason}" for one in done.refused]
    return [f"{form} {python} {tensorflow} {other}", *found, done.texts.get(name, text)] if found else []


def all_at_once(form: str, python: str, tensorflow: str, other: str, **machine: object) -> list[str]:
    """What is still found after the first edits of all findings, made together, and the file then."""
    name, text = files(form, python, [line for line in (tensorflow, other) if line])
    target = describe(MATRIX, **machine)  # type: ignore[arg-type]

    def judged(now: str) -> Report:
        environments = read(name, now, None, lambda _: "", quote=True)
        return judge(environments, target, MATRIX, "2026-11-22T00:00:00Z")

    problems = [one for one in judged(text).findings if one.severity is not Severity.NOTE and one.fixes]
    edits = {edit for one in problems for edit in one.fixes[0].edits}
    lines = [(edit.line, edit.old, edit.beside and edit.new) for edit in edits]
    twice = [one for one in lines if lines.count(one) > 1]
    after, refused = apply(name, text, edits, in_shell=form == "Dockerfile")
    found = [one.title for one in judged(after).findings if one.severity is Severity.ERROR and is_left(one)]
    found += [f"two edits of {one}" for one in twice] + [one.reason for one in refused]
    return [f"{form} {python} {tensorflow} {other}", *found, after] if found else []


def test_the_first_edits_of_all_findings_go_together() -> None:
    """One round is enough, and no line has two edits; `-m full` goes through more of them."""
    assert [one for case in CASES[5::151] if (one := all_at_once(*case, gpu=("A100",)))] == []


@pytest.mark.full
@each("target", [{"gpu": ("A100",), "driver": "535.104.05"}, {"gpu": ("GTX 1080",)}, {}])
def test_more_first_edits_go_together(target: dict[str, object]) -> None:
    assert [one for case in CASES[:: 7 + len(target)] if (one := all_at_once(*case, **target))] == []


def test_edits_go_together_where_lines_contradict_each_other() -> None:
    """Files of which the edits once excluded each other, or named two releases."""
    files_ = {
        "requirements.txt": "tensorflow==2.12.1\nnumpy>=2\nprotobuf==5.29\n",
        "compose.yaml": "services:\n  a:\n    image: tensorflow/tensorflow:2.17.0-gpu\n",
        "pyproject.toml": '[project]\nname = "a"\nrequires-python = ">=3.13"\n'
        'dependencies = ["tensorflow[and-cuda]==2.17.1", "tensorflow-gpu"]\n',
        "b/pyproject.toml": '[tool.poetry]\nname = "a"\n[tool.poetry.dependencies]\n'
        'python = "^3.12"\ntensorflow = "2.15.1"\n',
    }
    for path, text in files_.items():
        for gpus in ((), ("A100",)):
            target = describe(MATRIX, gpu=gpus)

            def judged(now: str, path: str = path, target: Target = target) -> Report:
                environments = read(path, now, None, lambda _: "", quote=True)
                return judge(environments, target, MATRIX, "2026-11-22T00:00:00Z")

            found = judged(text).findings
            edits = [edit for one in found for fix in one.fixes[:1] for edit in fix.edits]
            after, refused = apply(path, text, edits, in_shell=False)
            advised = [one for one in found if one.severity is not Severity.NOTE and one.fixes[0].edits]
            kept = {one.id for one in judged(after).findings if one.severity is not Severity.NOTE}
            assert advised and not refused and not kept & {one.id for one in advised}, after
            for fix in next(one.fixes for one in found if one.severity is Severity.ERROR):
                after, refused = apply(path, text, fix.edits, in_shell=False)
                assert not refused
                if path.endswith(".toml"):
                    loads(after)


def test_the_advice_applied_passes_the_check() -> None:
    """A spread of the combinations; `-m full` goes through all of them."""
    assert [one for case in CASES[::97] if (one := remaining(*case, gpu=("A100",)))] == []


@pytest.mark.full
@each("target", [{"gpu": ("A100",), "driver": "535.104.05"}, {"gpu": ("GTX 1080",)}, {}])
def test_more_advice_applied_passes_the_check(target: dict[str, object]) -> None:
    assert [one for case in CASES[:: 5 + len(target)] if (one := remaining(*case, **target))] == []


def test_a_card_that_no_wheel_serves_is_one_problem() -> None:
    """Whatever the file says, no edit helps: what else would be missing is no question."""
    for case in CASES[::211]:
        assert len(remaining(*case, gpu=("RTX 5090",))[1:-1]) <= 1, case


LEFT = (
    ("requirements.txt", "tensorflow[and-cuda]==2.20.0\n", {"gpu": ("RTX 5090",)}),
    ("requirements.txt", "tensorflow[and-cuda]==2.20.0\n", {"gpu": ("RTX 3090",), "driver": "470.82.01"}),
    ("requirements.txt", "tensorflow[and-cuda]==2.20.0\n", {"gpu": ("Tesla C2050",)}),
    ("requirements.txt", "tensorflow==2.16.1\n", {"os": "windows", "gpu": ("RTX 3060",)}),
    ("requirements.txt", "tensorflow[and-cuda]==2.20.0\n", {"os": "macos"}),
    ("Dockerfile", "FROM nvidia/cuda:11.8.0-cudnn8-runtime-ubuntu22.04\nRUN pip install tensorflow==2.16.1\n", T4_470),
    ("compose.yaml", "services:\n  a:\n    image: tensorflow/tensorflow:2.20.0-gpu\n", {}),
)


@each(("name", "text", "machine"), LEFT)
def test_whatever_is_left_is_named_with_the_reason(name: str, text: str, machine: dict[str, object]) -> None:
    """A problem that --fix does not repair is never passed over in silence."""
    target = describe(MATRIX, **machine)  # type: ignore[arg-type]

    def judged(texts: Mapping[str, str]) -> Report:
        return judge(read(name, texts.get(name, text), None, lambda _: "", quote=True), target, MATRIX, "2026")

    done = repair(judged({}), lambda _: text, judged, {"Dockerfile"})
    refused = {one.edit for one in done.refused}
    left = [one for one in done.report.findings if one.root_cause and one.severity is not Severity.NOTE]
    said = "\n".join(not_changed(done))
    assert left
    for one in left:
        assert one.id in said or refused & set(one.fixes[0].edits), (one.id, said)
