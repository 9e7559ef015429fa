"""A page as HTML that needs nothing else: verdict, tables, what was found; of its own, or as part of another. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.render.console import MARKS
from tfgpu_doctor.render.html.parts import command, element, folded, items, link, page, paragraph, section, table, text
from tfgpu_doctor.render.outline import Block, Detail, Line
from tfgpu_doctor.render.shapes import Code, Items, Page, Part, Table, has_content


def render(shown: Page) -> str:
    """A whole page; what is folded at its end stands below the section of what was found."""
    title = shown.word if shown.word.startswith(shown.title) else f"{shown.title}: {shown.word}"
    head = element("header", paragraph(shown.origin, "muted"), element("h1", text(title)))
    return page(title, head + element("main", section("What was found", "found", body(shown))))


def body(shown: Page) -> str:
    """Verdict and parts, as a part of another page."""
    word = shown.word.removeprefix(shown.title).strip()  # the title stands above it
    words = ": ".join(filter(None, (element("strong", text(word)) if word else "", text(shown.sentence))))
    verdict = element("p", words, class_=f"verdict {MARKS[shown.mark].page}".strip())
    return "".join((verdict, *map(_part, filter(has_content, shown.parts))))


def _part(part: Part) -> str:
    match part:
        case Block():
            return _block(part)
        case Detail():
            return folded(part.title, _detail(part))
        case Table():
            return _table(part)
        case Items():
            return (element("h3", text(part.title)) if part.title else "") + items(part.lines)
        case Code():
            return (element("h3", text(part.title)) if part.title else "") + _lines(part.lines)
        case Page():
            return folded(part.title, body(part))


def _table(part: Table) -> str:
    """A table; the mark of a row is a word in its second column."""
    if not part.marks:
        return table(part.title, part.head, part.rows)
    head = (part.head[0], "State", *part.head[1:])
    rows = [(row[0], MARKS[mark].word, *row[1:]) for row, mark in zip(part.rows, part.marks, strict=True)]
    return table(part.title, head, rows, states=[MARKS[mark].page for mark in part.marks])


def _detail(detail: Detail) -> str:
    return table(detail.title, detail.head, detail.rows) if detail.rows else _lines(detail.lines)


def _lines(lines: tuple[str, ...]) -> str:
    return element("pre", element("code", "\n".join(map(text, lines))))


def _block(block: Block) -> str:
    """A finding, or what else has a heading and labelled lines."""
    named = element("span", text(block.ids[0]), class_="muted") if len(block.ids) == 1 else ""
    parts = [element("h3", text(f"{block.title} ") + named)]
    described = [piece for line in block.lines if not line.is_step for piece in _described(line)]
    parts += [element("dl", *described)] if described else []
    for line in block.lines:
        if line.is_step:
            label = "" if line.label == "fix" else f"{line.label}: " if line.text else line.label
            parts += [paragraph(label + line.text), *map(command, line.commands)]
    if block.docs.startswith("https://"):
        parts.append(element("p", "see ", link(block.docs), class_="muted"))
    kind = MARKS[block.mark].page
    return element("article", *parts, **({"class_": kind} if kind else {}))


def _described(line: Line) -> Iterator[str]:
    about = f" from {line.source}" if line.source else f" ({line.id})" if line.id else ""
    yield element("dt", text(line.label))
    yield element("dd", text(line.text), element("span", text(about), class_="from") if about else "")
