"""What is only possible: no error, no problem that is counted, and a reason for each (E17)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.corpus import Outcome, report_of, reports, written
from tests.tables import each
from tfgpu_doctor.findings.engine import restrict
from tfgpu_doctor.records.report import Report, Severity, exit_code, problem_counts, verdict_sentence

SAID = "requirements.txt has tensorflow==1.12.0, not tensorflow-gpu"
WORKS_BUT_SLOW = (
    "[PhysicalDevice(name='/physical_device:GPU:0', device_type='GPU')]\n"
    "TensorFlow 2.12: training is much slower than last week, the GPU shows 10 % utilization, I do not know why."
)


def wrong(name: str, report: Report) -> Iterator[str]:
    """What does not fit together in a report."""
    grave = [one for one in report.findings if one.severity is not Severity.NOTE]
    if any(one.possible and one.severity is Severity.ERROR for one in grave):
        yield f"{name}: a possible error"
    if grave and all(one.possible for one in grave):
        said = f"{report.verdict}, {exit_code(report, 'warning')}: {verdict_sentence(report)}{problem_counts(report)}"
        if report.verdict != "unknown" or exit_code(report, "warning") != 3 or problem_counts(report):
            yield f"{name}: {said}"
    yield from (f"{name}: {one.id} has no reason" for one in report.findings if not one.cause.strip())
    yield from (f"{name}: {one.id} has no title" for one in report.findings if not one.title.strip())


def test_the_verdict_on_a_collected_text_fits_what_is_shown(outcomes: list[Outcome]) -> None:
    assert [why for one in outcomes for why in wrong(one.case["id"], one.report)] == []


@pytest.mark.full
def test_so_it_does_on_every_collected_and_written_text() -> None:
    texts = [*reports(), *({"id": str(n), **case} for n, case in enumerate(written()))]
    assert [why for case in texts for why in wrong(case["id"], report_of(case["text"]))] == []


@each("text", [SAID, WORKS_BUT_SLOW])
def test_what_is_possible_is_no_problem(text: str) -> None:
    report = report_of(text)
    assert report.findings, "nothing is possible"
    assert list(wrong(text, report)) == list(wrong(text, restrict(report, (), ("tf.known-bug",)))) == []
    assert all(one.possible for one in report.findings)
    assert verdict_sentence(report).startswith("this text leaves ")
