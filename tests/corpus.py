"""The collected reports (tests/cases), and what is found in each: judged once in a run, whichever tests look at it."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pytest

from tests.healthy import MATRIX
from tfgpu_doctor.facts.facts import Known, value_or
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
# large groups that were learnt from
LATER = ("given", "2026-11-25/15", "2026-11-25/16", "2026-11-25/17")
# Scored once, and hardly learnt from: docs/deciding.md has their figures, which no bound of test_cases.py may hide.
NOT_LEARNT = (
    *(f"2026-11-23/{n}" for n in (4, 5, 6, 7, 8)),
    *(f"2026-11-24/{n}" for n in range(9, 15)),
    "2026-11-29/18",
)
Judge: TypeAlias = Callable[[str], Report]
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
        self.is_learnt = self.case.get("batch") not in (*NOT_LEARNT, *LATER)
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
    """Return the reports that are judged by day.

    Three of each cause in what was learnt from and three in the rest, every tenth further one, those that name words of
    the advice, and some of the later groups.
    """
    number: Counter[tuple[str, bool]] = Counter()
    chosen = []
    for case in earlier():
        kind = case["root_cause"], case.get("batch") in NOT_LEARNT
        number[kind] += 1
        n = number[kind]
        if n <= 3 or n % 10 == 0 or "advice" in case or "never" in case:
            chosen.append(case)
    later = [case for case in reports() if case.get("batch") in LATER]
    return [*chosen, *later[::40]]


def report_of(text: str) -> Report:
    """Judge a text, as `tfgpu explain` does."""
    facts = text_to_facts.read(lines.read([text.encode()]), MATRIX)
    return make_report(facts, MATRIX, source="text", timings={})


def by_signs_alone(text: str) -> Report:
    """Judge a text without what it is like, which may doubt what signs show (tests/findings/test_repairs.py)."""
    facts = text_to_facts.read(lines.read([text.encode()]), MATRIX)
    shown = tuple(one for one in value_or(facts.messages, ()) if one.kind != "resembles")
    facts = msgspec.structs.replace(facts, messages=Known(shown, "the text"))
    return make_report(facts, MATRIX, source="text", timings={})


def shared_folder(factory: pytest.TempPathFactory, name: str) -> Path:
    """Return a folder that all processes of this run of the tests have."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    folder.mkdir(exist_ok=True)
    return folder


def judge_together(texts: Sequence[str], folder: Path, judge: Judge = report_of) -> dict[str, Report]:
    """Judge each of these texts, together with the other processes that are given the same folder.

    A process takes a part that none has taken yet, and leaves what it found as a file; it waits for the others' parts.
    """
    parts = {folder / f"{number}.pickle": texts[number::_PARTS] for number in range(_PARTS)}
    for path, part in parts.items():
        with contextlib.suppress(FileExistsError):
            path.with_suffix(".taken").touch(exist_ok=False)
            _judge(part, path, judge)
    found: dict[str, Report] = {}
    for path, part in parts.items():
        until = time.monotonic() + _LONGEST_S
        while not path.exists() and time.monotonic() < until:
            time.sleep(0.05)
        if not path.exists():
            _judge(part, path, judge)
        found |= pickle.loads(path.read_bytes())
    return found


def _judge(texts: Sequence[str], path: Path, judge: Judge) -> None:
    unfinished = path.with_suffix(f".{os.getpid()}")
    unfinished.write_bytes(pickle.dumps({text: judge(text) for text in texts}))
    unfinished.replace(path)
