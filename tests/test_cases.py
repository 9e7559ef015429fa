"""The collected reports: what is found in them, over all of them; how each is counted stands in tests/corpus.py.

By day some reports of each cause are judged (tests/corpus.py, `daily`), with `-m full` all of them.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.corpus import LATER, QUESTION, Outcome, judge_together, report_of, reports, shared_folder, written
from tests.findings.advice import contradictions, flaws
from tfgpu_doctor.facts.facts import lists_gpu, value_or
from tfgpu_doctor.facts.report import Finding
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.findings.declaration import matches
from tfgpu_doctor.findings.engine import LIKE_OTHERS, MOST, ONLY_ON

# Of the texts that are enough to tell, in nine of ten the first finding is the cause: below that, nobody trusts it.
TOP_1 = 0.90
# Some texts lack the telling line altogether; the cause of the others must be somewhere among the findings.
RECALL = 0.85
# Of the later groups, whose words alone were learnt, as many.
LEARNT = 0.80
# An error that does not hold sends somebody the wrong way, so that one in ten reports is already much.
FALSE_ALARMS = 0.10
# the findings that answer a question
ANSWERS = {
    *("tf.which-release", "cuda.toolkit-not-needed", "cuda.versions-differ", "gpu.usage-unknown", "perf.first-run"),
    *("gpu.choice", "gpu.several", "memory.limit"),
}
# Of the questions, so many are answered first; one beside others, or about what a program needs, is rather left open.
ANSWERED = 0.85
# what every case tells: without evidence and source nobody can check its cause
KEYS = {"id", "text", "root_cause", "also", "confidence", "notes", "evidence", "source"}


@pytest.fixture(scope="module", params=["some", pytest.param("all", marks=pytest.mark.full)])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Outcome]:
    """What is found in the reports."""
    if request.param == "some":
        return request.getfixturevalue("outcomes")
    reported = judge_together([case["text"] for case in reports()], shared_folder(tmp_path_factory, "all_reports"))
    return [Outcome(case, reported[case["text"]]) for case in reports()]


@pytest.fixture
def learnt_from(found: list[Outcome]) -> list[Outcome]:
    """Those whose signs the program was made with."""
    return [one for one in found if one.is_learnt]


@pytest.fixture
def problems(learnt_from: list[Outcome]) -> list[Outcome]:
    """Those of them that report something, and ask no question."""
    return [one for one in learnt_from if not one.is_question]


def test_the_collection_is_whole() -> None:
    cases = [*reports(), *written()]
    causes = {one for case in cases for one in (case["root_cause"], *(case.get("also") or ()))} - {"ok", QUESTION}
    assert {one for one in causes if not any(matches(known, (one,)) for known in DECLARATIONS)} == set()
    assert [case["id"] for case in reports() if not set(case) >= KEYS] == []
    assert {case["batch"] for case in reports() if case.get("batch") in LATER} == {*LATER}
    for values in ([case["id"] for case in reports()], [case["text"] for case in written()]):
        assert len(values) == len(set(values)) > 400 and all(values)


def test_no_two_reports_are_of_one_thread() -> None:
    sources = [one["source"].split("#")[0].rstrip("/").lower() for one in reports()]
    assert [one for one, times in Counter(sources).items() if times > 1 and one.startswith("http")] == []


def test_each_has_a_verdict(found: list[Outcome]) -> None:
    assert {one.report.verdict for one in found} == {"ok", "degraded", "broken", "unknown"}


def test_of_the_later_groups_the_cause_is_found(found: list[Outcome]) -> None:
    """They were learnt from, so that only a bound that anybody would notice says something: nothing is forgotten."""
    later = [one for one in found if one.is_later]
    clear = [one for one in later if one.decidable and not one.is_question]
    assert sum(one.hit for one in clear) >= LEARNT * len(clear), "\n".join(one.line() for one in clear if not one.hit)
    assert sum(len(one.false) for one in later) <= FALSE_ALARMS * len(later)


def test_the_first_finding_is_the_cause(problems: list[Outcome]) -> None:
    clear = [one for one in problems if one.decidable]
    missed = [one.line() for one in clear if not one.hit]
    assert 1 - len(missed) / len(clear) >= TOP_1, "\n".join(missed)


def test_the_cause_is_among_the_findings(problems: list[Outcome]) -> None:
    missed = [one.line() for one in problems if not one.found]
    assert 1 - len(missed) / len(problems) >= RECALL, "\n".join(missed)


def test_few_errors_are_false(learnt_from: list[Outcome]) -> None:
    false = [f"{one.line()}; false: {', '.join(one.false)}" for one in learnt_from if one.false]
    assert sum(len(one.false) for one in learnt_from) / len(learnt_from) <= FALSE_ALARMS, "\n".join(false)


def test_questions_are_answered_and_claim_no_error(learnt_from: list[Outcome]) -> None:
    asked = [one for one in learnt_from if one.is_question]
    claimed = [f"{one.line()}; claimed: {', '.join(one.false)}" for one in asked if one.false]
    assert claimed == [], "\n".join(claimed)
    silent = [one.line() for one in asked if not set(one.ids[:1]) & (ANSWERS | set(one.case["also"]))]
    assert 1 - len(silent) / len(asked) >= ANSWERED, "\n".join(silent)
    assert [one.case["id"] for one in asked if not one.case.get("answer")] == []


def test_no_report_has_flaws(found: list[Outcome]) -> None:
    earlier = [one for one in found if not one.is_later]
    wrong = [(one.case["id"], why) for one in earlier for why in flaws(one.case["text"], one.report)]
    wrong += [(one.case["id"], why) for one in found if one.is_later for why in contradictions(one.report)]
    # NumPy is within the bound there, and another one is loaded
    wrong = [(name, why) for name, why in wrong if (name, why[:16]) != ("pure-62", "changes nothing:")]
    assert wrong == [], "\n".join(map(str, wrong))


@pytest.mark.full
def test_nothing_contradicts_itself_in_any_written_text() -> None:
    assert [(case["text"], why) for case in written() for why in contradictions(report_of(case["text"]))] == []


def _said(finding: Finding) -> str:
    return " ".join([finding.title, finding.cause, *(f"{fix.text} {' '.join(fix.commands)}" for fix in finding.fixes)])


def test_the_first_finding_advises_what_helps(found: list[Outcome]) -> None:
    """The short pastes name words of the right advice, and words that would be wrong whatever the finding."""
    wrong = []
    for one in found:
        shown = [*map(_said, one.report.findings)]
        wrong += [(one.case["id"], "lacks", word) for word in one.case.get("advice", ()) if word not in shown[0]]
        wrong += [(one.case["id"], "has", word) for word in one.case.get("never", ()) if word in "\n".join(shown)]
    assert not wrong, "\n".join(map(str, wrong))


def test_no_guess_is_impossible(found: list[Outcome]) -> None:
    """Not more than a few, nothing of another system, and nothing that the situation rules out."""
    wrong = []
    for one in found:
        guessed = [found.id for found in one.report.findings if found.possible and found.cause in LIKE_OTHERS]
        system = value_or(one.report.facts.host.os, None)
        foreign = [cause for cause in guessed if system not in (None, ONLY_ON.get(cause, system))]
        devices = value_or(one.report.facts.tensorflow.devices, None)
        unseen = devices is not None and not lists_gpu(devices)
        slow = [cause for cause in guessed if unseen and cause.startswith(("perf.", "memory.", "compute."))]
        wrong += [(one.case["id"], guessed)] if foreign or slow or len(guessed) > MOST else []
    assert wrong == []
