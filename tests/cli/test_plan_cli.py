"""`tfgpu plan` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema

from tests.cli.runner import tfgpu
from tests.healthy import MATRIX, healthy, known, spoil
from tfgpu_doctor.facts.schemas import FOLDER
from tfgpu_doctor.plan.diagnosis import make_report

RTX = ("plan", "--gpu", "RTX 4090", "--driver", "535.113.01", "--python", "3.12")


def test_json_fits_its_schema() -> None:
    done = tfgpu(*RTX, "--format", "json")
    answer = json.loads(done.stdout)
    jsonschema.validate(answer, json.loads((FOLDER / "plan-1.json").read_text(encoding="utf-8")))
    assert (done.returncode, done.stderr) == (0, "")
    assert answer["schema"] == "tfgpu.plan/1"
    assert answer["described"] is True
    assert answer["target"]["gpus"] == [{"name": "GeForce RTX 4090", "compute_capability": "8.9"}]
    best = answer["options"][0]
    assert (best["kind"], best["tensorflow"], best["min_driver"]) == ("as-is", "2.20.0", "525.60.13")
    assert set(best["commands"]) == {"pip", "uv", "conda"}


def test_text_is_plain_in_a_pipe_and_fits_a_narrow_terminal() -> None:
    done = tfgpu(*RTX, environ={"COLUMNS": "60"})
    assert "\x1b" not in done.stdout
    commands = ("pip install", "uv ", "conda ", "docker ", "https:", "apt-get ")
    prose = [line for line in done.stdout.splitlines() if not any(command in line for command in commands)]
    assert max(map(len, prose)) <= 60
    assert all(line == line.rstrip() for line in done.stdout.splitlines())
    assert done.stdout.splitlines()[-1].endswith("recommended: option 1. Details: add -v")
    full = tfgpu(*RTX, "-v").stdout
    assert full.splitlines()[-1].endswith("recommended: option 1, TensorFlow 2.20.0")
    assert "conda run" in full and "conda run" not in done.stdout


def test_a_saved_report_is_planned_for(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    file.write_bytes(make_report(healthy(), MATRIX, source="live", timings={}).to_json())
    answer = json.loads(tfgpu("plan", "--from", str(file), "--format", "json").stdout)
    assert answer["described"] is False
    make, fill = answer["options"][0]["commands"]["pip"]
    assert make == "/env/bin/python -m venv ~/tf"  # with that Python, and never into its own environment
    assert fill == "~/tf/bin/python -m pip install 'tensorflow[and-cuda]==2.20.0'"
    bare = spoil(healthy(), {"gpus": known(()), "host.pci_gpus": known(())})
    file.write_bytes(make_report(bare, MATRIX, source="live", timings={}).to_json())
    done = tfgpu("plan", "--from", str(file))
    assert (done.returncode, "no NVIDIA GPU to plan for" in done.stdout) == (1, True)


def test_nothing_fits_is_a_problem_found() -> None:
    done = tfgpu("plan", "--gpu", "RTX 5090", "--driver", "550", "--tensorflow", "2.15")
    assert done.returncode == 1
    assert "no match" in done.stdout


def test_a_driver_branch_has_other_numbers_on_windows() -> None:
    options = ("plan", "--os", "windows", "--python", "3.8", "--tensorflow", "2.4", "--format", "json", "--driver")
    branch, number, version = (tfgpu(*options, one) for one in ("450", "451", "450.80"))
    assert json.loads(branch.stdout)["options"] == json.loads(number.stdout)["options"]
    assert json.loads(branch.stdout)["options"] != json.loads(version.stdout)["options"]
    assert branch.stderr == "tfgpu: on Windows, driver branch 450 is numbered 451\n" and not number.stderr
