"""The site's pages about findings: valid Markdown, whose links tests/test_site.py follows; and their list in git."""

from __future__ import annotations

import re

from scripts import finding_pages
from tfgpu_doctor.findings.pages import all_ids

DOCUMENTS = finding_pages.documents()


def outside_of_code(text: str) -> str:
    """The document without its fenced blocks."""
    return re.sub(r"^(`{3,})[^\n]*\n.*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)


def test_each_finding_has_a_page_and_a_place_in_the_list_which_git_has_as_it_is_today() -> None:
    assert set(DOCUMENTS) == {"index.md", *(f"{finding_id}.md" for finding_id in all_ids())}
    assert re.findall(r"^- \[([^]]+)\]", DOCUMENTS["index.md"], re.MULTILINE) == list(all_ids())
    written = finding_pages.LIST.read_text(encoding="utf-8")
    assert written == finding_pages.contents(linked=False), "python scripts/finding_pages.py"


def test_blocks_of_code_are_closed_and_apart() -> None:
    for text in DOCUMENTS.values():
        fences = [line for line in text.splitlines() if line.startswith("```")]
        assert len(fences) % 2 == 0
        assert all(fence == "```" for fence in fences[1::2])
        assert all(re.fullmatch(r"```(?:text|sh|bat)", fence) for fence in fences[::2])
        assert "```" not in outside_of_code(text)


def test_no_markup_stands_in_the_prose_by_accident() -> None:
    for text in map(outside_of_code, DOCUMENTS.values()):
        assert not re.search(r"(?<!\\)<(?!!-- -->)", text)
        headings = [line for line in text.splitlines() if line.startswith("#")]
        assert all(re.match(r"#{1,3} \S", line) for line in headings)
