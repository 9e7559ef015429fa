"""Whether requirements can be installed together, held against what a real resolver said of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.healthy import MATRIX
from tests.tables import each, read_rows
from tfgpu_doctor.facts.report import Report
from tfgpu_doctor.manifests.reading import joined, read
from tfgpu_doctor.plan.check import judge
from tfgpu_doctor.plan.resolving import Wanted, holds, smallest_conflict, universe_of
from tfgpu_doctor.plan.target import describe

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))

# answer, Python, requirements; the head of the file says where they come from
ANSWERS = [
    (line.split()[0] == "yes", line.split()[1], tuple(line.split()[2:]))
    for line in Path(__file__).with_name("resolvable.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]
UNIVERSE = universe_of(MATRIX, "linux_x86_64", "3.11")


def checked(*lines: str, python: str | None = "3.11") -> Report:
    environments = joined(read("requirements.txt", "\n".join(lines), "requirements", lambda _: ""))
    return judge(environments, describe(MATRIX, python=python), MATRIX, "2026-11-22T00:00:00Z")


def errors(*lines: str, python: str | None = "3.11") -> list[str]:
    return [one.title for one in checked(*lines, python=python).findings if one.severity.value == "error"]


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.full)])
def test_no_false_ok_and_no_false_error(step: int) -> None:
    assert len(ANSWERS) > 150 and 0.4 < sum(resolves for resolves, *_ in ANSWERS) / len(ANSWERS) < 0.6
    judged = [(*one, errors(*one[2], python=one[1])) for one in ANSWERS[::step]]
    assert [one for one in judged if one[0] == bool(one[3])] == []


@each(("lines", "identity", "said", "edit"), ROWS["test_a_refused_line_is_named_with_what_requires_it"])
def test_a_refused_line_is_named_with_what_requires_it(
    lines: tuple[str, ...], identity: str, said: str, edit: str
) -> None:
    finding = next(one for one in checked(*lines).findings if one.severity.value == "error")
    assert (finding.id, finding.evidence[0].need) == (identity, said)
    assert "(metadata)" in (finding.evidence[0].need_source or "")
    assert [one.new for fix in finding.fixes for one in fix.edits] == [edit]
    assert (
        errors(*(edit if re.split("[<=>~]", line)[0] == re.split("[<=>~]", edit)[0] else line for line in lines)) == []
    )


def test_the_smallest_conflict_leaves_out_what_does_not_matter() -> None:
    wanted = [Wanted("tensorflow", "==2.20.0"), Wanted("h5py"), Wanted("tf-keras", "==2.17.0")]
    assert smallest_conflict(UNIVERSE, [*wanted, Wanted("wrapt", ">=1.11")]) == (0, 2)
    assert smallest_conflict(UNIVERSE, wanted[:2]) == ()


def test_through_a_third_package() -> None:
    """Both of them go with a TensorFlow, each with another one."""
    found = checked("tensorflow", "tensorflow-text==2.17.0", "tf-keras==2.16.0").findings
    (finding,) = (one for one in found if one.severity.value == "error")
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
