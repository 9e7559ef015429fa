"""`tfgpu bench show`: the same text and the same page as when it was measured, from the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.large_samples import failures, four
from tests.cli.runner import tfgpu
from tests.render.pages import Page
from tfgpu_doctor.render.outlines.bench import verdict


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    file = tmp_path / "result.json"
    file.write_bytes(four().to_json())
    return file


def test_text(saved: Path) -> None:
    done = tfgpu("bench", "show", str(saved))
    assert (done.returncode, done.stderr) == (0, "")
    assert "✓ 2 GPUs, rows" in done.stdout and "188.7 (187.9 to 189.4) times the CPU" in done.stdout


def test_page(saved: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = tfgpu("bench", "show", str(saved), "--html", str(page))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"tfgpu: wrote {page}\n")
    read = Page(page.read_text(encoding="utf-8"))
    assert verdict(four()) in read.text
    assert len(read.all("svg")) == 3  # speed, samples, scaling


def test_a_failed_run_shows_in_the_exit_code(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    file.write_bytes(failures().to_json())
    assert tfgpu("bench", "show", str(file)).returncode == 1


def test_what_is_no_result(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for content, message in (
        ("{}", "without a schema"),
        ('{"schema": "tfgpu.report/1"}', "doctor"),
        ("", "empty"),
    ):
        with subtests.test(content=content, message=message):
            file = tmp_path / "result.json"
            file.write_text(content, encoding="utf-8")
            done = tfgpu("bench", "show", str(file))
            assert done.returncode == 2
            assert message in done.stderr and "Traceback" not in done.stderr
