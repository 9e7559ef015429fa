"""`tfgpu matrix` as scripts and people meet it: the keys of the contract, exit codes, messages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from tfgpu_doctor.cli.matrix import command
from tfgpu_doctor.commands import PLATFORMS
from tfgpu_doctor.matrix.schema import PLATFORMS as KNOWN_PLATFORMS

RELEASE_KEYS = {
    *("version", "platform", "package", "gpu", "cuda", "cudnn", "python", "sass", "ptx", "libraries"),
    *("min_driver_linux", "min_driver_windows", "pip_nvidia", "extra", "numpy", "protobuf", "keras", "ml_dtypes"),
    *("bounds_by_python", "glibc", "macos", "redirects", "yanked", "known_issues", "sources"),
}


def matrix(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, prog_name="tfgpu matrix", env={"COLUMNS": "80", "TFGPU_MATRIX": ""})


def answer(*arguments: str) -> Any:
    done = matrix(*arguments, "--format", "json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def versions(*filters: str) -> list[str]:
    return [row["version"] for row in answer("tensorflow", *filters)]


ROWS = Path(__file__).with_name("matrix_answers.jsonl")  # question, a part of the answer


def test_answers() -> None:
    for words, expected in map(json.loads, ROWS.read_text(encoding="utf-8").splitlines()):
        row = answer(*words.split())
        if isinstance(row, list):  # of find
            (found,) = row
            row = {"table": found["table"], **found["row"]}
            assert found["sources"]["source"] and "\nSources\n" in matrix(*words.split()).stdout, words
        assert {name: row[name] for name in expected} == expected, words


def test_what_else_is_in_an_answer() -> None:
    row = answer("tensorflow", "--version", "2.15.1")
    assert set(row) >= RELEASE_KEYS
    assert row["pip_nvidia"]["nvidia-cudnn-cu12"] == "==8.9.4.25"
    assert {"soname": "libcudart.so.12", "component": "cudart"} in row["libraries"]
    assert "blackwell-no-kernels" in [issue["id"] for issue in row["known_issues"]]
    assert "build_info" in row["sources"]["cuda"]
    windows = answer("tensorflow", "2.10", "--platform", "windows_amd64")
    assert windows == answer("tensorflow", "2.10", "--os", "windows")
    assert PLATFORMS == KNOWN_PLATFORMS
    row = answer("gpu", "RTX", "5090")  # a name needs no quotes
    assert "2.20.0" not in row["tensorflow"]
    assert "2.20.0" in [version for one in row["broken"] for version in one["tensorflow"]]
    row = answer("gpu", "NVIDIA Tesla K80")
    assert len(set(row["tensorflow"])) == len(row["tensorflow"])
    assert {"first_driver_branch", "tensorflow_ptx", "last_cudnn", "peak", "sources"} <= set(row)
    row = answer("cuda", "12.5")
    capabilities = row["compute_capabilities"]
    assert capabilities == sorted(capabilities, key=lambda one: tuple(map(int, one.split("."))))
    assert (
        "2.18.0" in row["tensorflow"] and {"8.9", "9.3"} <= set(row["cudnn"]) and "min_driver_linux" in row["sources"]
    )
    for table in ("cuda", "cudnn", "gpu"):
        assert len(answer(table)) > 15 < len(matrix(table).stdout.splitlines())


def test_filters_combine_newest_first() -> None:
    for filters, expected in (
        ("--cuda 11.8 --cudnn 8.6", ["2.14.1", "2.14.0", "2.13.1", "2.13.0", "2.12.1", "2.12.0"]),
        ("--gpu K80 --driver 470 --python 3.11 --newest", ["2.14.1"]),
        ("--platform windows_amd64 --driver R470 --newest", ["2.10.1"]),
        ("--python cp39 --cuda 12.2 --cudnn 8.9", ["2.15.1", "2.15.0.post1", "2.15.0"]),
        ("--compute-capability sm_61 --cuda 12.2 --newest", ["2.15.1"]),
        ("--os wsl2 --driver 528.33 --newest", ["2.21.0"]),
        ("--os wsl2 --driver 528.24 --newest", ["2.14.1"]),
        ("--python 3.12 --platform macos_arm64 --cuda 12", []),
        ("--cuda 11.7", []),
    ):
        assert versions(*filters.split()) == expected, filters
    (row,) = answer("tensorflow", "--gpu", "Tesla K80", "--cuda", "11.8", "--newest")
    assert row["runs_on"] == {"3.7": "sass"} and set(row) >= RELEASE_KEYS
    rows = answer("tensorflow", "--cuda", "11.2", "--platform", "all")
    assert {row["platform"] for row in rows} == {"linux_x86_64", "windows_amd64"}
    assert "No release satisfies all of this" in matrix("tensorflow", "--cuda", "11.7").stdout
    page = matrix("tensorflow", "--os", "wsl2").stdout
    assert "under WSL2" in page and "driver 528.33" in page and "gets none of its own" in page


def test_the_version_is_an_argument_and_was_an_option() -> None:
    for table, version in (("tensorflow", "2.15"), ("cuda", "12.5"), ("cudnn", "9.3")):
        assert answer(table, version) == answer(table, "--version", version)
        assert "--version" not in matrix(table, "--help").stdout
        assert matrix(table, version, "--version", version).exit_code == 2


def test_an_update_without_a_row_is_answered_by_its_minor_version() -> None:
    asked = {version: answer("cuda", version) for version in ("12.9.3", "12.5.9", "12.4.1", "11.2.2", "12.5.0")}
    assert [(row["version"], row["asked"]) for row in asked.values()] == [
        ("12.9", "12.9.3"),
        ("12.5", "12.5.9"),
        ("12.4.1", None),
        ("11.2.2", None),
        ("12.5", None),
    ]
    assert asked["11.2.2"]["tensorflow"] == answer("cuda", "11.2")["tensorflow"] != []


def test_without_a_key_the_tables_are_listed() -> None:
    tables = {table["name"]: table for table in answer("find")["tables"]}
    assert tables["gpus"]["rows"] == len(answer("gpu"))
    assert tables["tensorflow"]["derived_by"] == "scripts/refresh_matrix.py"
    assert all(table["updated"] and table["sources"] for table in tables.values())
    assert sum(one["rows"] for one in tables["cuda"]["sources"]) == tables["cuda"]["rows"]


# -------------------------------------------------------------------------------------------------- house rules


def test_rows_of_the_users_own_are_answered(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(
        'schema: tfgpu.matrix/1\nrevision: "2026-01-01"\nsources:\n  ours: {title: "our build"}\n'
        'tensorflow:\n- package: tensorflow\n  version: "2.18.0+site1"\n  source: ours\n'
        '  wheels: {linux_x86_64: {python: ["3.12"], cuda: "12.5.1", cudnn: "9.3", sass: ["9.0"]}}\n'
    )
    row = answer("tensorflow", "--version", "2.18.0+site1", "--matrix", str(own))
    assert row["sources"]["cuda"] == "our build"
    assert answer("tensorflow", "--version", "2.18", "--matrix", str(own))["version"] == "2.18.1"


def test_json_needs_no_rich() -> None:
    """Importing it would double the time of an answer."""
    code = (
        "import sys; from tfgpu_doctor.cli.matrix import command\n"
        "command(['tensorflow', '--version', '2.15.1', '--format', 'json'], standalone_mode=False)\n"
        "sys.exit('rich' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=False).returncode == 0
