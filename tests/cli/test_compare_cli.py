"""`tfgpu compare` from the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.cli.runner import tfgpu
from tests.findings.rows_over_facts import FIRES, WHY
from tests.healthy import gpu, known
from tests.records.test_report import report
from tfgpu_doctor.records.schemas import FOLDER

HIDDEN = {
    "variables": known({"CUDA_VISIBLE_DEVICES": "-1"}),
    "gpus": known((gpu(temperature=70),), "NVML"),
    "tensorflow.checks": known(()),
}


def save(path: Path, changes: dict[str, Any]) -> str:
    path.write_bytes(report(changes).to_json())
    return str(path)


@pytest.fixture
def good(tmp_path: Path) -> str:
    return save(tmp_path / "good.json", {})


@pytest.fixture
def bad(tmp_path: Path) -> str:
    return save(tmp_path / "bad.json", HIDDEN)


def test_text(good: str, bad: str) -> None:
    done = tfgpu("compare", good, bad)
    assert (done.returncode, done.stderr) == (1, "")
    assert "cause     CUDA_VISIBLE_DEVICES set to -1" in done.stdout
    assert "good.json" in done.stdout and "temperature" not in done.stdout
    assert done.stdout.splitlines()[-1] == "✗ 2 changes, 1 new finding"
    assert "temperature 40 °C → 70 °C" in tfgpu("compare", good, bad, "--all").stdout


def test_json_fits_its_schema(good: str, bad: str, tmp_path: Path) -> None:
    file = tmp_path / "comparison.json"
    done = tfgpu("compare", good, bad, "--format", "text", "--output", "-", "--output", str(file))
    assert done.returncode == 1 and "new finding" in done.stdout
    answer = json.loads(file.read_text())
    jsonschema.validate(answer, json.loads((FOLDER / "compare-1.json").read_text(encoding="utf-8")))
    assert answer["schema"] == "tfgpu.compare/1"
    assert [one["id"] for one in answer["changes"]] == ["variables.CUDA_VISIBLE_DEVICES", "tensorflow.checks"]
    assert answer["explanations"][0]["changes"] == ["variables.CUDA_VISIBLE_DEVICES"]
    everything = json.loads(tfgpu("compare", good, bad, "--all", "--format", "json").stdout)
    assert "gpus.0.temperature" in {one["id"] for one in everything["changes"]}


def test_exit_codes(good: str, bad: str, tmp_path: Path) -> None:
    assert tfgpu("compare", bad, good).returncode == 0
    assert "1 finding gone" in tfgpu("compare", bad, good).stdout
    assert tfgpu("compare", good, bad, "--fail-on", "never").returncode == 0
    same = tfgpu("compare", bad, bad)
    assert same.returncode == 0 and "nothing changed" in same.stdout
    hot = save(tmp_path / "hot.json", FIRES["gpu.throttled"][0][1])
    assert tfgpu("compare", good, hot).returncode == 0
    assert tfgpu("compare", good, hot, "--fail-on", "warning").returncode == 1
    unknown = save(tmp_path / "unknown.json", {"tensorflow.devices": WHY})
    assert tfgpu("compare", good, unknown).returncode == 3


def test_standard_input_on_either_side(good: str, bad: str) -> None:
    for arguments, file in ((("-", bad), good), ((good, "-"), bad)):
        with Path(file).open("rb") as stream:
            done = tfgpu("compare", *arguments, stdin=stream)
        assert done.returncode == 1
        assert "standard input" in done.stdout


def test_process_substitution(good: str, bad: str) -> None:
    command = f"{sys.executable} -m tfgpu_doctor compare <(cat {good}) <(sleep 0.2; cat {bad})"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, "")


def test_require_gpus(good: str) -> None:
    done = tfgpu("compare", good, good, "--require-gpus", "2")
    assert done.returncode == 0 and "gpu.fewer-than-required" in done.stdout


def test_a_narrow_terminal(good: str, bad: str) -> None:
    done = tfgpu("compare", good, bad, environ={"COLUMNS": "60"})
    assert max(map(len, done.stdout.splitlines())) <= 60
    assert "\x1b" not in done.stdout


def test_ascii_terminals_get_no_traceback(good: str, bad: str) -> None:
    done = tfgpu("compare", good, bad, environ={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (1, "")


def test_wrong_usage(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for arguments, message in (
        (("compare", "a.json"), "Missing argument 'NEW.json'"),
        (("compare", "nowhere.json", "b.json"), "cannot read nowhere.json: No such file or directory"),
        (("compare", "-", "-"), "only one of the two files can be standard input (-)"),
        (("compare", "a.json", "b.json", "--format", "sarif"), "'sarif' is not one of"),
    ):
        with subtests.test(arguments=arguments, message=message):
            done = tfgpu(*arguments, cwd=tmp_path)
            assert (done.returncode, done.stdout) == (2, "")
            assert message in done.stderr
            assert "Traceback" not in done.stderr


def test_bench_results_are_named(good: str, tmp_path: Path) -> None:
    bench = tmp_path / "bench.json"
    bench.write_text('{"schema": "tfgpu.bench/1", "runs": []}')
    done = tfgpu("compare", good, str(bench))
    assert done.returncode == 2
    assert f"{bench} is a bench result, but " in " ".join(done.stderr.split())
