"""Figures of Matplotlib as SVG that is part of a page: colours by its variables, text as text, names of its own. Pure.

Why Matplotlib. Measured 2026-11-21 with Python 3.11, the same bar chart and eight lines of 400 points each; the size of
a fresh virtual environment beside an empty one; the seconds of a process that makes one page:

    library                        page                     installed   time    without script   prints, dark mode
    Matplotlib 3.11, SVG           7 kB bars, 35 kB lines   173 MB      0.4 s   yes              yes, by CSS variables
    Plotly 7.1 (inlined)           4.9 MB                    71 MB      0.1 s   no               one theme, baked in
    Bokeh 3.9 (inlined)            1.4 MB                   144 MB      0.5 s   no               one theme, baked in
    Altair 6.3, vl-convert 1.9     59 kB as SVG             105 MB      2.1 s   yes              yes, by replacing them

The three others give a reader hover texts, and cost a script that a strict Content-Security-Policy forbids, or a second
renderer; here the numbers stand in tables beside the charts. Matplotlib is the one that users of TensorFlow know, and
mostly have: of the 173 MB, NumPy is 73, which TensorFlow brings. Hand-written SVG would be smaller still (no ticks, no
logarithmic axes, no layout of legends), and those are what a library is for.

A figure is 360 units wide and its letters are 10 high, so that they are still 9 pixels on a phone of 360 pixels.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from tfgpu_doctor.render.html.parts import text

WIDTH = 5.0  # inches of 72 units
# colours of the page, by the stand-ins that Matplotlib is given
_NAMES = ("page", "ink", "muted", "grid", "good", "bad", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8")
COLOUR = {name: f"#0{place:x}0{place:x}0{place:x}" for place, name in enumerate(_NAMES, 1)}
CYCLE = tuple(COLOUR[f"c{number}"] for number in range(1, 9))
_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "tfgpu",
    "text.parse_math": False,  # a "$" in the name of a GPU is a "$"
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.labelsize": 10,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.facecolor": "none",
    "axes.edgecolor": COLOUR["muted"],
    "axes.labelcolor": COLOUR["ink"],
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.unicode_minus": False,
    "axes.formatter.useoffset": False,
    "grid.color": COLOUR["grid"],
    "grid.linewidth": 0.6,
    "text.color": COLOUR["ink"],
    "xtick.color": COLOUR["muted"],
    "ytick.color": COLOUR["muted"],
    "xtick.labelcolor": COLOUR["ink"],
    "ytick.labelcolor": COLOUR["ink"],
}
_LEFT_OUT = re.compile(
    r"<metadata>.*?</metadata>|<!--.*?-->|<style type=\"text/css\">.*?</style>|(?<=<g) id=\"[^\"]*\"|\n\s*(?=<)"
    r"| transform=\"rotate\(-0[^\"]*\"| font-family: [^;\"]*;| ?\n(?=[A-Za-z\"])",
    re.DOTALL,
)
_NUMBERS = re.compile(r" (?:d|x|y|width|height|transform)=\"[^\"]*\"")
_LONG_NUMBER = re.compile(r"(\.\d\d)\d+")
_IDS = re.compile(r"(?<= id=\")(?=[^\"]*\")|(?<=url\(#)|(?<=href=\"#)")


@contextmanager
def drawing(height: float) -> Iterator[Figure]:
    """A figure of this height in inches, to be drawn and shown within the block; nothing global is changed after it."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()  # not the settings of a matplotlibrc, which may call LaTeX
        matplotlib.rcParams.update(_STYLE)
        warnings.simplefilter("ignore", UserWarning)  # letters that its own fonts lack: the browser has others
        yield Figure(figsize=(WIDTH, height), layout="constrained")


def svg(figure: Figure, name: str, description: str) -> str:
    """The figure as an element of a page; `name` tells its parts from other figures', `description` is read out.

    To be called within the block of :func:`drawing`.
    """
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    drawn = _LEFT_OUT.sub("", stream.getvalue()).replace("xlink:href", "href")
    drawn = _NUMBERS.sub(lambda match: _LONG_NUMBER.sub(r"\1", match[0]), drawn)
    drawn = _IDS.sub(f"{name}-", drawn)
    for colour, stand_in in COLOUR.items():
        drawn = drawn.replace(stand_in, f"var(--{colour})")
    box = re.search(r'viewBox="([^"]*)"', drawn)
    inner = drawn[drawn.index(">", drawn.index("<svg")) + 1 : drawn.rindex("</svg>")]
    return f'<svg role="img" aria-label="{text(description)}" viewBox="{box[1] if box else ""}">{inner}</svg>'
