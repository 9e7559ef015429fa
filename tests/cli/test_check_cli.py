"""`tfgpu check` from the command line: the mistakes that it is for, from end to end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from tests.cli.runner import tfgpu
from tfgpu_doctor.records.schemas import FOLDER

POD = """apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  containers:
  - name: main
    image: tensorflow/tensorflow:2.17.0-gpu
"""
CUDA_11 = "FROM nvidia/cuda:11.8.0-cudnn8-runtime-ubuntu22.04\nRUN pip install tensorflow==2.16.2\n"
CUDA_12 = "FROM nvidia/cuda:12.3.2-cudnn8-devel-ubuntu22.04\nRUN pip install tensorflow==2.16.2\n"


def test_the_mistake_is_caught_and_its_repair_passes(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name, wrong, identity, place, right in (
        (
            "requirements.txt",
            "numpy\ntensorflow-gpu\n",
            "tf.package-removed",
            2,
            "numpy\ntensorflow[and-cuda]==2.20.0\n",
        ),
        ("Dockerfile", CUDA_11, "cuda.version-mismatch", 1, CUDA_12),
        (
            "Dockerfile",
            "FROM python:3.13\nRUN pip install tensorflow==2.15.1\n",
            "tf.python-unsupported",
            1,
            "FROM python:3.11\nRUN pip install tensorflow==2.15.1\n",
        ),
        ("pod.yaml", POD, "container.no-gpu", 7, POD + "    resources: {limits: {nvidia.com/gpu: 1}}\n"),
    ):
        with subtests.test(name=name):
            file = tmp_path / name
            file.write_text(wrong, encoding="utf-8")
            done = tfgpu("check", str(file), "--format", "json")
            report = json.loads(done.stdout)
            jsonschema.validate(report, json.loads((FOLDER / "report-1.json").read_text(encoding="utf-8")))
            assert (done.returncode, report["verdict"], report["source"]) == (1, "broken", "text")
            assert [finding["id"] for finding in report["findings"]] == [identity]
            assert report["findings"][0]["evidence"][0]["source"] == f"{file}:{place}"
            file.write_text(right, encoding="utf-8")
            repaired = tfgpu("check", str(file), "--format", "json")
            found = [one for one in json.loads(repaired.stdout)["findings"] if one["severity"] != "note"]
            assert (repaired.returncode, found) == (0, [])


def test_a_target_is_judged_for(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("tensorflow[and-cuda]==2.20.0\n", encoding="utf-8")
    assert tfgpu("check", str(file), "--gpu", "A100", "--driver", "535").returncode == 0
    old = tfgpu("check", str(file), "--gpu", "A100", "--driver", "470", "--format", "json")
    assert [one["id"] for one in json.loads(old.stdout)["findings"]] == ["driver.too-old"]
    assert tfgpu("check", str(file), "--gpu", "A100", "--driver", "470", "--fail-on", "never").returncode == 0


def test_no_tensorflow_is_no_answer(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("numpy\n", encoding="utf-8")
    done = tfgpu("check", str(file))
    assert (done.returncode, "these files name no TensorFlow" in done.stdout) == (3, True)


def test_files_that_a_dockerfile_installs_from_are_followed(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("tensorflow==2.15.1\n", encoding="utf-8")
    dockerfile = tmp_path / "Dockerfile"
    dockerfile.write_text("FROM python:3.13\nRUN pip install -r /app/requirements.txt\n", encoding="utf-8")
    found = json.loads(tfgpu("check", str(dockerfile), "--format", "json").stdout)["findings"]
    assert [one["id"] for one in found] == ["tf.python-unsupported"]
    assert "requirements.txt:1" in found[0]["evidence"][0]["need_source"]


def test_nothing_is_said_of_fix_about_standard_input() -> None:
    done = tfgpu("check", "-", "--kind", "requirements", input="tensorflow[and-cuda]==2.15.0\nnumpy>=2\n")
    assert done.returncode == 1
    assert "--fix" not in done.stdout


def test_one_number_says_which_driver_is_needed(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("tensorflow==2.16.1\n", encoding="utf-8")
    page = tfgpu("check", "requirements.txt", "--driver", "470", "--gpu", "T4", cwd=tmp_path).stdout
    assert page.count("525.60.13") == 3  # expected, why, fix
    assert "545.23" not in page


def test_standard_input_needs_its_kind() -> None:
    command = [sys.executable, "-m", "tfgpu_doctor", "check", "-"]
    told = subprocess.run(
        [*command, "--kind", "requirements"], input=b"tensorflow-gpu\n", capture_output=True, timeout=60
    )
    assert (told.returncode, b"standard input:1" in told.stdout) == (1, True)
    assert tfgpu("check", "-").returncode == 2


def test_unreadable_files_are_wrong_usage(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name, content, message in (
        ("missing.txt", None, "cannot read"),
        ("requirements.txt", b"caf\xe9", "is not UTF-8"),
        ("notes.md", b"hello", "unknown kind of file"),
        ("pyproject.toml", b"[project", "invalid TOML"),
        ("compose.yaml", b"services: [", "invalid YAML"),
        ("requirements.txt", b"a\n" * 3_000_000, "is larger than 5 MB"),
    ):
        with subtests.test(name=name):
            file = tmp_path / name
            if content is not None:
                file.write_bytes(content)
            done = tfgpu("check", str(file))
            assert (done.returncode, done.stdout) == (2, "")
            assert message in " ".join(done.stderr.split())


def test_hostile_names_are_shown_harmless(tmp_path: Path) -> None:
    file = tmp_path / "Dockerfile"
    file.write_text(
        "FROM nvidia/cuda:\x1b[31m[bold]11.8.0-base\nRUN pip install tensorflow==2.16.2\n", encoding="utf-8"
    )
    done = tfgpu("check", str(file), environ={"COLUMNS": "60"})
    assert "\x1b" not in done.stdout
    assert done.returncode in (0, 1)


def test_text_fits_a_narrow_terminal(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(POD, encoding="utf-8")
    done = tfgpu("check", "pod.yaml", environ={"COLUMNS": "60"}, cwd=tmp_path)
    assert all(len(line) <= 60 or "https://" in line for line in done.stdout.splitlines())
    assert "nvidia.com/gpu: 1" in done.stdout
