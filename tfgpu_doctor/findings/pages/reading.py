"""Pages as they are written: plain text, so that what programs print and what people paste stands there as it is.

A file looks like this:

    # a comment
    @ cuda.missing
    What it is, in two to four sentences; a text goes on
    over as many lines as it likes.
    > a line that a program prints, word for word, with ... where it varies
    = Which versions print it, and what it does not mean. Without a line above it, a sign that is not printed.
    ? What decides between this finding and others.
      $ a command, never wrapped
      -> ids.of other.findings
    * Linux: One way out on one platform (records.Platform).
      | a line for a file or a program:
      |   it keeps its indentation
      $ a command
    & Title of a source | https://where.it/is
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import msgspec

from tfgpu_doctor.findings.pages.records import Page

_KINDS = {">": "sign", "=": "meaning", "?": "check", "*": "remedy", "&": "source"}


class PageError(ValueError):
    """A page is written wrongly; the message names the file and the line."""


def read_pages(text: str, name: str) -> tuple[Page, ...]:
    """Parse a file of pages; `name` stands in messages.

    Raises:
        PageError: a line that fits nowhere, or a page without one of its parts.
    """
    reader = _Reader(name)
    for number, line in enumerate(text.splitlines(), start=1):
        reader.number = number
        if line.strip() and not line.startswith("#"):
            reader.take(line)
    return tuple(reader.finished())


class _Reader:
    """Collects pages as plain dictionaries; `open` is the text that the next line may go on."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.number = 0
        self.pages: list[dict[str, Any]] = []
        self.open: tuple[dict[str, Any], str] | None = None
        self.item: dict[str, Any] | None = None  # the check or remedy that commands belong to

    def take(self, line: str) -> None:
        mark, _, rest = line.partition(" ")
        if mark == "@":
            page: dict[str, Any] = {"id": rest.strip(), "what": ""}
            page.update({part: [] for part in ("recognise", "checks", "fixes", "sources")})
            self.pages.append(page)
            self.open, self.item = (page, "what"), None
        elif not self.pages:
            self.fail("stands before the first page")
        elif mark in _KINDS:
            getattr(self, f"_{_KINDS[mark]}")(self.pages[-1], rest.strip())
        elif line.startswith(("  $ ", "  -> ", "  | ")):
            self._belonging(line[2:])
        else:
            self._going_on(line.strip())

    def _sign(self, page: dict[str, Any], text: str) -> None:
        sign = {"line": text, "means": ""}
        page["recognise"].append(sign)
        self.open, self.item = (sign, "line"), None

    def _meaning(self, page: dict[str, Any], text: str) -> None:
        signs = page["recognise"]
        if not signs or signs[-1]["means"]:
            signs.append({"line": None, "means": ""})
        signs[-1]["means"] = text
        self.open, self.item = (signs[-1], "means"), None

    def _check(self, page: dict[str, Any], text: str) -> None:
        self.item = {"text": text, "commands": [], "tells_from": []}
        page["checks"].append(self.item)
        self.open = (self.item, "text")

    def _remedy(self, page: dict[str, Any], text: str) -> None:
        platform, colon, text = text.partition(": ")
        if not colon:
            self.fail("a way out begins with its platform: * Linux: ...")
        self.item = {"platform": platform, "text": text, "example": [], "commands": []}
        page["fixes"].append(self.item)
        self.open = (self.item, "text")

    def _source(self, page: dict[str, Any], text: str) -> None:
        title, bar, url = text.rpartition(" | ")
        if not bar or not url.startswith("https://"):
            self.fail("a source is: & title | https://...")
        page["sources"].append({"title": title, "url": url})
        self.open = self.item = None

    def _belonging(self, text: str) -> None:
        mark, _, rest = text.partition(" ")
        field = {"$": "commands", "->": "tells_from", "|": "example"}[mark]
        if self.item is None or field not in self.item:
            self.fail("belongs to no check or way out")
        self.open = None
        self.item[field] += rest.split() if mark == "->" else [rest]

    def _going_on(self, text: str) -> None:
        if self.open is None:
            self.fail("goes on nothing")
        record, field = self.open
        record[field] = f"{record[field]} {text}".strip()

    def finished(self) -> Iterator[Page]:
        for page in self.pages:
            if lacking := [part for part in ("what", "recognise", "fixes", "sources") if not page[part]]:
                raise PageError(f"{self.name}: {page['id']} lacks {', '.join(lacking)}")
            try:
                yield msgspec.convert(page, Page)
            except msgspec.ValidationError as error:
                raise PageError(f"{self.name}: {page['id']}: {error}") from error

    def fail(self, why: str) -> NoReturn:
        raise PageError(f"{self.name}:{self.number}: this line {why}")
