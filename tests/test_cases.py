"""The collected reports: what is found in them, over all of them; how each is counted stands in tests/cases."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.findings.advice import complaints
from tests.healthy import MATRIX
from tfgpu_doctor.diagnosis.reports import make_report
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.findings.declaration import matches
from tfgpu_doctor.inference import text_to_facts
from tfgpu_doctor.parsers.text import lines
from tfgpu_doctor.records.report import Report, Severity

CASES = sorted((Path(__file__).parent / "cases").glob("*.yaml"))
# Of the texts that are enough to tell, in nine of ten the first finding is the cause: below that, nobody trusts it.
TOP_1 = 0.90
# Some texts lack the telling line altogether; the cause of the others must be somewhere among the findings.
RECALL = 0.85
# Of the later groups, whose words alone were learnt, as many.
LEARNT = 0.80
# An error that does not hold sends somebody the wrong way, so that one in ten reports is already much.
FALSE_ALARMS = 0.10
# They neither take a place nor count as alarms: what follows from a cause, and remarks about a release.
SYMPTOMS = {"gpu.not-visible", "tf.import-failed", "gpu.fewer-than-required", "tf.known-bug"}
# causes of cases in which nothing is wrong: what is found there must be no error
HARMLESS = {"ok", "benign.log", "tensorrt.missing-benign"}
# the cause of a case in which somebody asks before anything fails, and the findings that answer
QUESTION = "question"
ANSWERS = {
    *("tf.which-release", "cuda.toolkit-not-needed", "cuda.versions-differ", "gpu.usage-unknown", "perf.first-run"),
}
# Of the questions, nine in ten are answered first.
ANSWERED = 0.90
# Scored once, and hardly learnt from: docs/deciding.md has their figures, which no bound of those above may hide.
NOT_LEARNT = (*(f"2026-11-23/{n}" for n in (4, 5, 6, 7, 8)), *(f"2026-11-24/{n}" for n in range(9, 15)))
# Large groups, a file each with a report a line; all are learnt from. Of the given ones, 0, signs were written, too.
LATER = sorted((Path(__file__).parent / "cases").glob("[0-9]*.jsonl"))
# what every case tells: without evidence and source nobody can check its cause
KEYS = {"id", "text", "root_cause", "also", "confidence", "notes", "evidence", "source"}


@dataclass(frozen=True)
class Outcome:
    """One report, and what was found in it."""

    case: dict[str, Any]
    report: Report

    @property
    def ids(self) -> list[str]:
        return [one.id for one in self.report.findings if one.id not in SYMPTOMS]

    @property
    def decidable(self) -> bool:
        """The cause is confirmed, and the text enough to tell it."""
        underdetermined = "TEXT-UNDERDETERMINED" in (self.case.get("notes") or "")
        return not underdetermined and self.case["confidence"] != "likely"

    @property
    def is_question(self) -> bool:
        return bool(self.case["root_cause"] == QUESTION)

    @property
    def hit(self) -> bool:
        return self.claims_nothing if self.is_harmless else self.ids[:1] == [self.case["root_cause"]]

    @property
    def found(self) -> bool:
        return self.claims_nothing if self.is_harmless else self.case["root_cause"] in self.ids

    @property
    def is_harmless(self) -> bool:
        return self.case["root_cause"] in HARMLESS

    @property
    def claims_nothing(self) -> bool:
        return all(one.possible for one in self.report.findings if one.severity is Severity.ERROR)

    @property
    def false(self) -> list[str]:
        """Errors that do not hold."""
        allowed = {self.case["root_cause"], *(self.case.get("also") or ())} | SYMPTOMS
        errors = [one.id for one in self.report.findings if one.severity is Severity.ERROR]
        return [one for one in errors if one not in allowed]

    def line(self) -> str:
        return f"{self.case['id']}: {self.case['root_cause']}, found {', '.join(self.ids) or 'nothing'}"


@cache
def outcome(path: Path) -> Outcome:
    return judged(yaml.safe_load(path.read_text(encoding="utf-8")))


def judged(case: dict[str, Any]) -> Outcome:
    facts = text_to_facts.read(lines.read([case["text"].encode()]), MATRIX)  # as the command does
    return Outcome(case, make_report(facts, MATRIX, source="text", timings={}))


def every_outcome() -> list[Outcome]:
    return [outcome(path) for path in CASES]


@cache
def later_cases() -> list[dict[str, Any]]:
    return [json.loads(line) for path in LATER for line in path.read_text(encoding="utf-8").splitlines()]


@cache
def written() -> list[dict[str, Any]]:
    """Texts that were written to be learnt from, with their causes."""
    path = Path(__file__).parent / "cases" / "written.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def learnt_from() -> list[Outcome]:
    """Those that the program was made with."""
    return [one for one in every_outcome() if one.case.get("batch") not in NOT_LEARNT]


def every_report() -> list[Outcome]:
    """Those of them that report something, and ask no question."""
    return [one for one in learnt_from() if not one.is_question]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_each_is_judged(path: Path) -> None:
    one = outcome(path)
    assert one.report.verdict in ("ok", "degraded", "broken", "unknown")
    assert foreign([one.case]) == set()
    assert set(one.case) >= KEYS, "a key is missing"
    assert one.case["id"] == path.stem


def foreign(cases: list[dict[str, Any]]) -> set[str]:
    """Causes of these cases that are no finding."""
    named = {one for case in cases for one in (case["root_cause"], *(case.get("also") or ()))} - {"ok", QUESTION}
    return {one for one in named if not any(matches(known, (one,)) for known in DECLARATIONS)}


def test_the_later_groups_and_written_texts_are_whole() -> None:
    assert foreign([*later_cases(), *written()]) == set()
    assert [case["id"] for case in later_cases() if not set(case) >= KEYS | {"batch"}] == []
    ids = [*(path.stem for path in CASES), *(case["id"] for case in later_cases())]
    assert len(ids) == len(set(ids))
    texts = [one["text"] for one in written()]
    assert len(texts) == len(set(texts)) and all(texts)


@pytest.mark.parametrize("part", [0, *(pytest.param(n, marks=pytest.mark.full) for n in range(1, 10))])
def test_of_the_later_groups_each_is_judged(part: int) -> None:
    """They were learnt from, so that only a bound that anybody would notice says something: nothing is forgotten."""
    found = [judged(case) for case in later_cases()[part::10]]
    clear = [one for one in found if one.decidable and not one.is_question]
    assert sum(one.hit for one in clear) >= LEARNT * len(clear), "\n".join(one.line() for one in clear if not one.hit)
    assert sum(len(one.false) for one in found) <= FALSE_ALARMS * len(found)


def test_the_first_finding_is_the_cause() -> None:
    clear = [one for one in every_report() if one.decidable]
    missed = [one.line() for one in clear if not one.hit]
    assert 1 - len(missed) / len(clear) >= TOP_1, "\n".join(missed)


def test_the_cause_is_among_the_findings() -> None:
    all_of_them = every_report()
    missed = [one.line() for one in all_of_them if not one.found]
    assert 1 - len(missed) / len(all_of_them) >= RECALL, "\n".join(missed)


def test_few_errors_are_false() -> None:
    all_of_them = learnt_from()
    false = [f"{one.line()}; false: {', '.join(one.false)}" for one in all_of_them if one.false]
    assert sum(len(one.false) for one in all_of_them) / len(all_of_them) <= FALSE_ALARMS, "\n".join(false)


def test_questions_are_answered_and_claim_no_error() -> None:
    asked = [one for one in learnt_from() if one.is_question]
    claimed = [f"{one.line()}; claimed: {', '.join(one.false)}" for one in asked if one.false]
    assert claimed == [], "\n".join(claimed)
    silent = [one.line() for one in asked if not set(one.ids[:1]) & (ANSWERS | set(one.case["also"]))]
    assert 1 - len(silent) / len(asked) >= ANSWERED, "\n".join(silent)
    assert [one.case["id"] for one in asked if not one.case.get("answer")] == []


def test_one_release_is_advised_and_each_fault_once() -> None:
    wrong = [(one.case["id"], why) for one in every_outcome() for why in complaints(one.report.findings)]
    assert wrong == [], "\n".join(map(str, wrong))


def test_the_collection_is_there() -> None:
    assert len(CASES) > 400


def test_no_two_cases_are_of_one_thread() -> None:
    cases = [*(one.case for one in every_outcome()), *later_cases()]
    sources = [one["source"].split("#")[0].rstrip("/").lower() for one in cases]
    assert [one for one, times in Counter(sources).items() if times > 1 and one.startswith("http")] == []
