"""Whether requirements can be installed together, held against what a real resolver said of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.healthy import MATRIX
from tests.tables import each, read_rows
from tfgpu_doctor.facts.report import Report, Severity
from tfgpu_doctor.manifests.reading import joined, read
from tfgpu_doctor.plan.check import judge
from tfgpu_doctor.plan.planned import PlannedEnvironment
from tfgpu_doctor.plan.resolving import Unsolvable, Wanted, holds, smallest_conflict, solve, universe_of
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


def wrong_answers(answers: list[tuple[bool, str, tuple[str, ...]]]) -> list[str]:
    found = []
    for resolves, python, lines in answers:
        errors = [one.title for one in checked(*lines, python=python).findings if one.severity.value == "error"]
        if resolves == bool(errors):
            found.append(f"Python {python}: {' '.join(lines)}: uv {'resolves' if resolves else 'refuses'} it; {errors}")
    return found


def test_no_false_ok_and_no_false_error() -> None:
    assert len(ANSWERS) > 150 and 0.4 < sum(resolves for resolves, *_ in ANSWERS) / len(ANSWERS) < 0.6
    assert wrong_answers(ANSWERS[::3]) == []


@pytest.mark.full
def test_no_false_ok_and_no_false_error_of_all() -> None:
    assert wrong_answers(ANSWERS) == []


@each(("lines", "identity", "said", "edit"), ROWS["test_a_refused_line_is_named_with_what_requires_it"])
def test_a_refused_line_is_named_with_what_requires_it(
    lines: tuple[str, ...], identity: str, said: str, edit: str
) -> None:
    finding = next(one for one in checked(*lines).findings if one.severity.value == "error")
    assert (finding.id, finding.evidence[0].need) == (identity, said)
    assert "(metadata)" in (finding.evidence[0].need_source or "")
    assert [one.new for fix in finding.fixes for one in fix.edits] == [edit]
    repaired = [edit if re.split("[<=>~]", line)[0] == re.split("[<=>~]", edit)[0] else line for line in lines]
    assert not [one.title for one in checked(*repaired).findings if one.severity.value == "error"]


def test_the_release_is_the_newest_that_goes_with_the_rest() -> None:
    (environment,) = joined(read("requirements.txt", "tensorflow\ntf-keras==2.15.1\n", "requirements", lambda _: ""))
    release = PlannedEnvironment(environment, describe(MATRIX), MATRIX).release
    assert release is not None and release.version == "2.15.1"
    assert checked("tensorflow", "tf-keras==2.15.1", python=None).verdict == "ok"


def test_the_smallest_conflict_leaves_out_what_does_not_matter() -> None:
    wanted = [
        Wanted("tensorflow", "==2.20.0"), Wanted("h5py"), Wanted("tf-keras", "==2.17.0"), Wanted("wrapt", ">=1.11"),
    ]  # fmt: skip
    assert smallest_conflict(UNIVERSE, wanted) == (0, 2)
    assert smallest_conflict(UNIVERSE, wanted[:2]) == ()


def test_through_a_third_package() -> None:
    """Both of them go with a TensorFlow, each with another one."""
    wanted = [Wanted("tensorflow"), Wanted("tensorflow-text", "==2.17.0"), Wanted("tf-keras", "==2.16.0")]
    with pytest.raises(Unsolvable):
        solve(UNIVERSE, wanted)
    assert smallest_conflict(UNIVERSE, wanted) == (1, 2)
    found = checked("tensorflow", "tensorflow-text==2.17.0", "tf-keras==2.16.0").findings
    (finding,) = (one for one in found if one.severity is Severity.ERROR)
    assert finding.title == "tensorflow-text==2.17.0 and tf-keras==2.16.0 exclude each other"
    assert [line.need for line in finding.evidence] == ["tensorflow<2.18,>=2.17.0", "tensorflow<2.17,>=2.16"]


@each("lines", ROWS["test_what_is_not_known_constrains_nothing"])
def test_what_is_not_known_constrains_nothing(lines: tuple[str, ...]) -> None:
    assert not [one.title for one in checked(*lines).findings if one.severity.value == "error"]


def test_markers_mean_the_platform_that_packages_are_for() -> None:
    machines = {"linux_x86_64": "x86_64", "linux_aarch64": "aarch64", "windows_amd64": "AMD64", "macos_arm64": "arm64"}
    systems = {"linux_x86_64": "linux", "linux_aarch64": "linux", "windows_amd64": "win32", "macos_arm64": "darwin"}
    for platform, machine in machines.items():
        marker = f"platform_machine == '{machine}' and sys_platform == '{systems[platform]}'"
        assert [one for one in machines if holds(marker, one, "3.11")] == [platform]


def test_what_a_wheel_requires_as_an_archive_is_no_conflict() -> None:
    """wrapt 1.12 and termcolor 1.1 have no wheels; pip builds them."""
    found = checked("tensorflow==2.4.2", "numpy", python="3.8").findings
    assert not [one.title for one in found if one.id == "tf.package-conflict"]
