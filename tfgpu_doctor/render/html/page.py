"""A page as HTML that needs nothing else: of its own, or as a part of a page that others make. Pure.

A fragment is for the output of a cell in a notebook. Plain elements, which read well without the style that comes with
them: a notebook that is not trusted shows neither style nor script, and a frame would show nothing at all there. The
style reaches only what stands in the fragment, and is stronger than that of the page (an id in `:is()` counts, although
no element has it). Dark where the page says that it is dark; else light on a background of its own, whatever the page
is like. What is narrow is the output, not the screen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from tfgpu_doctor.render.console import MARKS
from tfgpu_doctor.render.html.parts import (
    DARK,
    LIGHT,
    PHONE,
    RULES,
    command,
    element,
    folded,
    items,
    link,
    page,
    paragraph,
    section,
    table,
    text,
    variables,
)
from tfgpu_doctor.render.outline import Block, Detail, Line
from tfgpu_doctor.render.shapes import Code, Items, Page, Part, Table, has_content

CLASS = "tfgpu-result"
_SCOPE = f":is(#{CLASS}, .{CLASS})"
# JupyterLab and Notebook 7; Visual Studio Code; Colab; marimo
_DARK_PAGE = ':is([data-jp-theme-light="false"], .vscode-dark, html[theme="dark"], html.dark)'
_COMMENT = re.compile(r"/\*[^*]*\*/")
_NOT_HERE = ("html", "nav", "h1", "h2", "figure", ".charts", ".beside")  # of whole pages, and of charts
_OWN = """
body { max-width: 80rem; margin: .25rem 0; padding: .75rem 1rem; border: 1px solid var(--grid); border-radius: .25rem;
  font-size: max(.875em, 13px); text-align: left; container-type: inline-size; }
table { table-layout: auto; margin: 0; border: 0; }
tr, tr:nth-child(n), tr:hover, thead { background: none; border: 0; text-align: left; }
pre, code { color: inherit; border: 0; }
code { background: none; padding: 0; }
pre { margin: .25rem 0; }
"""


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


# ------------------------------------------------------------------------------------------------------------ fragments


def fragment(shown: Page) -> str:
    """What a page shows, as one element with its style."""
    style = f"<style>{_style()}</style>"
    return element("div", style, paragraph(shown.origin, "muted"), body(shown), class_=CLASS)


def note(sentences: tuple[str, ...]) -> str:
    """Sentences beside a result."""
    style = f"<style>{_style()}</style>"
    return element("div", style, *map(paragraph, sentences), class_=CLASS)


@cache
def _style() -> str:
    light, dark = variables(LIGHT), variables(DARK)
    return "\n".join(
        (
            f"{_SCOPE} {{ {light} color-scheme: light; }}",
            f"{_DARK_PAGE} {_SCOPE} {{ {dark} color-scheme: dark; }}",
            *_scoped(RULES),
            *_scoped(_OWN),
            f"@container (max-width: 40em) {{ {' '.join(_scoped(PHONE))} }}",
            f"@media print {{ {_SCOPE}, {_DARK_PAGE} {_SCOPE} {{ {light} color-scheme: light; }} }}",
        )
    )


def _scoped(rules: str) -> Iterator[str]:
    """The rules of a whole page, for the fragment alone; sizes are relative to it, since pages differ in theirs."""
    for rule in _COMMENT.sub("", rules).split("}"):
        selectors, _, declarations = rule.partition("{")
        names = [name.strip() for name in selectors.split(",")]
        kept = [name for name in names if not name.startswith(_NOT_HERE)]
        within = ", ".join(_SCOPE if name == "body" else f"{_SCOPE} {name}" for name in kept)
        if kept and declarations:
            yield f"{within} {{ {' '.join(declarations.split())} }}".replace("rem", "em")
