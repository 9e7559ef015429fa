"""Pieces of a Markdown page: escaped text, code blocks, tables, and what is folded; nothing in them acts as markup.

GitHub looks for mentions and issue numbers in the rendered text, where an escaped character is a plain one again; an
empty HTML comment between the sign and the name is what keeps them apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tfgpu_doctor.records.printable import clean

LONGEST = 60_000  # characters; GitHub takes 65 536
_LONGEST_TEXT = 600  # characters of one text

URL = re.compile(r"(https?://[^\s<>\"'`|\\*\[\](){}]+)")
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_MARKUP = re.compile(r"[&<>\\`*_\[\]|~$]")
_LINKED = re.compile(
    r"@(?=\w)|#(?=\d)|(?<=\b[Gg][Hh]-)(?=\d)|(?<=\b[Ww]{3})(?=\.)|(?:(?<=^:)|(?<=\D:))(?=[a-z0-9_+-]+:)"
)


def escape(text: str, longest: int = _LONGEST_TEXT) -> str:
    """Make text from outside plain in Markdown: no markup, HTML, mention, issue number or emoji; one line, cut off."""
    text = clean(text.replace("\n", " ").replace("\r", " "))
    if len(text) > longest:
        text = text[: longest - 1] + "…"
    pieces = URL.split(text)
    return "".join(piece if number % 2 else _plain(piece) for number, piece in enumerate(pieces))


def _plain(text: str) -> str:
    apart = _LINKED.sub(lambda match: match[0] + "\0", text)
    escaped = _MARKUP.sub(lambda match: _HTML.get(match[0]) or "\\" + match[0], apart)
    return escaped.replace("\0", "<!-- -->")


def fenced(lines: Iterable[str], language: str = "") -> str:
    """A code block that its content cannot end."""
    content = [clean(line) for line in lines]
    longest = max((len(run) for line in content for run in re.findall(r"`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([fence + language, *content, fence])


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table of escaped cells."""
    lines = [head, ("---",) * len(head)]
    lines += [tuple(escape(cell) for cell in row) for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def folded(title: str, body: str) -> str:
    """What the reader opens on demand."""
    return f"<details><summary>{escape(title)}</summary>\n\n{body}\n\n</details>"
