"""Write docs/findings/, a page for each finding: python scripts/write_findings.py

The site's navigation in mkdocs.yml lists them, too.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tfgpu_doctor.findings.pages import LAYERS, Page, Remedy, further_links, headline_of, pages_of
from tfgpu_doctor.render.markdown import escape, fenced

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "findings"
SITE = ROOT / "mkdocs.yml"
_NAVIGATION = re.compile(r"(?<=  - Findings:\n)( {6}[^\n]*\n)*")
_FOR_GITHUB_ONLY = re.compile(r"\\([^\w\s\\`*{}\[\]()>#+.!-])")  # the site would print the backslash
_LONGEST = 4000  # characters of one text; no page has a longer one
_SHELLS = {"Windows": "bat"}
_INTRODUCTION = """\
# Findings

The findings that `tfgpu doctor` and `tfgpu explain` report, from the hardware up: what each one means, how to recognise
and confirm it, and how to fix it on each platform. `tfgpu explain ID` prints one of these pages in a terminal.

With an **error**, TensorFlow cannot use the GPU or cannot run at all; with a **warning**, it runs, but incorrectly,
slowly, or only for now; a **note** is harmless. The severity of some findings depends on the machine.

These pages are generated from `tfgpu_doctor/findings/pages/` and the findings by `python scripts/write_findings.py`.
"""


def documents() -> dict[str, str]:
    """The pages by the name of their file."""
    layers = [(title, pages_of(name)) for name, title in LAYERS.items()]
    blocks = [_INTRODUCTION.rstrip(), *(_contents(title, pages) for title, pages in layers)]
    pages = {f"{page.id}.md": "\n\n".join(_page(page)) + "\n" for _, pages in layers for page in pages}
    return {"index.md": "\n\n".join(blocks) + "\n", **pages}


def with_navigation(site: str) -> str:
    """The site's configuration, with the pages of today below "Findings"."""
    lines = ["      - findings/index.md\n"]
    for name, title in LAYERS.items():
        lines.append(f"      - {title}:\n")
        lines += [f"          - {page.id}: findings/{page.id}.md\n" for page in pages_of(name)]
    return _NAVIGATION.sub("".join(lines), site, count=1)


def _contents(title: str, pages: tuple[Page, ...]) -> str:
    lines = [f"- {_link(page.id)} ({_severity(page.id)}): {_text(headline_of(page.id).titles[0])}" for page in pages]
    return "\n".join([f"## {_text(title)}", "", *lines])


def _link(finding_id: str) -> str:
    return f"[{finding_id}]({finding_id}.md)"


def _severity(finding_id: str) -> str:
    return " or ".join(severity.value for severity in headline_of(finding_id).severities)


def _page(page: Page) -> Iterator[str]:
    first, *others = headline_of(page.id).titles
    yield f"# {_text(first)}"
    if others:
        yield "or: " + "  \nor: ".join(map(_text, others))
    yield f"`{page.id}`, {_severity(page.id)}"
    yield _text(page.what)
    yield "## How to recognise it"
    yield from _signs(page)
    if page.checks:
        yield "## How to confirm it"
        yield from _checks(page)
    yield "## How to fix it"
    yield from _remedies(page.fixes)
    yield "## Sources"
    named = [f"- [{_text(source.title)}]({source.url})" for source in page.sources]
    yield "\n".join(named + [f"- See also [{_text(link)}]({link})" for link in further_links(page)])


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
            yield f"### {_text(remedy.platform)}"
        before = remedy.platform
        yield _text(remedy.text)
        if remedy.example:
            yield fenced(remedy.example, "text")
        if remedy.commands:
            yield fenced(remedy.commands, _SHELLS.get(remedy.platform, "sh"))


def _text(text: str) -> str:
    return _FOR_GITHUB_ONLY.sub(lambda found: f"&#{ord(found[1])};", escape(text, _LONGEST))


def main() -> int:
    """Write the files, and remove pages of findings that are gone."""
    FOLDER.mkdir(exist_ok=True)
    pages = documents()
    for path in FOLDER.glob("*.md"):
        if path.name not in pages:
            path.unlink()
    for name, text in pages.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    SITE.write_text(with_navigation(SITE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
