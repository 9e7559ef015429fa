"""A page as HTML that needs nothing else: of its own, or as a part of a page that others make. Pure.

A page loads nothing: no script, no font, no picture from elsewhere; its policy (Content-Security-Policy) says so, too.
Light and dark follow the reader's system; print is always light. Charts take their colours from the same variables.

A fragment is for the output of a cell in a notebook. Plain elements, which read well without the style that comes with
them: a notebook that is not trusted shows neither style nor script, and a frame would show nothing at all there. The
style reaches only what stands in the fragment, and is stronger than that of the page (an id in `:is()` counts, although
no element has it). Dark where the page says that it is dark; else light on a background of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
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
    c1 #0b62a4 #6cb6ff; c2 #b84a00 #ff9f5a; c3 #1b7837 #57d36b; c4 #7b3fa0 #d2a8ff; c5 #a01c58 #ff8ab5;
    c6 #00757f #4dd0da; c7 #7a5c00 #e3c04b; c8 #57606a #9da7b3
"""
_ROWS = [colour.split() for colour in _COLOURS.split(";")]
LIGHT, DARK = {name: light for name, light, _ in _ROWS}, {name: dark for name, _, dark in _ROWS}
FOLDER = Path(__file__).parent
RULES = FOLDER.joinpath("page.css").read_text(encoding="utf-8").partition("*/\n")[2]


def _variables(colours: dict[str, str]) -> str:
    return " ".join(f"--{name}: {value};" for name, value in colours.items())


STYLE = (
    f":root {{ {_variables(LIGHT)} color-scheme: light dark; }}\n"
    f"@media (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}\n"
    f"{RULES}@media print {{ :root {{ {_variables(LIGHT)} color-scheme: light; }}\n"
    "body { max-width: none; padding: 0; font-size: 10pt; } .screen { display: none; } tr { break-inside: avoid; }\n"
    ".scroll, pre { overflow: visible; } h3, caption, summary { break-after: avoid; } }\n"
)
CLASS = "tfgpu-result"
_SCOPE = f":is(#{CLASS}, .{CLASS})"
# JupyterLab and Notebook 7; Visual Studio Code; Colab; marimo
_DARK_PAGE = ':is([data-jp-theme-light="false"], .vscode-dark, html[theme="dark"], html.dark)'
_NOT_HERE = ("h1", "figure", ".charts")  # of whole pages, and of charts
_OWN = FOLDER.joinpath("fragment.css").read_text(encoding="utf-8").partition("*/\n")[2]
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


def items(words: Iterable[str]) -> str:
    """Return a list of plain texts; nothing for none."""
    found = [element("li", text(one)) for one in words]
    return element("ul", *found, class_="plain") if found else ""


def link(address: str) -> str:
    """Return a link that tells its target nothing about the page."""
    return element("a", text(address), href=address, rel="noreferrer noopener")


def folded(title: str, body: str) -> str:
    """Return what the reader opens on demand."""
    return element("details", element("summary", text(title)), body) + "\n"


def table(
    caption: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: Sequence[int] = (),
    states: Sequence[str] = (),
) -> str:
    """Return a table; `numbers` are the columns of numbers, `states` the colours of the second cells."""
    kinds = ["number" if place in numbers else "" for place in range(len(head))]
    heads = "".join(element("th", text(cell), scope="col", class_=kinds[place]) for place, cell in enumerate(head))
    lines = []
    for row, state in zip_longest(rows, states, fillvalue=""):
        cells = [element("th", _cell(row[0]), scope="row")]
        for place, cell in enumerate(row[1:], 1):
            kind = (kinds[place] or ("long" if len(cell) > 40 else ""), state if place == 1 else "")
            cells.append(element("td", _cell(cell), class_=" ".join(filter(None, kind))))
        lines.append(element("tr", *cells))
    title = element("caption", text(caption)) if caption else ""
    inner = element("table", title, f"<thead><tr>{heads}</tr></thead>", element("tbody", *lines))
    name = caption or ", ".join(head)
    return element("div", inner, class_="scroll", tabindex="0", role="region", aria_label=name) + "\n"


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
        case Items():
            return (element("h3", text(part.title)) if part.title else "") + items(part.lines)
        case Code(is_folded=True):
            return folded(part.title, _lines(part.lines))
        case Code():
            return (element("h3", text(part.title)) if part.title else "") + _lines(part.lines)
        case Page():
            return folded(part.title, body(part))


def _table(part: Table) -> str:
    """Return a table; the mark of a row is a word in its second column."""
    if not part.marks:
        return table(part.title, part.head, part.rows, part.right)
    state = "State" if part.head[0][:1].isupper() else "state"
    head = (part.head[0], state, *part.head[1:])
    rows = [(row[0], MARKS[mark].word, *row[1:]) for row, mark in zip(part.rows, part.marks, strict=True)]
    numbers = [place + 1 for place in part.right]
    return table(part.title, head, rows, numbers, states=[MARKS[mark].page for mark in part.marks])


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
            label = "" if line.label == "fix" else f"{line.label}: " if line.text else line.label
            parts += [paragraph(label + line.text), *(_lines((command,)) for command in line.commands)]
    if block.docs.startswith("https://"):
        parts.append(element("p", "see ", link(block.docs), class_="muted"))
    return element("article", *parts, class_=MARKS[block.mark].page)


def _described(line: Line) -> Iterator[str]:
    about = f" from {line.source}" if line.source else f" ({line.id})" if line.id else ""
    yield element("dt", text(line.label))
    yield element("dd", text(line.text), element("span", text(about), class_="from") if about else "")


def fragment(shown: Page) -> str:
    """Return what a page shows, as one element with its style."""
    style = f"<style>{_style()}</style>"
    return element("div", style, paragraph(shown.origin, "muted"), body(shown), class_=CLASS)


@cache
def _style() -> str:
    light, dark = _variables(LIGHT), _variables(DARK)
    lines = [f"{_SCOPE} {{ {light} color-scheme: light; }}", f"{_DARK_PAGE} {_SCOPE} {{ {dark} color-scheme: dark; }}"]
    for rule in f"{RULES}{_OWN}".split("}"):
        selectors, _, declarations = rule.partition("{")
        kept = [name.strip() for name in selectors.split(",") if not name.strip().startswith(_NOT_HERE)]
        within = ", ".join(_SCOPE if name == "body" else f"{_SCOPE} {name}" for name in kept)
        if kept and declarations:  # sizes are relative to the fragment, since pages differ in theirs
            lines.append(f"{within} {{ {' '.join(declarations.split())} }}".replace("rem", "em"))
    lines.append(f"@media print {{ {_SCOPE}, {_DARK_PAGE} {_SCOPE} {{ {light} color-scheme: light; }} }}")
    return "\n".join(lines)
