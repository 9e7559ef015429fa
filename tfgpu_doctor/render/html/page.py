"""A page as HTML that needs nothing else: of its own, or as a part of a page that others make. Pure.

A page loads nothing: no script, no font, no picture from elsewhere; its policy (Content-Security-Policy) says so, too.
Light and dark follow the reader's system; print is always light. Charts take their colours from the same variables.

A fragment is for the output of a cell in a notebook, which gives its plain elements the notebook's own style: one that
is not trusted would show no other, nor a script or a frame.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import escape
from itertools import zip_longest
from pathlib import Path

from tfgpu_doctor.facts.printable import clean, escape_xml
from tfgpu_doctor.render.console import MARKS
from tfgpu_doctor.render.shapes import Block, Code, Items, Line, Page, Part, Table, has_content

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

# contrast with the page's background at least 4.5:1 for text and 3:1 for lines (WCAG 2.2, 1.4.3 and 1.4.11), which
# tests/render/test_html.py computes
_COLOURS = """
    page #ffffff #0d1117; panel #f4f6f8 #161b22; ink #1b1f24 #e6edf3; muted #57606a #9da7b3; grid #d0d7de #30363d;
    good #116329 #56d364; warn #7d4e00 #e3b341; bad #b3261e #ff8078; link #0550ae #79b8ff;
    c1 #0b62a4 #6cb6ff; c2 #b84a00 #ff9f5a
"""
_ROWS = [colour.split() for colour in _COLOURS.split(";")]
LIGHT, DARK = {name: light for name, light, _ in _ROWS}, {name: dark for name, _, dark in _ROWS}
_RULES = Path(__file__).with_name("page.css").read_text(encoding="utf-8").partition("*/\n")[2]


def _variables(colours: dict[str, str]) -> str:
    return " ".join(f"--{name}: {value};" for name, value in colours.items())


STYLE = (
    f":root {{ {_variables(LIGHT)} color-scheme: light dark; }}\n"
    f"@media (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}\n"
    f"{_RULES}@media print {{ :root {{ {_variables(LIGHT)} color-scheme: light; }}\n"
    "body { max-width: none; padding: 0; font-size: 10pt; } tr { break-inside: avoid; }\n"
    ".scroll, pre { overflow: visible; } h3, caption, summary { break-after: avoid; } }\n"
)
_ADDRESS = re.compile(r"https://[^\s<>\"]+")


# ------------------------------------------------------------------------------------------------------------- elements


def text(value: object) -> str:
    """Return text from outside, harmless in any place of a page: markup escaped, control characters visible."""
    return escape_xml(escape(clean(str(value)), quote=True))


def element(name: str, *children: str, **attributes: str) -> str:
    """Return an element; children are HTML already, attributes are escaped here. `class_` loses its line."""
    pairs = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"' for key, value in attributes.items() if value
    )
    return f"<{name}{pairs}>{''.join(children)}</{name}>"


def paragraph(words: str, kind: str = "") -> str:
    """Return a paragraph of plain text; nothing for no words."""
    return element("p", text(words), class_=kind) if words else ""


def link(address: str) -> str:
    """Return a link that tells its target nothing about the page."""
    return element("a", text(address), href=address, rel="noreferrer noopener")


def folded(title: str, body: str) -> str:
    """Return what the reader opens on demand."""
    return element("details", element("summary", text(title)), body) + "\n"


def _cell(value: str) -> str:
    return link(value) if _ADDRESS.fullmatch(value) else text(value)


# ---------------------------------------------------------------------------------------------------------------- pages


def render(shown: Page, figures: str = "", end: str = "") -> str:
    """Return a whole page: `figures` (HTML) stand below the verdict, `end` below all parts."""
    title = shown.word if shown.word.startswith(shown.title) else f"{shown.title}: {shown.word}"
    head = element("header", paragraph(shown.origin, "muted"), element("h1", text(title)))
    main = element("main", body(shown, figures), end)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{text(title)}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{head}{main}</body>\n</html>\n"
    )


def body(shown: Page, figures: str = "") -> str:
    """Return verdict and parts, as a part of another page."""
    word = shown.word.removeprefix(shown.title).strip()  # the title stands above it
    words = ": ".join(filter(None, (element("strong", text(word)) if word else "", text(shown.sentence))))
    verdict = element("p", words, class_=f"verdict {MARKS[shown.mark].page}".strip())
    return "".join((verdict, figures, *map(_part, filter(has_content, shown.parts))))


def _part(part: Part) -> str:
    match part:
        case Block():
            return _block(part)
        case Table():
            return folded(part.title, _table(part)) if part.is_folded else _table(part)
        case Code(is_folded=True):
            return folded(part.title, _lines(part.lines))
        case Items() | Code():
            listed = (element("li", text(one)) for one in part.lines)
            shown = _lines(part.lines) if isinstance(part, Code) else element("ul", *listed, class_="plain")
            return (element("h3", text(part.title)) if part.title else "") + shown
        case Page():
            return folded(part.title, body(part))


def _table(part: Table) -> str:
    """Return a table; the mark of a row is a word in its second column."""
    head, rows, numbers = part.head, part.rows, part.right
    if part.marks:
        head = (head[0], "State" if head[0][:1].isupper() else "state", *head[1:])
        rows = tuple((row[0], MARKS[mark].word, *row[1:]) for row, mark in zip(rows, part.marks, strict=True))
        numbers = tuple(place + 1 for place in numbers)
    kinds = ["number" if place in numbers else "" for place in range(len(head))]
    heads = "".join(element("th", text(cell), scope="col", class_=kinds[place]) for place, cell in enumerate(head))
    lines = []
    for row, mark in zip_longest(rows, part.marks, fillvalue=""):
        cells = [element("th", _cell(row[0]), scope="row")]
        for place, cell in enumerate(row[1:], 1):
            kind = (kinds[place] or ("long" if len(cell) > 40 else ""), MARKS[mark].page if place == 1 else "")
            cells.append(element("td", _cell(cell), class_=" ".join(filter(None, kind))))
        lines.append(element("tr", *cells))
    title = element("caption", text(part.title)) if part.title else ""
    inner = element("table", title, f"<thead><tr>{heads}</tr></thead>", element("tbody", *lines))
    name = part.title or ", ".join(head)
    return element("div", inner, class_="scroll", tabindex="0", role="region", aria_label=name) + "\n"


def _lines(lines: Iterable[str]) -> str:
    return element("pre", element("code", "\n".join(map(text, lines))))


def _block(block: Block) -> str:
    """Return a finding, or what else has a heading and labelled lines."""
    named = element("span", text(block.ids[0]), class_="muted") if len(block.ids) == 1 else ""
    parts = [element("h3", text(f"{block.title} ") + named)]
    described = [piece for line in block.lines if not line.is_step for piece in _described(line)]
    parts += [element("dl", *described)] if described else []
    for line in block.lines:
        if line.is_step:
            label = f"{line.label}: " if line.text else line.label
            parts += [paragraph(label + line.text), *(_lines((command,)) for command in line.commands)]
    if block.docs.startswith("https://"):
        parts.append(element("p", "see ", link(block.docs), class_="muted"))
    return element("article", *parts, class_=MARKS[block.mark].page)


def _described(line: Line) -> Iterator[str]:
    about = f" from {line.source}" if line.source else f" ({line.id})" if line.id else ""
    yield element("dt", text(line.label))
    yield element("dd", text(line.text), element("span", text(about), class_="from") if about else "")


def fragment(shown: Page) -> str:
    """Return what a page shows, as one element."""
    return element("div", paragraph(shown.origin), body(shown))
