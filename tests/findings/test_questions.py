"""The answers to questions: what stands in their titles, and that they give nobody an error."""

from __future__ import annotations

from tests.corpus import report_of
from tests.findings.row_texts import LOOK_ALIKES, QUESTIONS
from tests.findings.test_signs_over_messages import signs_alone
from tests.healthy import MATRIX
from tests.tables import each
from tfgpu_doctor.parsers import lines, text_to_facts
from tfgpu_doctor.plan.diagnosis import make_report
from tfgpu_doctor.records.report import Severity

WHICH = QUESTIONS["which"]  # question → what the title of its answer says


@each("text", WHICH)
def test_the_answer_stands_first_in_a_line(text: str) -> None:
    first = report_of(text).findings[0]
    assert (first.id, WHICH[text] in first.title) == ("tf.which-release", True), first.title


@each("text", WHICH)
def test_every_answer_has_a_recipe(text: str) -> None:
    first = report_of(text).findings[0]
    assert any(fix.commands for fix in first.fixes), first.fixes


def test_a_question_is_no_fault() -> None:
    reports = {text: report_of(text) for table in QUESTIONS["fires"].values() for text in table.values()}
    grave = {
        text: [one.id for one in report.findings if one.severity is not Severity.NOTE]
        for text, report in reports.items()
    }
    assert [text for text, ids in grave.items() if ids] == []
    assert {report.verdict for report in reports.values()} == {"unknown"}


def test_a_question_below_a_failure_leaves_the_diagnosis() -> None:
    asked = text_to_facts.read(
        lines.read([LOOK_ALIKES["tf.which-release"]["a failure is the question"].encode()]), MATRIX
    )
    report = make_report(signs_alone(asked), MATRIX, source="text", timings={})
    assert (report.verdict, report.findings[0].severity) == ("broken", Severity.ERROR)


def test_what_may_have_failed_stays_an_error() -> None:
    asked = "Which TensorFlow should I install for an RTX 4070 on Windows 11? With Python 3.11 pip install failed."
    assert report_of(asked).findings[0].id == "tf.windows-native"


@each("text", QUESTIONS["numbers"])
def test_each_number_belongs_to_the_nearer_program(text: str) -> None:
    assert report_of(text).findings[0].id == "cuda.versions-differ"
