"""Known issues: conditions on what stands beside TensorFlow and on the processor, and the advice that follows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tests.healthy import MATRIX
from tests.tables import each, read_rows
from tfgpu_doctor.matrix.lint import issues
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.matrix.rows import concerns
from tfgpu_doctor.matrix.schema import Condition, KnownIssue, ReleaseRow

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))


def with_condition(condition: Condition) -> Matrix:
    """The bundled matrix with one known issue."""
    issue = KnownIssue(
        id="x", severity="error", affects="run", title="t", condition=condition, symptom="s", fix="f", source="wheel"
    )
    return Matrix(replace(MATRIX.data, known_issues=(issue,)), "matrix")


def holds(known: dict[str, Any], **condition: Any) -> bool:
    """Whether an issue of TensorFlow 2.17.1 on Linux with that condition holds."""
    matrix = with_condition(Condition(versions="==2.17.1", **condition))
    row = matrix.tensorflow("2.17.1", "linux_x86_64")
    assert row is not None
    return bool(matrix.issues_for(row, **known))


@each(("condition", "known", "expected"), ROWS["CONDITIONS"])
def test_conditions(condition: dict[str, Any], known: dict[str, Any], expected: bool) -> None:
    assert holds(known, **condition) is expected


@each(("version", "versions", "expected"), ROWS["BUILDS"])
def test_what_is_known_of_the_published_wheels_is_not_said_of_other_builds(
    version: str, versions: str, expected: bool
) -> None:
    (issue,) = with_condition(Condition(versions=versions)).data.known_issues
    row = ReleaseRow(package="tensorflow", version=version, wheels={})
    assert concerns(issue, row, "linux_x86_64") is expected


def test_a_bad_specifier_is_named() -> None:
    found = list(issues(with_condition(Condition(versions="==2.17.1", beside={"numpy": "two"})).data))
    assert found == ["known_issues x.condition: 'two' is no version specifier such as '>=2.16,<2.18'"]


def test_a_row_says_what_to_do_in_words_that_can_be_pasted() -> None:
    issues = MATRIX.data.known_issues
    commands = [command for issue in issues for command in issue.commands]
    assert [one for one in commands if not shlex.split(one) or re.search(r"<\w+>|\.\.\.|/path/to", one)] == []
    texts = [text for issue in issues for text in (issue.title, issue.symptom, issue.fix)]
    assert [text for text in texts if "!" in text.replace("!=", "") or "\n" in text] == []


@each("version", ["x" * 80, "²", "0x10", ""])
def test_a_version_that_cannot_be_read_meets_no_condition(version: str) -> None:
    assert not holds({"python": version}, python=">=3.8")
    assert not holds({"beside": {"numpy": version}}, beside={"numpy": ">=1"})


@each(("version", "platform", "known", "expected"), ROWS["ISSUES"])
def test_known_issues_hold_only_where_their_condition_does(
    version: str, platform: str, known: dict[str, Any], expected: str | None
) -> None:
    row = MATRIX.tensorflow(version, platform)
    assert row is not None
    found = MATRIX.issue_for(row, **known)
    assert (found.id if found else None) == expected


def test_issues_of_installing_do_not_concern_what_is_installed() -> None:
    row = MATRIX.tensorflow("2.14.1", "linux_x86_64")
    assert row is not None
    refused = MATRIX.issues_for(row, python="3.11.7", extra=True)
    assert [one.id for one in refused] == ["tf-2.14-tensorrt-python-3.11"]
    assert MATRIX.issues_for(row, python="3.10.1", extra=True) == MATRIX.issues_for(row, extra=True) == ()
    assert MATRIX.issue_for(row, python="3.11.7") is None
