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


# ----------------------------------------------------------------------------------------------------- TensorFlow


def test_one_release() -> None:
    row = answer("tensorflow", "--version", "2.15.1")
    assert set(row) >= RELEASE_KEYS
    assert [row[one] for one in ("version", "platform", "package", "gpu")] == [
        "2.15.1",
        "linux_x86_64",
        "tensorflow",
        True,
    ]
    assert (row["cuda"], row["cudnn"], row["python"]) == ("12.2", "8.9", ["3.9", "3.10", "3.11"])
    assert (row["sass"], row["ptx"]) == (["5.0", "6.0", "7.0", "7.5"], ["8.0"])
    assert (row["min_driver_linux"], row["min_driver_windows"]) == ("525.60.13", "528.33")
    assert row["pip_nvidia"]["nvidia-cudnn-cu12"] == "==8.9.4.25"
    assert {"soname": "libcudart.so.12", "component": "cudart"} in row["libraries"]
    assert "blackwell-no-kernels" in [issue["id"] for issue in row["known_issues"]]
    assert "build_info" in row["sources"]["cuda"]


# ------------------------------------------------------------------------------------------- CUDA, cuDNN and GPUs


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


def test_one_release_of_a_platform_or_package() -> None:
    row = answer("tensorflow", "2.15.1", "--platform", "macos_arm64")
    assert (row["cuda"], row["cudnn"], row["gpu"], row["min_driver_linux"]) == (None, None, False, None)
    assert answer("tensorflow", "2.10", "--package", "tensorflow-gpu")["version"] == "2.10.1"
    row = answer("tensorflow", "1.15", "--os", "windows")
    assert (row["package"], row["version"], row["cuda"]) == ("tensorflow-gpu", "1.15.5", "10.0")
    assert answer("tensorflow", "1.15", "--os", "windows", "--package", "tensorflow")["gpu"] is False
    windows = answer("tensorflow", "2.10", "--platform", "windows_amd64")
    assert windows == answer("tensorflow", "2.10", "--os", "windows")
    assert PLATFORMS == KNOWN_PLATFORMS


def test_other_questions_about_gpus() -> None:
    row = answer("gpu", "RTX", "5090")  # a name needs no quotes
    assert (row["compute_capability"], row["first_driver_branch"]) == ("12.0", "570")
    assert "2.20.0" not in row["tensorflow"]
    assert "2.20.0" in [version for one in row["broken"] for version in one["tensorflow"]]
    row = answer("gpu", "--compute-capability", "89")
    assert (row["name"], row["compute_capability"], row["architecture"]) == (None, "8.9", "Ada Lovelace")
    assert "GeForce RTX 4090" in row["same_compute_capability"]
    for table in ("cuda", "cudnn", "gpu"):
        assert len(answer(table)) > 15 < len(matrix(table).stdout.splitlines())


def test_less_and_more_of_a_page() -> None:
    for words in ("tensorflow 2.15", "find nvidia-cu"):
        least, normal, full = (matrix(*words.split(), *more).stdout for more in (("-q",), (), ("-v",)))
        assert len(least) <= len(normal) < len(full)
    assert "-v shows the rows" in matrix("find", "nvidia-cu").stdout


def test_a_toolkit() -> None:
    row = answer("cuda", "--version", "12.5")
    assert (row["version"], row["min_driver_linux"], row["min_driver_windows"]) == ("12.5", "555.42.02", "555.85")
    assert (row["minor_compat_min_linux"], row["minor_compat_min_windows"]) == ("525.60.13", "528.33")
    capabilities = row["compute_capabilities"]
    assert capabilities == sorted(capabilities, key=lambda one: tuple(map(int, one.split("."))))
    assert (row["first_compute_capability"], row["last_compute_capability"]) == ("5.0", "9.0")
    assert row["driver_branch"] == "555"
    assert "2.18.0" in row["tensorflow"]
    assert {"8.9", "9.3"} <= set(row["cudnn"])
    assert "min_driver_linux" in row["sources"]


def test_a_cudnn_line() -> None:
    row = answer("cudnn", "--version", "9.3.0.75")
    assert row["version"] == "9.3"
    assert row["cuda_majors"] == ["11", "12"]
    assert row["min_compute_capability"] == "5.0"
    assert row["min_compute_capability_by_cuda"] == {"11": "5.0", "12": "5.0"}
    assert "2.18.0" in row["tensorflow"]
    assert answer("cudnn", "--version", "9.10")["last_for"] == ["Maxwell", "Pascal", "Volta"]


def test_a_gpu() -> None:
    row = answer("gpu", "NVIDIA Tesla K80")
    assert (row["compute_capability"], row["architecture"]) == ("3.7", "Kepler")
    assert row["last_driver_branch"] == "470"
    assert row["newest_tensorflow"] == row["tensorflow"][0] == "2.14.1"
    assert len(set(row["tensorflow"])) == len(row["tensorflow"])
    assert {"first_driver_branch", "tensorflow_ptx", "last_cudnn", "peak", "sources"} <= set(row)
    windows = answer("gpu", "Tesla K80", "--platform", "windows_amd64")
    assert windows["newest_tensorflow"] == "2.10.1"


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


def test_a_row_of_another_table_by_its_name() -> None:
    for key, table, expected in (
        ("nvcr.io/nvidia/tensorflow:24.02-tf2-py3", "containers", {"tensorflow": "2.15.0+nv24.2", "cuda": "12.3.2"}),
        ("docker.io/tensorflow/tensorflow:2.15.0-gpu", "containers", {"cuda": "12.3", "cudnn": "8.9"}),
        ("R36.4", "jetpacks", {"version": "6.1", "cuda": "12.6"}),
        ("JetPack 5.1.2", "jetpacks", {"l4t": "35.4.1", "python": "3.8"}),
        ("g4dn.xlarge", "instances", {"gpu": "Tesla T4"}),
        ("BLACKWELL-no-kernels", "known_issues", {"severity": "error"}),
        ("blackwell-no", "known_issues", {"id": "blackwell-no-kernels"}),
    ):
        (found,) = answer("find", key)
        assert (found["table"], {name: found["row"][name] for name in expected}) == (table, expected)
        assert found["sources"]["source"]
        page = matrix("find", key).stdout
        assert all(str(value) in page for value in expected.values()) and "\nSources\n" in page


def test_without_a_key_the_tables_are_listed() -> None:
    tables = {table["name"]: table for table in answer("find")["tables"]}
    assert tables["gpus"]["rows"] == len(answer("gpu"))
    assert tables["tensorflow"]["derived_by"] == "scripts/refresh_matrix.py"
    assert all(table["updated"] and table["sources"] for table in tables.values())
    assert sum(one["rows"] for one in tables["cuda"]["sources"]) == tables["cuda"]["rows"]


def test_answers_as_pages() -> None:
    for words in ("cuda 12.5", "tensorflow 2.15", "gpu T4", "find", "find 6.1"):
        markdown, html = (matrix(*words.split(), "--format", form).stdout for form in ("markdown", "html"))
        assert markdown.startswith("**") and "| --- | --- |" in markdown, words
        assert html.startswith("<!DOCTYPE html>") and "<table" in html, words


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
