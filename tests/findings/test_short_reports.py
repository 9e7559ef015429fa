"""Reports of one or two sentences (short_reports.yaml): the first cause is the expected one."""

from __future__ import annotations

import itertools
from pathlib import Path

import yaml

from tests.corpus import report_of
from tests.healthy import MATRIX
from tests.tables import each
from tfgpu_doctor.records.report import Severity
from tfgpu_doctor.records.versions import minor

_SYMPTOMS = ("gpu.not-visible", "tf.import-failed", "tf.known-bug", "benign.log", "tensorrt.missing-benign")
_ROWS = yaml.safe_load((Path(__file__).parent / "short_reports.yaml").read_bytes())
REPORTS = [(cause, text) for cause, texts in _ROWS.items() for text in texts]


@each("cause, text", REPORTS)
def test_the_first_cause_is_the_right_one(cause: str, text: str) -> None:
    report = report_of(text)
    if cause == "ok":
        assert [one.id for one in report.findings if one.severity is Severity.ERROR] == []
    else:
        assert [one.id for one in report.findings if one.id not in _SYMPTOMS][:1] == [cause]


def test_what_may_be_one_of_several_releases_is_none_to_install() -> None:
    """What is left of a text's clues are many releases; the best is advised, and not the oldest of them."""
    text = "Windows 11, pip install tensorflow[and-cuda], no GPU listed"
    (found, *_) = report_of(text).findings
    assert "2.14" not in repr(found.fixes) and "tensorflow[and-cuda]==2.20" in repr(found.fixes)
    assert found.evidence[0].saw == "TensorFlow on Windows"


def _first(text: str) -> str | None:
    return next((one.id for one in report_of(text).findings if one.id not in _SYMPTOMS), None)


def test_two_releases_in_one_list_overwrite_each_other() -> None:
    """Whatever the two are: every neighbour in the matrix, up to the last tensorflow-gpu."""
    published = MATRIX.stable("linux_x86_64", "tensorflow-gpu")
    for newer, older in itertools.pairwise(dict.fromkeys(minor(row.version) for row in published)):
        listed = f"pip list\ntensorflow           {older}.0\ntensorflow-gpu       {newer}.0\n"
        assert _first(f"TF uses only the CPU, Ubuntu\n{listed}") == "tf.package-conflict", listed
    assert _first("pip list\ntensorflow  2.4.1\ntensorflow-gpu  2.4.1\n") != "tf.package-conflict"
