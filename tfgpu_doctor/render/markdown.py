"""A page as Markdown, for an issue or the summary of a job: short, with what is long folded; nothing in it is markup.

GitHub looks for mentions and issue numbers in the rendered text, where an escaped character is a plain one again; an
empty HTML comment between the sign and the name is what keeps them apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tfgpu_doctor.facts.printable import clean, cut
from tfgpu_doctor.render.console import MARKS
from tfgpu_doctor.render.shapes import Block, Code, Items, Line, Page, Part, Table, has_content

LONGEST = 60_000  # characters; GitHub takes 65 536
_LONGEST_TEXT = 600  # characters of one text

URL = re.compile(r"(https?://[^\s<>\"'`|\\*\[\](){}]+)")
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_MARKUP = re.compile(r"[&<>\\`*_\[\]|~$]")
_LINKED = re.compile(
    r"@(?=\w)|#(?=\d)|(?<=\b[Gg][Hh]-)(?=\d)|(?<=\b[Ww]{3})(?=\.)|(?:(?<=^:)|(?<=\D:))(?=[a-z0-9_+-]+:)"
)


_LONGEST_LINE = 4100  # of a variable or a line of the log
_RESERVE = 1000  # characters for what says that something is left out


def render(page: Page) -> str:
    """The whole page, at most :data:`LONGEST` characters; what does not fit is named, unless it is folded."""
    return "\n\n".join(_shown(page, LONGEST - _RESERVE)) + "\n"


def _shown(page: Page, room: int) -> Iterator[str]:
    word = f"**{MARKS[page.mark].markdown} {escape(page.word)}**"
    sentence = f": {escape(page.sentence)}" if page.sentence else ""
    head = f"{word}{sentence}\n\n<sub>{escape(page.origin)}</sub>"
    yield head
    room -= len(head)
    left_out = []
    for part in filter(has_content, page.parts):
        text = _part(part, page.language, room)
        if len(text) + 2 <= room:
            room -= len(text) + 2
            yield text
        elif not (isinstance(part, Page) or getattr(part, "is_folded", False)):
            left_out.append(", ".join(part.ids) if isinstance(part, Block) and part.ids else part.title)
    if left_out:
        names = ", ".join(filter(None, left_out))
        yield f"{len(left_out)} more are too long for this page" + (f": {escape(names)}" if names else "")


def _part(part: Part, language: str, room: int) -> str:
    match part:
        case Block():
            return _block(part, language)
        case Table(is_folded=True):
            return folded(part.title, table(part.head, part.rows))
        case Code(is_folded=True):
            return folded(part.title, fenced(line[:_LONGEST_LINE] for line in part.lines))
        case Table():
            return _table(part, room // 2)
        case Items():
            return "\n\n".join(filter(None, (_bold(part.title), "\n".join(f"- {escape(one)}" for one in part.lines))))
        case Code():
            return "\n\n".join(filter(None, (_bold(part.title), fenced(part.lines))))
        case Page():
            return folded(part.title, "\n\n".join(_shown(part, room)))


def _bold(title: str) -> str:
    return f"**{escape(title)}**" if title else ""


def _table(part: Table, room: int) -> str:
    """The rows for which there is room, the others counted."""
    head = ("", *part.head) if part.marks else part.head
    rows: list[tuple[str, ...]] = []
    for place, row in enumerate(part.rows):
        rows.append((MARKS[part.marks[place]].markdown, *row) if part.marks else row)
        room -= len(table(head, rows[-1:]))
        if room < 0 and place:
            rows.pop()
            return f"{table(head, rows)}\n\n{len(part.rows) - place} more are too many for this page"
    return table(head, rows)


def _block(block: Block, language: str) -> str:
    """A heading, the evidence, the fixes."""
    named = _sub(block.ids[0]) if len(block.ids) == 1 else ""
    parts = [f"### {MARKS[block.mark].markdown} {escape(block.title, 200)}{named}"]
    items = [_item(line) for line in block.lines if not line.is_step]
    parts += ["\n".join(items)] if items else []
    for line in block.lines:
        if line.is_step:
            parts.append(f"**{escape(line.label)}** {escape(line.text)}".rstrip())
            parts += [fenced(line.whole_commands, language)] if line.commands else []
    if URL.fullmatch(block.docs):
        parts.append(f"**see** <{block.docs}>")
    return "\n\n".join(parts)


def _item(line: Line) -> str:
    label = f"**{escape(line.label)}** " if line.label else ""
    source = f" ←{_sub(line.source)}" if line.source else ""
    return f"- {label}{escape(line.text)}{source}{_sub(line.id) if line.id else ''}"


def _sub(text: str) -> str:
    return f" <sub>{escape(text, 200)}</sub>"


# --------------------------------------------------------------------------------------------------------------- pieces


def escape(text: str, longest: int = _LONGEST_TEXT) -> str:
    """Make text from outside plain in Markdown: no markup, HTML, mention, issue number or emoji; one line, cut off."""
    pieces = URL.split(cut(clean(text.replace("\n", " ").replace("\r", " ")), longest))
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
    title, *body = ["| " + " | ".join(map(escape, row)) + " |" for row in (head, *rows)]
    return "\n".join((title, "| " + " | ".join("---" for _ in head) + " |", *body))


def folded(title: str, body: str) -> str:
    """What the reader opens on demand."""
    return f"<details><summary>{escape(title)}</summary>\n\n{body}\n\n</details>"
