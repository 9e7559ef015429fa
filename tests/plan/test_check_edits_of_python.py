"""What is written for Python: the right line, within what was allowed, and nothing where it does not help."""

from __future__ import annotations

from itertools import product
from pathlib import Path

from msgspec.structs import replace
from packaging.specifiers import SpecifierSet

from tests.cli.runner import tfgpu
from tests.each import each
from tests.healthy import MATRIX
from tfgpu_doctor.manifests.reading import read
from tfgpu_doctor.plan.check import judge, repair
from tfgpu_doctor.plan.target import Target
from tfgpu_doctor.records.report import Edit, Fix

PATCHES = [f"3.{minor}.{patch}" for minor in range(6, 16) for patch in (0, 1, 2, 5, 30)]
ALLOWED = (">=3.13", ">=3.9.2", ">=3.10,<3.15", ">=3.9,!=3.11.*", "~=3.10", ">3.9.1,<=3.13.1", ">=3.8,<4")
LINES = ("tensorflow-gpu>=2.12", "tensorflow==2.16.1", "tensorflow[and-cuda]==2.21.0", "tensorflow<2.14")


@each(("allowed", "line"), [*product(ALLOWED, LINES)])
def test_an_edit_of_requires_python_only_narrows_it(allowed: str, line: str) -> None:
    text = f'[project]\nname = "x"\nrequires-python = "{allowed}"\ndependencies = ["{line}"]\n'
    report = judge(read("pyproject.toml", text), Target(), MATRIX, "")
    edits = {edit for one in report.findings for fix in one.fixes for edit in fix.edits if edit.line == 3}
    for edit in edits:
        before, after = (set(SpecifierSet(one).filter(PATCHES)) for one in (edit.old, edit.new))
        assert after, edit
        assert after <= before, edit


WORKFLOW = """\
on: push
jobs:
  test:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/setup-python@v5
        with:
          python-version: "3.14"
      - run: pip install 'tensorflow[and-cuda]==2.21.0'
"""


def test_the_python_of_a_workflow_is_named_by_its_line_and_changed_there(tmp_path: Path) -> None:
    file = tmp_path / ".github" / "workflows" / "ci.yml"
    file.parent.mkdir(parents=True)
    file.write_text(WORKFLOW, encoding="utf-8")
    shown = " ".join(tfgpu("check", ".github/workflows/ci.yml", cwd=tmp_path).stdout.split())
    assert "Python 3.14 ← .github/workflows/ci.yml:8" in shown
    assert "--python" not in shown
    assert tfgpu("check", "--fix", ".github/workflows/ci.yml", cwd=tmp_path).returncode == 0
    assert 'python-version: "3.13"' in file.read_text(encoding="utf-8")


def test_an_edit_after_which_the_finding_is_the_same_is_not_made() -> None:
    text = "tensorflow-gpu==2.12.0\n"
    report = judge(read("requirements.txt", text), Target(), MATRIX, "")
    edit = Edit("requirements.txt", 1, "tensorflow-gpu==2.12.0", "tensorflow-gpu==2.13.0")
    (finding,) = report.findings
    useless = replace(report, findings=(replace(finding, fixes=(Fix("No use", edits=(edit,)),)),))
    done = repair(useless, lambda _: text, lambda _: useless, ())
    assert not done.texts
    assert [one.reason for one in done.refused] == ["tf.package-removed would remain"]
