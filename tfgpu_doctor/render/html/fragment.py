"""A result as a part of a page that others make: the output of a cell in a notebook. Pure.

Plain elements, which read well without the style that comes with them: a notebook that is not trusted shows neither
style nor script, and a frame would show nothing at all there. The style reaches only what stands in the fragment, and
is stronger than that of the page (an id in `:is()` counts, although no element has it). Dark where the page says that
it is dark; else light on a background of its own, whatever the page is like. What is narrow is the output, not the
screen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from tfgpu_doctor.render.html.page import body
from tfgpu_doctor.render.html.parts import DARK, LIGHT, PHONE, RULES, element, paragraph, variables
from tfgpu_doctor.render.shapes import Page

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
