"""What `tfgpu check --fix` makes of files that are no plain text, what differences cost; more rows: answers.yaml."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.runner import tfgpu
from tfgpu_doctor.plan import check as repairing
from tfgpu_doctor.render.formats import choices


def test_encodings_and_notebooks_stay_and_links_are_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_bytes("tensorflow-gpu\r\n".encode("utf-16"))  # as PowerShell writes it
    (tmp_path / "inside").mkdir()
    os.symlink(file, tmp_path / "inside" / "requirements.txt")
    linked = tfgpu("check", "inside/requirements.txt", "--fix", cwd=tmp_path)
    assert "not changed" in " ".join(linked.stdout.split())
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    source = ['# \u00e4 "quoted"\n', "!pip install tensorflow-gpu\n", "import tensorflow\n"]
    book = {"cells": [{**cell, "source": source}], "metadata": {"x": 1}, "nbformat": 4, "nbformat_minor": 5}
    before = json.dumps(book, indent=1, ensure_ascii=False) + "\n"
    (tmp_path / "train.ipynb").write_text(before, encoding="utf-8")
    for name in ("requirements.txt", "train.ipynb"):
        done = tfgpu("check", name, "--fix", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, f"tfgpu: changed {name}\n"), done.stdout
    assert file.read_bytes() == "tensorflow[and-cuda]==2.20.0\r\n".encode("utf-16")
    after = (tmp_path / "train.ipynb").read_text(encoding="utf-8")
    assert after == before.replace("tensorflow-gpu", "tensorflow[and-cuda]==2.20.0")


def test_changes_are_worked_out_only_where_they_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repair, page = repairing.repair, tmp_path / "summary.md"
    (tmp_path / "requirements.txt").write_text("tensorflow-gpu\n")
    for name, summary in (*((name, "") for name in choices("check")), ("github", str(page))):
        calls: list[object] = []
        monkeypatch.setattr(repairing, "repair", lambda *given, calls=calls: calls.append(given) or repair(*given))
        environ = {"GITHUB_STEP_SUMMARY": summary}
        done = tfgpu("check", "requirements.txt", "--format", name, cwd=tmp_path, environ=environ)
        shown = done.stdout + (page.read_text(encoding="utf-8") if page.exists() else "")
        assert (done.returncode, bool(calls)) == (1, "\n+tensorflow[and-cuda]==2.20.0" in shown), (summary, name)
