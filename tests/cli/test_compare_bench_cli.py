"""`tfgpu compare` over bench results, from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from tests.bench.samples import result, run
from tests.cli.runner import tfgpu
from tests.records.test_report import report
from tfgpu_doctor.bench.results import BenchResult
from tfgpu_doctor.records.schemas import FOLDER

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
    (folder / "report.json").write_bytes(report({}).to_json())
    newer = json.loads(BASE.to_json())
    (folder / "newer.json").write_text(json.dumps({**newer, "schema": "tfgpu.bench/2"}))
    (folder / "unknown-field.json").write_text(
        json.dumps({**newer, "colour": "blue", "tool": {"name": "tfgpu", "version": "99.0"}})
    )
    (folder / "cut.json").write_bytes(BASE.to_json()[:900])
    (folder / "null.json").write_bytes(BASE.to_json().replace(b'"median_s": 5.0', b'"samples_s": [null]'))
    (folder / "plan.json").write_text('{"schema": "tfgpu.plan/1"}')
    return folder


def compared(folder: Path, *arguments: str, **options: Any) -> Any:
    return tfgpu("compare", *arguments, cwd=folder, **options)


def test_gates(folder: Path, subtests: pytest.Subtests) -> None:
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
        with subtests.test(new=new):
            done = compared(folder, "base.json", new, *options)
            assert (done.returncode, done.stderr) == (code, "")
            assert done.stdout.splitlines()[-1] == last


def test_json_fits_its_schema_and_markdown_goes_to_its_file(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    done = compared(folder, "base.json", "slower.json", "--format", "json", "--output", "-", "--output", str(page))
    assert (done.returncode, done.stderr) == (1, f"tfgpu: wrote {page}\n")
    answer = json.loads(done.stdout)
    jsonschema.validate(answer, json.loads((FOLDER / "bench-compare-1.json").read_text(encoding="utf-8")))
    assert answer["schema"] == "tfgpu.bench-compare/1"
    assert [one["verdict"] for one in answer["runs"]] == ["slower"]
    assert answer["runs"][0]["ratio"]["value"] == pytest.approx(1.12)
    assert "| ✗ | CPU float32 | slower: time +12.0 %" in page.read_text(encoding="utf-8")


def test_standard_input(folder: Path) -> None:
    with (folder / "slower.json").open("rb") as stream:
        done = compared(folder, "base.json", "-", stdin=stream)
    assert done.returncode == 1
    assert "standard input" in done.stdout


def test_a_narrow_ascii_pipe(folder: Path) -> None:
    done = compared(folder, "base.json", "slower.json", environ={"COLUMNS": "60", "PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (1, "")
    assert max(map(len, done.stdout.splitlines())) <= 60
    assert "\x1b" not in done.stdout


def test_wrong_usage(folder: Path, subtests: pytest.Subtests) -> None:
    for arguments, message in (
        (
            ("report.json", "base.json"),
            "base.json is a bench result, but report.json is a doctor report; tfgpu compare reads two doctor reports",
        ),
        (
            ("base.json", "report.json"),
            "base.json is a bench result, but report.json is a doctor report; tfgpu compare reads two doctor reports",
        ),
        (
            ("base.json", "plan.json"),
            "plan.json is a plan; tfgpu compare reads two doctor reports or two bench results",
        ),
        (
            ("base.json", "newer.json"),
            "has schema 'tfgpu.bench/2'; this version of tfgpu reads 'tfgpu.bench/1'; that is",
        ),
        (
            ("unknown-field.json", "base.json"),
            "unknown-field.json is not a valid bench result: Object contains unknown",
        ),
        (("null.json", "base.json"), "null.json is not a valid bench result: Expected `float`, got `null`"),
        (("base.json", "cut.json"), "cut.json is not a saved report: it is cut off"),
        (("base.json", "slower.json", "--factor", "0.9"), "--factor 0.9: must be greater than 1, such as 1.05"),
        (("base.json", "slower.json", "--factor", "1"), "--factor 1: must be greater than 1"),
        (("base.json", "slower.json", "--factor", "nan"), "--factor nan: must be greater than 1"),
        (
            ("base.json", "slower.json", "--across", "moon"),
            "--across moon: choose from tensorflow, keras, python, numpy",
        ),
        (("base.json", "slower.json", "--fail-on", "error"), "--fail-on error: only for doctor reports, but these are"),
        (("base.json", "slower.json", "--all"), "--all: only for doctor reports"),
        (("base.json", "slower.json", "--require-gpus", "1"), "--require-gpus: only for doctor reports"),
        (
            ("report.json", "report.json", "--fail-on", "slower"),
            "--fail-on slower: only for bench results, but these are",
        ),
        (("report.json", "report.json", "--factor", "1.1"), "--factor: only for bench results"),
        (("report.json", "report.json", "--across", "driver"), "--across: only for bench results"),
        (("report.json", "report.json", "--format", "prometheus"), "--format prometheus: only for bench results"),
    ):
        with subtests.test(arguments=arguments, message=message):
            done = compared(folder, *arguments)
            assert (done.returncode, done.stdout) == (2, "")
            assert message in " ".join(done.stderr.split())
            assert "Traceback" not in done.stderr


def test_a_matrix_of_the_environment_is_no_obstacle(folder: Path, tmp_path: Path) -> None:
    assert compared(folder, "base.json", "base.json", environ={"TFGPU_MATRIX": str(tmp_path)}).returncode == 0


def test_a_result_is_read_back_as_it_was_written(folder: Path) -> None:
    from tfgpu_doctor.bench.saved import load_result

    data = (folder / "base.json").read_bytes()
    assert load_result(data, "base.json") == BASE
    assert load_result(b"\xef\xbb\xbf" + data, "base.json").to_json() == data
    assert msgspec.json.decode(data, type=BenchResult) == BASE
