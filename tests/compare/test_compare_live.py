"""Two reports that the doctor wrote on this machine, compared: what was done is what is said."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.runner import process as tfgpu
from tests.healthy import MATRIX
from tests.lab import Lab
from tfgpu_doctor.compare.comparison import compare, exit_code
from tfgpu_doctor.compare.records import Comparison, Explanation
from tfgpu_doctor.records.facts import Known
from tfgpu_doctor.records.report import load_report

PATIENTS = Path(__file__).parents[1] / "patients"


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


def explanation(comparison: Comparison, finding: str) -> Explanation:
    return next(one for one in comparison.explanations if one.finding == finding)


def test_the_same_machine_twice_has_not_changed(tmp_path: Path) -> None:
    reports = [examined(tmp_path / name, {}) for name in ("a.json", "b.json")]
    assert compared(*reports).changes == ()


@pytest.mark.parametrize(
    ("answers", "finding"), [({"nvml_init": 18}, "driver.version-mismatch"), ({"cuinit": 999}, "driver.init-failed")]
)
def test_a_driver_that_answers_otherwise(
    driver_lab: Lab, tmp_path: Path, answers: dict[str, object], finding: str
) -> None:
    good = examined(tmp_path / "good.json", driver_lab.environ())
    bad = examined(tmp_path / "bad.json", driver_lab.environ(**answers))
    comparison = compared(good, bad)
    assert {change.id: change.status for change in comparison.findings}[finding] == "new"
    assert all(change.startswith("driver.") for change in explanation(comparison, finding).changes)
    assert exit_code(comparison, "error") == 1


def test_a_driver_that_is_gone(driver_lab: Lab, tmp_path: Path) -> None:
    environ = driver_lab.environ()
    good = examined(tmp_path / "good.json", environ)
    bad = examined(tmp_path / "bad.json", {**environ, "LD_LIBRARY_PATH": ""})
    if isinstance(load_report(Path(bad).read_bytes(), bad).facts.driver.version, Known):
        pytest.skip("this machine has a driver of its own, which is there without that of the lab")
    texts = {change.id: change.text for change in compared(good, bad).changes}
    assert texts["driver.version"].endswith("→ none")
    assert texts["driver.libcuda"].endswith("→ none")


def test_a_file_that_hides_tensorflow(tensorflow_python: str, tmp_path: Path) -> None:
    inherited = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    good = examined(tmp_path / "good.json", inherited, "--python", tensorflow_python)
    bad = examined(tmp_path / "bad.json", {"PYTHONPATH": str(PATIENTS / "shadow")}, "--python", tensorflow_python)
    for found in (explanation(compared(good, bad), "tf.shadowed"), explanation(compared(bad, good), "tf.shadowed")):
        assert (found.how, found.changes[0]) == ("change", "python.tensorflow_paths")


def test_a_folder_with_an_empty_library(tensorflow_python: str, tmp_path: Path) -> None:
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / "libcudart.so.12").touch()
    environ = {"LD_LIBRARY_PATH": str(folder), "TF_ENABLE_ONEDNN_OPTS": "0"}
    good = examined(tmp_path / "good.json", {"LD_LIBRARY_PATH": ""}, "--python", tensorflow_python)
    bad = examined(tmp_path / "bad.json", environ, "--python", tensorflow_python)
    weights = {change.id: change.weight for change in compared(good, bad).changes}
    assert weights["variables.TF_ENABLE_ONEDNN_OPTS"] != "explains"
    assert "variables.LD_LIBRARY_PATH" in weights


def test_a_report_of_this_machine_names_nobody(tmp_path: Path) -> None:
    home = {"HOME": "/home/lovelace", "CONDA_PREFIX": "/home/lovelace/notes/env", "USER": "lovelace"}
    path = Path(examined(tmp_path / "r.json", home, "--redact"))
    assert "lovelace" not in path.read_text(encoding="utf-8")
    assert load_report(path.read_bytes(), "r.json").verdict
