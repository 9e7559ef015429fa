"""Pieces of an HTML page: escaped text, tables that a phone can show, and the frame with its style sheet. Pure.

A page loads nothing: no script, no font, no picture from elsewhere; its policy (Content-Security-Policy) says so, too.
Light and dark follow the reader's system; print is always light. Charts take their colours from the same variables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import zip_longest

from tfgpu_doctor.records.printable import clean, escape_xml

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

# contrast with the page's background at least 4.5:1 for text and 3:1 for lines (WCAG 2.2, 1.4.3 and 1.4.11), which
# tests/render/test_html.py computes
LIGHT = {
    "page": "#ffffff",
    "card": "#f4f6f8",
    "ink": "#1b1f24",
    "muted": "#57606a",
    "grid": "#d0d7de",
    "good": "#116329",
    "warn": "#7d4e00",
    "bad": "#b3261e",
    "link": "#0550ae",
    "c1": "#0b62a4",
    "c2": "#b84a00",
    "c3": "#1b7837",
    "c4": "#7b3fa0",
    "c5": "#a01c58",
    "c6": "#00757f",
    "c7": "#7a5c00",
    "c8": "#57606a",
}
DARK = {
    "page": "#0d1117",
    "card": "#161b22",
    "ink": "#e6edf3",
    "muted": "#9da7b3",
    "grid": "#30363d",
    "good": "#56d364",
    "warn": "#e3b341",
    "bad": "#ff8078",
    "link": "#79b8ff",
    "c1": "#6cb6ff",
    "c2": "#ff9f5a",
    "c3": "#57d36b",
    "c4": "#d2a8ff",
    "c5": "#ff8ab5",
    "c6": "#4dd0da",
    "c7": "#e3c04b",
    "c8": "#9da7b3",
}


NAME = 26  # characters of a row's name that are kept in one line
_BESIDE = 18  # characters of the columns beside the last one, which leave it room on a phone
_ACROSS = 36  # characters of a row that a phone shows in one line
_ADDRESS = re.compile(r"https://[^\s<>\"]+")
_STACKED = 4  # columns of a table whose rows a phone shows one below the other


def variables(colours: dict[str, str]) -> str:
    """Colours as variables of a style."""
    return " ".join(f"--{name}: {value};" for name, value in colours.items())


RULES = """
* { box-sizing: border-box; }
html { color-scheme: light dark; -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; max-width: 80rem; padding: 1rem; background: var(--page); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif;
  overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .25rem 0; }
h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; border-bottom: 1px solid var(--grid); padding-bottom: .25rem; }
h3 { font-size: 1rem; margin: 1rem 0 .25rem; }
p { margin: .5rem 0; }
a { color: var(--link); }
nav ul { list-style: none; display: flex; flex-wrap: wrap; gap: .25rem 1rem; margin: .75rem 0; padding: 0; }
nav a { display: inline-block; padding: .25rem 0; }
.muted, figcaption, caption, .from { color: var(--muted); font-size: .875rem; }
.verdict { background: var(--card); border-left: .35rem solid var(--muted); padding: .75rem 1rem; font-size: 1.1rem; }
.verdict.good { border-color: var(--good); }
.verdict.warn { border-color: var(--warn); }
.verdict.bad { border-color: var(--bad); }
.good strong, td.good { color: var(--good); }
.warn strong, td.warn { color: var(--warn); }
.bad strong, td.bad { color: var(--bad); }
.scroll { overflow-x: auto; margin: .5rem 0; background: /* a shadow at the side where a table goes on */
  linear-gradient(90deg, var(--page) 30%, transparent) left / 2rem 100% no-repeat local,
  linear-gradient(270deg, var(--page) 30%, transparent) right / 2rem 100% no-repeat local,
  linear-gradient(90deg, var(--muted), transparent) left / .4rem 100% no-repeat scroll,
  linear-gradient(270deg, var(--muted), transparent) right / .4rem 100% no-repeat scroll; }
.scroll:focus-visible, summary:focus-visible, a:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
table { border-collapse: collapse; font-size: .9rem; }
caption { text-align: left; padding: .25rem 0; }
th, td { padding: .3rem .75rem .3rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--grid);
  overflow-wrap: normal; }
td { white-space: nowrap; }
td.mid, td.long { white-space: normal; }
summary + .scroll caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
th { font-weight: 600; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.mid { min-width: 9rem; }
td.long { min-width: 10.5rem; }
th.number { white-space: normal; }
th.name, th.mid { white-space: nowrap; }
th.long { min-width: 9rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 27rem), 1fr)); gap: 1rem 2rem; }
.beside { display: flex; flex-wrap: wrap; gap: 0 2rem; }
.beside > div { flex: 1 1 32rem; min-width: 0; }
.beside > div:first-child:not(:last-child) { flex: 0 1 30rem; }
figure { margin: .5rem 0; max-width: 34rem; break-inside: avoid; }
figure svg { display: block; width: 100%; height: auto; }
figure svg * { stroke-linejoin: round; stroke-linecap: butt; }
details { margin: .5rem 0; }
summary { cursor: pointer; padding: .25rem 0; }
pre { background: var(--card); padding: .6rem .8rem; overflow-x: auto; font-size: .875rem; white-space: pre-wrap;
  overflow-wrap: anywhere; }
code { font-family: ui-monospace, "SFMono-Regular", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
ul.plain { padding-left: 1.1rem; margin: .5rem 0; }
article { border-left: .25rem solid var(--grid); padding-left: .8rem; margin: 1rem 0; break-inside: avoid; }
article.good { border-color: var(--good); }
article.bad { border-color: var(--bad); }
article.warn { border-color: var(--warn); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem .8rem; margin: .5rem 0; }
dt { color: var(--muted); }
dd { margin: 0; min-width: 0; }
"""
PHONE = """
th[scope=row] { position: sticky; left: 0; background: var(--page); }
th.mid, th.long { min-width: 8rem; max-width: 9rem; white-space: normal; }
.wrapped td:last-child, .stacked td { min-width: 0; white-space: normal; overflow-wrap: anywhere; }
.stacked thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
.stacked, .stacked caption, .stacked tbody, .stacked tr, .stacked th[scope=row] { display: block; }
.stacked th[scope=row] { min-width: 0; max-width: none; overflow-wrap: anywhere; }
.stacked tr { padding: .3rem 0; border-bottom: 1px solid var(--grid); }
.stacked th, .stacked td { padding: 0; border: 0; }
.stacked td { display: inline-block; max-width: 100%; margin-right: .75rem; text-align: left; }
.stacked td:empty { display: none; }
.stacked td::before { content: attr(data-label) " "; color: var(--muted); }
"""
_PRINT = """
@page { margin: 14mm; }
body { max-width: none; padding: 0; font-size: 10pt; }
nav, .screen { display: none; }
.scroll, pre { overflow: visible; }
.scroll { background: none; }
table { font-size: 8.5pt; }
th, td { padding-right: .5rem; }
tr { break-inside: avoid; }
thead, tbody tr:first-child, tbody tr:nth-last-child(2) { break-after: avoid; }
h2, h3, caption, summary { break-after: avoid; }
.charts { grid-template-columns: 1fr 1fr; gap: .5rem 1rem; }
.beside { display: block; }
"""
STYLE = (
    f":root {{ {variables(LIGHT)} }}\n"
    f"@media (prefers-color-scheme: dark) {{ :root {{ {variables(DARK)} }} }}\n"
    f"{RULES}@media screen and (max-width: 40rem) {{{PHONE}}}\n"
    f"@media print {{ :root {{ {variables(LIGHT)} color-scheme: light; }}{_PRINT}}}\n"
)


def text(value: object) -> str:
    """Text from outside, harmless in any place of a page: markup and quotes escaped, control characters visible."""
    return escape_xml(escape(clean(str(value)), quote=True))


def element(name: str, *children: str, **attributes: str) -> str:
    """An element; children are HTML already, attributes are escaped here. `class_` and `for_` lose their line."""
    pairs = "".join(f' {key.rstrip("_").replace("_", "-")}="{text(value)}"' for key, value in attributes.items())
    return f"<{name}{pairs}>{''.join(children)}</{name}>"


def section(title: str, anchor: str, *children: str) -> str:
    """A section with its heading, which the navigation leads to; nothing when there is nothing to say."""
    if not any(children):
        return ""
    heading = element("h2", text(title), id=f"{anchor}-title")
    return element("section", heading, *children, id=anchor, aria_labelledby=f"{anchor}-title") + "\n"


def paragraph(words: str, kind: str = "") -> str:
    """A paragraph of plain text; nothing for no words."""
    if not words:
        return ""
    return element("p", text(words), **({"class_": kind} if kind else {}))


def items(words: Iterable[str]) -> str:
    """A list of plain texts; nothing for none."""
    found = [element("li", text(one)) for one in words]
    return element("ul", *found, class_="plain") if found else ""


def link(address: str) -> str:
    """A link that tells its target nothing about the page."""
    return element("a", text(address), href=address, rel="noreferrer noopener")


def table(
    caption: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: Sequence[int] = (),
    states: Sequence[str] = (),
) -> str:
    """A table; `numbers` are the columns of numbers, `states` the colours of the second cells. Nothing for no rows.

    On a phone, sentences are read without scrolling: the last column wraps, or the cells of a row stand one below
    the other; a table of short cells scrolls sideways, and the names of its rows stay.
    """
    rows = list(rows)
    if not rows:
        return ""
    heads = "".join(
        element("th", text(cell), scope="col", **({"class_": "number"} if place in numbers else {}))
        for place, cell in enumerate(head)
    )
    narrow = _on_a_phone([head, *rows], numbers)
    labels = head if narrow == "stacked" else ()
    lines = "".join(
        element("tr", *_cells(row, numbers, labels, state)) for row, state in zip_longest(rows, states, fillvalue="")
    )
    inner = element(
        "table",
        element("caption", text(caption)) if caption else "",
        f"<thead><tr>{heads}</tr></thead>",
        element("tbody", lines),
        **({"class_": narrow} if narrow else {}),
    )
    name = caption or ", ".join(head)
    return element("div", inner, class_="scroll", tabindex="0", role="region", aria_label=name) + "\n"


def _on_a_phone(rows: list[Sequence[str]], numbers: Sequence[int]) -> str:
    """How a table fits: its last column wraps, its rows are stacked, or it scrolls."""
    widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
    if len(numbers) > 1 or len(widths) > _STACKED:
        return ""
    return "stacked" if sum(widths[:-1]) > _BESIDE and sum(widths) > _ACROSS else "wrapped"


def _cells(row: Sequence[str], numbers: Sequence[int], labels: Sequence[str], state: str) -> Iterator[str]:
    for place, cell in enumerate(row):
        shown = link(cell) if _ADDRESS.fullmatch(cell) else text(cell)
        if place == 0:
            yield element("th", shown, scope="row", class_=_width(cell, NAME) or "name")
            continue
        width = "number" if place in numbers else _width(cell, 40)
        kind = " ".join(filter(None, (width, state if place == 1 else "")))
        label = {"data_label": labels[place]} if labels else {}
        yield element("td", shown, **({"class_": kind} if kind else {}), **label)


def _width(cell: str, longest: int) -> str:
    return "long" if len(cell) > longest else "mid" if len(cell) > 14 else ""


def folded(title: str, body: str, opened: bool = False) -> str:
    """What the reader opens on demand; nothing for no body."""
    if not body:
        return ""
    return f"<details{' open' if opened else ''}>{element('summary', text(title))}{body}</details>\n"


def command(line: str) -> str:
    """A command to be copied."""
    return element("pre", element("code", text(line)))


def page(title: str, body: str) -> str:
    """The whole document."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{text(title)}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )
