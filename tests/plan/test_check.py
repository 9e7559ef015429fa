"""Signs over manifests: files on which each fires, passes, and cannot know."""

from __future__ import annotations

import itertools
import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests.cli.runner import tfgpu
from tests.healthy import MATRIX
from tests.tables import each, read_rows
from tests.tiers import usual
from tfgpu_doctor.facts.facts import Facts
from tfgpu_doctor.facts.report import Edit, Finding, Fix, Report, Severity
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.manifests.pyproject import loads
from tfgpu_doctor.manifests.reading import joined, read
from tfgpu_doctor.matrix.schema import PLATFORMS
from tfgpu_doctor.plan.check import judge
from tfgpu_doctor.plan.file_edits import FileEdits
from tfgpu_doctor.plan.planned import PlannedEnvironment
from tfgpu_doctor.plan.resolving import Wanted, holds, smallest_conflict, solve, universe_of
from tfgpu_doctor.plan.target import Target, describe

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))
NAMES = {  # how a file begins, and what it is called
    "FROM ": "Dockerfile",
    "[project]": "pyproject.toml",
    "dependencies:": "environment.yml",
    "Boot": "tf.def",
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
    assert all(any(line.place for line in one.evidence) for one in report.findings)  # where CI systems show it
    verdicts = [(ids(report, "error"), "broken"), (ids(report, "warning"), "degraded"), (True, "ok")]
    assert report.verdict == next(verdict for found, verdict in verdicts if found)
    for named in re.findall(r"a release such as (\S+?)'", str(finding.evidence)):
        assert any(edit.new.endswith(named) for fix in finding.fixes for edit in fix.edits)
    edits = {edit for one in report.findings for fix in one.fixes for edit in fix.edits if not edit.beside}
    assert len({(one.line, one.old) for one in edits}) == len(edits) and not [one for one in edits if "rc0" in one.new]
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
    report = judged(*files, **target)
    edits = [edit for one in report.findings for fix in one.fixes for edit in fix.edits]
    assert ids(report) == found
    assert not [edit for edit in edits if edit.path.endswith("Dockerfile") and ": " in edit.new]  # keys of a service


def test_a_second_tensorflow_is_only_removed() -> None:
    """The file gets no second release, and what is wrong with the first is named, too."""
    for second, about in (("tensorflow-gpu", "removed"), ("tensorflow-cpu==2.15.1", "conflict")):
        for lines in ((GOOD, second), (second, GOOD)):
            report = judged(written(*lines, python=">=3.14"))
            assert ids(report, "error") == ["tf.python-unsupported", f"tf.package-{about}"]
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
    assert [fix.commands for fix in found.fixes] == [("tfgpu plan --gpu NAME --tensorflow 2.10",)]


def test_tensorflow_gpu_keeps_its_release() -> None:
    report = judged(written("tensorflow-gpu==2.9.3", "scipy==1.9.0", "pandas==1.1.5", "protobuf==3.19.5"))
    (edit,) = (edit for one in report.findings for fix in one.fixes for edit in fix.edits)
    assert (edit.old, edit.new) == ("tensorflow-gpu==2.9.3", "tensorflow==2.9.3")


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


def judged_file(name: str, text: str, target: Target) -> Report:
    return judge(read(name, text, None, lambda _: "", quote=True), target, MATRIX, "2026-11-22T00:00:00Z")


def edited(text: str, edit: Edit) -> str:
    """The text after an edit of a line, or of a word of a command or a list, as one who reads its sentence makes it."""
    lines = text.split("\n")
    old = ".*" if " = " in edit.old else rf"(?<![\w-]){re.escape(edit.old)}(?![\w.<=>~!-])"  # a key of TOML is its line
    found = re.search(rf"""(["']?){old}\1""", lines[edit.line - 1])
    assert found, edit
    head, quote, tail = found.string[: found.start()], found[1], found.string[found.end() :]
    new, alone = f"{quote}{edit.new}{quote}", not re.search(r"\w", head + tail)
    if head.endswith("image: ") and edit.beside:  # keys of a service
        made = [found.string, *(" " * (len(head) - 7) + line for line in edit.new.split("\n"))]
    elif edit.beside:
        made = [found.string, head + new + tail] if alone else [f"{head}{found[0]} {new}{tail}"]
    elif edit.new:
        made = [head + new + tail]
    else:
        made = [] if alone else [head.rstrip(", ") + tail]
    return "\n".join((*lines[: edit.line - 1], *made, *lines[edit.line :]))


def repaired(name: str, text: str, target: Target) -> tuple[Report, str]:
    """What is found when the first edits of problems are made, one after another, and the file then."""
    for _ in range(9):
        report = judged_file(name, text, target)
        first = (one.fixes[0].edits for one in report.findings if one.fixes and one.severity is not Severity.NOTE)
        edits = next(filter(None, first), ())
        if not edits:
            break
        for edit in sorted(edits, key=lambda edit: edit.line, reverse=True):
            text = edited(text, edit)
    return report, text


def is_left(one: Finding) -> bool:
    """True for what an edit should have repaired; CUDA and cuDNN for a release without an extra are not."""
    if not one.fixes or one.severity is Severity.NOTE:
        return False
    return bool(one.fixes[0].edits) or (one.severity is Severity.ERROR and not one.id.startswith(("cuda.", "cudnn.")))


def remaining(*case: str, **machine: object) -> list[str]:
    """What is still found after the repair, and the file then; nothing where all is well."""
    name, text = files(*case)
    report, after = repaired(name, text, describe(MATRIX, **machine))  # type: ignore[arg-type]
    found = [f"{one.severity.value}: {one.title}" for one in report.findings if is_left(one)]
    return [" ".join(case), *found, after] if found else []


@pytest.mark.parametrize("step", [97, pytest.param(6, marks=pytest.mark.full)])
@pytest.mark.parametrize("gpu", [["A100"], *(pytest.param(one, marks=pytest.mark.full) for one in (["GTX 1080"], []))])
def test_files_pass_after_their_repair(step: int, gpu: list[str]) -> None:
    assert [one for case in CASES[::step] if (one := remaining(*case, gpu=gpu))] == []


@each(("path", "gpus"), itertools.product(ROWS["CONTRADICTIONS"], ((), ("A100",))))
def test_lines_that_contradict_each_other_are_repaired(path: str, gpus: tuple[str, ...]) -> None:
    report, after = repaired(path, ROWS["CONTRADICTIONS"][path], describe(MATRIX, gpu=gpus))
    assert after != ROWS["CONTRADICTIONS"][path]
    assert [one.id for one in report.findings if is_left(one)] == []
    if path.endswith(".toml"):
        loads(after)


def test_a_card_that_no_wheel_serves_is_one_problem() -> None:
    """Whatever the file says, no edit helps: what else would be missing is no question."""
    for case in CASES[::401]:
        assert len(remaining(*case, gpu=("RTX 5090",))[1:-1]) <= 1, case


PATCHES = [f"3.{minor}.{patch}" for minor in range(6, 16) for patch in (0, 1, 2, 5, 30)]


@pytest.mark.parametrize("line", usual(ROWS["LINES"], lambda line: "==" in line))
@each("allowed", ROWS["ALLOWED"])
def test_an_edit_of_requires_python_only_narrows_it(allowed: str, line: str) -> None:
    text = f'[project]\nname = "x"\nrequires-python = "{allowed}"\ndependencies = ["{line}"]\n'
    report = judged_file("pyproject.toml", text, Target())
    for edit in {edit for one in report.findings for fix in one.fixes for edit in fix.edits if edit.line == 3}:
        before, after = (set(SpecifierSet(one).filter(PATCHES)) for one in (edit.old, edit.new))
        assert after and after <= before, edit


def test_the_python_of_a_workflow_is_named_by_its_line(tmp_path: Path) -> None:
    file = tmp_path / ".github" / "workflows" / "ci.yml"
    file.parent.mkdir(parents=True)
    file.write_text(ROWS["WORKFLOW"], encoding="utf-8")
    shown = " ".join(tfgpu("check", ".github/workflows/ci.yml", cwd=tmp_path).stdout.split())
    assert "Python 3.14 ← .github/workflows/ci.yml:8" in shown and "--python" not in shown
    assert "In .github/workflows/ci.yml:8, write '3.13' instead of '3.14'" in shown
    environ = {"GITHUB_WORKSPACE": str(tmp_path.parent)}  # in a sub-folder of the checkout
    shown = tfgpu("check", ".github/workflows/ci.yml", "--format", "github", cwd=tmp_path, environ=environ).stdout
    assert f"file={tmp_path.name}/.github/workflows/ci.yml,line=8" in shown


def without_wheels(*case: str) -> list[str]:
    """What is wrong with the Python of a file after the advice is made; nothing where all is well."""
    target = describe(MATRIX, gpu=("A100",))
    name, text = files(*case)
    _, after = repaired(name, text, target)
    before, now = (PlannedEnvironment(read(name, one)[0], target, MATRIX) for one in (text, after))

    def fits(view: PlannedEnvironment, one: str) -> bool:
        universe = universe_of(MATRIX, "linux_x86_64", one)
        return solve(universe, view.wanted_in(universe)) is not None

    found = [f"not for Python {one}" for one in (now.pythons or ())[-1:] if not fits(now, one)]
    if now.pythons != before.pythons and any(fits(before, one) for one in ALL_PYTHONS):
        found += [f"{one} was changed, too" for one in case[3:] if one not in after]
    return [*found, after] if found or now.environment.not_understood else []


ON_A_PYTHON = [(form, "3.13", *lines) for form, lines in zip(itertools.cycle(FORMS[:3]), ROWS["SETS"])]
ON_ALL = [(form, one, *lines) for form, one, lines in itertools.product(FORMS[:3], ALL_PYTHONS, ROWS["SETS"])]


@pytest.mark.parametrize("cases", [ON_A_PYTHON, pytest.param(ON_ALL, marks=pytest.mark.full)], ids=["some", "all"])
def test_every_package_has_a_wheel_for_the_python_that_is_advised(cases: list[tuple[str, ...]]) -> None:
    assert [bad for case in cases if (bad := without_wheels(*case))] == []


# answer, Python, requirements; the head of the file says where they come from
ANSWERS = [
    (line.split()[0] == "yes", line.split()[1], tuple(line.split()[2:]))
    for line in Path(__file__).with_name("resolvable.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]


@pytest.mark.parametrize("platform", usual(PLATFORMS, lambda platform: platform == "linux_x86_64"))
def test_every_release_can_be_installed_alone(platform: str) -> None:
    refused = [
        f"{row.package} {row.version} for Python {python}"
        for package in ("tensorflow", "tensorflow-gpu", "tensorflow-cpu")
        for row in MATRIX.releases(platform, package)
        for python in row.python
        if solve(universe_of(MATRIX, platform, python), [Wanted(package, f"=={row.version}")]) is None
    ]
    assert not refused


UNIVERSE = universe_of(MATRIX, "linux_x86_64", "3.11")


def errors(*lines: str, python: str | None = "3.11") -> list[Finding]:
    return [one for one in judged(written(*lines), python=python).findings if one.severity is Severity.ERROR]


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.full)])
def test_no_false_ok_and_no_false_error(step: int) -> None:
    assert len(ANSWERS) > 150 and 0.4 < sum(resolves for resolves, *_ in ANSWERS) / len(ANSWERS) < 0.6
    found = [(*one, [error.title for error in errors(*one[2], python=one[1])]) for one in ANSWERS[::step]]
    assert [one for one in found if one[0] == bool(one[3])] == []


@each(("lines", "identity", "said", "edit"), ROWS["test_a_refused_line_is_named_with_what_requires_it"])
def test_a_refused_line_is_named_with_what_requires_it(
    lines: tuple[str, ...], identity: str, said: str, edit: str
) -> None:
    finding = errors(*lines)[0]
    assert (finding.id, finding.evidence[0].need) == (identity, said)
    assert "(metadata)" in (finding.evidence[0].need_source or "")
    assert [one.new for fix in finding.fixes for one in fix.edits] == [edit]
    name = re.split("[<=>~]", edit)[0]
    assert errors(*(edit if re.split("[<=>~]", line)[0] == name else line for line in lines)) == []


def test_the_smallest_conflict_leaves_out_what_does_not_matter() -> None:
    wanted = [Wanted("tensorflow", "==2.20.0"), Wanted("h5py"), Wanted("tf-keras", "==2.17.0")]
    assert smallest_conflict(UNIVERSE, [*wanted, Wanted("wrapt", ">=1.11")]) == (0, 2)
    assert smallest_conflict(UNIVERSE, wanted[:2]) == ()


def test_through_a_third_package() -> None:
    """Both of them go with a TensorFlow, each with another one."""
    (finding,) = errors("tensorflow", "tensorflow-text==2.17.0", "tf-keras==2.16.0")
    assert finding.title == "tensorflow-text==2.17.0 and tf-keras==2.16.0 exclude each other"
    assert [line.need for line in finding.evidence] == ["tensorflow<2.18,>=2.17.0", "tensorflow<2.17,>=2.16"]


@each(("python", "lines"), ROWS["test_what_is_not_known_constrains_nothing"])
def test_what_is_not_known_constrains_nothing(python: str, lines: tuple[str, ...]) -> None:
    assert errors(*lines, python=python) == []


def test_markers_mean_the_platform_that_packages_are_for() -> None:
    machines = {"linux_x86_64": "x86_64", "linux_aarch64": "aarch64", "windows_amd64": "AMD64", "macos_arm64": "arm64"}
    systems = {"linux_x86_64": "linux", "linux_aarch64": "linux", "windows_amd64": "win32", "macos_arm64": "darwin"}
    for platform, machine in machines.items():
        marker = f"platform_machine == '{machine}' and sys_platform == '{systems[platform]}'"
        assert [one for one in machines if holds(marker, one, "3.11")] == [platform]
