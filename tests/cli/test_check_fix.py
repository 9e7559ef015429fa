"""`tfgpu check --fix`: the advice, made in the files, passes the check that gave it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.runner import tfgpu
from tfgpu_doctor.diagnosis import repairing
from tfgpu_doctor.render.formats import choices


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


def test_a_path_below_the_current_directory_is_named_from_there(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("tensorflow-gpu\n", encoding="utf-8")
    done = tfgpu("check", str(tmp_path / "requirements.txt"), "--format", "github", cwd=tmp_path)
    assert done.stdout.startswith("::error file=requirements.txt,line=1,title=")


@pytest.mark.parametrize("summary", [False, True])
@pytest.mark.parametrize("name", choices("check"))
def test_changes_are_worked_out_only_where_they_are_shown(
    name: str, summary: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []
    repair = repairing.repair
    monkeypatch.setattr(repairing, "repair", lambda *given: calls.append(given) or repair(*given))
    (tmp_path / "requirements.txt").write_text("tensorflow-gpu\n", encoding="utf-8")
    page = tmp_path / "summary.md"
    environ = {"GITHUB_STEP_SUMMARY": str(page) if summary else ""}
    done = tfgpu("check", "requirements.txt", "--format", name, cwd=tmp_path, environ=environ)
    shown = done.stdout + (page.read_text(encoding="utf-8") if page.exists() else "")
    assert (done.returncode, bool(calls)) == (1, "\n+tensorflow[and-cuda]==2.20.0" in shown)
