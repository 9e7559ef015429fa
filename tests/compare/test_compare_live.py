"""Two reports that the doctor wrote on this machine, compared from the command line: what was done is what is said."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_main import tfgpu
from tests.lab import Lab

PATIENTS = Path(__file__).parents[1] / "patients"


def examined(path: Path, environ: dict[str, str], *arguments: str) -> str:
    """Write a report of this machine under `environ`."""
    done = tfgpu("doctor", "--no-import", "--output", str(path), "--fail-on", "never", *arguments, environ=environ)
    assert (done.returncode, done.stderr) == (0, "")
    return str(path)


def compared(good: str, bad: str) -> dict[str, Any]:
    done = tfgpu("compare", good, bad, "--format", "json", "--fail-on", "never")
    assert (done.returncode, done.stderr) == (0, "")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def explanation(answer: dict[str, Any], finding: str) -> dict[str, Any]:
    return next(one for one in answer["explanations"] if one["finding"] == finding)


def test_the_same_machine_twice_has_not_changed(tmp_path: Path) -> None:
    reports = [examined(tmp_path / name, {}) for name in ("a.json", "b.json")]
    assert compared(*reports)["changes"] == []
    assert "nothing changed" in tfgpu("compare", *reports).stdout


@pytest.mark.parametrize(
    ("answers", "finding"), [({"nvml_init": 18}, "driver.version-mismatch"), ({"cuinit": 999}, "driver.init-failed")]
)
def test_a_driver_that_answers_otherwise(
    driver_lab: Lab, tmp_path: Path, answers: dict[str, object], finding: str
) -> None:
    good = examined(tmp_path / "good.json", driver_lab.environ())
    bad = examined(tmp_path / "bad.json", driver_lab.environ(**answers))
    answer = compared(good, bad)
    assert {one["id"]: one["status"] for one in answer["findings"]}[finding] == "new"
    assert all(one.startswith("driver.") for one in explanation(answer, finding)["changes"])
    assert tfgpu("compare", good, bad).returncode == 1


def test_a_driver_that_is_gone(driver_lab: Lab, tmp_path: Path) -> None:
    environ = driver_lab.environ()
    good = examined(tmp_path / "good.json", environ)
    bad = examined(tmp_path / "bad.json", {**environ, "LD_LIBRARY_PATH": ""})
    texts = {one["id"]: one["text"] for one in compared(good, bad)["changes"]}
    assert texts["driver.version"].endswith("→ none")
    assert texts["driver.libcuda"].endswith("→ none")


def test_a_file_that_hides_tensorflow(tensorflow_python: str, tmp_path: Path) -> None:
    inherited = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    good = examined(tmp_path / "good.json", inherited, "--python", tensorflow_python)
    bad = examined(tmp_path / "bad.json", {"PYTHONPATH": str(PATIENTS / "shadow")}, "--python", tensorflow_python)
    answer = compared(good, bad)
    assert explanation(answer, "tf.shadowed")["how"] == "undone"
    assert explanation(answer, "tf.shadowed")["changes"][0] == "variables.PYTHONPATH"
    back = explanation(compared(bad, good), "tf.shadowed")
    assert (back["how"], back["changes"][0]) == ("undone", "variables.PYTHONPATH")


def test_a_folder_with_an_empty_library(tensorflow_python: str, tmp_path: Path) -> None:
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / "libcudart.so.12").touch()
    environ = {"LD_LIBRARY_PATH": str(folder), "TF_ENABLE_ONEDNN_OPTS": "0"}
    good = examined(tmp_path / "good.json", {"LD_LIBRARY_PATH": ""}, "--python", tensorflow_python)
    bad = examined(tmp_path / "bad.json", environ, "--python", tensorflow_python)
    answer = compared(good, bad)
    groups = {one["id"]: one["weight"] for one in answer["changes"]}
    assert groups["variables.TF_ENABLE_ONEDNN_OPTS"] != "explains"
    assert "variables.LD_LIBRARY_PATH" in groups


def test_a_report_of_this_machine_names_nobody(tmp_path: Path) -> None:
    home = {"HOME": "/home/lovelace", "CONDA_PREFIX": "/home/lovelace/notes/env", "USER": "lovelace"}
    path = examined(tmp_path / "r.json", home, "--redact")
    assert "lovelace" not in Path(path).read_text(encoding="utf-8")
    assert tfgpu("doctor", "--from", path, "--fail-on", "never").returncode == 0
