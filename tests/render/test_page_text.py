"""The exact text of pages at width 80 without colour, beside golden files."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tests.render.test_text import check_golden
from tfgpu_doctor.findings.pages import all_ids, page_of
from tfgpu_doctor.findings.pages.headline import headline_of
from tfgpu_doctor.findings.pages.records import Check, Page, Remedy, Sign, Source
from tfgpu_doctor.render.console import console_for
from tfgpu_doctor.render.terminal.page import render

GOLDEN = Path(__file__).parent / "golden" / "page"
SHOWN = ("cuda.missing", "driver.stub-loaded", "env.allow-growth")
EVIL = "[bold]\x1b[31mevil\x1b[0m <script>\u202e"
HOSTILE = Page(
    id="cuda.missing",
    what=EVIL,
    recognise=(Sign(line=EVIL, means=EVIL), Sign(means=EVIL)),
    checks=(Check(text=EVIL, commands=(EVIL,), tells_from=(EVIL,)),),
    fixes=(Remedy(platform="Linux", text=EVIL, example=(EVIL,), commands=(EVIL,)),),
    sources=(Source(title=EVIL, url=EVIL),),
)


def printed(page: Page | None, monkeypatch: pytest.MonkeyPatch, columns: int = 80) -> str:
    assert page is not None
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = io.StringIO()
    render(page, console_for(stream))
    return stream.getvalue()


@pytest.mark.parametrize("finding_id", SHOWN)
def test_golden(finding_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_golden(GOLDEN / f"{finding_id}.txt", printed(page_of(finding_id), monkeypatch))


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_every_page_fits_the_width_and_wraps_no_command_nor_link(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    offenders = []
    for finding_id in all_ids():
        page = page_of(finding_id)
        assert page is not None
        whole = {command for part in (*page.checks, *page.fixes) for command in part.commands}
        whole |= {line.strip() for remedy in page.fixes for line in remedy.example}
        whole |= {source.url for source in page.sources} | set(headline_of(finding_id).docs)
        lines = printed(page, monkeypatch, columns).splitlines()
        offenders += [
            (finding_id, line)
            for line in lines
            if line != line.rstrip() or (len(line) > columns and line.strip() not in whole)
        ]
        offenders += [(finding_id, line) for line in whole - {line.strip() for line in lines}]
    assert offenders == []


def test_everything_of_a_page_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    page = page_of("container.no-gpu")
    assert page is not None
    text = " ".join(printed(page, monkeypatch).split())
    parts = [page.what, *(sign.means for sign in page.recognise), *(remedy.text for remedy in page.fixes)]
    parts += [sign.line for sign in page.recognise if sign.line]
    parts += [one for check in page.checks for one in (check.text, *check.tells_from)]
    assert [part for part in parts if " ".join(part.split()) not in text] == []


def test_no_control_character_survives(monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(HOSTILE, monkeypatch)
    assert all(char.isprintable() or char == "\n" for char in text)
    assert text.count("[bold]") == 12


def test_ascii_output_has_ascii_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    page = page_of("cuda.missing")
    assert page is not None
    render(page, console_for(stream))
    stream.flush()
    assert raw.getvalue().startswith(b"x cuda.missing  error\n")
