"""Read pages from plain text, so that messages and commands stand in the file exactly as they are printed and typed.

# a comment
@ cuda.missing
What it is, in two to four sentences; a text may
continue on the next lines.
> a line that a program prints, word for word, with ... where it varies
= Which versions print it, and what it does not mean. Without a line above it: a symptom that is not printed.
? How to distinguish this finding from others.
  $ a command, never wrapped; below Windows, one for cmd, and that for PowerShell is added
  -> ids.of other.findings
* Linux: One fix on one platform (records.Platform).
  | a line for a file or a program:
  |   its indentation is kept
  $ a command
& Title of a source | https://where.it/is
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from tfgpu_doctor.findings.pages.records import Page
from tfgpu_doctor.plan.windows_shell import for_both_shells

_ENTRY = re.compile(r"([@>=?*&]|  \$|  ->|  \|) (.*)")
_WRAPPED = ("@", "=", "?", "*")  # texts that may continue on the next lines
_PARTS = {"  $": "commands", "  ->": "tells_from", "  |": "example"}


class PageError(ValueError):
    """A page is not well-formed; the message names the file, and the line or the page."""


def read_pages(text: str, name: str) -> tuple[Page, ...]:
    """Parse a file of pages; `name` is used in messages.

    Raises:
        PageError: a line that belongs to nothing, or a page without one of its parts.
    """
    entries: list[tuple[int, str, str]] = []  # number of the line, mark, text
    for number, line in enumerate(text.splitlines(), start=1):
        if entry := _ENTRY.match(line):
            entries.append((number, entry[1], entry[2].rstrip()))
        elif line.strip() and not line.startswith("#"):
            if not entries or entries[-1][1] not in _WRAPPED:
                raise PageError(f"{name}:{number}: this line continues nothing")
            start, mark, before = entries[-1]
            entries[-1] = (start, mark, f"{before} {line.strip()}")
    pages: list[dict[str, Any]] = []
    for number, mark, content in entries:
        try:
            _add(pages, mark, content)
        except (LookupError, ValueError) as error:
            raise PageError(f"{name}:{number}: {content!r} does not belong here") from error
    return tuple(_page(page, name) for page in pages)


def _add(pages: list[dict[str, Any]], mark: str, text: str) -> None:
    if mark == "@":
        finding_id, _, what = text.partition(" ")
        pages.append({"id": finding_id, "what": what, "recognise": [], "checks": [], "fixes": [], "sources": []})
        return
    page = pages[-1]
    signs = page["recognise"]
    if mark == ">":
        signs.append({"line": text, "means": ""})
    elif mark == "=" and signs and not signs[-1]["means"]:
        signs[-1]["means"] = text
    elif mark == "=":
        signs.append({"means": text})
    elif mark == "?":
        page["checks"].append({"text": text, "commands": [], "tells_from": []})
    elif mark == "*":
        platform, text = text.split(": ", 1)
        page["fixes"].append({"platform": platform, "text": text, "example": [], "commands": []})
    elif mark == "&":
        title, url = text.rsplit(" | https://", 1)
        page["sources"].append({"title": title, "url": f"https://{url}"})
    else:
        item = (page["fixes"] or page["checks"])[-1]
        windows = mark == "  $" and item.get("platform") == "Windows"
        item[_PARTS[mark]] += text.split() if mark == "  ->" else for_both_shells([text]) if windows else [text]


def _page(page: dict[str, Any], name: str) -> Page:
    if lacking := [part for part in ("what", "recognise", "fixes", "sources") if not page[part]]:
        raise PageError(f"{name}: {page['id']} lacks {', '.join(lacking)}")
    try:
        return msgspec.convert(page, Page)
    except msgspec.ValidationError as error:
        raise PageError(f"{name}: {page['id']}: {error}") from error
