"""Texts in which nothing is wrong, as they are and cut anywhere; what a further true line may change (law 12).

And a report of ours that somebody pastes as text: what was found on that machine is found again.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from tests.corpus import SYMPTOMS, Outcome, report_of
from tests.findings.row_texts import TEXTS
from tests.findings.rows_over_facts import FIRES
from tests.healthy import MATRIX, healthy, known, spoil
from tests.tables import each
from tfgpu_doctor.facts.facts import Facts, Known, Message
from tfgpu_doctor.facts.report import Finding, Report, Severity, exit_code
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.parsers import lines, text_to_facts
from tfgpu_doctor.plan.diagnosis import diagnose, make_report
from tfgpu_doctor.render.console import console_for
from tfgpu_doctor.render.formats import renderer
from tfgpu_doctor.render.outline import blocks, brief

CAPTURES = Path(__file__).parent.parent / "captures"
LOGS = {name: set(causes) for name, causes in TEXTS["logs"].items()}  # of a real H100: the causes that each shows
USES_GPU = ("fixed-log", "memory-taken-tf")
NOBODY_COMPLAINS = (
    *TEXTS["nobody_complains"],
    (CAPTURES / "forum" / "two2.txt").read_text(encoding="utf-8").partition("pip list\n")[2],
)
# what a helper of a forum gets, one step after the other
FORUM = ("a2", "two", "two2", "two3", "c3g", "b6")
HARMLESS = "To enable them in other operations, rebuild TensorFlow with the appropriate compiler flags.\n"


def causes(report: Report) -> list[str]:
    """Ids of what is no note, certain or possible; without symptoms."""
    return [one.id for one in report.findings if one.severity is not Severity.NOTE and one.id not in SYMPTOMS]


def log(name: str) -> str:
    return (CAPTURES / "h100" / "logs" / f"{name}.err").read_text(encoding="utf-8")


@pytest.mark.parametrize("most", [15, pytest.param(10_000, marks=pytest.mark.full)])
def test_a_log_is_judged_right_and_so_is_each_beginning_of_it(most: int) -> None:
    """A beginning may show less, and nothing else."""
    assert {path.stem for path in (CAPTURES / "h100" / "logs").iterdir()} == set(LOGS)
    for name, expected in LOGS.items():
        text, report = log(name), report_of(log(name))
        assert set(causes(report)) == expected, name
        assert (exit_code(report, "error") == 0) is (name in USES_GPU), name
        ends = [place + 1 for place, character in enumerate(text) if character == "\n"]
        ends += range(1, len(text), max(len(text) // 25, 1))  # and within lines
        for end in ends[:: len(ends) // most + 1]:
            assert set(causes(report_of(text[:end]))) <= expected, (name, text[:end][-200:])


def test_the_release_that_forgets_a_folder_is_named_with_the_way_out() -> None:
    """The log leaves one release; what the matrix knows of it says more than that a library was not found."""
    (found,) = (one for one in report_of(log("as-installed-vmodule")).findings if one.id == "cuda.lib-path")
    assert found.title == "TensorFlow 2.21.0: libcusolver of [and-cuda] is installed but not found"
    assert found.fixes[0].commands == ("python3 -m pip install 'tensorflow[and-cuda]==2.20.0'",)


@each("text", NOBODY_COMPLAINS)
def test_where_nobody_complains_no_cause_is_guessed(text: str) -> None:
    assert causes(report_of(text)) == []


@each("name", FORUM)
def test_the_two_lines_of_every_forum(name: str) -> None:
    """pip installed TensorFlow without CUDA: said first, and what to type, for the release that the text names."""
    text = (CAPTURES / "forum" / f"{name}.txt").read_text(encoding="utf-8")
    first = report_of(text).findings[0]
    release = "2.19.0" if "2.19.0" in text else "2.20.0"
    assert (first.id, first.possible) == ("cuda.missing", False)
    assert first.fixes[0].commands == (f"python3 -m pip install 'tensorflow[and-cuda]=={release}'",)


def first_cause(report: Report) -> tuple[str, bool] | None:
    """Its id, and whether it is certain."""
    roots = [one for one in report.findings if one.root_cause and one.id in causes(report)]
    return (roots[0].id, not roots[0].possible) if roots else None


def restated(facts: Facts) -> str:
    """What the text tells already, in plain words."""
    told = (("TensorFlow", facts.tensorflow.version), ("Python", facts.python.version))
    return "".join(f"{name} version: {fact.value}\n" for name, fact in told if isinstance(fact, Known))


@pytest.mark.parametrize("step", [20, pytest.param(1, marks=pytest.mark.full)])
def test_a_further_true_line_keeps_the_first_cause_or_sharpens_it(step: int, outcomes: list[Outcome]) -> None:
    wrong = []  # nor does a guess vanish, since the line says nothing against it; a guess that is wrong may
    for one in [one for one in outcomes if not one.is_later][::step]:
        text, true, before = one.case["text"].rstrip("\n") + "\n", one.case["root_cause"], first_cause(one.report)
        if before is None or true in ("ok", "question"):
            continue
        for more in (HARMLESS + text, text + HARMLESS, text + restated(one.report.facts)):
            after = first_cause(report_of(more))
            named = (before[0], true, *(causes(one.report) if after and after[1] else ()))  # of those left open
            if after is None or after[0] not in named or after[1] < before[1]:
                wrong.append((one.case["id"], before, after))
    assert wrong == []


def test_harmless_lines_are_named_on_the_first_screen() -> None:
    (block,) = (brief(one) for one in blocks(report_of(log("fixed-log"))) if one.ids == ("benign.log",))
    assert any("oneDNN" in line.text for line in block.lines)


def test_no_words_stand_as_evidence() -> None:
    """A guess rests on a line that tells of trouble, or on nothing that could be shown."""
    text = (
        "Hello, yesterday my network on the GPU with TensorFlow gave a loss, and today the loss is another one, why? "
        * 2
    )
    for one in report_of(text).findings:
        assert all(evidence.saw in text or "." in evidence.saw for evidence in one.evidence), one.evidence


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
