"""The pictures of a bench result, as SVG that is part of a page: speed, samples, scaling. Pure.

Colours are variables of the page, text is text, and the numbers stand in tables beside the pictures. Matplotlib, since
users of TensorFlow mostly have it, and a page needs no script: Plotly and Bokeh put 1.4 to 4.9 MB of script into one,
which a strict Content-Security-Policy forbids. A figure is 360 units wide and its letters are 10 high, so that they are
still 9 pixels on a phone of 360 pixels.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tfgpu_doctor.bench.results import Ratio, Run
from tfgpu_doctor.bench.statistics import quantile
from tfgpu_doctor.records.printable import clean
from tfgpu_doctor.records.units import scale_of, seconds
from tfgpu_doctor.render import bench_words as words
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

ROWS = 12  # runs in one figure; more would not fit a printed page
LONGEST = 34  # characters of a label
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_DASHES = ("-", "--", ":", "-.")


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


def short(words_: str, longest: int = LONGEST) -> str:
    """At most so long: what tells runs apart stands at both ends."""
    shown = clean(words_)
    tail = longest // 2 - 1
    return shown if len(shown) <= longest else f"{shown[: longest - tail - 1]}…{shown[-tail:]}"


def worth_drawing(runs: Sequence[Run], most: int) -> Sequence[Run]:
    """At most so many of the runs, in their order: those that were throttled or have advice before others."""
    by_need = sorted(range(len(runs)), key=lambda place: (not runs[place].throttled_samples, not runs[place].advice))
    return [runs[place] for place in sorted(by_need[:most])]


def chunks(runs: Sequence[Run]) -> Iterator[Sequence[Run]]:
    """Parts of even length, of at most ROWS runs."""
    parts = -(-len(runs) // ROWS)
    for part in range(parts):
        yield runs[len(runs) * part // parts : len(runs) * (part + 1) // parts]


def _styles() -> Iterator[dict[str, Any]]:
    """Colour, marker and dashes of one line after the other: no two alike in less than 32."""
    for number in cycle(range(len(CYCLE) * len(_DASHES))):
        yield {
            "color": CYCLE[number % len(CYCLE)],
            "marker": _MARKERS[number % len(_MARKERS)],
            "linestyle": _DASHES[number // len(CYCLE)],
            "markersize": 4,
            "linewidth": 1.4,
        }


def _label_rows(axes: Axes, titles: Sequence[tuple[str, str]]) -> None:
    """A row for each run, from the top: its name above it, a value at the right end."""
    axes.set_ylim(len(titles) - 0.35, -0.75)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    for place, (left, right) in enumerate(titles):
        for x, words_, side in ((0.0, left, "left"), (1.0, right, "right")):
            axes.text(x, place - 0.32, words_, transform=axes.get_yaxis_transform(), ha=side, va="bottom", fontsize=9.5)


def _described(titles: Sequence[tuple[str, str]]) -> str:
    """The rows in words, for who cannot see the picture."""
    return "; ".join(f"{left} {right}" for left, right in titles)


# ---------------------------------------------------------------------------------------------------------------- speed


def speed(runs: Sequence[Run], everything: Sequence[Run], name: str) -> str:
    """Bars of throughput with their intervals; one unit for all."""
    measured = [run.throughput for run in everything if run.throughput and not run.virtual]
    best = max(speed.value for speed in measured)
    factor, unit = scale_of(best, measured[0].unit)
    with drawing(0.55 + 0.42 * len(runs)) as figure:
        axes = figure.subplots()
        for place, run in enumerate(runs):
            if run.throughput and not run.virtual:
                value, (low, high) = run.throughput.value / factor, run.throughput.ci95
                axes.barh(place, value, height=0.42, color=CYCLE[0] if run.devices[0].startswith("/GPU") else CYCLE[1])
                axes.plot([low / factor, high / factor], [place, place], color=COLOUR["ink"], linewidth=1.6)
        name_of = words.namer(everything)
        titles = [(short(name_of(run)), short(words.throughput(run), 22)) for run in runs]
        _label_rows(axes, titles)
        axes.set_xlim(0, 1.02 * max(speed.ci95[1] for speed in measured) / factor)
        axes.set_xlabel(unit)
        axes.grid(visible=False, axis="y")
        return svg(figure, name, f"Speed of {len(runs)} runs in {unit}: {_described(titles)}")


def scaling(runs: Sequence[Run], name: str) -> str:
    """Speed-up over one GPU and efficiency against the number of GPUs, beside the ideal; nothing for a single GPU."""
    several = [run for run in runs if run.efficiency and run.speedup_vs_1gpu]
    if not several:
        return ""
    lines = _scaling_lines(several)
    most = max(len(run.devices) for run in several)
    with drawing(3.6 + 0.2 * -(-len(lines) // 2)) as figure:
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
        upper.plot([1, most], [1, most], color=COLOUR["muted"], linestyle=(0, (4, 3)), linewidth=1, label="ideal")
        lower.axhline(100, color=COLOUR["muted"], linestyle=(0, (4, 3)), linewidth=1)
        for (title, found), style in zip(lines.items(), _styles(), strict=False):
            counts = [len(run.devices) for run in found]
            _line(upper, counts, [run.speedup_vs_1gpu for run in found], 1.0, {**style, "label": short(title)})
            _line(lower, counts, [run.efficiency for run in found], 100.0, style)
        upper.set_ylabel("speed-up")
        lower.set_ylabel("efficiency, %")
        lower.set_xlabel("GPUs")
        upper.set_ylim(bottom=0)
        lower.set_ylim(0, max(112.0, *(108 * run.efficiency.high for run in several if run.efficiency)))
        lower.xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.legend(loc="outside lower center", ncols=2)
        values = "; ".join(f"{run.label} {words.ratio(ratio)}" for run in several if (ratio := run.speedup_vs_1gpu))
        return svg(figure, name, f"Speed-up over one GPU against the number of GPUs: {values}")


def _scaling_lines(several: Sequence[Run]) -> dict[str, list[Run]]:
    """The runs of each line: of one way to spread the work, one type, one point."""
    lines: dict[str, list[Run]] = {}
    for run in several:
        spread = run.label.partition(", ")[2]
        parts = (spread, run.scaling and f"{run.scaling} scaling", run.dtype, words.point(run))
        lines.setdefault(", ".join(part for part in parts if part), []).append(run)
    return lines


def _line(axes: Axes, counts: list[int], ratios: Sequence[Ratio | None], whole: float, style: dict[str, Any]) -> None:
    """One line from (1 GPU, `whole`) on, with the interval of each quotient."""
    known = [ratio for ratio in ratios if ratio]
    axes.plot([1, *counts], [whole, *(whole * ratio.value for ratio in known)], **style)
    low, high = [whole * ratio.low for ratio in known], [whole * ratio.high for ratio in known]
    axes.vlines(counts, low, high, color=style["color"])


# -------------------------------------------------------------------------------------------------------------- samples


def window(runs: Sequence[Run]) -> tuple[float, float]:
    """Which part of the samples' spread is drawn, in per cent of the median; what lies outside is drawn at the edge.

    As far as the samples go, but no farther than three interquartile ranges beyond the quartiles (Tukey's far fences)
    of the run that is widest.
    """
    lows, highs = [], []
    for run in runs:
        ordered = [100 * sample / (run.median_s or 1.0) for sample in sorted(run.samples_s)]
        first, third = quantile(ordered, 0.25), quantile(ordered, 0.75)
        reach = max(3 * (third - first), 0.5)
        lows.append(max(ordered[0], first - reach))
        highs.append(min(ordered[-1], third + reach))
    margin = max(0.08 * (max(highs) - min(lows)), 0.2)
    return min(lows) - margin, max(highs) + margin


def samples(runs: Sequence[Run], everything: Sequence[Run], name: str) -> str:
    """Every sample in per cent of its run's median, the first at the top of the run's row and the last at its bottom.

    Samples that fall on one spot are drawn once. Those of blocks in which a GPU was slowed down are crosses, those
    outside of the window triangles at its edge; the line is the median, the band its interval.
    """
    low, high = window(runs)
    with drawing(0.6 + (0.62 if len(runs) > 2 else 1.4) * len(runs)) as figure:
        axes = figure.subplots()
        for place, run in enumerate(runs):
            assert run.median_s and run.ci95_s
            first, last = (100 * edge / run.median_s for edge in run.ci95_s)
            axes.fill_betweenx([place - 0.28, place + 0.28], first, last, color=COLOUR["grid"], linewidth=0)
            axes.vlines(100, place - 0.28, place + 0.28, color=COLOUR["ink"], linewidth=1.2)
            _borders(axes, run, place)
            _dots(axes, run, place, low, high)
        axes.set_xlim(low, high)
        name_of = words.namer(everything)
        titles = [
            (short(name_of(run)), short(f"{seconds((run.median_s or 0.0) / run.steps)} per {run.step_name}", 26))
            for run in runs
        ]
        _label_rows(axes, titles)
        axes.set_xlabel("% of the run's median")
        axes.grid(visible=False, axis="y")
        return svg(figure, name, f"All samples around their medians: {_described(titles)}")


def _borders(axes: Axes, run: Run, place: int) -> None:
    """A line where one process ended and the next began."""
    before = 0
    for count in run.processes[:-1]:
        before += count
        y = place - 0.24 + 0.48 * (before - 0.5) / max(len(run.samples_s) - 1, 1)
        axes.axhline(y, color=COLOUR["muted"], linewidth=0.5, linestyle=(0, (2, 3)))


def _dots(axes: Axes, run: Run, place: int, low: float, high: float) -> None:
    """The samples of one run in its row."""
    throttled, last = set(run.throttled_samples), max(len(run.samples_s) - 1, 1)
    spots: dict[str, set[tuple[float, float]]] = {"o": set(), "x": set(), "<": set(), ">": set()}
    for number, sample in enumerate(run.samples_s):
        x = 100 * sample / (run.median_s or 1.0)
        kind = "<" if x < low else ">" if x > high else "x" if number in throttled else "o"
        x = min(max(x, low), high)
        # half a unit of the picture in each direction: what is nearer cannot be told apart
        spots[kind].add((round((x - low) / (high - low) * 680) / 680, round(number / last * 40) / 40))
    for kind, found in spots.items():
        if found:
            xs, ys = zip(*sorted(found), strict=True)
            colour = COLOUR["c1"] if kind == "o" else COLOUR["bad"]
            axes.plot(
                [low + x * (high - low) for x in xs],
                [place - 0.24 + 0.48 * y for y in ys],
                kind,
                color=colour,
                markersize=4 if kind != "o" else 3.4 if len(run.samples_s) <= 50 else 2.2,
                markeredgewidth=1 if kind == "x" else 0,
                clip_on=False,
            )
