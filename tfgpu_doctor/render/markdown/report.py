"""A report for an issue on GitHub: short, with what is long folded, and nothing in it that acts as markup.

GitHub looks for mentions and issue numbers in the rendered text, where an escaped character is a plain one again; an
empty HTML comment between the sign and the name is what keeps them apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tfgpu_doctor.records.facts import value_or
from tfgpu_doctor.records.printable import clean
from tfgpu_doctor.records.report import Report
from tfgpu_doctor.records.wording import problem_counts, verdict_sentence
from tfgpu_doctor.render.console import MARKS
from tfgpu_doctor.render.outline import VERDICT_MARKS, Block, Detail, Line, blocks, details, open_checks
from tfgpu_doctor.render.stack import layers_of

LONGEST = 60_000  # characters; GitHub takes 65 536
_LONGEST_TEXT = 600  # characters of one text
_LONGEST_COMMAND = 2000
_LONGEST_LINE = 4100  # of a variable or a line of the log

_URL = re.compile(r"(https?://[^\s<>\"'`|\\*\[\](){}]+)")
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
    pieces = _URL.split(text)
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


def render(report: Report) -> str:
    """The whole page, at most :data:`LONGEST` characters; what does not fit is named."""
    page = [_head(report), _stack(report)]
    room = LONGEST - 1000 - sum(map(len, page))
    left_out = []
    windows = value_or(report.facts.host.os, "") == "windows"
    for block in blocks(report):
        text = show_block(block, "bat" if windows else "sh")
        if len(text) + 2 > room:
            left_out.append(", ".join(block.ids) or block.title)
            continue
        page.append(text)
        room -= len(text) + 2
    if left_out:
        page.append(f"{len(left_out)} more are too long for this page: {escape(', '.join(left_out))}")
    for detail in (*open_checks(report), *details(report.facts)):
        text = _detail(detail)
        if len(text) + 2 <= room:
            page.append(text)
            room -= len(text) + 2
    return "\n\n".join(page) + "\n"


def _head(report: Report) -> str:
    command = "tfgpu explain" if report.source == "text" else "tfgpu doctor"
    tool = f"{command} {report.tool.version}, matrix of {report.matrix.revision}"
    mark = MARKS[VERDICT_MARKS[report.verdict]].markdown
    verdict = f"**{mark} {escape(report.verdict)}**: {escape(verdict_sentence(report))}"
    return f"{verdict}{problem_counts(report)}\n\n<sub>{escape(tool)}, {escape(report.created)}</sub>"


def _stack(report: Report) -> str:
    rows = ((MARKS[layer.mark].markdown, layer.name, layer.text) for layer in layers_of(report))
    return table(("", "Layer", "Found"), rows)


def show_block(block: Block, language: str = "sh") -> str:
    """A heading, the evidence, the fixes."""
    named = _sub(block.ids[0]) if len(block.ids) == 1 else ""
    parts = [f"### {MARKS[block.mark].markdown} {escape(block.title, 200)}{named}"]
    items = [_item(line) for line in block.lines if line.label != "fix"]
    parts += ["\n".join(items)] if items else []
    for line in block.lines:
        if line.label == "fix":
            parts.append(f"**fix** {escape(line.text)}")
            parts += [fenced(map(_command, line.commands), language)] if line.commands else []
    if _URL.fullmatch(block.docs):
        parts.append(f"**see** <{block.docs}>")
    return "\n\n".join(parts)


def _item(line: Line) -> str:
    label = f"**{line.label}** " if line.label else ""
    source = f" ←{_sub(line.source)}" if line.source else ""
    return f"- {label}{escape(line.text)}{source}{_sub(line.id) if line.id else ''}"


def _sub(text: str) -> str:
    return f" <sub>{escape(text, 200)}</sub>"


def _command(command: str) -> str:
    """A command whole, or not at all: half of one would do something else."""
    if len(command) > _LONGEST_COMMAND:
        return f"# a command of {len(command)} characters, in the JSON report"
    return command


def _detail(detail: Detail) -> str:
    body = table(detail.head, detail.rows) if detail.rows else fenced(line[:_LONGEST_LINE] for line in detail.lines)
    return folded(detail.title, body)
