"""docs/findings.md: as the pages and rules have it today, and valid Markdown whose links lead somewhere."""

from __future__ import annotations

import re

from scripts import write_findings
from tfgpu_doctor.findings.pages import all_ids


def outside_of_code(text: str) -> str:
    """The document without its fenced blocks."""
    return re.sub(r"^(`{3,})[^\n]*\n.*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)


def test_the_committed_file_is_up_to_date() -> None:
    written = write_findings.FILE.read_text(encoding="utf-8")
    assert written == write_findings.document(), "python scripts/write_findings.py, and read the difference"


def test_each_finding_has_one_anchor_and_one_heading() -> None:
    text = outside_of_code(write_findings.document())
    anchors = re.findall(r'<a id="([^"]+)"></a>', text)
    assert anchors == [finding_id.replace(".", "-") for finding_id in all_ids()]
    assert re.findall(r"^### (.+)$", text, re.MULTILINE) == list(all_ids())


def test_links_within_lead_to_an_anchor() -> None:
    text = outside_of_code(write_findings.document())
    targets = set(re.findall(r"\]\(#([^)]+)\)", text))
    assert targets == set(re.findall(r'<a id="([^"]+)"></a>', text))


def test_blocks_of_code_are_closed_and_apart() -> None:
    text = write_findings.document()
    fences = [line for line in text.splitlines() if line.startswith("```")]
    assert len(fences) % 2 == 0
    assert all(fence == "```" for fence in fences[1::2])
    assert all(re.fullmatch(r"```(?:text|sh|bat)", fence) for fence in fences[::2])
    assert "```" not in outside_of_code(text)


def test_no_markup_stands_in_the_prose_by_accident() -> None:
    text = outside_of_code(write_findings.document())
    assert not re.search(r"(?<!\\)<(?!a id=|/a>|!-- -->)", text)
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert all(re.match(r"#{1,5} \S", line) for line in headings)
