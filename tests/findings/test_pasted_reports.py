"""A report of ours that somebody pastes as text: what was found on that machine is found again."""

from __future__ import annotations

import io
from typing import Any

import pytest

from tests.findings.row_texts import TEXTS
from tests.findings.rows_over_facts import FIRES
from tests.healthy import MATRIX, healthy, known, spoil
from tfgpu_doctor.facts.facts import Facts, Message
from tfgpu_doctor.facts.report import Finding, Report
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.parsers import lines, text_to_facts
from tfgpu_doctor.plan.diagnosis import diagnose, make_report
from tfgpu_doctor.render.console import console_for
from tfgpu_doctor.render.formats import renderer


def printed(report: Report, columns: int) -> str:
    stream = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        renderer("text", "report", {})(report, console_for(stream))
    return stream.getvalue()


def live(changes: dict[str, Any]) -> Report:
    return make_report(spoil(healthy(), changes), MATRIX, source="live", timings={})


def kept(findings: tuple[Finding, ...]) -> dict[str, str]:
    """A consequence stands under its cause, and is not taken over."""
    return {one.id: one.severity.value for one in findings if one.root_cause and not one.possible}


def pasted(text: str) -> tuple[Finding, ...]:
    return diagnose(text_to_facts.read(lines.read([f"$ tfgpu doctor\n{text}\n$ exit".encode()])), MATRIX).findings


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.full)])
def test_findings_survive_the_paste_of_a_narrow_terminal(step: int) -> None:
    for rows in [*FIRES.values()][::step]:
        report = live(rows[0][1])
        assert kept(pasted(printed(report, 60))) == kept(report.findings)


def test_its_fixes_are_not_repeated_as_ours() -> None:
    report = live(FIRES["cuda.missing"][0][1])
    for text in (printed(report, 100), renderer("markdown", "report", {})(report)):
        found = pasted(text)
        assert kept(found) == kept(report.findings) != {}
        fixes = [fix for one in found if one.id in kept(found) for fix in one.fixes]
        assert {fix.commands for fix in fixes} == {("tfgpu doctor --format json --output report.json",)}


def test_reports_with_the_labels_of_before_are_understood() -> None:
    assert kept(pasted(TEXTS["old_report"])) == {"driver.missing": "error"}


def test_a_healthy_report_finds_nothing() -> None:
    assert [one.id for one in pasted(printed(live({}), 80)) if one.severity.value == "error"] == []


def test_every_finding_can_be_taken_over() -> None:
    lost = []
    for finding_id, declared in DECLARATIONS.items():
        line = Message("own-finding", 1, "as printed", {"id": finding_id, "severity": "error", "title": "A title"})
        facts = Facts(messages=known((line,), "the text"))
        found = diagnose(facts, MATRIX, declarations=[declared]).findings
        lost += [] if [(one.id, one.title) for one in found] == [(finding_id, "A title")] else [finding_id]
    assert lost == []
