"""docs/ builds as a site without warnings, and a page of it loads nothing from elsewhere."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="of the extra docs")

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. Strict: a warning, such as a link that leads nowhere, is an error."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True))
    return folder


def test_it_builds_without_warnings_and_has_every_page(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert pages - {path.relative_to(site) for path in site.rglob("*.html")} == set()


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    """Readers of the site are not reported to others, and it can be read offline."""
    loads = re.compile(r"""<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=["']?((?:https?:)?//[^"' >]+)""")
    for path in site.rglob("*.html"):
        assert loads.findall(path.read_text(encoding="utf-8")) == [], path
    for path in site.rglob("*.css"):
        assert re.findall(r"(?:url\(|@import )[\"']?(?:https?:)?//[^)\"']+", path.read_text(encoding="utf-8")) == []


def test_a_phone_shows_the_heads_of_the_table_by_gpu(site: Path) -> None:
    """Where its rows are stacked, the style sheet has its heads: those of the page."""
    page = (site / "which-tensorflow.html").read_text(encoding="utf-8")
    table = re.search(r'<h2 id="by-gpu">.*?</h2>\s*<p>(?:(?!</?p>).)*</p>\s*<table>(.*?)</thead>', page, re.DOTALL)
    assert table, "the style sheet finds the table as what follows the first paragraph"
    style = (site / "site.css").read_text(encoding="utf-8")
    labels = re.findall(r'#by-gpu \+ p \+ \* td:nth-child\(\d\)::before { content: "(.*) "; }', style)
    assert labels == re.findall(r"<th>(.*?)</th>", table[1])[1:]


def test_a_phone_has_room_for_every_python(site: Path) -> None:
    """Pythons with the same answers share a column: what stands in each is another."""
    page = (site / "which-tensorflow.html").read_text(encoding="utf-8").partition('id="by-gpu-driver-and-python"')[2]
    tables = re.findall(r"<table>(.*?)</table>", page, re.DOTALL)
    assert tables
    for rows in tables:
        cells = [re.findall(r"<td>(.*?)</td>", row) for row in rows.split("<tr>")[2:]]
        columns = list(zip(*cells, strict=True))
        assert len(columns) <= 7 and all(one != other for one, other in pairwise(columns)), rows


def test_no_markup_is_left_over(site: Path) -> None:
    """GitHub and the site read Markdown a little differently: escapes and entities that only one of them knows."""
    for path in site.rglob("*.html"):
        text = re.sub(r"<(pre|code|script|style)\b.*?</\1>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        prose = re.sub(r"<[^>]+>", "", text)
        assert re.findall(r".{20}(?:\\[^\w\s]|\*\*|&amp;\w+;|\]\().*", prose) == [], path
