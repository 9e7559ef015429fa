"""`tfgpu compare` from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.bench.samples import result, run
from tests.cli.runner import tfgpu
from tests.facts.test_report import report
from tests.findings.rows_over_facts import FIRES, WHY
from tests.healthy import gpu, known
from tfgpu_doctor.bench.results import BenchResult
from tfgpu_doctor.facts.schemas import FOLDER

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


def test_json_fits_its_schema(good: str, bad: str, tmp_path: Path) -> None:
    file = tmp_path / "comparison.json"
    done = tfgpu("compare", good, bad, "--format", "text", "--output", "-", "--output", str(file))
    assert done.returncode == 1 and "new finding" in done.stdout
    answer = json.loads(file.read_text())
    jsonschema.validate(answer, json.loads((FOLDER / "compare-1.json").read_text(encoding="utf-8")))
    assert answer["schema"] == "tfgpu.compare/1"
    assert [one["id"] for one in answer["changes"]] == ["variables.CUDA_VISIBLE_DEVICES", "tensorflow.checks"]
    assert answer["explanations"][0]["changes"] == ["variables.CUDA_VISIBLE_DEVICES"]


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


def test_require_gpus(good: str) -> None:
    done = tfgpu("compare", good, good, "--require-gpus", "2")
    assert done.returncode == 0 and "gpu.fewer-than-required" in done.stdout


# ------------------------------------------------------------------------------------------------------ bench results

BASE = result(run())


FILES: dict[str, BenchResult] = {
    "base.json": BASE,
    "slower.json": result(run(seconds=5.6)),
    "faster.json": result(run(seconds=4.4)),
    "noisy.json": result(run(steps=(1.0, 1.0))),
    "other.json": result(run(seconds=5.6), software={"tensorflow": "2.20.0", "numpy": "2.4.6", "python": "3.12.3"}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    for name, one in FILES.items():
        (folder / name).write_bytes(one.to_json())
    return folder


def test_gates(folder: Path) -> None:
    for new, options, code, last in (
        ("base.json", (), 0, "✓ 1 the same; a change counts above 5 %"),
        ("slower.json", (), 1, "✗ 1 slower; a change counts above 5 %"),
        ("slower.json", ("--fail-on", "never"), 0, "✗ 1 slower; a change counts above 5 %"),
        ("slower.json", ("--fail-on", "faster"), 0, "✗ 1 slower; a change counts above 5 %"),
        ("slower.json", ("--factor", "1.25"), 0, "✓ 1 the same; a change counts above 25 %"),
        ("faster.json", (), 0, "✓ 1 faster; a change counts above 5 %"),
        ("faster.json", ("--fail-on", "change"), 1, "✓ 1 faster; a change counts above 5 %"),
        ("noisy.json", (), 3, "? 1 inconclusive; a change counts above 5 %"),
        ("other.json", (), 3, "? 1 not comparable; a change counts above 5 %"),
        ("other.json", ("--across", "python, TensorFlow"), 1, "✗ 1 slower; a change counts above 5 %"),
        ("other.json", ("--across", "all"), 1, "✗ 1 slower; a change counts above 5 %"),
    ):
        done = tfgpu("compare", "base.json", new, *options, cwd=folder)
        assert (done.returncode, done.stderr, done.stdout.splitlines()[-1]) == (code, "", last), new


def test_json_fits_its_schema_and_markdown_goes_to_its_file(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    words = ("base.json", "slower.json", "--format", "json", "--output", "-")
    done = tfgpu("compare", *words, "--output", str(page), cwd=folder)
    assert (done.returncode, done.stderr) == (1, f"tfgpu: wrote {page}\n")
    answer = json.loads(done.stdout)
    jsonschema.validate(answer, json.loads((FOLDER / "bench-compare-1.json").read_text(encoding="utf-8")))
    assert answer["schema"] == "tfgpu.bench-compare/1"
    assert [one["verdict"] for one in answer["runs"]] == ["slower"]
    assert answer["runs"][0]["ratio"]["value"] == pytest.approx(1.12)
    assert "| ✗ | CPU float32 | slower: time +12.0 %" in page.read_text(encoding="utf-8")
