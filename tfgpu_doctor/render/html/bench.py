"""A bench result as one page that needs nothing else: its outline, pictures, the raw data. Pure.

The page is made for others to read: the caller hands over a result that was redacted (redact/).

The pictures (speed, scaling) are SVG that is part of the page. Colours are variables of the page, text is
text, and the numbers stand in tables beside the pictures. A picture is 360 units wide and its letters are 10 high, so
that they are still 9 pixels on a phone of 360 pixels.
"""

from __future__ import annotations

import base64
import gzip
import math
from collections.abc import Iterator, Sequence

from tfgpu_doctor.bench.results import BenchResult, Ratio, Run, Throughput
from tfgpu_doctor.facts.printable import clean
from tfgpu_doctor.facts.units import scale_of
from tfgpu_doctor.render.html import page
from tfgpu_doctor.render.html.page import element, paragraph, text
from tfgpu_doctor.render.outlines import bench as words

ROWS = 12  # runs in a picture; more would not fit a printed page
LARGE = 500_000  # bytes of JSON from which on the file for download is compressed
_BARS = "Bars: median throughput; the line at their ends: its 95 % interval."
_SCALING = "Dashed: ideal. Vertical lines: 95 % intervals."
_LEFT_OUT = " {} of {} runs are drawn, throttled ones and those with advice first; the table has all of them."
_READ = (
    "Times are medians with 95 % intervals from order statistics; of fewer than six samples, with their range. Speeds "
    "have the interval of the median, speed-ups the worst case of both intervals. Only digits that the spread supports "
    "are shown. A run whose result was wrong, unverified or computed on another device has no speed. Per cent of peak: "
    "multiprocessors × highest SM clock × FLOP per cycle of the architecture. Logical (virtual) devices share one "
    "physical device: they prove function, never speed. Names of users and hosts, private paths, addresses, serial "
    "numbers and credentials are left out."
)
LONGEST = 34  # characters of a label
_WIDTH, _LEFT, _RIGHT = 360.0, 12.0, 348.0
_ROW = 34.0  # height
_COLOURS, _DASHES = 8, ("", "6 3", "2 3")  # of the lines of a picture, in turns


def short(name: str, longest: int = LONGEST) -> str:
    """Shorten a name: what tells runs apart stands at both ends."""
    shown = clean(name)
    tail = longest // 2 - 1
    return shown if len(shown) <= longest else f"{shown[: longest - tail - 1]}…{shown[-tail:]}"


# ------------------------------------------------------------------------------------------------------- SVG and axes


class Axis:
    """A scale from values to places in a picture, with its ticks."""

    def __init__(self, low: float, high: float, begin: float, end: float, whole: bool = False) -> None:
        """Let `low` stand at `begin` and `high` at `end`; `whole`: ticks are whole numbers."""
        self._low, self._high, self._begin, self._end = low, high if high > low else low + 1, begin, end
        rough = (self._high - low) / 5
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
        self._step = max(step, 1.0) if whole else step

    def __call__(self, value: float) -> float:
        """Return the place of a value."""
        return self._begin + (value - self._low) / (self._high - self._low) * (self._end - self._begin)

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Yield the place and the number of each tick."""
        decimals = max(0, -math.floor(math.log10(self._step) + 1e-9))
        first, last = math.ceil(self._low / self._step - 1e-9), math.floor(self._high / self._step + 1e-9)
        for number in range(first, last + 1):
            yield self(number * self._step), f"{number * self._step:.{decimals}f}"


def _svg(height: float, pieces: Sequence[str], description: str) -> str:
    box = f"0 0 {_WIDTH:.0f} {height:.0f}"
    return f'<svg role="img" aria-label="{text(description)}" viewBox="{box}">{"".join(pieces)}</svg>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1, dash: str = "") -> str:
    style = f"stroke: var(--{colour}); stroke-width: {width:g}" + (f"; stroke-dasharray: {dash}" if dash else "")
    return f'<line x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}" style="{style}"/>'


def _label(x: float, y: float, words_: str, anchor: str = "start", colour: str = "ink") -> str:
    style = f"fill: var(--{colour}); font-size: 10px; text-anchor: {anchor}"
    return f'<text x="{x:.2f}" y="{y:.2f}" style="{style}">{text(words_)}</text>'


# ------------------------------------------------------------------------------------------------------- the pictures


def _speed(run: Run) -> Throughput | None:
    return None if run.virtual else run.throughput


def speed(runs: Sequence[Run], everything: Sequence[Run]) -> str:
    """Draw bars of throughput with their intervals; one unit for all.

    A row has the name of the run above the bar, and the value at its right end.
    """
    measured = list(filter(None, map(_speed, everything)))
    factor, unit = scale_of(max(speed.value for speed in measured), measured[0].unit)
    axis = Axis(0, max(speed.ci95[1] for speed in measured) / factor, _LEFT, _RIGHT)
    end, name_of, pieces = _ROW * len(runs) + 4, words.namer(everything), []
    for x, number in axis.ticks():
        pieces += [_line(x, 4, x, end, "grid"), _label(x, end + 12, number, "middle")]
    pieces.append(_label((_LEFT + _RIGHT) / 2, end + 26, unit, "middle"))
    titles = [(short(name_of(run)), short(words.throughput(run), 22)) for run in runs]
    for place, (run, (left, right)) in enumerate(zip(runs, titles, strict=True)):
        y = place * _ROW + 14
        pieces += [_label(_LEFT, y, left), _label(_RIGHT, y, right, "end")]
        if throughput := _speed(run):
            colour = "c1" if run.devices[0].startswith("/GPU") else "c2"
            value, low, high = (axis(part / factor) for part in (throughput.value, *throughput.ci95))
            size = f'width="{value - _LEFT:.2f}" height="14"'
            pieces.append(f'<rect x="{_LEFT:.2f}" y="{y + 4:.2f}" {size} style="fill: var(--{colour})"/>')
            pieces.append(_line(low, y + 11, high, y + 11, "ink", 1.6))
    return _svg(end + 32, pieces, f"Speed of {len(runs)} runs in {unit}: {_in_words(titles)}")


def _in_words(titles: Sequence[tuple[str, str]]) -> str:
    """Describe the rows for who cannot see the picture."""
    return "; ".join(f"{left} {right}" for left, right in titles)


def scaling(runs: Sequence[Run]) -> str:
    """Draw the speed-up over one GPU against the number of GPUs, beside the ideal; nothing for a single GPU."""
    several = [(run, run.speedup_vs_1gpu) for run in runs if run.efficiency and run.speedup_vs_1gpu]
    if not several:
        return ""
    # the runs of one line have the way to spread the work, the type and the point in common
    lines: dict[str, list[tuple[int, Ratio]]] = {}
    for run, ratio in several:
        way = (run.label.partition(", ")[2], run.scaling and f"{run.scaling} scaling", run.dtype, words.point(run))
        lines.setdefault(", ".join(filter(None, way)), []).append((len(run.devices), ratio))
    most = max(len(run.devices) for run, _ in several)
    highest = max(most, *(ratio.high for _, ratio in several))
    across, up = Axis(1, most, _LEFT + 26, _RIGHT - 8, whole=True), Axis(0, highest, 204, 10)
    pieces = [_label(_LEFT + 26, 8, "speed-up"), _label((_LEFT + _RIGHT) / 2, 232, "GPUs", "middle")]
    for x, number in across.ticks():
        pieces += [_line(x, 10, x, 204, "grid"), _label(x, 217, number, "middle")]
    for y, number in up.ticks():
        pieces += [_line(_LEFT + 26, y, _RIGHT - 8, y, "grid"), _label(_LEFT + 22, y + 3, number, "end")]
    pieces.append(_line(across(1), up(1), across(most), up(most), "muted", 1, "4 3"))
    for place, (title, found) in enumerate(lines.items()):
        colour, dash = f"c{place % _COLOURS + 1}", _DASHES[place % len(_DASHES)]
        below, x, y = 248 + 14 * place, across(1), up(1)
        for gpus, ratio in found:
            before, x, y = (x, y), across(gpus), up(ratio.value)
            pieces += [_line(*before, x, y, colour, 1.4, dash), _line(x, up(ratio.low), x, up(ratio.high), colour, 2.5)]
        pieces += [_line(_LEFT, below - 3, _LEFT + 22, below - 3, colour, 1.4, dash)]
        pieces.append(_label(_LEFT + 26, below, short(title, 56)))
    values = _in_words([(run.label, words.ratio(ratio)) for run, ratio in several])
    return _svg(248 + 14 * len(lines), pieces, f"Speed-up over one GPU against the number of GPUs: {values}")


# ----------------------------------------------------------------------------------------------------------- the page


def render(result: BenchResult) -> str:
    """Render the whole page."""
    figures = [
        element("figure", picture, element("figcaption", text(caption))) for picture, caption in _pictures(result)
    ]
    charts = element("div", *figures, class_="charts") if figures else ""
    end = element("p", _download(result), class_="screen") + element("footer", paragraph(_READ, "muted"))
    return page.render(words.page(result), charts, end)


def _pictures(result: BenchResult) -> Iterator[tuple[str, str]]:
    """Yield pictures with their captions; bars where the runs have one unit."""
    units = {run.throughput.unit for run in result.runs if run.throughput and not run.virtual}
    if len(units) == 1 and len(result.runs) > 1:
        runs = result.runs
        by_need = sorted(
            range(len(runs)), key=lambda place: (not runs[place].throttled_samples, not runs[place].advice)
        )
        left_out = _LEFT_OUT.format(ROWS, len(runs)) if len(runs) > ROWS else ""
        yield speed([runs[place] for place in sorted(by_need[:ROWS])], runs), _BARS + left_out
    if picture := scaling(result.runs):
        yield picture, _SCALING


def _download(result: BenchResult) -> str:
    """Return a link that holds the file; compressed where it is large."""
    data, name, kind = result.to_json(), f"tfgpu-bench-{result.workload}.json", "application/json"
    if len(data) > LARGE:
        data, name, kind = gzip.compress(data, 6, mtime=0), name + ".gz", "application/gzip"
    title = f"Download the raw data: every sample and every fact ({name}, {len(data) / 1000:.0f} kB)"
    address = f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"
    return element("a", text(title), download=name, href=address)
