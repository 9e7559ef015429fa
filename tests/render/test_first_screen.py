"""The first screen of a text: what it has, in how many lines, over the collected reports."""

from __future__ import annotations

import io

import pytest

from tests.corpus import Outcome, report_of
from tfgpu_doctor.facts.report import GUESSED, Report, Severity, root_causes
from tfgpu_doctor.findings.engine import LIKE_OTHERS
from tfgpu_doctor.render import text
from tfgpu_doctor.render.console import console_for
from tfgpu_doctor.render.outlines import report as outline
from tfgpu_doctor.render.outlines.report import page

LIBRARIES = ("cuda.", "cudnn.")  # what installs them repairs whichever it is


def screen(report: Report, width: int = 80) -> list[str]:
    out = io.StringIO()
    console = console_for(out)
    console.width = width
    text.render(page(report, "normal"), console)
    return out.getvalue().splitlines()


def test_most_reports_take_twenty_lines(outcomes: list[Outcome], monkeypatch: pytest.MonkeyPatch) -> None:
    """With what is left out where it is longer; and four of five need nothing left out, which tells of growth first."""
    for most, percent in ((20, 94), (200, 80)):
        monkeypatch.setattr(outline, "_SCREEN", most)
        lengths = [len(screen(one.report)) for one in outcomes[::3]]
        assert sum(length <= 20 for length in lengths) >= percent * len(lengths) / 100, most
        assert max(lengths) < 40


def test_each_shows_the_first_cause_with_what_to_type_and_no_command_twice(outcomes: list[Outcome]) -> None:
    wrong = []
    for one in outcomes[::3]:
        report, shown = one.report, screen(one.report, 10_000)
        grave = [cause for cause in root_causes(report.findings) if cause.severity is not Severity.NOTE]
        symptoms = [cause for cause in grave if cause.id.endswith(("-visible", "-failed"))]
        is_open = any(finding.possible for finding in report.findings)
        possible = [finding for finding in report.findings if finding.possible and finding.cause != GUESSED]
        certain = [cause for cause in grave if not is_open or cause not in symptoms]
        first = next(iter((*certain, *possible)), None)
        if first and not any(first.title in line for line in shown):
            wrong.append(f"{one.case['id']}: {first.title}")
        causes = [finding for finding in report.findings if not finding.answers]
        commands = {command for finding in causes for fix in finding.fixes for command in fix.commands}
        twice = [one for one in commands if sum(line.strip() == one for line in shown) > 1]
        wrong += [f"{one.case['id']}: {command} twice" for command in twice]
    assert wrong == []


def test_a_guess_has_no_repair_and_is_not_shown(outcomes: list[Outcome]) -> None:
    """One that reports are much like has a repair as the likeliest cause; any other one, where all are libraries."""
    wrong = []
    for one in outcomes:
        possible = [finding for finding in one.report.findings if finding.possible]
        about_libraries = all(finding.id.startswith(LIBRARIES) for finding in possible)
        guessed = [finding for finding in possible if finding.cause == GUESSED]
        guessed += [finding for finding in possible[1:] if finding.cause in LIKE_OTHERS]
        repairs = [fix for finding in guessed for fix in finding.fixes if not fix.decides]
        wrong += [one.case["id"] for fix in repairs if fix.commands and not about_libraries]
        shown = screen(one.report, 10_000) if guessed else []
        named = [finding.id for finding in guessed if finding.cause == GUESSED]
        wrong += [f"{one.case['id']}: {name}" for name in named if any(line.strip().endswith(name) for line in shown)]
    assert wrong == []


def test_a_question_about_speed_gets_the_benchmark_that_decides() -> None:
    for asked, command in {
        "two GPUs are not faster than one with MirroredStrategy": "tfgpu bench cnn --gpus 2",
        "training on the RTX 3080 is slower than on the CPU": "tfgpu bench cnn",
    }.items():
        shown = screen(report_of(asked))
        assert any(line.strip() == command for line in shown), shown
        assert any("To decide, measure: where" in line for line in shown)


def test_the_two_commonest_reports_without_a_log() -> None:
    """pip install without the extra on Linux, and at all on Windows; the system decides."""
    linux, windows = (
        report_of(f"{system}, RTX 4070. pip install tensorflow. tf.config.list_physical_devices('GPU') returns []")
        for system in ("Ubuntu 22.04", "Windows 11")
    )
    for report, cause, command in (
        (linux, "cuda.missing", "python3 -m pip install 'tensorflow[and-cuda]==2.20.0'"),
        (windows, "tf.windows-native", "wsl --install"),
    ):
        first = next(one for one in report.findings if one.possible)
        decide, repair = first.fixes
        begin = "If this is the cause: "
        assert (first.id, decide.decides, repair.text.startswith(begin)) == (cause, True, True)
        assert repair.commands[0] == command


def test_what_a_picture_makes_of_digits_is_read_as_digits() -> None:
    facts = report_of("NVIDlA GeForce RTX 4O90, Python 3.1O.12, TensorFlow 2.1O.0").facts
    assert "3.10.12" in str(facts.python.version) and "2.10.0" in str(facts.tensorflow.version)
