"""A report of ours that somebody pastes as text: what was found on that machine is found again."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from tests.findings.row_texts import TEXTS
from tests.findings.rows_over_facts import FIRES
from tests.findings.test_signs_over_messages import facts_of
from tests.healthy import MATRIX, healthy, known, spoil
from tfgpu_doctor.facts.facts import Facts, Message
from tfgpu_doctor.facts.report import Finding, Report
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.plan.diagnosis import diagnose, make_report
from tfgpu_doctor.render.console import console_for
from tfgpu_doctor.render.formats import renderer

Printed = Callable[[Report], str]


def printed(report: Report, columns: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = io.StringIO()
    renderer("text", "report", {})(report, console_for(stream))
    return stream.getvalue()


# a consequence stands under its cause, and is not taken over
def kept(findings: tuple[Finding, ...]) -> dict[str, str]:
    return {one.id: one.severity.value for one in findings if one.root_cause and not one.possible}


def test_findings_survive_the_paste_of_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for rows in FIRES.values():
        report = make_report(spoil(healthy(), rows[0][1]), MATRIX, source="live", timings={})
        pasted = in_form("60", report, monkeypatch)
        assert kept(diagnose(facts_of(f"$ tfgpu doctor\n{pasted}\n$ exit"), MATRIX).findings) == kept(report.findings)


def in_form(form: str, report: Report, monkeypatch: pytest.MonkeyPatch) -> str:
    if form == "markdown":
        return renderer("markdown", "report", {})(report)
    return printed(report, int(form), monkeypatch)


def test_its_fixes_are_not_repeated_as_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    report = make_report(spoil(healthy(), FIRES["cuda.missing"][0][1]), MATRIX, source="live", timings={})
    for form in ("100", "markdown"):
        found = diagnose(facts_of(f"$ tfgpu doctor\n{in_form(form, report, monkeypatch)}\n$ exit"), MATRIX).findings
        assert kept(found) == kept(report.findings) != {}
        fixes = [fix for one in found if one.id in kept(found) for fix in one.fixes]
        assert {fix.commands for fix in fixes} == {("tfgpu doctor --format json --output report.json",)}


def test_reports_with_the_labels_of_before_are_understood() -> None:
    assert kept(diagnose(facts_of(TEXTS["old_report"]), MATRIX).findings) == {"driver.missing": "error"}


def test_a_healthy_report_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    report = make_report(healthy(), MATRIX, source="live", timings={})
    findings = diagnose(facts_of(printed(report, 80, monkeypatch)), MATRIX).findings
    assert [one.id for one in findings if one.severity.value == "error"] == []


def test_every_finding_can_be_taken_over() -> None:
    lost = []
    for finding_id in DECLARATIONS:
        line = Message("own-finding", 1, "as printed", {"id": finding_id, "severity": "error", "title": "A title"})
        found = diagnose(Facts(messages=known((line,), "the text")), MATRIX).findings
        lost += [] if [(one.id, one.title) for one in found] == [(finding_id, "A title")] else [finding_id]
    assert lost == []
