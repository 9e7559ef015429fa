"""`tfgpu check` from the command line: the mistakes that it is for, from end to end."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import pytest

from tests.cli.runner import tfgpu
from tests.manifests.shapes import SHAPES
from tfgpu_doctor.facts.schemas import FOLDER
from tfgpu_doctor.plan import check as repairing
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
PYTHON = "FROM python:3.{}\nRUN pip install tensorflow==2.15.1\n"
STAGES = "FROM python:3.12 AS cpu\nRUN pip install tensorflow-cpu\nFROM cpu AS gpu\nRUN pip install keras==2.3\n"


def put(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def test_the_mistake_is_caught_and_its_repair_passes(tmp_path: Path) -> None:
    limits = "    resources: {limits: {nvidia.com/gpu: 1}}\n"
    schema = json.loads((FOLDER / "report-1.json").read_text(encoding="utf-8"))
    for name, wrong, identity, place, right in (
        ("requirements.txt", "numpy\ntensorflow-gpu\n", "tf.package-removed", 2, "tensorflow[and-cuda]==2.20.0\n"),
        ("Dockerfile", CUDA_11, "cuda.version-mismatch", 1, CUDA_12),
        ("Dockerfile", PYTHON.format(13), "tf.python-unsupported", 1, PYTHON.format(11)),
        ("pod.yaml", POD, "container.no-gpu", 7, POD + limits),
    ):
        file = tmp_path / name
        file.write_text(wrong, encoding="utf-8")
        done = tfgpu("check", str(file), "--format", "json")
        report = json.loads(done.stdout)
        jsonschema.validate(report, schema)
        assert (done.returncode, report["verdict"], report["source"]) == (1, "broken", "text"), name
        assert [finding["id"] for finding in report["findings"]] == [identity]
        assert report["findings"][0]["evidence"][0]["source"] == f"{file}:{place}"
        file.write_text(right, encoding="utf-8")
        repaired = tfgpu("check", str(file), "--format", "json")
        found = [one for one in json.loads(repaired.stdout)["findings"] if one["severity"] != "note"]
        assert (repaired.returncode, found) == (0, []), name


def test_what_is_said_of_files_and_a_target(tmp_path: Path) -> None:
    pinned = {"requirements.txt": "tensorflow[and-cuda]==2.20.0\n"}
    dockerfile = "FROM python:3.13\nRUN pip install -r /app/requirements.txt\n"
    follows = {"requirements.txt": "tensorflow==2.15.1\n", "Dockerfile": dockerfile}
    for files, words, code, says, never in (
        (pinned, "requirements.txt --gpu A100 --driver 535", 0, "", "driver.too-old"),
        (pinned, "requirements.txt --gpu A100 --driver 470", 1, "driver.too-old", "tf."),
        (pinned, "requirements.txt --gpu A100 --driver 470 --fail-on never", 0, "driver.too-old", "tf."),
        ({"requirements.txt": "numpy\n"}, "requirements.txt", 3, "these files name no TensorFlow", "fix  "),
        ({"requirements.txt": "tensorflow==2.16.1\n"}, "requirements.txt --driver 470 --gpu T4", 1, "525.60", "545.23"),
        (follows, "Dockerfile", 1, "requirements.txt:1", "no TensorFlow"),
        ({"Dockerfile": STAGES}, "Dockerfile --target cpu", 0, "Dockerfile, stage cpu", "keras"),
        ({"Dockerfile": STAGES}, "Dockerfile --target docs", 2, "there is no stage docs (cpu, gpu)", "keras"),
    ):
        put(tmp_path, files)
        done = tfgpu("check", *words.split(), cwd=tmp_path)
        said = done.stdout + done.stderr
        assert (done.returncode, says in said, never in said) == (code, True, False), (words, said)
    piped = tfgpu("check", "-", "--kind", "requirements", input="tensorflow-gpu\n")
    assert (piped.returncode, "standard input:1" in piped.stdout, "--fix" in piped.stdout) == (1, True, False)
    put(tmp_path, {"pod.yaml": POD})
    done = tfgpu("check", "pod.yaml", environ={"COLUMNS": "60"}, cwd=tmp_path)
    assert all(len(line) <= 60 or "https://" in line for line in done.stdout.splitlines())
    assert "nvidia.com/gpu: 1" in done.stdout
    put(tmp_path, {"requirements.txt": "tensorflow-gpu\n"})
    done = tfgpu("check", str(tmp_path / "requirements.txt"), "--format", "github", cwd=tmp_path)
    assert done.stdout.startswith("::error file=requirements.txt,line=1,title=")  # named from the current directory


def test_what_an_expert_would_say(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name, shape in SHAPES.items():
        with subtests.test(name=name):
            folder = tmp_path / name.replace("/", " ")
            put(folder, shape.files)
            done = tfgpu("check", *shape.named, cwd=folder, environ={"COLUMNS": "250"})
            said = " ".join((done.stdout + done.stderr).split())
            assert [one for one in shape.says if one not in said] == [], said
            assert [one for one in shape.never if one in said] == [], said


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
    file.write_bytes("tensorflow-gpu\r\n".encode("utf-16"))  # as PowerShell writes it
    assert tfgpu("check", str(file), "--fix").returncode == 0
    assert file.read_bytes() == "tensorflow[and-cuda]==2.20.0\r\n".encode("utf-16")
    put(tmp_path, {"base/gpu.txt": "\ufefftensorflow-gpu\n", "requirements.txt": "-r base/gpu.txt\n"})
    done = tfgpu("check", "requirements.txt", "--fix", cwd=tmp_path)  # which is changed where it lies
    assert (done.returncode, done.stderr) == (0, "tfgpu: changed base/gpu.txt\n")
    assert (tmp_path / "base" / "gpu.txt").read_text(encoding="utf-8") == "\ufefftensorflow[and-cuda]==2.20.0\n"


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


def test_what_cannot_be_changed_is_said(tmp_path: Path) -> None:
    hashes = "tensorflow-gpu==2.12.0 \\\n    --hash=sha256:00\n"
    matrix = "it may come from a variable or another file"
    files = {"requirements.txt": (hashes, "it has hashes"), ".github/workflows/ci.yml": (WORKFLOW, matrix)}
    for name, (text, says) in files.items():
        put(tmp_path, {name: text})
        done = tfgpu("check", name, "--fix", cwd=tmp_path)
        assert done.returncode == 1 and says in " ".join(done.stdout.split())
        assert (tmp_path / name).read_text(encoding="utf-8") == text
    away = tmp_path / "inside"
    away.mkdir()
    os.symlink(tmp_path / "requirements.txt", away / "requirements.txt")
    assert "not changed" in " ".join(tfgpu("check", str(away / "requirements.txt"), "--fix").stdout.split())


def test_a_notebook_stays_one_and_a_definition_keeps_its_other_lines(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    source = ['# \u00e4 "quoted"\n', "!pip install tensorflow-gpu\n", "import tensorflow\n"]
    book = {"cells": [{**cell, "source": source}], "metadata": {"x": 1}, "nbformat": 4, "nbformat_minor": 5}
    texts = {
        "train.ipynb": json.dumps(book, indent=1, ensure_ascii=False) + "\n",
        "image.def": "Bootstrap: docker\nFrom: python:3.11\n\n%post\n    pip install tensorflow-gpu\n    true\n",
    }
    for name, text in texts.items():
        put(tmp_path, {name: text})
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


def test_changes_are_worked_out_only_where_they_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repair, page = repairing.repair, tmp_path / "summary.md"
    put(tmp_path, {"requirements.txt": "tensorflow-gpu\n"})
    for summary, name in [(summary, name) for summary in ("", str(page)) for name in choices("check")]:
        calls: list[object] = []
        monkeypatch.setattr(repairing, "repair", lambda *given, calls=calls: calls.append(given) or repair(*given))
        page.unlink(missing_ok=True)
        environ = {"GITHUB_STEP_SUMMARY": summary}
        done = tfgpu("check", "requirements.txt", "--format", name, cwd=tmp_path, environ=environ)
        shown = done.stdout + (page.read_text(encoding="utf-8") if page.exists() else "")
        assert (done.returncode, bool(calls)) == (1, "\n+tensorflow[and-cuda]==2.20.0" in shown), (summary, name)
