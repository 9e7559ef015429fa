"""`tfgpu check` from the command line: the mistakes that it is for, from end to end."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import pytest

from tests.cli.runner import tfgpu
from tests.manifests.shapes import SHAPES, Shape
from tfgpu_doctor.plan import check as repairing
from tfgpu_doctor.records.schemas import FOLDER
from tfgpu_doctor.render.formats import choices

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


def test_one_number_says_which_driver_is_needed(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("tensorflow==2.16.1\n", encoding="utf-8")
    page = tfgpu("check", "requirements.txt", "--driver", "470", "--gpu", "T4", cwd=tmp_path).stdout
    assert page.count("525.60.13") == 3  # expected, why, fix
    assert "545.23" not in page


def test_text_fits_a_narrow_terminal(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(POD, encoding="utf-8")
    done = tfgpu("check", "pod.yaml", environ={"COLUMNS": "60"}, cwd=tmp_path)
    assert all(len(line) <= 60 or "https://" in line for line in done.stdout.splitlines())
    assert "nvidia.com/gpu: 1" in done.stdout


def test_standard_input_is_a_file_of_its_kind() -> None:
    done = tfgpu("check", "-", "--kind", "requirements", input="tensorflow-gpu\n")
    assert (done.returncode, "standard input:1" in done.stdout, "--fix" in done.stdout) == (1, True, False)


def said_of(shape: Shape, folder: Path) -> str:
    """All that the command says, without the breaks of lines."""
    for name, text in shape.files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    done = tfgpu("check", *shape.named, cwd=folder, environ={"COLUMNS": "250"})
    return " ".join((done.stdout + done.stderr).split())


def test_what_an_expert_would_say(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name in SHAPES:
        with subtests.test(name=name):
            shape = SHAPES[name]
            said = said_of(shape, tmp_path / name.replace("/", " "))
            assert [one for one in shape.says if one not in said] == [], said
            assert [one for one in shape.never if one in said] == [], said


def test_the_stage_that_is_asked_for(tmp_path: Path) -> None:
    text = "FROM python:3.12 AS cpu\nRUN pip install tensorflow-cpu\nFROM cpu AS gpu\nRUN pip install keras==2.3\n"
    (tmp_path / "Dockerfile").write_text(text, encoding="utf-8")
    cpu = tfgpu("check", "Dockerfile", "--target", "cpu", cwd=tmp_path)
    assert ("Dockerfile, stage cpu" in cpu.stdout, "keras" in cpu.stdout) == (True, False)
    none = tfgpu("check", "Dockerfile", "--target", "docs", cwd=tmp_path)
    assert (none.returncode, "there is no stage docs (cpu, gpu)" in none.stderr) == (2, True)


# --------------------------------------------------------------------------------------------------------------- --fix


def test_without_it_nothing_is_written_and_the_difference_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_bytes(b"# mine\r\ntensorflow-gpu  # old\r\n")
    done = tfgpu("check", str(file))
    assert file.read_bytes() == b"# mine\r\ntensorflow-gpu  # old\r\n"
    assert "tfgpu check --fix would change" in done.stdout
    assert "+tensorflow[and-cuda]==2.20.0  # old" in done.stdout
    fixed = tfgpu("check", str(file), "--fix")
    assert (fixed.returncode, fixed.stderr) == (0, f"tfgpu: changed {file}\n")
    assert file.read_bytes() == b"# mine\r\ntensorflow[and-cuda]==2.20.0  # old\r\n"


def test_a_fix_that_the_difference_shows_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("tensorflow-gpu==2.10\nprotobuf==5.0\n", encoding="utf-8")
    short, whole = (tfgpu("check", "requirements.txt", *more, cwd=tmp_path).stdout for more in ((), ("-v",)))
    assert "Change requirements.txt:1, 2 as shown below" in short and ", write" not in short
    assert "In requirements.txt:1, write" in whole and "+protobuf" in whole


def test_an_included_file_is_changed_where_it_lies(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "gpu.txt").write_text("\ufefftensorflow-gpu\n", encoding="utf-8")
    (tmp_path / "requirements.txt").write_text("-r base/gpu.txt\n", encoding="utf-8")
    done = tfgpu("check", "requirements.txt", "--fix", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "tfgpu: changed base/gpu.txt\n")
    assert (tmp_path / "base" / "gpu.txt").read_text(encoding="utf-8") == "\ufefftensorflow[and-cuda]==2.20.0\n"


def test_a_file_of_powershell_keeps_its_encoding(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_bytes("tensorflow-gpu\r\n".encode("utf-16"))
    assert tfgpu("check", str(file), "--fix").returncode == 0
    assert file.read_bytes() == "tensorflow[and-cuda]==2.20.0\r\n".encode("utf-16")


def test_what_cannot_be_changed_is_said(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("tensorflow-gpu==2.12.0 \\\n    --hash=sha256:00\n", encoding="utf-8")
    done = tfgpu("check", str(file), "--fix")
    assert done.returncode == 1
    assert "it has hashes" in " ".join(done.stdout.split())
    assert "2.12.0" in file.read_text(encoding="utf-8")
    away = tmp_path / "inside"
    away.mkdir()
    os.symlink(file, away / "requirements.txt")
    assert "not changed" in " ".join(tfgpu("check", str(away / "requirements.txt"), "--fix").stdout.split())
    assert tfgpu("check", "-", "--kind", "requirements", "--fix").returncode == 2


WORKFLOW = """jobs:
  test:
    runs-on: ubuntu-22.04
    strategy: {matrix: {tf: ["2.15.1"], python: ["3.11", "3.12"]}}
    steps:
      - uses: actions/setup-python@v5
        with:
          python-version: ${{ matrix.python }}
      - run: pip install "tensorflow==${{ matrix.tf }}"
"""


def test_a_value_of_the_matrix_of_a_workflow_is_not_changed_where_it_is_used(tmp_path: Path) -> None:
    file = tmp_path / ".github" / "workflows" / "ci.yml"
    file.parent.mkdir(parents=True)
    file.write_text(WORKFLOW, encoding="utf-8")
    done = tfgpu("check", str(file), "--fix")
    assert done.returncode == 1 and file.read_text(encoding="utf-8") == WORKFLOW
    assert "the value comes from matrix.python: change it there" in " ".join(done.stdout.split())


def test_a_notebook_stays_one_and_a_definition_keeps_its_other_lines(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    source = ['# \u00e4 "quoted"\n', "!pip install tensorflow-gpu\n", "import tensorflow\n"]
    book = {"cells": [{**cell, "source": source}], "metadata": {"x": 1}, "nbformat": 4, "nbformat_minor": 5}
    texts = {
        "train.ipynb": json.dumps(book, indent=1, ensure_ascii=False) + "\n",
        "image.def": "Bootstrap: docker\nFrom: python:3.11\n\n%post\n    pip install tensorflow-gpu\n    true\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        done = tfgpu("check", name, "--fix", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, f"tfgpu: changed {name}\n"), done.stdout
        after = (tmp_path / name).read_text(encoding="utf-8")
        pairs = zip(text.splitlines(), after.splitlines(), strict=True)
        ((old, new),) = [pair for pair in pairs if pair[0] != pair[1]]
        assert "tensorflow-gpu" in old and "tensorflow[and-cuda]==2.20.0" in new
        if name.endswith("ipynb"):
            changed = json.loads(after)
            changed["cells"][0]["source"][1] = source[1]
            assert changed == book


def test_a_path_below_the_current_directory_is_named_from_there(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("tensorflow-gpu\n", encoding="utf-8")
    done = tfgpu("check", str(tmp_path / "requirements.txt"), "--format", "github", cwd=tmp_path)
    assert done.stdout.startswith("::error file=requirements.txt,line=1,title=")


def test_changes_are_worked_out_only_where_they_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    repair = repairing.repair
    for summary in (
        False,
        True,
    ):
        for name in choices("check"):
            with subtests.test(summary=summary, name=name):
                calls: list[object] = []
                monkeypatch.setattr(repairing, "repair", lambda *given: calls.append(given) or repair(*given))
                (tmp_path / "requirements.txt").write_text("tensorflow-gpu\n", encoding="utf-8")
                page = tmp_path / "summary.md"
                page.unlink(missing_ok=True)
                environ = {"GITHUB_STEP_SUMMARY": str(page) if summary else ""}
                done = tfgpu("check", "requirements.txt", "--format", name, cwd=tmp_path, environ=environ)
                shown = done.stdout + (page.read_text(encoding="utf-8") if page.exists() else "")
                assert (done.returncode, bool(calls)) == (1, "\n+tensorflow[and-cuda]==2.20.0" in shown)
