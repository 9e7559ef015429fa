"""Write docs/findings.md from the pages and the rules: python scripts/write_findings.py"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from tfgpu_doctor.findings.pages import LAYERS, pages_of
from tfgpu_doctor.findings.pages.headline import further_links, headline_of
from tfgpu_doctor.findings.pages.records import Page, Remedy
from tfgpu_doctor.render.markdown.parts import escape, fenced

FILE = Path(__file__).parent.parent / "docs" / "findings.md"
_LONGEST = 4000  # characters of one text; no page has a longer one
_SHELLS = {"Windows": "bat"}
_INTRODUCTION = """\
# Findings

The findings that `tfgpu doctor` and `tfgpu explain` report, from the hardware up: what each one means, how to recognise
and confirm it, and how to fix it on each platform. `tfgpu explain ID` prints one of these pages in a terminal.

With an **error**, TensorFlow cannot use the GPU or cannot run at all; with a **warning**, it runs, but incorrectly,
slowly, or only for now; a **note** is harmless. The severity of some findings depends on the machine.

This file is generated from `tfgpu_doctor/findings/pages/` and the findings by `python scripts/write_findings.py`.
"""


def document() -> str:
    """The whole file."""
    layers = [(title, pages_of(name)) for name, title in LAYERS.items()]
    blocks = [_INTRODUCTION.rstrip(), "\n\n".join(_contents(title, pages) for title, pages in layers)]
    for title, pages in layers:
        blocks.append(f"## {escape(title)}")
        blocks += ["\n\n".join(_page(page)) for page in pages]
    return "\n\n".join(blocks) + "\n"


def anchor(finding_id: str) -> str:
    """The name that links point to: "cuda-missing"."""
    return finding_id.replace(".", "-")


def _contents(title: str, pages: tuple[Page, ...]) -> str:
    lines = [f"- {_link(page.id)} ({_severity(page.id)}): {escape(headline_of(page.id).titles[0])}" for page in pages]
    return "\n".join([f"**{escape(title)}**", "", *lines])


def _link(finding_id: str) -> str:
    return f"[{finding_id}](#{anchor(finding_id)})"


def _severity(finding_id: str) -> str:
    return " or ".join(severity.value for severity in headline_of(finding_id).severities)


def _page(page: Page) -> Iterator[str]:
    headline = headline_of(page.id)
    yield f'<a id="{anchor(page.id)}"></a>'
    yield f"### {page.id}"
    titles = "  \n".join(f"**{escape(title)}**" for title in headline.titles)
    yield f"{titles}  \n{_severity(page.id)}"
    yield _text(page.what)
    yield "#### How to recognise it"
    yield from _signs(page)
    if page.checks:
        yield "#### How to confirm it"
        yield from _checks(page)
    yield "#### How to fix it"
    yield from _remedies(page.fixes)
    yield "#### Sources"
    named = [f"- [{escape(source.title)}]({source.url})" for source in page.sources]
    yield "\n".join(named + [f"- See also {link}" for link in further_links(page)])


def _signs(page: Page) -> Iterator[str]:
    for sign in page.recognise:
        if sign.line:
            yield fenced([sign.line], "text")
        yield _text(sign.means)


def _checks(page: Page) -> Iterator[str]:
    for check in page.checks:
        yield _text(check.text)
        if check.commands:
            yield fenced(check.commands, "sh")
        if check.tells_from:
            yield f"Distinguishes it from {', '.join(map(_link, check.tells_from))}."


def _remedies(remedies: tuple[Remedy, ...]) -> Iterator[str]:
    before: str | None = None
    for remedy in remedies:
        if remedy.platform != before:
            yield f"##### {escape(remedy.platform)}"
        before = remedy.platform
        yield _text(remedy.text)
        if remedy.example:
            yield fenced(remedy.example, "text")
        if remedy.commands:
            yield fenced(remedy.commands, _SHELLS.get(remedy.platform, "sh"))


def _text(text: str) -> str:
    return escape(text, _LONGEST)


def main() -> int:
    """Write the file."""
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(document(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
