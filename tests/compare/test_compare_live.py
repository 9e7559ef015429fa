"""Two reports that the doctor wrote on this machine, compared: what was done is what is said."""

from __future__ import annotations

from pathlib import Path

from tests.cli.runner import process as tfgpu
from tests.healthy import MATRIX
from tfgpu_doctor.compare.comparison import compare
from tfgpu_doctor.compare.records import Comparison
from tfgpu_doctor.facts.report import load_report


def examined(path: Path, environ: dict[str, str], *arguments: str) -> str:
    """Write a report of this machine under `environ`."""
    quietly = ("--no-import", "-q", "--fail-on", "never")
    done = tfgpu("doctor", *quietly, "--output", str(path), *arguments, environ=environ)
    assert (done.returncode, done.stderr) == (0, "")
    return str(path)


def compared(good: str, bad: str) -> Comparison:
    """What `tfgpu compare` says of two files; the command itself is tested in tests/cli."""
    reports = [load_report(Path(name).read_bytes(), name) for name in (good, bad)]
    return compare(reports[0], reports[1], MATRIX, "2026-11-21T00:00:00Z")


def test_the_same_machine_twice_has_not_changed(tmp_path: Path) -> None:
    reports = [examined(tmp_path / name, {}) for name in ("a.json", "b.json")]
    assert compared(*reports).changes == ()


def test_a_report_of_this_machine_names_nobody(tmp_path: Path) -> None:
    home = {"HOME": "/home/lovelace", "CONDA_PREFIX": "/home/lovelace/notes/env", "USER": "lovelace"}
    path = Path(examined(tmp_path / "r.json", home, "--redact"))
    assert "lovelace" not in path.read_text(encoding="utf-8")
    assert load_report(path.read_bytes(), "r.json").verdict
