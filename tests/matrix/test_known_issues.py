"""Known issues: conditions on what stands beside TensorFlow and on the processor, and the advice that follows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from msgspec import structs

from tests.tables import each, read_rows
from tfgpu_doctor.matrix.lint import issues
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.matrix.rows import concerns
from tfgpu_doctor.matrix.schema import Condition, KnownIssue, ReleaseRow

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))

MATRIX = Matrix.load()


def with_condition(condition: Condition) -> Matrix:
    """The bundled matrix with one known issue."""
    issue = KnownIssue(
        id="x", severity="error", affects="run", title="t", condition=condition, symptom="s", fix="f", source="wheel"
    )
    return Matrix(structs.replace(MATRIX.data, known_issues=(issue,)), "matrix")


def holds(condition: Condition, **known: object) -> bool:
    """Whether an issue of TensorFlow 2.17.1 on Linux with that condition holds."""
    matrix = with_condition(condition)
    row = matrix.tensorflow("2.17.1", "linux_x86_64")
    assert row is not None
    return bool(matrix.issues_for(row, **known))  # type: ignore[arg-type]


@each(("beside", "expected"), ROWS["test_a_condition_on_another_distribution"])
def test_a_condition_on_another_distribution(beside: dict[str, str] | None, expected: bool) -> None:
    assert holds(Condition(versions="==2.17.1", beside={"numpy": ">=2"}), beside=beside) is expected


def test_names_of_distributions_are_normalised() -> None:
    condition = Condition(versions="==2.17.1", beside={"typing_extensions": "<4.6"})
    assert holds(condition, beside={"Typing-Extensions": "4.5.0"})


def test_all_that_stands_beside_must_fit() -> None:
    condition = Condition(versions="==2.17.1", beside={"numpy": ">=2", "keras": "<3"})
    assert holds(condition, beside={"numpy": "2.1.3", "keras": "2.15.0"})
    assert not holds(condition, beside={"numpy": "2.1.3", "keras": "3.5.0"})


def test_a_condition_on_the_processor() -> None:
    condition = Condition(versions="==2.17.1", cpu_lacks="avx")
    found = {flags: holds(condition, cpu_flags=flags) for flags in (("sse4_2",), ("avx", "sse4_2"), ())}
    assert found == {("sse4_2",): True, ("avx", "sse4_2"): False, (): False}


@each(
    ("version", "versions", "expected"), ROWS["test_what_is_known_of_the_published_wheels_is_not_said_of_other_builds"]
)
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
    assert not holds(Condition(versions=">=2.17", python=">=3.8"), python=version)
    assert not holds(Condition(versions=">=2.17", beside={"numpy": ">=1"}), beside={"numpy": version})
