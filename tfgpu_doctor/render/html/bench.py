"""A bench result as one page that needs nothing else: its outline, and a picture of the speeds. Pure.

The page is made for others to read: the caller hands over a result that was redacted (redact/).

The picture is SVG that is part of the page. Colours are variables of the page, text is text, and the numbers stand in
tables below it, too. Its places are per cent of the column: it is as wide as the page, with letters of one size.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfgpu_doctor.bench.devices import plain
from tfgpu_doctor.bench.results import BenchResult, Run
from tfgpu_doctor.facts.printable import clean
from tfgpu_doctor.render.html import page
from tfgpu_doctor.render.html.page import element, paragraph, text
from tfgpu_doctor.render.outlines import bench as words

ROWS = 12  # runs in a picture; more would not fit a printed page
_BARS = (
    "Bars: median throughput, each unit with a scale of its own; the line across the end of a bar: its 95 % interval."
)
_LEFT_OUT = " The first {} of {} runs are drawn; the table has all of them."
_READ = (
    "Times are medians with 95 % intervals from order statistics; of fewer than six samples, with their range, at "
    "least ±10 %. Speeds have the interval of the median, speed-ups the worst case of both intervals. Only digits "
    "that the spread supports are shown. A run whose result was wrong, unverified or computed on another device has "
    "no speed. Per cent of peak: multiprocessors × highest SM clock × FLOP per cycle of the architecture. Logical "
    "(virtual) devices share one physical device: they prove function, never speed. Names of users and hosts, private "
    "paths, addresses, serial numbers and credentials are left out."
)
LONGEST = 34  # characters of a label: with a speed beside it, it fits a phone of 360 pixels
_ROW = 42  # height, pixels


def short(name: str, longest: int = LONGEST) -> str:
    """Shorten a name: what tells runs apart stands at both ends."""
    shown = clean(name)
    tail = longest // 2 - 1
    return shown if len(shown) <= longest else f"{shown[: longest - tail - 1]}…{shown[-tail:]}"


def _label(x: str, y: int, words_: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" style="fill: var(--ink); text-anchor: {anchor}">{text(words_)}</text>'


def picture(runs: Sequence[Run]) -> str:
    """Draw bars of throughput with their intervals: the name of each run above its bar, the speed at the right end.

    Each unit has a scale of its own. Nothing where there is nothing to compare: no unit that two runs have.
    """
    speeds = [None if run.virtual else run.throughput for run in runs]
    fastest: dict[str, float] = {}
    for each in filter(None, speeds):
        fastest[each.unit] = max(fastest.get(each.unit, 0.0), each.ci95[1])
    if len(runs) < 2 or not fastest or len(fastest) == sum(speed is not None for speed in speeds) > 1:
        return ""
    name_of, pieces, titles = words.namer(runs), list[str](), list[str]()
    for place, (run, speed) in enumerate(zip(runs[:ROWS], speeds, strict=False)):
        y, left, right = place * _ROW + 14, short(plain(name_of(run))), short(words.throughput(run), 22)
        pieces += [_label("0", y, left, "start"), _label("100%", y, right, "end")]
        titles.append(f"{left} {right}")
        if speed:
            colour = "c1" if run.devices[0].startswith("/GPU") else "c2"
            width, low, high = (f"{100 * part / fastest[speed.unit]:.2f}%" for part in (speed.value, *speed.ci95))
            pieces.append(f'<rect width="{width}" y="{y + 5}" height="14" style="fill: var(--{colour})"/>')
            style = "stroke: var(--ink); stroke-width: 1.6"
            pieces.append(f'<line x1="{low}" x2="{high}" y1="{y + 12}" y2="{y + 12}" style="{style}"/>')
    about = text(f"Speed of {len(titles)} runs: {'; '.join(titles)}")
    return f'<svg role="img" aria-label="{about}" height="{_ROW * len(titles)}">{"".join(pieces)}</svg>'


def render(result: BenchResult) -> str:
    """Render the whole page."""
    figure, left_out = picture(result.runs), ""
    if figure:
        left_out = _LEFT_OUT.format(ROWS, len(result.runs)) if len(result.runs) > ROWS else ""
        figure = element("figure", figure, element("figcaption", text(_BARS + left_out)))
    return page.render(words.page(result), figure, element("footer", paragraph(_READ, "muted")))
