"""Reports of one or two sentences (short_reports.yaml): the first cause is the expected one."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.corpus import report_of
from tests.tables import each
from tfgpu_doctor.records.report import Severity

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
