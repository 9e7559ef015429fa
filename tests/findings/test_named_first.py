"""Texts as people paste them: what is named first, and what is no error at all. A failure shows the text."""

from __future__ import annotations

from fnmatch import fnmatchcase

from tests.findings.logs import created, text
from tests.findings.row_texts import FIRST, NAMED_FIRST
from tests.findings.test_signs_over_messages import findings
from tfgpu_doctor.records.report import Severity

_HARMLESS = ("benign.log", "tensorrt.missing-benign", "env.*")


def test_is_named_first() -> None:
    wrong = []
    for finding, pasted in NAMED_FIRST:
        found = findings(pasted)
        if [one.id for one in found[:1]] != [finding] or found[0].possible or not found[0].fixes:
            wrong.append((finding, pasted, [(one.id, one.severity) for one in found]))
    assert wrong == [], "\n".join(map(str, wrong))


def test_the_likeliest_cause_of_a_job_that_fails_comes_first() -> None:
    found = [(cause, pasted, [one.id for one in findings(pasted)]) for cause, pasted in FIRST["causes"]]
    assert [row for row in found if row[2][:1] != [row[0]]] == []


def test_is_no_error() -> None:
    found = [(t, [one.id for one in findings(t) if one.severity is Severity.ERROR]) for t in FIRST["no_error"]]
    assert [row for row in found if row[1]] == []


def test_beside_a_gpu_that_works_there_are_only_notes() -> None:
    wrong = []
    for name, pasted in FIRST["fine"].items():
        for one in findings(text(pasted, created())):
            if one.severity is not Severity.NOTE or not any(fnmatchcase(one.id, pattern) for pattern in _HARMLESS):
                wrong.append((name, one.id, one.severity))
    assert wrong == [], "\n".join(map(str, wrong))
