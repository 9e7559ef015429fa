"""Two reports that the doctor wrote on this machine, compared: what was done is what is said."""

from __future__ import annotations

from pathlib import Path

from tests.cli.runner import process as tfgpu
from tests.healthy import MATRIX
from tfgpu_doctor.compare.comparison import compare
from tfgpu_doctor.facts.report import load_report


def test_the_same_machine_twice_has_not_changed(tmp_path: Path) -> None:
    reports = []
    for name in ("a.json", "b.json"):
        options = ("--no-import", "-q", "--fail-on", "never", "--output", str(tmp_path / name))
        done = tfgpu("doctor", *options)
        assert (done.returncode, done.stderr) == (0, "")
        reports.append(load_report((tmp_path / name).read_bytes(), name))
    assert compare(*reports, MATRIX, "2026-11-21T00:00:00Z").changes == ()
