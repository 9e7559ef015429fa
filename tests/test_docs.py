"""README and docs/: what they show is what tfgpu prints, what is generated is up to date, and they make a site.

What a page shows of tfgpu stands in a block ```console that begins with `$ tfgpu …`. Such a command is run here, with
the files that blocks before it show by `$ cat FILE`. A comment above the block says where else its output is from:

    <!-- golden: tests/render/golden/healthy.txt -->   a golden text, of a machine that was made up for the tests
    <!-- not run: it downloads 3 GiB -->               a real run, pasted

TFGPU_UPDATE_GOLDEN=1 writes the output into the pages.
"""

from __future__ import annotations

import os
import re
import shlex
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from scripts import write_docs
from tests.cli.runner import tfgpu
from tests.healthy import MATRIX
from tests.tables import each
from tfgpu_doctor import __version__
from tfgpu_doctor.cli import cli
from tfgpu_doctor.plan.ranking import make_plan
from tfgpu_doctor.plan.target import describe
from tfgpu_doctor.render.formats import FORMATS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = {str(path.relative_to(ROOT)): path for path in (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))}
TEXTS = {name: path.read_text(encoding="utf-8") for name, path in PAGES.items()}
BLOCK = re.compile(r"^(?:<!-- (golden|not run): ([^\n]+) -->\n)?```console\n\$ ([^\n]+)\n(.*?)^```$", re.S | re.M)
NOT_RUN = 2  # blocks that nothing but a person compares with what tfgpu prints


class Shown(NamedTuple):
    """A block of a page: where it stands, and what it shows."""

    page: str
    kind: str  # "golden", "not run", or "" of what is run
    source: str
    command: str
    output: str

    def __str__(self) -> str:
        return f"{Path(self.page).stem}: {self.command}"


SHOWN = [Shown(page, *match.groups("")) for page, text in TEXTS.items() for match in BLOCK.finditer(text)]
CAPTURES = [one for one in SHOWN if one.command.startswith("tfgpu ")]


def dateless(text: str) -> list[str]:
    """The lines, without what changes with a release or a new row of the matrix."""
    text = re.sub(rf"\b{re.escape(__version__)}\b", "VERSION", text).replace(MATRIX.revision, "REVISION")
    text = re.sub(r"matrix of \d{4}-\d\d-\d\d", "matrix of REVISION", text)
    return [line.rstrip() for line in text.rstrip("\n").splitlines()]


def printed(shown: Shown, folder: Path) -> str:
    """What tfgpu prints for a block."""
    if shown.kind == "golden":
        text = (ROOT / shown.source).read_text(encoding="utf-8")
        text = text.replace("CREATED", "2026-11-21T08:00:00Z")
        return text.replace("REVISION", MATRIX.revision).replace("VERSION", __version__)
    for file in SHOWN:
        if file.page == shown.page and file.command.startswith("cat "):
            (folder / file.command.removeprefix("cat ")).write_text(file.output, encoding="utf-8")
    return tfgpu(*shlex.split(shown.command)[1:], cwd=folder).stdout


@pytest.mark.parametrize("shown", [one for one in CAPTURES if one.kind != "not run"], ids=str)
def test_what_is_shown_is_what_is_printed(shown: Shown, tmp_path: Path) -> None:
    text = printed(shown, tmp_path)
    if os.environ.get("TFGPU_UPDATE_GOLDEN"):
        update(shown, text)
        return
    assert dateless(text) == dateless(shown.output)


def update(shown: Shown, text: str) -> None:
    """Write the output into the page."""
    page = PAGES[shown.page]
    head = (f"<!-- {shown.kind}: {shown.source} -->\n" if shown.kind else "") + f"```console\n$ {shown.command}\n"
    old, new = (f"{head}{one}```\n" for one in (shown.output, f"{text.rstrip()}\n"))
    page.write_text(page.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")


def test_nothing_is_shown_otherwise() -> None:
    assert len([one for one in CAPTURES if one.kind == "not run"]) == NOT_RUN
    for page, text in TEXTS.items():
        assert len(re.findall(r"^ *\$ tfgpu", text, re.MULTILINE)) == sum(one.page == page for one in CAPTURES), page


GENERATED = [
    (page, name)
    for page, text in TEXTS.items()
    for name in re.findall(r"^<!-- generated: ([^\n]+) -->$", text, re.MULTILINE)
]
EVERY_DAY = "9.0"  # a table takes a second


@pytest.mark.parametrize(
    ("page", "name"),
    [
        pytest.param(page, name, marks=pytest.mark.full if name[:10] == "generation" and name[11:] != EVERY_DAY else ())
        for page, name in GENERATED
    ],
)
def test_what_is_generated_is_up_to_date(page: str, name: str) -> None:
    (block,) = re.findall(rf"^<!-- generated: {re.escape(name)} -->\n.*?^<!-- end -->$", TEXTS[page], re.S | re.M)
    assert block == write_docs.document(block), "python scripts/write_docs.py"


def test_every_command_has_a_page_with_its_options() -> None:
    names = {name for _, name in GENERATED}
    for command in cli.commands:
        assert f"docs/commands/{command}.md" in TEXTS
        assert any(name.startswith(f"options {command}") for name in names), command


def test_every_format_and_exit_code_is_described() -> None:
    codes = ("0", "1", "2", "3", "130", "129, 143", "141")
    for start in (*(f"- `{name}`" for name in FORMATS), *(f"| {code} |" for code in codes)):
        assert f"\n{start}" in TEXTS["docs/commands/index.md"], start


@cache
def anchors(file: Path) -> set[str]:
    """What a link into a page can name: its headings, as GitHub and the site spell them, and written anchors."""
    text = file.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^(`{3,}).*?^\1", "", text, flags=re.S | re.M), re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", one.lower()).strip().replace(" ", "-") for one in headings}
    return slugs | set(re.findall(r'<a id="([^"]+)"', text))


@each("page", TEXTS)
def test_links_lead_somewhere(page: str) -> None:
    text = re.sub(r"^(`{3,}).*?^\1", "", TEXTS[page], flags=re.S | re.M)
    for target in re.findall(r"\]\((?!https?://)([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        file = (PAGES[page].parent / path).resolve() if path else PAGES[page]
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


def generations() -> list[list[str]]:
    """The rows of the table by GPU, which is written by hand."""
    table = TEXTS["docs/which-tensorflow.md"].partition("## By GPU\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if re.match(r"\| [A-Z]", line)]
    assert len(rows) == 8
    return [[cell.strip() for cell in row] for row in rows]


@each("row", generations())
def test_the_table_by_gpu_is_what_plan_says(row: list[str]) -> None:
    cards, version = row[0].removesuffix(" and other Fermi").split(", "), row[2]
    for card in cards:
        options = make_plan(MATRIX, describe(MATRIX, gpu=(card,))).options
        if version.startswith("none"):
            assert options == ()
            continue
        gpu = MATRIX.gpu(card)
        assert gpu is not None
        best, (first, _, last) = options[0], row[4].partition(" to ")
        assert (best.tensorflow, best.kind == "conda-forge") == (version, row[3].startswith("conda-forge")), card
        assert best.min_driver == first.removesuffix(" and newer"), card
        assert (gpu.last_driver_branch or "") == last, card
        assert ("nvidia-cudnn-cu12<9.11" in str(best.commands)) == ("nvidia-cudnn-cu12<9.11" in row[3]), card


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. Strict: a warning, such as a link that leads nowhere, is an error."""
    pytest.importorskip("mkdocs", reason="of the extra docs")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True))
    return folder


def test_it_builds_without_warnings_and_has_every_page(site: Path) -> None:
    pages = {path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md")}
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
