"""The collected reports (tests/cases), and what is found in each: judged once in a run, whichever tests look at it."""

from __future__ import annotations

import json
import os
import pickle
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.healthy import MATRIX
from tfgpu_doctor.facts.report import Report, Severity
from tfgpu_doctor.parsers import lines, text_to_facts
from tfgpu_doctor.plan.diagnosis import make_report

CASES = Path(__file__).parent / "cases"
# They neither take a place nor count as alarms: what follows from a cause, and remarks about a release.
SYMPTOMS = {"gpu.not-visible", "tf.import-failed", "gpu.fewer-than-required", "tf.known-bug"}
# causes of reports in which nothing is wrong: what is found there must be no error
HARMLESS = {"ok", "benign.log", "tensorrt.missing-benign"}
# the cause of a report in which somebody asks before anything fails
QUESTION = "question"
# Large groups that were learnt from; every twentieth report of them is judged by day.
LATER = ("given", "2026-11-25/15", "2026-11-25/16", "2026-11-25/17")
_PARTS = 30  # pieces of work that the processes of a run share
_LONGEST_S = 60  # for one of them; then the process that took it is taken for dead


@dataclass
class Outcome:
    """One report, and what was found in it."""

    case: dict[str, Any]
    report: Report

    def __post_init__(self) -> None:
        """Compare what was found with the cause that the case names."""
        cause, findings = self.case["root_cause"], self.report.findings
        self.ids = [one.id for one in findings if one.id not in SYMPTOMS]
        # the cause is confirmed, and the text enough to tell it
        self.decidable = self.case["confidence"] != "likely"
        self.decidable &= "TEXT-UNDERDETERMINED" not in (self.case.get("notes") or "")
        self.is_later = self.case.get("batch") in LATER
        self.is_question = cause == QUESTION
        errors = [one for one in findings if one.severity is Severity.ERROR]
        claims_nothing = all(one.possible for one in errors)
        self.hit = claims_nothing if cause in HARMLESS else self.ids[:1] == [cause]
        self.found = claims_nothing if cause in HARMLESS else cause in self.ids
        allowed = {cause, *(self.case.get("also") or ())} | SYMPTOMS
        self.false = [one.id for one in errors if one.id not in allowed]  # errors that do not hold

    def line(self) -> str:
        return f"{self.case['id']}: {self.case['root_cause']}, found {', '.join(self.ids) or 'nothing'}"


def _read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (CASES / name).read_text(encoding="utf-8").splitlines()]


@cache
def reports() -> list[dict[str, Any]]:
    """Return every collected report."""
    return _read("reports.jsonl")


@cache
def written() -> list[dict[str, Any]]:
    """Return the texts that were written to be learnt from, with their causes."""
    return _read("written.jsonl")


def earlier() -> list[dict[str, Any]]:
    """Return the reports of all groups but the large ones."""
    return [case for case in reports() if case.get("batch") not in LATER]


def daily() -> list[dict[str, Any]]:
    """Return the reports that are judged by day."""
    later = [case for case in reports() if case.get("batch") in LATER]
    return [*earlier(), *later[::20]]


def report_of(text: str) -> Report:
    """Judge a text, as `tfgpu explain` does."""
    facts = text_to_facts.read(lines.read([text.encode()]), MATRIX)
    return make_report(facts, MATRIX, source="text", timings={})


def judged(case: dict[str, Any]) -> Outcome:
    """Judge a collected report."""
    return Outcome(case, report_of(case["text"]))


def judge_together(texts: Sequence[str], folder: Path) -> dict[str, Report]:
    """Judge each of these texts, together with the other processes that are given the same folder.

    A process takes a part that none has taken yet, and leaves what it found as a file; it waits for the others' parts.
    """
    parts = {folder / f"{number}.pickle": texts[number::_PARTS] for number in range(_PARTS)}
    for path, part in parts.items():
        if _take(path.with_suffix(".taken")):
            _judge(part, path)
    found: dict[str, Report] = {}
    for path, part in parts.items():
        until = time.monotonic() + _LONGEST_S
        while not path.exists() and time.monotonic() < until:
            time.sleep(0.05)
        if not path.exists():
            _judge(part, path)
        found |= pickle.loads(path.read_bytes())
    return found


def _take(claim: Path) -> bool:
    try:
        os.close(os.open(claim, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def _judge(texts: Sequence[str], path: Path) -> None:
    unfinished = path.with_suffix(f".{os.getpid()}")
    unfinished.write_bytes(pickle.dumps({text: report_of(text) for text in texts}))
    unfinished.replace(path)
