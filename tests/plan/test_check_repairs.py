"""The advice of `tfgpu check`, made in the files, passes the check that gave it.

A Python that it advises is one for which every package has a wheel, and lies within what the file allowed.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests.cli.runner import tfgpu
from tests.healthy import MATRIX
from tests.tables import each, read_rows
from tfgpu_doctor.facts.report import Edit, Finding, Fix, Report, Severity
from tfgpu_doctor.manifests.pyproject import loads
from tfgpu_doctor.manifests.reading import read
from tfgpu_doctor.plan.check import Repair, judge, repair
from tfgpu_doctor.plan.planned import PlannedEnvironment
from tfgpu_doctor.plan.resolving import can_be_met, universe_of
from tfgpu_doctor.plan.target import Target, describe

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))
PYTHONS = ("3.9", "3.11", "3.13")
ALL_PYTHONS = ("3.8", "3.10", "3.12", *PYTHONS)


def files(form: str, python: str, *lines: str) -> tuple[str, str]:
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
    page = f'[tool.poetry]\nname = "a"\n[tool.poetry.dependencies]\npython = "~{python}"\n'
    for one in map(Requirement, lines):
        version = f'"{one.specifier or "*"}"'
        page += f"{one.name} = " + (f'{{ version = {version}, extras = ["and-cuda"] }}' if one.extras else version)
        page += "\n"
    return "pyproject.toml", page


FORMS = ("Dockerfile", "environment.yml", "pyproject.toml", "poetry")
CASES = [
    (form, python, tensorflow, *filter(None, [other]))
    for form, python, tensorflow, other in itertools.product(FORMS, PYTHONS, ROWS["TENSORFLOWS"], ROWS["OTHERS"])
    if tensorflow.split("==")[0] != other.split("==")[0]  # a key of TOML stands once
]


def judged(name: str, text: str, target: Target) -> Report:
    return judge(read(name, text, None, lambda _: "", quote=True), target, MATRIX, "2026-11-22T00:00:00Z")


def repaired(name: str, text: str, target: Target) -> Repair:
    def again(texts: Mapping[str, str]) -> Report:
        return judged(name, texts.get(name, text), target)

    return repair(again({}), lambda _: text, again, {"Dockerfile"})


def is_left(one: Finding) -> bool:
    """True for what an edit should have repaired; CUDA and cuDNN for a release without an extra are not."""
    if not one.fixes or one.severity is Severity.NOTE:
        return False
    return bool(one.fixes[0].edits) or (one.severity is Severity.ERROR and not one.id.startswith(("cuda.", "cudnn.")))


def remaining(*case: str, **machine: object) -> list[str]:
    """What is still found after the repair, and the file then; nothing where all is well."""
    name, text = files(*case)
    done = repaired(name, text, describe(MATRIX, **machine))  # type: ignore[arg-type]
    if case[0] == "poetry" and "extras = [" in text:  # inline tables are not changed, which is said
        return []
    found = [f"{one.severity.value}: {one.title}" for one in done.report.findings if is_left(one)]
    found += [f"{one.edit.old} -> {one.edit.new}: {one.reason}" for one in done.refused]
    return [" ".join(case), *found, done.texts.get(name, text)] if found else []


@pytest.mark.parametrize("step", [97, pytest.param(6, marks=pytest.mark.full)])
@pytest.mark.parametrize("gpu", [["A100"], *(pytest.param(one, marks=pytest.mark.full) for one in (["GTX 1080"], []))])
def test_files_pass_after_their_repair(step: int, gpu: list[str]) -> None:
    assert [one for case in CASES[::step] if (one := remaining(*case, gpu=gpu))] == []


@each(("path", "gpus"), itertools.product(ROWS["CONTRADICTIONS"], ((), ("A100",))))
def test_lines_that_contradict_each_other_are_repaired(path: str, gpus: tuple[str, ...]) -> None:
    done = repaired(path, ROWS["CONTRADICTIONS"][path], describe(MATRIX, gpu=gpus))
    assert done.texts and not done.refused
    assert [one.id for one in done.report.findings if is_left(one)] == []
    if path.endswith(".toml"):
        loads(done.texts[path])


def test_a_card_that_no_wheel_serves_is_one_problem() -> None:
    """Whatever the file says, no edit helps: what else would be missing is no question."""
    for case in CASES[::401]:
        assert len(remaining(*case, gpu=("RTX 5090",))[1:-1]) <= 1, case


@each(("name", "text", "machine"), ROWS["LEFT"])
def test_whatever_is_left_is_named(name: str, text: str, machine: dict[str, object]) -> None:
    """A problem that --fix does not repair is never passed over in silence, and is named once."""
    done = repaired(name, text, describe(MATRIX, **machine))  # type: ignore[arg-type]
    left = [one for one in done.report.findings if one.root_cause and one.severity is not Severity.NOTE]
    refused = {one.edit for one in done.refused}
    assert left and all(refused & set(edits) for one in left for fix in one.fixes[:1] if (edits := fix.edits))


def test_an_edit_after_which_the_finding_is_the_same_is_not_made() -> None:
    text = "tensorflow-gpu==2.12.0\n"
    report = judged("requirements.txt", text, Target())
    edit = Edit("requirements.txt", 1, "tensorflow-gpu==2.12.0", "tensorflow-gpu==2.13.0")
    (finding,) = report.findings
    useless = replace(report, findings=(replace(finding, fixes=(Fix("No use", edits=(edit,)),)),))
    done = repair(useless, lambda _: text, lambda _: useless, ())
    assert not done.texts
    assert [one.reason for one in done.refused] == ["tf.package-removed would remain"]


PATCHES = [f"3.{minor}.{patch}" for minor in range(6, 16) for patch in (0, 1, 2, 5, 30)]


@each(("allowed", "line"), [*itertools.product(ROWS["ALLOWED"], ROWS["LINES"])][::3])
def test_an_edit_of_requires_python_only_narrows_it(allowed: str, line: str) -> None:
    text = f'[project]\nname = "x"\nrequires-python = "{allowed}"\ndependencies = ["{line}"]\n'
    report = judged("pyproject.toml", text, Target())
    for edit in {edit for one in report.findings for fix in one.fixes for edit in fix.edits if edit.line == 3}:
        before, after = (set(SpecifierSet(one).filter(PATCHES)) for one in (edit.old, edit.new))
        assert after and after <= before, edit


def test_the_python_of_a_workflow_is_named_by_its_line_and_changed_there(tmp_path: Path) -> None:
    file = tmp_path / ".github" / "workflows" / "ci.yml"
    file.parent.mkdir(parents=True)
    file.write_text(ROWS["WORKFLOW"], encoding="utf-8")
    shown = " ".join(tfgpu("check", ".github/workflows/ci.yml", cwd=tmp_path).stdout.split())
    assert "Python 3.14 ← .github/workflows/ci.yml:8" in shown and "--python" not in shown
    assert tfgpu("check", "--fix", ".github/workflows/ci.yml", cwd=tmp_path).returncode == 0
    assert 'python-version: "3.13"' in file.read_text(encoding="utf-8")


def without_wheels(*case: str) -> list[str]:
    """What is wrong with the Python of a file after the advice is made; nothing where all is well."""
    target = describe(MATRIX, gpu=("A100",))
    name, text = files(*case)
    after = repaired(name, text, target).texts.get(name, text)
    before, now = (PlannedEnvironment(read(name, one)[0], target, MATRIX) for one in (text, after))

    def fits(view: PlannedEnvironment, one: str) -> bool:
        universe = universe_of(MATRIX, "linux_x86_64", one)
        return can_be_met(universe, [wanted for _, wanted in view.wanted_in(universe)])

    found = [f"not for Python {one}" for one in (now.pythons or ())[-1:] if not fits(now, one)]
    if now.pythons != before.pythons and any(fits(before, one) for one in ALL_PYTHONS):
        found += [f"{one} was changed, too" for one in case[3:] if one not in after]
    return [*found, after] if found or now.environment.not_understood else []


ON_A_PYTHON = [(form, "3.13", *lines) for form, lines in zip(itertools.cycle(FORMS[:3]), ROWS["SETS"])]
ON_ALL = [(form, one, *lines) for form, one, lines in itertools.product(FORMS[:3], ALL_PYTHONS, ROWS["SETS"])]


@pytest.mark.parametrize("cases", [ON_A_PYTHON, pytest.param(ON_ALL, marks=pytest.mark.full)], ids=["some", "all"])
def test_every_package_has_a_wheel_for_the_python_that_is_advised(cases: list[tuple[str, ...]]) -> None:
    assert [bad for case in cases if (bad := without_wheels(*case))] == []
