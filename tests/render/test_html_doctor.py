"""A report as a page of its own: every finding, its evidence and its commands; harmless."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import tfgpu
from tests.healthy import known
from tests.records.test_report import report
from tests.render.pages import Page
from tests.render.results import STATES, TYPES, results
from tests.render.showing import as_format
from tfgpu_doctor.records.report import Report

render = as_format("html", "report")
EVIL = "</script><img src=x onerror=alert(1)>\"'&\x1b[31m"
BROKEN: dict[str, Any] = {
    "tensorflow.version": known(EVIL, EVIL),
    "host.distribution": known(EVIL),
    "variables": known({"CUDA_VISIBLE_DEVICES": "-1", "LD_LIBRARY_PATH": EVIL}),
    "tensorflow.log": known((EVIL, "second line")),
    "gpus": known(()),
}


@pytest.mark.parametrize("changes", [{}, BROKEN], ids=["healthy", "broken"])
def test_everything_is_told(changes: dict[str, Any]) -> None:
    one: Report = report(changes)
    page = render(one)
    read = Page(page)
    assert one.verdict in read.text
    for finding in one.findings:
        if finding.root_cause:
            assert finding.id in read.text
            for fix in finding.fixes:
                assert fix.text in read.text
    assert not {tag for tag, _ in read.elements} & {"script", "img"}
    assert not any(key.startswith("on") for _, attributes in read.elements for key in attributes)
    assert "\x1b" not in page
    assert len(read.ids) == len(set(read.ids))


def test_the_end_of_the_log_keeps_its_lines() -> None:
    read = Page(render(report({"tensorflow.log": known(("first line", "second line"))})))
    assert "first line\nsecond line" in read.text


@pytest.mark.parametrize("arguments", [["doctor", "--from"], ["explain"]])
def test_from_the_command_line(arguments: list[str], tmp_path: Path) -> None:
    saved, page = tmp_path / "report.json", tmp_path / "page.html"
    saved.write_bytes(report({"variables": known({"USER": "grace", "HOME": "/home/grace"})}).to_json())
    done = tfgpu(*arguments, str(saved), "--output", str(page))
    assert done.returncode in (0, 3), done.stderr
    text = page.read_text(encoding="utf-8")
    assert Page(text).all("h1")
    assert "grace" not in text


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("kind", TYPES)
def test_nothing_is_named_twice_and_every_table_has_a_name(kind: str, state: str) -> None:
    """The verdict stands below the title of the page, and says something; a screen reader names each table."""
    page = as_format("html", kind)(results(kind)[state])
    title = re.findall(r"<h1>(.*?)</h1>", page)[0].partition(":")[0]
    for verdict in re.findall(r'<p class="verdict[^>]*>(.*?)</p>', page):
        words = re.sub("<[^>]*>", "", verdict)
        assert words and not words.startswith(f"{title}:") and not words.rstrip().endswith(":")
    assert all(region["aria-label"] for region in Page(page).all("div") if region.get("role") == "region")
    assert "<caption></caption>" not in page


def test_charts_are_not_needed_for_it() -> None:
    source = Path(render.__code__.co_filename).read_text(encoding="utf-8")
    assert "html_svg" not in source and "html_charts" not in source and "matplotlib" not in source
